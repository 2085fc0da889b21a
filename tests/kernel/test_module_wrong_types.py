# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A value of the wrong type for every option of every module: one message names the option, and the node stays."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kernel.modules import PACKAGE, ModuleError, run
from support.agent.process import dump

MODULES = sorted(path.stem for path in (Path(__file__).parents[2] / "plugins/modules").glob("*.py"))
# Values that convert to no number, boolean, dictionary or list of these.
WRONG: dict[str, Any] = {"int": "many", "float": "much", "bool": "maybe", "dict": 7, "list": {"not": "a list"}}
ELEMENTS: dict[str, Any] = {"int": "many", "dict": 7}
RIGHT: dict[str, Any] = {"int": 1, "str": "x", "path": "/x", "list": [], "dict": {}, "bool": True}


def wrong_values(options: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of an option, and arguments in which only that option is wrong."""
    needed = {name: RIGHT[option["type"]] for name, option in options.items() if option.get("required")}
    needed = {name: options[name].get("choices", [value])[0] for name, value in needed.items()}
    for name, option in options.items():
        kind = option.get("type", "str")
        if kind in WRONG:
            yield name, {**needed, name: WRONG[kind]}
        if kind == "list" and option.get("elements") in ELEMENTS:
            yield name, {**needed, name: [ELEMENTS[option["elements"]]]}
        for below, arguments in wrong_values(option.get("suboptions") or {}):
            yield below, {**needed, name: [arguments] if kind == "list" else arguments}


@pytest.mark.parametrize("module", MODULES)
def test_option_of_a_wrong_type_is_refused(module: str) -> None:
    documented = yaml.safe_load(importlib.import_module(f"{PACKAGE}.{module}").DOCUMENTATION)
    before = dump()
    for name, arguments in wrong_values(documented.get("options") or {}):
        with pytest.raises(ModuleError, match=rf"'{name}'.* (convert|must be)") as error:
            run(module, **arguments)
        assert "\n" not in str(error.value)
    assert dump() == before
