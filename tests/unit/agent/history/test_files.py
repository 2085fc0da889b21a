# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sealed logs: they have the records of their log, take less room, and are refused when they are damaged."""

from __future__ import annotations

import bz2
import random
import zlib
from collections.abc import Callable

import pytest

from kubenode.history import files, records
from kubenode.history.records import Trouble, Wanted


def by_zlib(sealed: bytes) -> bytes:
    """Return a sealed log as an earlier version compressed it."""
    head, _, body = sealed.partition(b"\n")
    return head + b"\n" + zlib.compress(bz2.decompress(body), 6)


@pytest.mark.parametrize("compressed", [bytes, by_zlib], ids=["bz2", "zlib"])
def test_sealed_log_has_the_records_of_its_log(compressed: Callable[[bytes], bytes]) -> None:
    lines = [(5, 100, Trouble("a")), (7, 90, Trouble("b")), (8, 90, Trouble("ü"))]
    data = files.LOG_HEAD + b"".join(files.log_line(records.encode(*line)) for line in lines)
    log = files.parse_log(data)
    sealed = compressed(files.seal(data))
    assert files.unseal(sealed) == log.lines
    assert files.unseal(files.seal(data + b"00000000 [9,91" + b"x" * 9)) == log.lines  # cut off by a crash
    assert files.unseal(files.seal(data + b"00000000 [9,91,1,1]\n")) == log.lines
    with pytest.raises(ValueError, match="no record"):
        files.seal(files.LOG_HEAD)
    assert files.span_of(sealed) == (5, 8, 90, 100)
    for bad in (sealed[:-1], sealed + b"x", sealed.replace(b"[5,8", b"[4,8"), b"x", sealed[:-8] + b"12345678"):
        with pytest.raises(ValueError, match=r"it|its"):
            files.unseal(bad)


def test_sealed_log_takes_less_room_than_zlib() -> None:
    chance = random.Random(5)
    texts = [f"EndpointSlice shop/web-{number}-{chance.getrandbits(40)}" for number in range(1000)]
    changes = [Wanted((), (), (chance.choice(texts),), ()) for _change in range(5000)]
    lines = [records.encode(number, number * 20, change) for number, change in enumerate(changes, 1)]
    sealed = files.seal(files.LOG_HEAD + b"".join(map(files.log_line, lines)))
    assert 4 * len(sealed) < 3 * len(by_zlib(sealed))


@pytest.mark.parametrize("compress", [zlib.compress, bz2.compress])
def test_bomb_is_refused(compress: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(files._LARGEST, files.SEALED, 1 << 20)
    bomb = compress(b"[" * (1 << 21))
    with pytest.raises(ValueError, match="cut off or too long"):
        files.unseal(b"kubenode-history 1 sealed 3624d7b8 [1,1,1,1]\n" + bomb)
