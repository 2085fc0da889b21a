# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kept runs of the fleet report: what changed since the last one, the plot, and files that are no report."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.fleet import EVIL, GOOD, Page

from ansible_collections.kubenode.ipvs.plugins.filter.fleet_report import FilterModule

fleet_report = FilterModule().filters()["fleet_report"]

BEFORE, NOW = "2026-11-24T12:41:18Z", "2026-11-25T07:00:00Z"
DRIFT = {**GOOD, "kernel": {"changed": True, "lines": ["~ a: 0 -> 1", "+ b: 1"]}}
FAULT = {
    "flow": "tcp node -> 10.96.10.1:80",
    "verdict": "fault",
    "summary": "dropped",
    "fault": {"name": "foreign-rule", "text": "rule 1 drops it", "remedy": "remove the rule"},
    "doubts": [],
    "lacking": [],
}
ARRIVES = {**FAULT, "verdict": "arrives", "summary": "sent to a pod", "fault": None}
DOUBTFUL = {**ARRIVES, "verdict": "unknown", "doubts": ["table x cannot be read"]}


def keep(directory: Path, collected: Any, time: str = BEFORE) -> Path:
    """Keep a run as the playbook does."""
    path = directory / f"{re.sub('[-:]', '', time)}.json"
    path.write_text(fleet_report(collected, "json", "", time))
    return path


def changes(directory: Path, collected: Any) -> Any:
    return json.loads(fleet_report(collected, "json", str(directory), NOW))["changes"]


def test_first_run_has_no_changes(tmp_path: Path) -> None:
    assert changes(tmp_path / "none", {"n1": GOOD}) is None
    assert "This is the first run that is kept here." in fleet_report({"n1": GOOD}, "html", str(tmp_path), NOW)


def test_changes_name_nodes_and_reasons(tmp_path: Path) -> None:
    other = {**GOOD, "kernel": {"changed": True, "lines": ["~ a: 0 -> 1", "+ c: 1"]}}
    keep(tmp_path, {"same": GOOD, "worse": GOOD, "better": DRIFT, "other": DRIFT, "away": DRIFT, "left": GOOD})
    report = {"same": GOOD, "worse": DRIFT, "better": GOOD, "other": other, "away": None, "came": GOOD}
    assert changes(tmp_path, report) == {
        "since": BEFORE,
        "nodes": [
            {"name": "away", "before": "drift", "now": "unreachable", "lines": []},
            {
                "name": "worse",
                "before": "ok",
                "now": "drift",
                "lines": [
                    "kernel settings: ok → drift",
                    "kernel settings: new: ~ a: 0 -> 1",
                    "kernel settings: new: + b: 1",
                ],
            },
            {
                "name": "other",
                "before": "drift",
                "now": "drift",
                "lines": ["kernel settings: gone: + b: 1", "kernel settings: new: + c: 1"],
            },
            {
                "name": "better",
                "before": "drift",
                "now": "ok",
                "lines": [
                    "kernel settings: drift → ok",
                    "kernel settings: gone: ~ a: 0 -> 1",
                    "kernel settings: gone: + b: 1",
                ],
            },
        ],
        "added": ["came"],
        "missing": ["left"],
    }
    text = fleet_report(report, "text", str(tmp_path), NOW)
    assert f"changed since {BEFORE}: away drift -> unreachable, worse ok -> drift, better drift -> ok\n" in text


def test_same_run_again_has_no_changes(tmp_path: Path) -> None:
    keep(tmp_path, {"n1": DRIFT, "n2": None})
    assert changes(tmp_path, {"n1": DRIFT, "n2": None})["nodes"] == []
    page = fleet_report({"n1": DRIFT, "n2": None}, "html", str(tmp_path), NOW)
    assert "no node that both runs verified has changed" in page


def test_plot_has_one_column_for_each_run(tmp_path: Path) -> None:
    keep(tmp_path, {"n1": GOOD, "n2": GOOD, "n3": GOOD, "n4": GOOD}, "2026-11-23T00:00:00Z")
    keep(tmp_path, {"n1": DRIFT, "n2": DRIFT, "n3": None, "n4": None})
    page = Page(fleet_report({"n1": DRIFT, "n2": GOOD, "n3": GOOD, "n4": GOOD}, "html", str(tmp_path), NOW))
    titles = [word for word in page.words if word.startswith("2026-11-2") and "," in word]
    assert titles == ["2026-11-23T00:00:00Z, 4 ok", f"{BEFORE}, 2 drift, 2 unreachable", f"{NOW}, 3 ok, 1 drift"]
    bars = [(each["class"], each["y"], each["height"]) for tag, each in page.elements if tag == "rect" and "y" in each]
    assert bars == [("unreachable", "50.0", "50.0"), ("drift", "0.0", "50.0"), ("drift", "75.0", "25.0")]


def test_text_of_a_kept_run_is_escaped(tmp_path: Path) -> None:
    keep(tmp_path, {EVIL: {**GOOD, "kernel": {"changed": True, "lines": [EVIL]}}, f"{EVIL}2": GOOD})
    page = Page(fleet_report({EVIL: GOOD}, "html", str(tmp_path), NOW))
    tags = [tag for tag, _attributes in page.elements]
    assert (tags.count("script"), tags.count("img")) == (1, 0)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"time": "x", "nodes": [{"na', "Unterminated string"),
        (b"[]", "it is no report of verify"),
        (b'{"time": "x", "nodes": [{"name": "n1", "verdict": "fine", "checks": []}]}', "verdict is 'fine', expected"),
        (b'{"time": "x", "nodes": [{"name": "n1", "verdict": []}]}', "verdict is [], expected one of"),
        (b"\xff\xfe", "'utf-8' codec can't decode"),
        (b"[" * 100_000, "recursion"),
    ],
)
def test_unreadable_run_is_named_and_left_out(tmp_path: Path, content: bytes, reason: str) -> None:
    keep(tmp_path, {"n1": DRIFT})
    (tmp_path / "20261124T235959Z.json").write_bytes(content)
    (tmp_path / "notes.json").write_bytes(content)
    assert changes(tmp_path, {"n1": GOOD})["since"] == BEFORE
    lines = fleet_report({"n1": GOOD}, "text", str(tmp_path), NOW).splitlines()
    (named,) = [line for line in lines if "cannot be read" in line]
    assert named.startswith("kept run 20261124T235959Z.json cannot be read: ")
    assert reason in named
    assert named in " ".join(Page(fleet_report({"n1": GOOD}, "html", str(tmp_path), NOW)).words)


def test_page_of_many_changes_is_bounded(tmp_path: Path) -> None:
    plan = "".join(f"+ virtual server {index}\n" for index in range(5000))
    drift = {**GOOD, "plan": {"rc": 2, "stdout": plan, "stderr": ""}}
    names = [f"n{index}" for index in range(300)]
    keep(tmp_path, dict.fromkeys(names, GOOD))
    page = Page(fleet_report(dict.fromkeys(names, drift), "html", str(tmp_path), NOW))
    words = " ".join(page.words)
    assert "100 more nodes have changed: fleet.json lists them." in words
    assert "and 4788 more: fleet.json lists them" in words
    assert "virtual server 4999" not in words


@pytest.mark.parametrize(
    ("flows", "verdict", "lines"),
    [
        ({"flows": [ARRIVES]}, "ok", ["tcp node -> 10.96.10.1:80: sent to a pod"]),
        (
            {"flows": [ARRIVES, FAULT]},
            "failed",
            ["tcp node -> 10.96.10.1:80: rule 1 drops it; remedy: remove the rule"],
        ),
        (
            {"flows": [ARRIVES, DOUBTFUL]},
            "unknown",
            ["tcp node -> 10.96.10.1:80: cannot be judged: table x cannot be read"],
        ),
        (
            {"failed": True, "msg": "flows[0]: port is '0'; it is wrong; flows[2]: no Service", "flows": [FAULT]},
            "failed",
            [
                "flows[0]: port is '0'; it is wrong",
                "flows[2]: no Service",
                "tcp node -> 10.96.10.1:80: rule 1 drops it; remedy: remove the rule",
            ],
        ),
        ({"failed": True, "msg": "the agent is not installed"}, "failed", ["the agent is not installed"]),
        ({"skipped": True}, "unknown", []),
        (None, "unknown", []),
    ],
)
def test_connections_have_their_verdict(flows: Any, verdict: str, lines: list[str]) -> None:
    collected = {"n1": {**GOOD, "flows": flows}, "n2": {**GOOD, "flows": {"flows": [ARRIVES]}}}
    first, second = json.loads(fleet_report(collected, "json"))["nodes"]
    assert first["checks"][-1] == {"name": "connections", "verdict": verdict, "lines": lines}
    assert first["verdict"] == verdict
    assert second["verdict"] == "ok"


def test_unreachable_node_has_all_columns(tmp_path: Path) -> None:
    text = fleet_report({"n1": None, "n2": {**GOOD, "flows": {"flows": [ARRIVES]}}})
    assert "n1  X ? ? ? ? ? ? ? ?  unreachable\nn2  . . . . . . . . .  ok" in text
