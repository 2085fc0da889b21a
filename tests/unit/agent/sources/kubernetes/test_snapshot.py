# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The snapshot is complete or ignored, and can be read like manifests."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clusters import objects
from support.waiting import eventually

from kubenode.manifests.directory import Manifests
from kubenode.sources.kubernetes import snapshot
from kubenode.sources.kubernetes.objects import encode, understood

ITEMS = [objects.service("web", ["10.96.0.1"]), objects.piece("web", [objects.endpoint("10.244.0.1")])]


def texts(items: list[dict[str, Any]]) -> list[bytes]:
    return [encode(understood(item["kind"], item)[1]).encode() for item in items]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "objects"
    size = snapshot.write(str(file), "node1", "https://h", texts(ITEMS))
    assert file.stat().st_size == size
    return file


def test_snapshot_is_read_back_unchanged(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.1234)
    snapshot.write(str(path), "node1", "https://h", texts(ITEMS))
    saved = snapshot.read(str(path), "node1")
    assert [text for _key, text, _item in saved.objects] == texts(ITEMS)
    assert [str(key) for key, _text, _item in saved.objects] == ["Service ns1/web", "EndpointSlice ns1/web-4"]
    assert [item for _key, _text, item in saved.objects] == [json.loads(text) for text in texts(ITEMS)]
    assert saved.server == "https://h"
    assert saved.written == 1_700_000_000.123


def test_snapshot_is_readable_by_its_owner_only(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["objects"]


def test_snapshot_is_readable_as_manifests(path: Path) -> None:
    source = Manifests(str(path))
    assert {item["metadata"]["name"] for item in source.scan().put} == {"web", "web-4"}
    assert source.problems == {}


def test_any_text_is_read_back(tmp_path: Path) -> None:
    odd = {**ITEMS[0], "metadata": {**ITEMS[0]["metadata"], "annotations": {"a": "\u2028\r\n\x85\ud800é"}}}
    path = tmp_path / "odd"
    snapshot.write(str(path), "node1", "", texts([odd]))
    assert snapshot.read(str(path), "node1").objects[0][2]["metadata"]["annotations"] == odd["metadata"]["annotations"]


@given(st.data())
def test_any_damage_is_detected(data: st.DataObject) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "objects"
        snapshot.write(str(path), "node1", "https://h", texts(ITEMS))
        whole = path.read_bytes()
        header = whole.index(b"\n") + 1
        at = header + data.draw(st.integers(0, len(whole) - header - 1))
        damaged = data.draw(
            st.sampled_from(
                [
                    whole[:at],
                    whole[:at] + whole[at + 1 :],
                    whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :],
                    whole + b"\n",
                ]
            )
        )
        path.write_bytes(damaged)
        with pytest.raises(snapshot.SnapshotError, match="damaged"):
            snapshot.read(str(path), "node1")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 2}, "its format is 2, expected 1"),
        ({"kind": "List"}, "its kind is 'List', expected 'ObjectsSnapshot'"),
        ({"node": "other"}, "its node is 'other', expected 'node1'"),
        ({"sha256": None}, "damaged"),
        ({"written": "yesterday"}, "is not a snapshot"),
    ],
)
def test_snapshot_with_an_unknown_header_is_refused(path: Path, change: dict[str, Any], words: str) -> None:
    first, _newline, rest = path.read_bytes().partition(b"\n")
    path.write_bytes(json.dumps({**json.loads(first), **change}).encode() + b"\n" + rest)
    with pytest.raises(snapshot.SnapshotError, match=words):
        snapshot.read(str(path), "node1")


@pytest.mark.parametrize("content", [b"", b"\n", b"[]\n", b"x", b'{"kind": "Service"}\n'])
def test_invalid_snapshot_is_reported(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(snapshot.SnapshotError, match="is not a snapshot"):
        snapshot.read(str(path), "node1")


def test_missing_snapshot_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(snapshot.SnapshotError, match="there is no snapshot"):
        snapshot.read(str(tmp_path / "none"), "node1")
    with pytest.raises(snapshot.SnapshotError, match="cannot be read: Is a directory"):
        snapshot.read(str(tmp_path), "node1")


def test_failed_write_keeps_the_last_snapshot(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        snapshot.write(str(path), "node1", "https://h", [])
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["objects"]


# SnapshotKeeper


def saves(saved: list[float], size: int = 0) -> Callable[[], int]:
    """Record the time of each save, and return ``size`` as the bytes written."""

    def save() -> int:
        saved.append(time.monotonic())
        return size

    return save


@pytest.mark.parametrize(("interval", "size"), [(30.0, 1), (0.01, 64 << 20)], ids=["at once", "large"])
def test_snapshot_keeper_batches_and_saves_the_last_change(interval: float, size: int) -> None:
    saved: list[float] = []
    keeper = snapshot.Keeper(saves(saved, size), interval, delay=0.02)
    keeper.start()
    for _change in range(50):
        keeper.changed()
    eventually(lambda: saved)
    keeper.changed()
    keeper.changed()
    time.sleep(0.1)
    assert len(saved) == 1
    keeper.stop()
    keeper.join(60)
    assert len(saved) == 2


def test_keeper_does_not_save_an_unchanged_snapshot() -> None:
    saved: list[float] = []
    keeper = snapshot.Keeper(saves(saved), interval=0.01, delay=0.01)
    keeper.start()
    keeper.stop()
    keeper.join(60)
    assert saved == []
