# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a history from another version or another writer, and the commands that print them."""

from __future__ import annotations

import bz2
import contextlib
import io
import json
import shutil
import zlib
from pathlib import Path
from typing import Any

from fuzz.choices import Choices, wreck
from fuzz.target import Target
from fuzz.targets.objects import seeds
from fuzz.targets.text import SCRATCH

from kubenode.cli import main
from kubenode.engine.errors import EngineError
from kubenode.history import files, records
from kubenode.history.files import Checkpoint, Span

_DIRECTORY = Path(f"{SCRATCH}/history-state")
_SERVER: list[Any] = ["tcp", "10.96.0.1", 80, 4]
_REAL: list[Any] = [_SERVER, "10.244.1.5", 8080]
_ITEMS: list[Any] = [
    ["virtual_server", _SERVER, ["rr", 1, 10800, 24, ""]],
    ["real_server", _REAL, [1, "masquerade", 0, 0, "ipip", 0, 0]],
    ["virtual_server", ["fwmark", "", 7, 6], ["sh", 40, 0, 128, "sip"]], ["sysctl", "net.ipv4.ip_forward", "1"],
    ["set", "A", ["hash:ip,port", [["family", "inet"]], []]], ["member", ["A", "10.96.0.1,tcp:80"], ""],
    ["chain", [4, "nat", "A"], ["-j B"]], ["jump", [6, "nat", "OUTPUT", "-j A"], ["first", 1]],
    ["nft_table", ["ip", "kubenode"], 0], ["nft_set", [["ip", "kubenode"], "a"], [["ipv4_addr"], True]],
    ["nft_element", [[["ip", "kubenode"], "a"], ["10.96.0.1", "tcp", "80"]], ""],
    ["link", "kube-ipvs0", ["dummy", False]],
    ["nft_chain", [["ip", "kubenode"], "c"], [["nat", "prerouting", -100, "accept"], [[[
        ["Compare", "ip saddr", "10.0.0.0/8", True], ["Bits", "ct state", 2, False],
        ["Lookup", ["ip daddr"], "a", False],
        ["SetMark", 4294950911, 16384], ["Masquerade", True], ["Reject", "tcp reset"], ["Random", 2],
        ["DestinationNat", "10.0.0.1", 80], ["Verdict", "jump", "b"], ["Foreign", "00ff"]], "why"]]]],
    ["address", ["kube-ipvs0", "10.96.0.1", 32], True], ["route", ["lo", "10.96.0.0/16"], [4, 0]],
]  # fmt: skip
_STEP: list[Any] = ["real_server", _REAL, "- real server", ""]
_CONTENTS: list[tuple[str, list[Any]]] = [
    ("Wanted", [_ITEMS, [[_SERVER, "a/b:p"]], ["Service a/b"], ["a/b"]]),
    ("Wanted", [[[kind, key, None] for kind, key, _value in _ITEMS], [[_SERVER, ""]], [], []]),
    ("Passed", ["event", False, 0.1, 3, [0, [1, ": x -> y"], _STEP], [_STEP], [_STEP], ["left alone"]]),
    ("Passed", ["period", True, 1, 0, [], [], [], None]),
    ("Problems", [[["a/b", "Service a/b: bad"]], [["a/c", "Service a/c: bad"]]]),
    ("Started", ["node1", "1.0", 7]),
    ("Ended", [7]),
    ("Alive", [0.5]),
    ("Trouble", ["waiting"]),
    ("Lost", ["disk"]),
]  # fmt: skip


def _run(data: bytes) -> None:
    choices = Choices(data)
    directory = _DIRECTORY / "history"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    lines = [_line(choices, number) for number in range(1, 2 * (2 + choices.below(8)), 2)]
    log = files.LOG_HEAD + b"".join(map(files.log_line, lines))
    state = b"".join(_json(choices, item) + b"\n" for item in choices.some(_ITEMS, 12))
    head = Checkpoint(1, 1000, state.count(b"\n"), "0" * 64)
    _write(choices, directory / "0000000000000001.state", files._head(files.CHECKPOINT, head) + zlib.compress(state))
    if choices.chance(2):
        _write(choices, directory / "0000000000000001.log", log)
    else:
        lines = [_line(choices, 1) for _line_ in lines]  # numbers and moments are differences
        content = bz2.compress(files._shortened(b"\n".join(lines)))
        sealed = files._head(files.SEALED, Span(1, 2 * len(lines), 0, 9)) + content
        _write(choices, directory / "0000000000000001.sealed", sealed)
    words = choices.pick(
        ([], ["--format", "json"], ["--service", "a/b"], ["--since", "@1.001"], ["--state", "--at", "@1.004"])
    )
    if words[:1] == ["--state"]:
        words = [*words, "--format", choices.pick(("text", "json", "ipvsadm", "ipset", "iptables", "nft", "addresses"))]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        status = main(["history", "--state-dir", str(_DIRECTORY), *words])
    assert status in (0, 1, 2), status
    assert bool(err.getvalue()) >= (status == 1)
    for letter in out.getvalue() + err.getvalue():
        assert letter.isprintable() or letter == "\n", repr(letter)


def _line(choices: Choices, number: int) -> bytes:
    kind, content = choices.pick(_CONTENTS)
    first = number + choices.chance(16)
    return _json(choices, [first, 1, 1000 + number, 1, [[0, kind, content], [1, "Trouble", ["waiting"]]]])


def _json(choices: Choices, value: Any) -> bytes:
    """Return a value as the agent writes it, or with one part corrupted."""
    if choices.chance(3):
        value = wreck(choices, value)
    try:
        return json.dumps(value, separators=(",", ":")).encode()
    except (TypeError, ValueError):
        return choices.bytes(16)


def _write(choices: Choices, path: Path, content: bytes) -> None:
    """Write a file, sometimes cut off or with one byte changed."""
    kind = choices.below(12)
    if kind == 0 and content:
        content = content[: choices.below(len(content))]
    elif kind == 1 and content:
        at = choices.below(len(content))
        content = content[:at] + bytes([choices.byte()]) + content[at + 1 :]
    path.write_bytes(content)


def _record(data: bytes) -> None:
    for line in records.decode(data):
        line.record()


TARGETS = {
    "history": Target(_run, seeds(60, 80, 11), longest=512),
    "history_record": Target(
        _record,
        [json.dumps([1, 0, 2, 0, [[0, *each]]]).encode() for each in _CONTENTS],
        expected=(EngineError, ValueError),
    ),
}
