# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watches in protobuf: frames in any pieces, errors, and the way back to JSON."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator
from importlib.abc import MetaPathFinder

import pytest
import support.properties  # noqa: F401 - settings of hypothesis
from hypothesis import given
from hypothesis import strategies as st
from support.agent.recorded_watches import CHANGES, EVENTS, REFUSALS, STREAM, Recorded, event_of, frame, stream
from support.agent.watched_source import SERVICES, WatchedSource, fill
from support.fakes.apiserver import FakeApiServer
from support.fakes.apiserver_answers import encode
from support.fakes.apiserver_http import Answer

from kubenode.sources.kubernetes import event_stream
from kubenode.sources.kubernetes.errors import ApiError, BrokenOffError
from kubenode.sources.kubernetes.event_stream import RawEvent, raw_events

Follow = Callable[..., WatchedSource]
EMPTY_LIST = Answer(200, encode({"kind": "ServiceList", "metadata": {"resourceVersion": "1"}, "items": []}))
ADDED = [event for event in CHANGES if (event.json["object"]["kind"], event.json["type"]) == ("Service", "ADDED")]


class NoDescriptors(MetaPathFinder):
    """Importer that finds no free descriptor."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def pieces(data: bytes, sizes: Iterator[int]) -> Callable[[int], bytes]:
    """Return a function that reads the data in pieces of these sizes."""
    left = [data]

    def read(most: int) -> bytes:
        size = min(next(sizes, most), most)
        piece, left[0] = left[0][:size], left[0][size:]
        return piece

    return read


def read_all(data: bytes, *sizes: int, is_protobuf: bool = True) -> list[RawEvent]:
    return list(raw_events(pieces(data, iter(sizes)), is_protobuf))


@given(st.lists(st.binary(max_size=40)), st.lists(st.integers(1, 50)))
def test_frames_arrive_whole_in_any_pieces(frames: list[bytes], sizes: list[int]) -> None:
    events = read_all(b"".join(map(frame, frames)), *sizes)
    assert events == [RawEvent(data, True) for data in frames]


@given(st.lists(st.binary(max_size=40).filter(lambda line: b"\n" not in line)), st.lists(st.integers(1, 50)))
def test_lines_arrive_whole_in_any_pieces(lines: list[bytes], sizes: list[int]) -> None:
    events = read_all(b"".join(line + b"\n" for line in lines), *sizes, is_protobuf=False)
    assert events == [RawEvent(line) for line in lines]


@pytest.mark.parametrize("left", [1, 3, 4, 7])
def test_stream_cut_in_a_frame_breaks_off(left: int) -> None:
    with pytest.raises(BrokenOffError, match="in the middle of a watch event"):
        read_all((frame(b"whole") + frame(b"lost"))[: len(frame(b"whole")) + left])


def test_large_frame_is_read_in_one_piece() -> None:
    data = b"x" * (3 << 20)
    assert read_all(frame(data) + frame(b"y")) == [RawEvent(data, True), RawEvent(b"y", True)]


@pytest.mark.parametrize("length", [(16 << 20) + 1, 0xFFFFFFFF])
def test_huge_length_is_refused_before_its_bytes(length: int) -> None:
    with pytest.raises(ApiError, match="more than 16 MiB"):
        read_all(length.to_bytes(4, "big"))


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_event_has_the_same_type_in_both_formats(event: Recorded) -> None:
    in_protobuf, in_json = RawEvent(event.protobuf, True), RawEvent(json.dumps(event.json).encode())
    assert in_protobuf.decode()["type"] == in_json.decode()["type"]


def test_watch_in_protobuf_follows_changes(fake: FakeApiServer, follow: Follow) -> None:
    deleted = event_of("Service", "DELETED")
    fake.script[SERVICES] = [EMPTY_LIST, stream([event.protobuf for event in [*ADDED, deleted]])]
    watched = follow().complete()
    names = {event.json["object"]["metadata"]["name"] for event in ADDED}
    names.discard(deleted.json["object"]["metadata"]["name"])
    watched.until(lambda: {f"Service {name}" for name in names} <= watched.names)
    version = deleted.json["object"]["metadata"]["resourceVersion"]
    watched.until(lambda: len(fake.asked(SERVICES, watch=True)) > 1)
    assert fake.asked(SERVICES, watch=True)[1].query["resourceVersion"] == version
    assert f"Service {deleted.json['object']['metadata']['name']}" not in watched.names


def test_watch_prefers_protobuf_and_lists_ask_for_json(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 1)
    watched = follow().complete()
    watched.until(lambda: fake.watching(SERVICES))
    assert fake.asked(SERVICES)[0].headers["accept"] == "application/json"
    accept = fake.asked(SERVICES, watch=True)[0].headers["accept"]
    assert accept == "application/vnd.kubernetes.protobuf, application/json"


def test_known_object_in_protobuf_is_no_change(fake: FakeApiServer, follow: Follow) -> None:
    """A list in JSON and a watch in protobuf give an object the same text."""
    items = [event.json["object"] for event in ADDED]
    page = encode({"kind": "ServiceList", "metadata": {"resourceVersion": "1"}, "items": items})
    fake.script[SERVICES] = [Answer(200, page), stream([event.protobuf for event in ADDED])]
    watched = follow().complete()
    watched.until(lambda: len(fake.asked(SERVICES, watch=True)) > 1)
    watched.scan()
    assert sum(len(changes.put) for changes in watched.changes) == len(items)


@pytest.mark.parametrize(
    "answer",
    [stream([b"\x0a"]), stream([b"\x0a\x05ADDED"]), Answer(406, b"only JSON"), stream([ADDED[0].protobuf[:-9]])],
    ids=["malformed", "no object", "not acceptable", "truncated"],
)
def test_watch_without_usable_protobuf_uses_json(fake: FakeApiServer, follow: Follow, answer: Answer) -> None:
    fill(fake, 1)
    fake.script[SERVICES] = [EMPTY_LIST, answer]
    watched = follow().complete()
    watched.until(lambda: fake.watching(SERVICES) and not watched.source.problems)
    watches = fake.asked(SERVICES, watch=True)
    assert [request.headers["accept"] for request in watches[1:]] == ["application/json"] * (len(watches) - 1)
    assert len(fake.asked(SERVICES)) == 2


def test_watch_resumes_when_the_decoder_can_be_loaded(
    fake: FakeApiServer, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No descriptor may be free when the first event comes."""
    fails = iter([True])
    load = event_stream._protobuf_decoder

    def load_at_second_attempt() -> Callable[[bytes], object]:
        if next(fails, False):
            raise ApiError("the decoder of protobuf cannot be loaded: Too many open files")
        return load()

    monkeypatch.setattr(event_stream, "_protobuf_decoder", load_at_second_attempt)
    event = ADDED[0]
    fake.script[SERVICES] = [EMPTY_LIST, stream([event.protobuf]), stream([event.protobuf])]
    watched = follow().complete()
    watched.until(lambda: f"Service {event.json['object']['metadata']['name']}" in watched.names)
    assert len(fake.asked(SERVICES)) == 1
    assert [request.query["resourceVersion"] for request in fake.asked(SERVICES, watch=True)[:2]] == ["1", "1"]


def test_missing_descriptor_for_the_decoder_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "kubenode.sources.kubernetes.protobuf_objects", raising=False)
    monkeypatch.setattr(sys, "meta_path", [NoDescriptors(), *sys.meta_path])
    with pytest.raises(ApiError, match="cannot be loaded: Too many open files"):
        RawEvent(ADDED[0].protobuf, True).decode()


def test_error_event_in_protobuf_lists_again(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 1)
    fake.script[SERVICES] = [EMPTY_LIST, stream([event_of("Status", "ERROR").protobuf])]
    watched = follow().complete()
    watched.until(lambda: any(name.startswith("Service web") for name in watched.names))
    assert len(fake.asked(SERVICES)) == 2
    watched.until(lambda: len(fake.asked(SERVICES, watch=True)) > 1)
    assert "protobuf" in fake.asked(SERVICES, watch=True)[1].headers["accept"]


def test_refusal_in_protobuf_is_reported(fake: FakeApiServer, follow: Follow) -> None:
    refusal = next(each for each in REFUSALS if each.json["code"] == 401)
    fake.script[SERVICES] = [EMPTY_LIST, *[Answer(401, refusal.protobuf, STREAM)] * 200]
    watched = follow(begin=False)
    watched.source.start()
    watched.until(lambda: any("401 Unauthorized: Unauthorized" in text for text in watched.source.problems.values()))
