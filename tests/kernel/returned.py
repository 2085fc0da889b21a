# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare a module's result with the RETURN block of its documentation.

A result has no undocumented key, has every key that is always returned, and has the documented types.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import yaml

# Keys that any module may return, according to Ansible.
COMMON = {"changed", "diff", "warnings", "deprecations", "invocation", "failed", "msg", "exception"}
# Keys that Ansible adds for a command that cannot be run.
FAILED = {"cmd", "rc", "stdout", "stderr"}
# Keys that a module returns to its action plugin, which removes them.
BETWEEN = {
    "agent_install": {"bundle_needed"},
    "packages": {"files_needed", "suffix"},
    "ipsets": {"confirm"},
    "iptables_chains": {"confirm"},
    "ipvs_services": {"confirm"},
    "nft_tables": {"confirm"},
    "service_proxy": {"confirm"},
    "sysctls": {"confirm"},
    "virtual_addresses": {"confirm"},
}
TYPES: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "path": str,
    "int": int,
    "float": (int, float),
    "bool": bool,
    "list": list,
    "dict": dict,
    "raw": object,
}


@cache
def documentation(package: str, module: str) -> dict[str, Any]:
    """Return the documented keys of a module."""
    return dict(yaml.safe_load(importlib.import_module(f"{package}.{module}").RETURN))


def differences(package: str, module: str, result: dict[str, Any]) -> list[str]:
    """Return the differences between a result and the module's documentation, one sentence each."""
    documented = documentation(package, module)
    between, failed = BETWEEN.get(module, set()) & result.keys(), result.get("failed")
    seen = {key: value for key, value in result.items() if key not in COMMON | between | (FAILED if failed else set())}
    half = failed or between & {"bundle_needed", "files_needed"}
    always = [] if half else [key for key, field in documented.items() if field["returned"] == "success"]
    return [f"{key} is not returned" for key in always if key not in seen] + _fields(module, documented, seen)


def _fields(path: str, documented: dict[str, Any], seen: dict[str, Any]) -> list[str]:
    problems = [f"{path}: {key} is not documented" for key in seen if key not in documented]
    for key, field in documented.items():
        if key in seen:
            problems += _value(f"{path}.{key}", field, seen[key])
    return problems


def _value(path: str, field: dict[str, Any], value: Any) -> list[str]:
    if value is None:
        return [] if field["type"] == "raw" or "null" in str(field["description"]).lower() else [f"{path} is null"]
    kind = field["type"]
    if not isinstance(value, TYPES[kind]) or (kind == "int" and isinstance(value, bool)):
        return [f"{path} is {value!r}, documented as {kind}"]
    if "choices" in field and value not in field["choices"]:
        return [f"{path} is {value!r}, documented as one of {field['choices']}"]
    if kind == "dict" and "contains" in field:
        return _inside(path, field["contains"], value)
    if kind == "list":
        element = {"type": field.get("elements", "raw"), "description": "", "contains": field.get("contains")}
        if not element["contains"]:
            del element["contains"]
        return [text for index, item in enumerate(value) for text in _value(f"{path}[{index}]", element, item)]
    return []


def _inside(path: str, documented: dict[str, Any], seen: dict[str, Any]) -> list[str]:
    """Check that all documented parts of a dictionary exist, except those with a condition in ``returned``."""
    missing = [
        f"{path}: {key} is not returned"
        for key, field in documented.items()
        if key not in seen and "returned" not in field
    ]
    return missing + _fields(path, documented, seen)
