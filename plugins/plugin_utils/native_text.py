# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Options of the modules, rendered as the text that the native tools read.

Options are checked as the modules check them. No tool is run.
"""

from __future__ import annotations

from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.kubenode.ipvs.plugins.module_utils._module.argspec import FAMILIES, unique
from ansible_collections.kubenode.ipvs.plugins.module_utils._tasks import ipsets, iptables_chains, ipvs_items
from ansible_collections.kubenode.ipvs.plugins.module_utils._tasks.iptables_fields import (
    check_jump,
    check_name,
    check_rule,
    jump_into,
    text,
)
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.errors import EngineError, InputError
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.model.iptables import WHERE, ChainKey
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.render.ipvsadm import render

# In the order of `ipset save`.
_SET_OPTIONS = (
    *("family", "range", "markmask", "hashsize", "maxelem", "netmask", "bitmask", "size"),
    *("timeout", "counters", "comment", "skbinfo", "forceadd", "bucketsize", "initval"),
)


def ipvsadm(services: list[dict[str, Any]]) -> str:
    """Return the input of ``ipvsadm --restore``.

    Raises:
        EngineError: an option is invalid.
    """
    spec = {"services": {"type": "list", "elements": "dict", "default": [], "options": ipvs_items.SERVICE}}
    want, _absent, _keep_unlisted = ipvs_items.desired_items(_checked(spec, services=services)["services"])
    return render(want)


def ipset(sets: list[dict[str, Any]]) -> str:
    """Return the input of ``ipset restore``.

    Raises:
        EngineError: an option is invalid, or members are in a file.
    """
    seen: dict[str, str] = {}
    lines = []
    for index, item in enumerate(
        _checked({"sets": {"type": "list", "elements": "dict", "options": ipsets.SET}}, sets=sets)["sets"]
    ):
        option_path, name, kind = f"sets[{index}]", item["name"], item["type"]
        ipsets.check_name(option_path, name)
        unique(seen, name, option_path, f"set {name}")
        if item["state"] == "absent":
            continue
        if item["src"] is not None:
            raise InputError(
                f"{option_path} ({name})", "src", item["src"], "members (a file is read by the module alone)"
            )
        checked = ipsets.given(option_path, item)
        chosen = {
            option: item[option] for option in _SET_OPTIONS if item[option] is not None and item[option] is not False
        }
        if not checked.wanted_header.option("family"):
            del chosen["family"]
        options = [option if value is True else f"{option} {value}" for option, value in chosen.items()]
        lines.append(" ".join(["create", name, kind, *options]))
        lines += [f"add {name} {member}" for member in checked.members.texts]
    return "".join(f"{line}\n" for line in lines)


def iptables(chains: list[dict[str, Any]], family: str) -> str:
    """Return the input of ``iptables-restore --noflush``.

    Args:
        chains: as in the module's option.
        family: ``ipv4`` or ``ipv6``: chains of the other family are left out.

    Raises:
        EngineError: an option is invalid.
    """
    if family not in FAMILIES:
        raise InputError("to_iptables", "family", family, " or ".join(FAMILIES))
    checked = _checked(
        {"chains": {"type": "list", "elements": "dict", "options": iptables_chains.CHAIN}}, chains=chains
    )["chains"]
    seen: dict[ChainKey, str] = {}
    tables: dict[str, tuple[list[str], list[str], dict[str, list[str]]]] = {}
    for index, chain in enumerate(checked):
        option_path = f"chains[{index}]"
        check_name(option_path, chain["name"])
        key = ChainKey(FAMILIES[family], chain["table"], chain["name"])
        if family not in chain["families"] or chain["state"] == "absent":
            continue
        unique(seen, key, option_path, f"chain {key}")
        names, rules, jumps = tables.setdefault(key.table, ([], [], {where: [] for where in WHERE}))
        names.append(f":{key.chain} - [0:0]")
        for number, one in enumerate(chain["rules"] or ()):
            rule = text(f"{option_path}.rules[{number}]", one).strip()
            check_rule(f"{option_path}.rules[{number}]", "text", rule)
            rules.append(f"-A {key.chain} {rule}")
        for number, jump in enumerate(chain["jumps"] or ()):
            check_jump(f"{option_path}.jumps[{number}]", key, jump)
            there = jump_into(key, jump)
            jumps[jump["position"]].append(f"{there.chain} {there.rule}")
    lines = []
    for table, (names, rules, jumps) in tables.items():
        inserted = [*jumps["first"], *jumps["prepended"]][::-1]  # the last inserted rule becomes the first
        lines += [f"*{table}", *names, *rules, *(f"-I {jump}" for jump in inserted)]
        lines += [*(f"-A {jump}" for jump in jumps["last"]), "COMMIT"]
    return "".join(f"{line}\n" for line in lines)


def _checked(spec: dict[str, Any], **given: Any) -> dict[str, Any]:
    """Return options with their defaults, checked by the module's argument spec.

    Raises:
        EngineError: an option does not fit the spec.
    """
    result = ArgumentSpecValidator(spec).validate(given)
    if result.error_messages:
        raise EngineError("; ".join(result.error_messages))
    return dict(result.validated_parameters)
