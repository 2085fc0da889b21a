# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Layers: which package may import which, including imports in functions and for type checking."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
UTILS, AGENT = ROOT / "plugins/module_utils", ROOT / "agent/src/kubenode"
_VALUES = {"engine.errors", "engine.model"}
_LEDGER = {"engine.ledger", "engine.ledger_file", "engine.ledger_rows", "engine.node_lock", "engine.privsep"}
_ENGINE = {
    *_VALUES,
    *_LEDGER,
    "engine.apply",
    "engine.desired",
    "engine.explain",
    "engine.kernel",
    "engine.plan",
    "engine.proxy",
    "engine.syntax",
}

# Package or module -> those that it may import besides itself. Modules outside this list may be imported by none.
ARROWS: dict[str, set[str]] = {
    "engine.errors": set(),
    "engine.model": {"engine.errors"},
    "engine.kubernetes": _VALUES,
    "engine.syntax": _VALUES,
    "engine.desired": {*_VALUES, "engine.kubernetes"},
    "engine.explain": {*_VALUES, "engine.desired", "engine.kubernetes", "engine.syntax"},
    "engine.plan": _VALUES,
    "engine.kernel": {*_VALUES, "engine.digest", "engine.syntax"},
    "engine.render": _VALUES,
    "engine.digest": set(),
    "engine.node_lock": {"engine.errors"},
    "engine.privsep": {"engine.errors"},
    "engine.ledger_file": set(),
    "engine.ledger_rows": _VALUES,
    "engine.ledger": {*_VALUES, *_LEDGER},
    "engine.apply": {*_VALUES, "engine.kernel", "engine.ledger", "engine.plan"},
    "engine.proxy": {*_VALUES, *_LEDGER, "engine.desired", "engine.explain", "engine.kernel", "engine.plan"},
    "engine": set(),
    "manifests": _VALUES,
    # the collection
    "_module": {*_ENGINE, "_confirm"},
    "_confirm": {*_ENGINE, "engine"},
    "_host": {*_VALUES, "engine.kernel", "_module"},
    "_tasks": {*_ENGINE, "_module", "_confirm", "_host", "manifests"},
    # the agent
    "agent._version": set(),
    "agent.paths": set(),
    "agent.container": {"engine.errors", "engine.kernel"},
    "agent.log": {"engine.errors"},
    "agent.configuration": {"engine.errors", "engine.desired", "manifests"},
    "agent.sources": {*_VALUES, "engine.kubernetes", "manifests", "agent.log", "agent._version"},
    "agent.history": {*_VALUES, "engine.digest", "engine.privsep"},
    "agent.daemon.loop": set(),
    "agent.daemon.memory": {"agent.daemon.loop"},
    "agent.daemon.tools": {"engine.kernel"},
    "agent.daemon.pass_result": {"engine.errors", "engine.kernel", "engine.model", "engine.plan"},
    "agent.daemon.interfaces": {
        "agent.daemon.inputs", "agent.daemon.loop", "agent.daemon.pass_result", "agent.daemon.sync", "agent.log",
    },
    "agent.daemon.inputs": {
        *_VALUES, "engine.desired", "engine.kernel", "engine.plan", "engine.proxy", "manifests", "agent.configuration",
        "agent.daemon.interfaces", "agent.daemon.loop", "agent.daemon.pass_result", "agent.log", "agent.paths",
        "agent.sources",
    },
    "agent.daemon.sync": {*_ENGINE, "agent.daemon.loop", "agent.daemon.pass_result", "agent.paths"},
    "agent.daemon.outputs": {
        *_VALUES, "engine.desired", "engine.kubernetes", "agent._version", "agent.container", "agent.daemon.interfaces",
        "agent.daemon.loop", "agent.daemon.pass_result", "agent.history", "agent.log",
    },
    "agent.daemon.watchers_and_outputs": {
        *_VALUES, "engine.kernel", "agent._version", "agent.daemon.inputs", "agent.daemon.interfaces",
        "agent.daemon.outputs", "agent.daemon.sync", "agent.paths",
    },
    "agent.daemon.pass_scheduler": {
        *_VALUES, "agent.daemon.inputs", "agent.daemon.loop", "agent.daemon.pass_result", "agent.daemon.sync",
        "agent.log",
    },
    "agent.daemon.lifecycle": {
        *_VALUES, "engine.proxy", "agent.container", "agent.daemon.loop", "agent.daemon.memory", "agent.daemon.outputs",
        "agent.daemon.pass_result", "agent.daemon.pass_scheduler", "agent.daemon.watchers_and_outputs", "agent.paths",
    },
    "agent.daemon.agent": {
        "engine.proxy", "agent.daemon.inputs", "agent.daemon.lifecycle", "agent.daemon.loop", "agent.daemon.outputs",
        "agent.daemon.pass_scheduler", "agent.daemon.sync", "agent.daemon.tools", "agent.log",
    },
    "agent.daemon": set(),
    "agent.cli": {
        *_ENGINE, "engine.kubernetes", "engine.render", "manifests", "agent._version", "agent.configuration",
        "agent.container", "agent.daemon.agent", "agent.daemon.inputs", "agent.daemon.outputs", "agent.history",
        "agent.log",
        "agent.paths",
    },
    "agent.__main__": {"agent.cli"},
    "agent": set(),
}  # fmt: skip


def modules() -> dict[str, Path]:
    """Return the file of each module. The agent's link to the collection adds no second module."""
    paths = {}
    for root, prefix in ((UTILS, ""), (AGENT, "agent.")):
        for path in root.rglob("*.py"):
            if not any(parent.is_symlink() for parent in path.parents):
                paths[(prefix + ".".join(path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")] = (
                    path
                )
    return paths


MODULES = modules()


def imported(name: str) -> set[str]:
    """Return the modules that a module imports anywhere in its source."""
    path = MODULES[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    targets = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *base.split(".")]).rstrip(".")
            base = base.removeprefix("ansible_collections.kubenode.ipvs.plugins.module_utils.")
            base = base.removeprefix("agent.") if base.startswith(("agent.engine", "agent.manifests")) else base
            for alias in node.names:
                inner = f"{base}.{alias.name}".removeprefix("agent." if alias.name in ("engine", "manifests") else " ")
                targets.update([inner] if inner in MODULES else [base] if base in MODULES else [])
    return targets - {name}


EDGES = {name: imported(name) for name in MODULES}


def room(name: str) -> str:
    """Return the longest entry of ARROWS that contains a module."""
    return max((entry for entry in ARROWS if name == entry or name.startswith(f"{entry}.")), key=len, default="")


@pytest.mark.parametrize("name", sorted(MODULES))
def test_module_imports_only_layers_below(name: str) -> None:
    allowed = {room(name), *ARROWS[room(name)]}
    assert {target: room(target) for target in EDGES[name] if room(target) not in allowed} == {}


def test_imports_have_no_circle() -> None:
    done: set[str] = set()
    trail: list[str] = []

    def visit(name: str) -> None:
        assert name not in trail, " -> ".join([*trail[trail.index(name) :], name])
        if name not in done:
            trail.append(name)
            for target in sorted(EDGES[name]):
                visit(target)
            done.add(trail.pop())

    for name in sorted(EDGES):
        visit(name)


def test_imports_are_seen() -> None:
    """Without this check, a broken import reader would find no violation."""
    assert "engine.kernel.ipvs.table" in EDGES["engine.kernel.ipvs"]
    assert "agent.daemon.watchers_and_outputs" in EDGES["agent.daemon.lifecycle"]  # an import within a function
    assert "engine.errors" in EDGES["agent.daemon.lifecycle"]  # an import through a link
    assert len(EDGES) > 200


def documented() -> dict[str, tuple[str, ...]]:
    """Return what architecture.md allows to import: entry of ARROWS -> parts of the engine and the collection."""
    page = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    allowed = {}
    for packages, text in re.findall(r"^\| (`(?:engine/|_).*?) \| (.*) \|$", page.split("## Layers")[1], re.MULTILINE):
        whole = ["the engine"] if "the engine" in text else []
        for package in re.findall(r"`([^`]+)`", packages):
            allowed[package.removesuffix(".py").replace("/", ".")] = (*whole, *re.findall(r"`([^`]+)`", text))
    return allowed


def in_words(name: str) -> set[str]:
    """Return how the page names the allowed imports of an entry; the ledger's helpers are parts of it."""
    whole = ARROWS[name] >= _ENGINE
    parts = ARROWS[name] - {name, "engine", "engine.errors"} - (_ENGINE if whole else _LEDGER - {"engine.ledger"})
    own = {"engine.ledger"} if name in _LEDGER else set()
    return {part.removeprefix("engine.") for part in parts - own} | ({"the engine"} if whole else set())


def test_the_page_has_the_arrows_of_this_table() -> None:
    allowed = documented()
    assert len(allowed) >= 13
    assert allowed.keys() <= ARROWS.keys()
    assert {name: in_words(name) for name in allowed} == {name: set(words) for name, words in allowed.items()}
