# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Consistency of a role's argument specs, defaults and README."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
TYPES = {"bool", "dict", "float", "int", "list", "path", "raw", "str"}
ROLES = sorted(path.parents[1] for path in ROOT.glob("roles/*/meta/argument_specs.yml"))


@pytest.fixture(params=ROLES, ids=lambda role: role.name)
def role(request: pytest.FixtureRequest) -> Path:
    directory: Path = request.param
    return directory


def load(path: Path) -> dict[str, object]:
    loaded: dict[str, object] = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    return loaded


def test_every_variable_is_documented_with_its_default(role: Path) -> None:
    specs = yaml.safe_load((role / "meta/argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"]
    documented = {name: option["default"] for name, option in specs["main"]["options"].items()}
    assert documented == load(role / "defaults/main.yml")


def test_every_entry_point_is_documented_in_full(role: Path) -> None:
    specs = yaml.safe_load((role / "meta/argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"]
    for entry, spec in specs.items():
        assert (role / f"tasks/{entry}.yml").is_file(), f"{entry}: there are no such tasks"
        assert spec["short_description"], entry
        assert spec["description"], entry
        for name, option in spec["options"].items():
            assert option["type"] in TYPES, name
            assert all(text[0].isupper() and text.endswith(".") for text in option["description"]), name
            assert option["description"], name
            assert ("elements" in option) == (option["type"] == "list"), name
            assert "default" in option or option.get("required"), name
            assert "choices" not in option or option.get("default", option["choices"][0]) in option["choices"], name


def test_variables_begin_with_the_role(role: Path) -> None:
    for directory in ("defaults", "vars"):
        assert [name for name in load(role / directory / "main.yml") if not name.startswith(f"{role.name}_")] == []


def test_the_readme_is_up_to_date(role: Path) -> None:
    spec = importlib.util.spec_from_file_location("role_readmes", ROOT / "tests/tools/role_readmes.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert (role / "README.md").read_text(encoding="utf-8") == tool.readme(role), "run tests/tools/role_readmes.py"
