# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command history: times, records of a Service, states in all formats, exit statuses."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from random import Random

import pytest
from support.agent.driver import web
from support.agent.recorded import FIRST, RecordedAgent

from kubenode.cli import main
from kubenode.cli.history_time import moment_of, shown
from kubenode.engine.model.ipvs import VirtualServerKey
from kubenode.history.records import Trouble
from kubenode.history.ring import Ring

NOON = time.mktime((2026, 11, 24, 12, 0, 0, 0, 0, -1))
DRIFTED = VirtualServerKey("tcp", "10.96.0.1", 80, 4)


@pytest.fixture(scope="module")
def state_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a state directory with the history of two Services."""
    directory = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as monkeypatch:
        agent = RecordedAgent(directory, monkeypatch)
        agent.passes.full("start")
        agent.record()
        agent.put(*web("one", 1, 1))
        agent.put(*web("two", 2, 30))
        del agent.node.state["virtual_server"][DRIFTED]
        agent.passes.full("period")
        agent.passes.full("period")
        agent.node.refuse.add(VirtualServerKey("tcp", "10.96.0.3", 80, 4))
        agent.put(*web("three", 3, 1))
        agent.close()
    return directory


def history(state_dir: Path, capsys: pytest.CaptureFixture[str], *words: str, expect: int = 0) -> str:
    assert main(["history", "--state-dir", str(state_dir), *words]) == expect
    out, err = capsys.readouterr()
    assert bool(err) == bool(expect)
    return out or err


def test_text_has_causes_steps_drift_and_refusals(state_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = history(state_dir, capsys)
    lines = text.splitlines()
    assert lines[0].startswith("# the desired state is known from 2025-11-24T")
    assert lines[0].endswith(f", records from {shown(FIRST)} on")
    assert "started  agent" in lines[1]
    assert "wanted   Service ns1/two, EndpointSlice ns1/two-4 (1 address, " in text
    assert "    + virtual server tcp 10.96.0.1:80: scheduler rr   ns1/one:p\n" in text
    assert "    + address 10.96.0.1/32 on kube-ipvs0   ns1/one:p\n" in text
    assert "    + member 10.96.0.2,tcp:80 of set KUBE-CLUSTER-IP   ns1/two:p\n" in text
    assert "    ... and 14 more" in text
    assert "    + member 10.96.0.1 of set KUBE-IPVS-IPS   ns1/one:p\n" in text
    assert "    drift: + virtual server tcp 10.96.0.1:80: scheduler rr   ns1/one:p\n" in text
    assert "    failed: + virtual server tcp 10.96.0.3:80: scheduler rr: refused   ns1/three:p\n" in text
    assert "period   nothing to do\n" in text
    assert lines[-1].endswith("ended    agent with pid " + lines[-1].split()[-1])


def test_service_limits_the_records(state_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = history(state_dir, capsys, "--service", "ns1/one")
    assert "10.96.0.1:80" in text
    assert "drift: " in text
    assert "10.96.0.2" not in text
    assert "three" not in text
    assert "nothing to do" not in text


def test_since_and_until_limit_the_records(state_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = [json.loads(line) for line in history(state_dir, capsys, "--format", "json").splitlines()]
    middle = records[4]["time"]
    later = history(state_dir, capsys, "--since", f"@{middle}", "--format", "json").splitlines()
    earlier = history(state_dir, capsys, "--until", f"@{middle}", "--format", "json").splitlines()
    assert [json.loads(line)["number"] for line in later] == list(range(5, len(records) + 1))
    assert [json.loads(line)["number"] for line in earlier] == [1, 2, 3, 4, 5]
    drift = next(record for record in records if record.get("drift"))
    assert drift["drift"][0]["service"] == "ns1/one:p"
    assert "drift: + virtual server tcp 10.96.0.1:80: scheduler rr   ns1/one:p" in history(
        state_dir, capsys, "--since", f"@{drift['time']}"
    )


def test_state_has_all_formats(state_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = [json.loads(line) for line in history(state_dir, capsys, "--format", "json").splitlines()]
    two = next(record["time"] for record in records if "ns1/two-4" in str(record.get("objects")))
    before, after = ("--state", "--at", f"@{two - 0.001:.3f}"), ("--state", "--at", f"@{two:.3f}")
    assert history(state_dir, capsys, *before, "--format", "addresses") == "10.96.0.1/32\n"
    assert history(state_dir, capsys, *after, "--format", "addresses") == "10.96.0.1/32\n10.96.0.2/32\n"
    assert "-A -t 10.96.0.2:80 -s rr\n" in history(state_dir, capsys, *after, "--format", "ipvsadm")
    assert "table ip kubenode" in history(state_dir, capsys, *after, "--format", "nft")
    assert "virtual server tcp 10.96.0.2:80: scheduler rr\n" in history(state_dir, capsys, *after)
    document = json.loads(history(state_dir, capsys, *after, "--format", "json"))
    assert document["running"] is True
    assert document["changed"] == two
    assert {"virtual_server": "tcp 10.96.0.2:80", "service": "ns1/two:p"} in document["services"]
    servers = [item["key"]["address"] for item in document["items"] if item["kind"] == "virtual_server"]
    assert sorted(servers) == ["10.96.0.1", "10.96.0.2"]


def test_state_after_the_end_says_that_no_running(state_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "; no agent ran\n" in history(state_dir, capsys, "--state")


def test_unknown_moment_is_one_sentence(state_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = history(state_dir, capsys, "--state", "--at", "2020-01-01T00:00:00Z", expect=1)
    assert text.startswith(
        "kubenode history: the state of 2020-01-01T00:00:00.000Z is not known: the history begins later; it knows"
        " states from 2025-11-24T"
    )
    assert text.count("\n") == 1


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the state directory of a full ring of 128 KiB, with a record a second for the last 1,500 seconds."""
    directory = tmp_path_factory.mktemp("full")
    ring = Ring(str(directory / "history"), 128 << 10, lambda _text: None)
    ring.open()
    now, chance = int(time.time() * 1000), Random(1)
    for number in range(1500):
        moment = now - (1500 - number) * 1000
        ring.append(moment, Trouble(f"{chance.getrandbits(2000):x}"))
        ring.flush()
        if ring.needs_checkpoint or not number:
            ring.checkpoint(moment, {}, {})
    ring.close()
    return directory


def test_full_ring_says_how_far_back_it_reaches(full: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "--state-dir", str(full), "--since", "1h"]) == 2
    out, err = capsys.readouterr()
    first = re.match(r"# the desired state is known from .*, records from (.*) on\n", out)
    assert first is not None
    message = f"kubenode: the history has no record before {first[1]}; it was full, and older ones were removed; "
    assert err.startswith(message)
    assert re.fullmatch(r"to keep them, set history.maxSize to about [1-9]Mi\n", err[len(message) :])
    assert history(full, capsys, "--since", "30s").count("waiting") > 20


def test_moment_before_a_full_ring_has_a_remedy(full: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = history(full, capsys, "--state", "--at", "1h", expect=1)
    assert re.search(r"it knows states from .*; it was full, and older ones were removed; to keep them, set", text)
    assert "; history.maxSize: 1024Mi would hold some " in history(full, capsys, "--state", "--at", "3000d", expect=1)


def test_missing_history_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = history(tmp_path, capsys, expect=1)
    assert text == (
        f"kubenode history: there is no history {tmp_path}/history: the agent writes it, unless history.enabled is"
        " false\n"
    )


def test_foreign_file_is_named_with_status_2(state_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    foreign = state_dir / "history/notes"
    foreign.write_text("mine")
    assert main(["history", "--state-dir", str(state_dir)]) == 2
    foreign.unlink()
    out, err = capsys.readouterr()
    assert "started" in out
    assert err.count("\n") == 1
    assert "is no file of this history" in err


@pytest.mark.parametrize(
    "words",
    [
        ["--since", "yesterday"],
        ["--at", "1h"],
        ["--format", "ipvsadm"],
        ["--state", "--service", "a/b"],
        ["--state", "--since", "1h"],
        ["--service", "web"],
    ],
)
def test_contradicting_options_are_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(["history", *words])
    except SystemExit as caught:
        status = int(str(caught.code))
    assert status == 64
    assert capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("90s", NOON - 90),
        ("15m", NOON - 900),
        ("2h", NOON - 7200),
        ("1d", NOON - 86400),
        ("@1764000000.5", 1764000000.5),
        ("2025-11-24T16:00:00Z", 1764000000),
        ("2025-11-24T16:00:00.25Z", 1764000000.25),
        ("2025-11-24T18:00:00+02:00", 1764000000),
        ("2026-11-24T11:59:00", NOON - 60),
        ("2026-11-24 11:59", NOON - 60),
        ("11:59", NOON - 60),
        ("12:00:00", NOON),
        ("12:01", NOON - 86400 + 60),
    ],
)
def test_time_is_a_moment(text: str, moment: float) -> None:
    assert moment_of(text, NOON) == round(moment * 1000)


@pytest.mark.parametrize(
    "text", ["", "now", "25:00", "1w", "@", "@-1", "@nan", "2026-13-01T00:00:00Z", "-1h", "9" * 400]
)
def test_text_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a time such as"):
        moment_of(text, NOON)


def test_moment_is_shown_as_in_the_log() -> None:
    assert shown(FIRST + 7) == "2025-11-24T16:00:00.007Z"
    assert shown(-1) == "@-0.001"
