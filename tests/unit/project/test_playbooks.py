# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Consistency of the page about playbooks with the playbooks: hosts, tags, batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/reference/playbooks.md").read_text(encoding="utf-8")
PLAYBOOKS = sorted((ROOT / "playbooks").glob("*.yml"))


@pytest.fixture(params=PLAYBOOKS, ids=lambda path: path.stem)
def playbook(request: pytest.FixtureRequest) -> tuple[str, list[dict[str, Any]]]:
    path: Path = request.param
    return path.stem, yaml.safe_load(path.read_text(encoding="utf-8"))


def tags(node: Any) -> set[str]:
    """Return all tags in plays, roles and tasks."""
    if isinstance(node, list):
        return {tag for item in node for tag in tags(item)}
    if not isinstance(node, dict):
        return set()
    here = node.get("tags", [])
    return {tag for item in node.values() for tag in tags(item)} | set([here] if isinstance(here, str) else here)


def test_every_playbook_and_its_tags_are_on_the_page(playbook: tuple[str, list[dict[str, Any]]]) -> None:
    name, plays = playbook
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `kubenode.ipvs.{name}` |")]
    documented = {word.strip(" `") for word in row.rstrip("| ").rpartition("|")[2].split(",")} - {""}
    assert documented == tags(plays) - {"always", "never"}


def test_hosts_can_be_chosen_and_facts_are_not_gathered(playbook: tuple[str, list[dict[str, Any]]]) -> None:
    _name, plays = playbook
    for play in plays:
        if "hosts" in play and play["hosts"] != "localhost":
            assert "default(" in play["hosts"], play["name"]
            assert play["gather_facts"] is False, play["name"]
