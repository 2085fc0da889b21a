# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``kubenode explain`` without a kernel: flows that cannot be, and the forms of its output."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.agent.explanation import answer, traced_packet
from support.clusters import objects

from kubenode.cli import main
from kubenode.cli.commands import USAGE_ERROR
from kubenode.cli.explain_html import page
from kubenode.cli.explain_text import lines

WRONG = {
    "": "expected PROTOCOL SOURCE ADDRESS:PORT",
    "tcp node 10.96.0.1:0": "destination port is '0', expected a number from 1 to 65535",
    "tcp node 10.96.0.1:99999": "expected a number from 1 to 65535",
    "tcp node 10.96.0.1": "expected ADDRESS:PORT",
    "tcp node fd00::1:80": "expected an IPv6 address in brackets",
    "tcp fd00::1 10.96.0.1:80": "of two families",
    "tcp 10.0.0.300 10.96.0.1:80": "source is '10.0.0.300', expected an IP address",
    "icmp node 10.96.0.1:80": "protocol is 'icmp'",
    "tcp node": "FLOW is 'tcp node'",
    "tcp node 10.96.0.1:80 --from 10.0.0.1": "--from is for",
    "tcp node 10.96.0.1:80 --netns x": "--netns is for --probe",
    "tcp node 10.96.0.1:80 --probe --netns ../x": "expected a network namespace",
    "--service ns1": "expected NAMESPACE/NAME",
    "--service ns1/nothing": "there is no Service ns1/nothing",
    "--service ns1/broken": "spec.externalTrafficPolicy is 'Lokal'",
    "--service ns1/web": "expected --port with one of: http (tcp 80), https (tcp 443)",
    "--service ns1/web --port ftp": "--port is 'ftp', expected a port of Service ns1/web",
    "--service ns1/web --port http --from fd00::1": "no cluster IP of IPv6",
    "--node-port 0": "--node-port is '0'",
    "--node-port 80 --service ns1/web": "expected PROTOCOL SOURCE ADDRESS:PORT",
    "--node-port 80 --port x": "--port is for --service",
    "tcp node 10.96.0.1:80 --wait 5": "--wait is for --observe without --probe",
    "tcp node 10.96.0.1:80 --observe --probe --wait 5": "--wait is for --observe without --probe",
    "tcp node 10.96.0.1:80 --observe --wait 1.5": "--wait is '1.5', expected a number of seconds from 0 to 3600",
    "tcp node 10.96.0.1:80 --observe --wait 9999": "--wait is '9999', expected a number of seconds",
}


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    ports = [objects.port(80, "http"), objects.port(443, "https")]
    things = [
        objects.service("web", ["10.96.0.1"], ports),
        objects.service("broken", ["10.96.0.2"], externalTrafficPolicy="Lokal"),
    ]
    path = tmp_path / "objects.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": things}))
    return path


@pytest.mark.parametrize("words", WRONG)
def test_flow_that_cannot_be_is_one_sentence(manifests: Path, capsys: pytest.CaptureFixture[str], words: str) -> None:
    options = ["--objects", str(manifests), "--run-dir", str(manifests.parent)]
    assert main(["explain", *words.split(), *options]) == USAGE_ERROR
    output = capsys.readouterr()
    assert output.out == ""
    assert WRONG[words] in output.err
    assert output.err.count("\n") == 1


def test_text_begins_with_fault_and_remedy() -> None:
    shown = lines(answer())
    assert shown[1:3] == ["FAULT: a & b", "remedy: do <this>"]
    assert "not known: the ledger" in shown
    assert any("10.244.1.6:8080 drains" in line for line in shown)


TRACED = {"probe": "connected", "trace": {"notes": ["<no> trace"], "packets": [traced_packet(), traced_packet()]}}


def test_text_shows_packets_of_one_way_once() -> None:
    shown = lines(answer(observed=TRACED))
    assert "observed trace: <no> trace" in shown
    names = "tcp 10.0.0.9:40000 -> 10.96.0.1:80 on eth0 (SYN)"
    assert shown[shown.index("observed probe: connected") + 3 :] == [
        f"observed request: {names}, {names}",
        "   input  rule 2 (handle 5) of chain inet <fw> input accepts it   [agent]",
        "   sent: leaves by eth0",
    ]


def test_page_shows_packets_of_one_way_once() -> None:
    text = page(answer(observed=TRACED))
    assert "<h2>Observed request: tcp 10.0.0.9:40000 -&gt; 10.96.0.1:80 on eth0 (SYN) and 1 more</h2>" in text
    assert "chain inet &lt;fw&gt; input" in text
    assert "&lt;no&gt; trace" in text


def test_page_is_one_file_without_requests() -> None:
    text = page(answer(observed=TRACED))
    assert not re.search(r"(?:src|href|url)\s*[=(]|@import|<script|https?:", text)
    assert "default-src 'none'" in text
    assert "prefers-color-scheme: dark" in text
    assert len(text) < 20_000


def test_page_escapes_text_of_objects() -> None:
    text = page(answer())
    assert "<b>out</b>" not in text
    assert "&lt;web&gt;" in text
    assert "do &lt;this&gt;" in text
    assert "a &amp; b" in text
