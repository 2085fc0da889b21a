# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet report: the verdict for each task result, and a complete, escaped, self-contained page."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from hypothesis import example, given
from hypothesis import strategies as st
from support.fleet import EVIL, GOOD, NODE, NOTHING, Page

from ansible_collections.kubenode.ipvs.plugins.filter.fleet_report import FilterModule
from ansible_collections.kubenode.ipvs.plugins.plugin_utils.fleet import CHECKS, VERDICTS

fleet_report = FilterModule().filters()["fleet_report"]


def data(collected: Any) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(fleet_report(collected, "json"))
    return report


def verdicts(results: Any) -> dict[str, tuple[str, list[str]]]:
    """Return the checks of one node that are not ok."""
    (node,) = data({"n1": results})["nodes"]
    return {check["name"]: (check["verdict"], check["lines"]) for check in node["checks"] if check["verdict"] != "ok"}


def test_playbook_collects_all_shown_results() -> None:
    playbook = Path(__file__).parents[4] / "playbooks/verify.yml"
    (play,) = yaml.safe_load(playbook.read_text(encoding="utf-8"))
    (collected,) = [
        task["ansible.builtin.set_fact"] for task in play["tasks"] if task["name"] == "Collect what was found"
    ]
    assert set(collected["kubenode_found"]) == {key for _title, key in CHECKS} | {"check", "table", "prepared", "error"}


def test_converged_node_is_ok() -> None:
    (node,) = data({"n1": GOOD})["nodes"]
    assert [check["name"] for check in node["checks"]] == [title for title, key in CHECKS if key != "flows"]
    assert verdicts(GOOD) == {}
    assert (node["verdict"], node["facts"]) == ("ok", "debian 12, kernel 6.1.0, iptables nft, kvm")
    assert (node["virtual_servers"], node["real_servers"], node["draining"]) == (2, 2, 1)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"kernel": {"changed": True, "lines": ["~ a: 0 -> 1", "+ b: 1"]}},
         {"kernel settings": ("drift", ["~ a: 0 -> 1", "+ b: 1"])}),
        ({"packages": {"changed": True, "lines": ["install ipset"]}}, {"packages": ("drift", ["install ipset"])}),
        (
            {"files": [{"changed": True, "results": [{"changed": True, "item": {"path": "/etc/a"}},
                                                     {"changed": False, "item": {"path": "/b"}}]}]},
            {"other files": ("drift", ["/etc/a"])},
        ),
        ({"files": [NOTHING, {"changed": True, "dest": "/etc/unit"}]}, {"other files": ("drift", ["/etc/unit"])}),
        ({"kernel": {"failed": True, "changed": False, "msg": "no module x"},
          "error": "no module x", "prepared": False},
         {"kernel settings": ("failed", ["no module x"]), "packages": ("unknown", []), "swap": ("unknown", [])}),
        ({"node": {**NODE, "refused": ["old", "no root"], "problems": ["old", "no root", "no ipset"]},
          "error": "n1 cannot be prepared: …"},
         {"node": ("failed", ["old", "no root"])}),
        ({"error": "n1 cannot be prepared: what packages are called is not known"},
         {"node": ("failed", ["n1 cannot be prepared: what packages are called is not known"])}),
        ({"node": {**NODE, "problems": ["command ipset is not installed"]}},
         {"node": ("drift", ["command ipset is not installed"])}),
        ({"node": {"failed": True, "msg": "Python is gone"}}, {"node": ("failed", ["Python is gone"])}),
        ({"plan": {"rc": 2, "stdout": "+ virtual server a\n- address b\n", "stderr": ""}},
         {"state in the kernel": ("drift", ["+ virtual server a", "- address b"])}),
        ({"plan": {"rc": 2, "stdout": "+ virtual server a\n", "stderr": "kubenode: b belongs to owner 'x'\n"}},
         {"state in the kernel": ("failed", ["kubenode: b belongs to owner 'x'", "+ virtual server a"])}),
        ({"plan": {"rc": 1, "stdout": "", "stderr": "kubenode plan: no manifests"}},
         {"state in the kernel": ("failed", ["kubenode plan: no manifests"])}),
        ({"status": {"rc": 3, "stdout": "node n1\nnot converged: 2 problems", "stderr": ""}},
         {"agent runs": ("drift", ["node n1", "not converged: 2 problems"])}),
        ({"status": {"rc": 1, "stdout": "", "stderr": "kubenode status: the agent is not running"}},
         {"agent runs": ("failed", ["kubenode status: the agent is not running"])}),
        ({"check": {"rc": 1, "stdout": "ok    kernel module ip_vs\nFAIL  kube-proxy is running (process 7)\n"}},
         {"agent runs": ("failed", ["kube-proxy is running (process 7)"])}),
        ({"check": {"rc": 1, "stdout": "FAIL  kube-proxy is running", "stderr": ""},
          "status": {"rc": 3, "stdout": "not converged: 2 problems", "stderr": ""}},
         {"agent runs": ("failed", ["kube-proxy is running", "not converged: 2 problems"])}),
        ({"check": {"rc": 0, "stdout": "ok    kernel module ip_vs\n", "stderr": ""}}, {}),
        ({"check": {"skipped": True}}, {}),
        ({"status": None, "plan": None, "install": None},
         {"agent runs": ("unknown", []), "state in the kernel": ("unknown", []), "agent installed": ("unknown", [])}),
        ({"install": {"changed": True, "lines": ["unpack release 1"]},
          "status": {"skipped": True}, "plan": {"skipped": True}},
         {"agent installed": ("drift", ["unpack release 1"]), "agent runs": ("unknown", []),
          "state in the kernel": ("unknown", [])}),
    ],
)  # fmt: skip
def test_results_have_their_verdicts(changed: dict[str, Any], expected: dict[str, Any]) -> None:
    assert verdicts({**GOOD, **changed}) == expected


@pytest.mark.parametrize(
    "results", [None, {}, {"node": {"unreachable": True, "msg": "Connection refused", "changed": False}}]
)
def test_unreachable_node_has_a_row(results: Any) -> None:
    report = data({"n1": results, "n2": GOOD})
    assert [node["verdict"] for node in report["nodes"]] == ["unreachable", "ok"]
    assert report["summary"] == {"ok": 1, "unknown": 0, "drift": 0, "failed": 0, "unreachable": 1}
    assert "n1  X ? ? ? ? ? ? ?  unreachable\n" in fleet_report({"n1": results})


def test_report_as_text() -> None:
    assert fleet_report({"n1": GOOD}).splitlines()[-1].startswith("1 node: 1 ok,")
    drift = {**GOOD, "kernel": {"changed": True, "lines": [f"~ a{index}" for index in range(25)]}}
    lines = fleet_report({"n1": GOOD, "node-2": drift}).splitlines()
    assert (
        "n1      . . . . . . . .  ok; debian 12, kernel 6.1.0, iptables nft, kvm, 2 virtual servers, 2 real servers"
        in lines
    )
    assert "          ~ kernel settings: ~ a0" in lines
    assert "            and 5 more" in lines
    assert lines[-1] == "2 nodes: 1 ok, 0 unknown, 1 drift, 0 failed, 0 unreachable"


def test_text_of_nodes_is_escaped_on_the_page() -> None:
    results = {**GOOD, "kernel": {"changed": True, "lines": [EVIL]}, "node": {**NODE, "kernel": EVIL}}
    page = Page(fleet_report({EVIL: results}, "html"))
    tags = [tag for tag, _attributes in page.elements]
    assert (tags.count("script"), tags.count("style"), tags.count("img")) == (1, 1, 0)
    assert page.words.count(EVIL) >= 2


@given(st.dictionaries(st.text(max_size=8), st.sampled_from([None, GOOD, {**GOOD, "error": "x<y"}]), max_size=5))
@example({"http": None})
def test_page_is_self_contained(collected: dict[str, Any]) -> None:
    text = fleet_report(collected, "html")
    page = Page(text)
    assert {"link", "img", "iframe", "object"}.isdisjoint(tag for tag, _attributes in page.elements)
    # The test checks attributes, not text: a node may be called "http".
    names = {name for _tag, attributes in page.elements for name in attributes}
    assert {"src", "srcset", "action", "style"}.isdisjoint(names)
    assert not [name for name in names if name.startswith("on")]
    assert {str(attributes.get("href", "#")) for _tag, attributes in page.elements} == {"#"}
    for element in ("style", "script"):
        (content,) = re.findall(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
        assert not re.search(r"https?:|url\(|@import|fetch|XMLHttpRequest", content)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert text.count(f"{element}-src &#39;sha256-{digest}&#39;") == 1
    assert "prefers-color-scheme: dark" in text
    rows = sum(1 for tag, attributes in page.elements if tag == "td" and attributes.get("title"))
    assert rows == len(collected) * (len(CHECKS) - 1)


def test_bars_have_one_scale() -> None:
    small = {**GOOD, "table": {"services": [{"real_servers": [{"weight": 1}]}]}}
    text = fleet_report({"big": GOOD, "small": small}, "html")
    widths = re.findall(r'class="servers" x="[\d.]+" width="([\d.]+)"', text)
    assert widths == ["60.0", "30.0", "30.0", "30.0"]


def test_page_lists_worst_nodes_first_and_folds_long_plans() -> None:
    plan = "".join(f"+ virtual server {index}\n" for index in range(20)) + "- address 10.0.0.1\n"
    drift = {**GOOD, "plan": {"rc": 2, "stdout": plan, "stderr": ""}}
    failed = {**GOOD, "install": {"failed": True, "msg": "no Python"}}
    page = Page(fleet_report({"fine": GOOD, "drifts": drift, "cannot": failed, "away": None}, "html"))
    articles = [attributes.get("class") for tag, attributes in page.elements if tag == "article"]
    assert articles == ["unreachable", "failed", "drift"]
    assert "and 9 more" in page.words
    colours = [
        attributes["class"]
        for tag, attributes in page.elements
        if tag == "span" and attributes.get("class") in ("more", "less")
    ]
    assert colours == ["more"] * 12  # folded lines have no elements of their own


def test_every_verdict_has_a_colour_in_both_lights() -> None:
    text = fleet_report({}, "html")
    for verdict in VERDICTS:
        assert len(re.findall(rf"--{verdict}: #", text)) == 2


@pytest.mark.parametrize(
    ("collected", "form", "message"),
    [
        ([], "text", "reports are list, expected a mapping from nodes to what was collected"),
        ({"n1": "x"}, "text", "report of n1 is str, expected a mapping"),
        ({}, "pdf", "format is 'pdf', expected one of text, json, html"),
    ],
)
def test_wrong_input_is_refused(collected: Any, form: str, message: str) -> None:
    with pytest.raises(AnsibleFilterError) as error:
        fleet_report(collected, form)
    assert message in str(error.value)
