# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sealed logs: they have the records of their log, take less room, and are refused when they are damaged."""

from __future__ import annotations

import bz2
import json
import random
import tracemalloc
import zlib
from collections.abc import Sequence

import pytest

from kubenode.engine.model.ipset import MemberKey
from kubenode.engine.model.ipvs import RealServer, RealServerKey, VirtualServerKey
from kubenode.engine.model.nftables import ElementKey, SetKey, TableKey
from kubenode.engine.model.step import Step
from kubenode.history import files, records
from kubenode.history.items import Item
from kubenode.history.records import Alive, Content, Lost, Passed, Record, Trouble, Wanted, spelled

SERVER = VirtualServerKey("tcp", "10.96.0.1", 80, 4)
REAL = RealServerKey(SERVER, "10.244.1.5", 8080)
WRITES = [
    [Record(5, 100, Trouble("a"))],
    [Record(7, 90, Trouble("b")), Record(8, 85, Trouble("ü")), Record(9, 99, Alive(0.5))],
    [Record(10, 70, Lost("\u4e16"))],
]


def log_of(writes: list[list[Record]]) -> bytes:
    return files.LOG_HEAD + b"".join(files.log_line(records.encode(each)) for each in writes)


def through_file(write: Sequence[Record]) -> list[Record]:
    return [line.record() for line in records.decode(records.encode(write))]


def test_line_has_the_records_of_its_write() -> None:
    for write in WRITES:
        assert through_file(write) == write


def test_sealed_log_has_the_records_of_its_log() -> None:
    data = log_of(WRITES)
    log = files.parse_log(data)
    assert [line.record() for line in log.lines] == [record for write in WRITES for record in write]
    sealed = files.seal(data)
    assert files.unseal(sealed) == log.lines
    assert files.unseal(files.seal(data + b"00000000 [9,91" + b"x" * 9)) == log.lines  # cut off by a crash
    assert files.unseal(files.seal(data + b"00000000 [9,91,1,1]\n")) == log.lines
    with pytest.raises(ValueError, match="no record"):
        files.seal(files.LOG_HEAD)
    assert files.span_of(sealed) == (5, 10, 70, 100)
    for bad in (sealed[:-1], sealed + b"x", sealed.replace(b"[5,10", b"[4,10"), b"x", sealed[:-8] + b"12345678"):
        with pytest.raises(ValueError, match=r"it|its"):
            files.unseal(bad)


def test_fragments_occur_in_logs_and_come_back() -> None:
    """A fragment that no log has is dead: the spelling of records has changed."""
    real = RealServer(1)
    member = Item("member", MemberKey("KUBE-LOOP-BACK", "10.244.1.5,tcp:8080,10.244.1.5"), None)
    element = Item("nft_element", ElementKey(SetKey(TableKey("ip", "kubenode"), "a"), ("10.96.0.1",)), None)
    ours = [
        Item("real_server", REAL, None),
        Item("real_server", RealServerKey(SERVER._replace(protocol="udp", address="::1", family=6), "::2", 8080), real),
    ]
    drained, restored = Step("real_server", REAL, real, RealServer(0)), Step("real_server", REAL, RealServer(0), real)
    changes: list[Content] = [
        Wanted((item, member, ours[0]), (), ("EndpointSlice a/b",), ()) for item in (*ours, member, element)
    ]
    changes.append(Wanted((ours[0],), (), ("EndpointSlice a/b",), ()))
    steps = (spelled(drained, 0, ours[0]), spelled(restored, 0, ours[0]))
    done = Passed("event", False, 0.1, 2, steps, (), (), None)
    write = [Record(number, 1, content) for number, content in enumerate([*changes, done, *changes, done, done], 1)]
    data = log_of([write])
    assert [fragment for fragment in files._FRAGMENTS if fragment not in data] == []
    assert files.unseal(files.seal(data)) == files.parse_log(data).lines


@pytest.mark.parametrize("field", [0, 1, 2, 3])
def test_line_whose_numbers_do_not_fit_is_refused(field: int) -> None:
    raw = json.loads(records.encode(WRITES[1]))
    for wrong in (raw[field] + 1, -1 << 54, "1", None):
        line = json.dumps([*raw[:field], wrong, *raw[field + 1 :]]).encode()
        if field != 0 and not (field == 2 and wrong == raw[field] + 1):  # any number and moment may be the first
            with pytest.raises(ValueError, match="expected"):
                records.decode(line)


def test_sealed_log_takes_less_room_than_zlib() -> None:
    chance = random.Random(5)
    texts = [f"EndpointSlice shop/web-{number}-{chance.getrandbits(40)}" for number in range(1000)]
    changes = [Wanted((), (), (chance.choice(texts),), ()) for _change in range(5000)]
    data = log_of([[Record(number, number * 20, change)] for number, change in enumerate(changes, 1)])
    sealed = files.seal(data)
    _head, _, body = sealed.partition(b"\n")
    assert 4 * len(sealed) < 3 * len(zlib.compress(bz2.decompress(body), 6))


@pytest.mark.parametrize(
    ("content", "reason"), [(b"[" * (1 << 21), "cut off or too long"), (b"\x80" * (1 << 17), "too long")]
)
def test_bomb_is_refused(content: bytes, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(files._LARGEST, files.SEALED, 1 << 20)
    with pytest.raises(ValueError, match=reason):
        files.unseal(b"kubenode-history 2 sealed 3624d7b8 [1,1,1,1]\n" + bz2.compress(content))


def test_checkpoints_of_equal_states_have_one_digest() -> None:
    """A process that is restarted reads the same items in another order."""
    members = [MemberKey("KUBE-CLUSTER-IP", f"10.96.0.{number},tcp:80") for number in range(50)]
    names = {SERVER: "shop/web:http", SERVER._replace(port=81): "shop/web:admin"}
    one, _data = files.checkpoint(1, 10, {"member": dict.fromkeys(members, ""), "real_server": {}}, names)
    other_names = dict(reversed(names.items()))
    other, _data = files.checkpoint(1, 10, {"member": dict.fromkeys(reversed(members), "")}, other_names)
    assert one == other
    fewer, _data = files.checkpoint(1, 10, {"member": dict.fromkeys(members[1:], "")}, names)
    renamed, _data = files.checkpoint(
        1, 10, {"member": dict.fromkeys(members, "")}, {**names, SERVER: "shop/other:http"}
    )
    assert len({one.digest, fewer.digest, renamed.digest}) == 3


def test_checkpoint_spells_a_part_of_the_state_at_a_time() -> None:
    keys = [RealServerKey(SERVER, f"10.{number >> 8}.{number & 255}.1", 8080) for number in range(40_000)]
    state = {"real_server": dict.fromkeys(keys, RealServer(1))}
    tracemalloc.start()
    try:
        head, data = files.checkpoint(1, 10, state, {})
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    length = sum(len(files._spelled(("real_server", key, RealServer(1)))) for key in keys)
    assert head.items == len(keys)
    assert peak - len(data) < length / 2
