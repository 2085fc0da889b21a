# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Consistency of facts that stand in more than one file."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from kubenode._version import VERSION

ROOT = Path(__file__).parents[3]
GALAXY = yaml.safe_load((ROOT / "galaxy.yml").read_text())
DEPENDENCIES = (ROOT / "docs/explanation/dependencies.md").read_text()


def requirements(name: str) -> list[str]:
    """Return the names in a requirements file, without versions."""
    lines = (line.partition("#")[0].strip() for line in (ROOT / "requirements" / name).read_text().splitlines())
    return [line.partition("==")[0] for line in lines if line]


def test_collection_and_agent_have_one_version() -> None:
    assert GALAXY["version"] == VERSION


def test_the_action_group_has_every_module() -> None:
    groups = yaml.safe_load((ROOT / "meta/runtime.yml").read_text())["action_groups"]
    modules = {path.stem for path in (ROOT / "plugins/modules").glob("*.py")}
    assert set(groups["all"]) == modules
    assert groups["all"] == sorted(groups["all"])


def test_the_converging_modules_take_an_owner() -> None:
    groups = yaml.safe_load((ROOT / "meta/runtime.yml").read_text())["action_groups"]
    texts = {path.stem: path.read_text() for path in (ROOT / "plugins/modules").glob("*.py")}
    assert groups["converging"] == sorted(
        name for name, text in texts.items() if "- kubenode.ipvs._ownership\n" in text
    )


def test_before_the_first_release_there_is_nothing_to_mend() -> None:
    released = yaml.safe_load((ROOT / "changelogs/changelog.yaml").read_text())["releases"]
    fragments = {path.name: yaml.safe_load(path.read_text()) for path in (ROOT / "changelogs/fragments").glob("*.y*ml")}
    assert fragments or released
    assert released or [name for name, fragment in fragments.items() if "bugfixes" in fragment] == []


@pytest.mark.parametrize("package", requirements("dev.txt") + requirements("debian.txt"))
def test_every_dependency_has_a_reason(package: str) -> None:
    assert f"`{package}`" in DEPENDENCIES


def test_every_requirement_is_pinned() -> None:
    def plain(name: str) -> str:
        return name.replace("-", "_").lower()

    assert set(map(plain, requirements("dev.txt"))) <= set(map(plain, requirements("constraints.txt")))
    for line in (ROOT / "requirements/dev.txt").read_text().splitlines():
        assert not line or line.startswith("#") or "==" in line


def test_the_artifact_has_what_a_user_needs_and_nothing_else(tmp_path: Path) -> None:
    galaxy = Path(sys.executable).with_name("ansible-galaxy")
    subprocess.run(
        [galaxy, "collection", "build", "--output-path", tmp_path], cwd=ROOT, check=True, capture_output=True
    )
    (built,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(built) as artifact:
        members = artifact.getmembers()
    top = {member.name.split("/")[0] for member in members}
    described = {"COPYING", "FILES.json", "MANIFEST.json", "changelogs", "docs", "meta", "tests"} | {
        path.name for path in ROOT.glob("*.md")
    }
    assert top == described | {"deploy", "playbooks", "plugins", "roles"}
    assert [member.name for member in members if member.issym()] == []
    assert [member.name for member in members if re.search(r"__pycache__|\.pyc$|/\.", member.name)] == []
    for_ansible_test = {member.name.split("/")[1] for member in members if member.name.startswith("tests/")}
    assert for_ansible_test - {"sanity"} == {"config.yml"}
