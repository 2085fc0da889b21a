# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Protobuf of a real API server becomes the values of its JSON; malformed data raises the documented error."""

from __future__ import annotations

import json
from typing import Any

import pytest
import support.properties  # noqa: F401 - settings of hypothesis
from hypothesis import given
from hypothesis import strategies as st
from support.agent.recorded_watches import CHANGES, EVENTS, REFUSALS, Recorded, event_of

from kubenode.manifests import documents
from kubenode.sources.kubernetes import protobuf_objects
from kubenode.sources.kubernetes.objects import encode, understood
from kubenode.sources.kubernetes.protobuf import (
    Message,
    ProtobufError,
    boolean,
    decode,
    integer,
    message,
    nested,
    repeated,
    shared,
    text,
    text_map,
    texts,
)
from kubenode.sources.kubernetes.protobuf_objects import decode_event, decode_object

INNER = message(text(1, "text", keep=True))
TABLE = message(
    text(1, "text"),
    integer(2, "number"),
    boolean(3, "flag"),
    nested(4, "message", INNER),
    repeated(5, "messages", INNER),
    texts(6, "texts"),
    text_map(7, "map"),
    shared(8, "shared", INNER),
    integer(9, "long", 64, keep=True),
    boolean(16, "kept", keep=True),
    absent=None,
)
SLICE = event_of("EndpointSlice", "ADDED").protobuf


def is_value_or_error(data: bytes, decoder: Any = decode_event) -> bool:
    try:
        return isinstance(decoder(data), dict)
    except ProtobufError as error:
        return bool(str(error))


def stored(event: Any) -> tuple[Any, ...]:
    """Return what the reflector uses of an event: type, version, key, and the text of the stored object."""
    item = event["object"]
    key, kept = understood(item["kind"], item)
    return event["type"], item["metadata"]["resourceVersion"], key, encode(kept)


@pytest.mark.parametrize("event", CHANGES, ids=lambda event: event.name)
def test_recorded_change_equals_its_json(event: Recorded) -> None:
    assert stored(decode_event(event.protobuf)) == stored(documents.decode(json.dumps(event.json)))


def test_recorded_bookmark_has_the_version_of_its_json() -> None:
    bookmark = event_of("Node", "BOOKMARK")
    event = decode_event(bookmark.protobuf)
    version = bookmark.json["object"]["metadata"]["resourceVersion"]
    assert (event["type"], event["object"]["metadata"]["resourceVersion"]) == ("BOOKMARK", version)


def test_recorded_error_event_equals_its_json() -> None:
    error = event_of("Status", "ERROR")
    assert decode_event(error.protobuf) == error.json


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
def test_recorded_refusal_equals_its_json(refusal: Recorded) -> None:
    assert decode_object(refusal.protobuf) == refusal.json


def test_recorded_managed_fields_are_skipped() -> None:
    assert any(b"FieldsV1" in event.protobuf for event in EVENTS)
    assert not any("managedFields" in decode_event(event.protobuf)["object"]["metadata"] for event in EVENTS)


@pytest.mark.parametrize(
    ("data", "values"),
    [
        (b"", {}),
        (b"\x0a\x00", {}),  # Go's JSON omits it
        (b"\x0a\x03web", {"text": "web"}),
        (b"\x0a\x01a\x0a\x01b", {"text": "b"}),
        (b"\x0a\x02\xc3\xbc", {"text": "ü"}),
        (b"\x0a\x02a\xff", {"text": "a\ufffd"}),
        (b"\x0a\x80\x01" + b"x" * 128, {"text": "x" * 128}),
        (b"\x10\x00", {}),
        (b"\x10\xd2\x09", {"number": 1234}),
        (b"\x10" + b"\xff" * 9 + b"\x01", {"number": -1}),
        (b"\x10\x80\x80\x80\x80\x08", {"number": -(1 << 31)}),
        (b"\x48\x00", {"long": 0}),
        (b"\x48\x80\x80\x80\x80\x08", {"long": 1 << 31}),
        (b"\x48" + b"\xff" * 9 + b"\x01", {"long": -1}),
        (b"\x18\x01", {"flag": True}),
        (b"\x18\x00", {}),
        (b"\x80\x01\x00", {"kept": False}),
        (b"\x22\x00", {"message": {}}),
        (b"\x22\x03\x0a\x01a", {"message": {"text": "a"}}),
        (b"\x2a\x00\x2a\x02\x0a\x00", {"messages": [{}, {"text": ""}]}),
        (b"\x32\x00\x32\x01a", {"texts": ["", "a"]}),
        (b"\x3a\x06\x0a\x01a\x12\x01b\x3a\x05\x0a\x01c\x12\x00\x3a\x00", {"map": {"a": "b", "c": "", "": ""}}),
        (b"\x08\x01", {}),  # another wire type than the table's
        (b"\x98\x06\x01", {}),  # fields of number 99
        (b"\x99\x06" + bytes(8), {}),
        (b"\x9a\x06\x02ab", {}),
        (b"\x9d\x06" + bytes(4), {}),
    ],
    ids=repr,
)
def test_data_gives_the_values_of_its_json(data: bytes, values: dict[str, Any]) -> None:
    assert decode(data, TABLE) == {"absent": None, **values}


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",
        b"\x0a\x01",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x0a\x80",
        b"\x10",
        b"\x10\x80",
        b"\x10" + b"\x80" * 10 + b"\x01",
        b"\x80" * 11,
        b"\x22\x02\x0a\x01" + b"a" * 9,
        b"\x22\x01\x0a" + b"a" * 9,
        b"\x3a\x02\x0a\x01" + b"a" * 9,
        b"\x99\x06" + bytes(7),
        b"\x9d\x06" + bytes(3),
        b"\x0b\x0c",
        b"\x0e",
        b"\x0f",
    ],
    ids=repr,
)
def test_malformed_data_raises_the_documented_error(data: bytes) -> None:
    with pytest.raises(ProtobufError):
        decode(data, TABLE)


def test_equal_shared_messages_are_one_object() -> None:
    first, second = (decode(b"\x42\x03\x0a\x01" + letter, TABLE)["shared"] for letter in (b"a", b"a"))
    assert first is second
    assert decode(b"\x42\x03\x0a\x01b", TABLE)["shared"] == {"text": "b"}


def test_shared_messages_are_bounded() -> None:
    _name, _kind, (_table, known) = TABLE.fields[8 * 8 + 2]
    for number in range(3000):
        decode(b"\x42\x06\x0a\x04" + b"%04d" % number, TABLE)
        assert len(known) <= 1000
    long = b"\x0a\xad\x02" + b"x" * 301
    assert decode(b"\x42\xb0\x02" + long, TABLE)["shared"] == {"text": "x" * 301}
    assert long not in known


def test_unknown_fields_may_nest_without_bound() -> None:
    data = b""
    for _level in range(3000):
        size = len(data)
        data = b"\x9a\x06" + (bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14])) + data
    assert decode(data, TABLE) == {"absent": None}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "does not begin"),
        (b'{"kind":"Status"}', "does not begin"),
        (b"k8s\0", "is a '' of ''"),
        (b"k8s\0\x0a\x06\x0a\x02v1\x12\x00", "is a '' of 'v1'"),
        (b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod", "is a 'Pod' of 'v1'"),
        (b"k8s\0\x1a\x04gzip", "encoded as 'gzip'"),
    ],
)
def test_object_of_another_kind_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(ProtobufError, match=problem):
        decode_object(data)


def metadata_of_service(created: bytes) -> Any:
    """Return the decoded metadata of a Service with this creationTimestamp."""
    metadata = b"\x42" + bytes([len(created)]) + created
    raw = b"\x0a" + bytes([len(metadata)]) + metadata
    return decode_object(b"k8s\0\x0a\x0d\x0a\x02v1\x12\x07Service\x12" + bytes([len(raw)]) + raw)["metadata"]


@pytest.mark.parametrize(
    ("created", "metadata"),
    [
        (b"", {}),
        (b"\x08\x00", {"creationTimestamp": "1970-01-01T00:00:00Z"}),
        (b"\x08" + b"\xff" * 9 + b"\x01", {"creationTimestamp": "1969-12-31T23:59:59Z"}),
        (b"\x08\xff\x82\xd1\xff\xaf\x07", {"creationTimestamp": "9999-12-31T23:59:59Z"}),
    ],
    ids=repr,
)
def test_time_is_written_as_rfc_3339(created: bytes, metadata: dict[str, str]) -> None:
    assert metadata_of_service(created) == metadata


@pytest.mark.parametrize("seconds", [b"\x80\x83\xd1\xff\xaf\x07", b"\xff" * 8 + b"\x7f", b"\x80" * 9 + b"\x01"])
def test_time_outside_of_rfc_3339_is_refused(seconds: bytes) -> None:
    with pytest.raises(ProtobufError, match="expected a year from 1 to 9999"):
        metadata_of_service(b"\x08" + seconds)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_every_truncation_gives_a_value_or_the_error(event: Recorded) -> None:
    assert all(is_value_or_error(event.protobuf[:end]) for end in range(len(event.protobuf)))


@given(st.binary())
def test_any_bytes_give_a_value_or_the_error(data: bytes) -> None:
    assert is_value_or_error(data)
    assert is_value_or_error(data, lambda data: decode(data, TABLE))
    assert is_value_or_error(b"k8s\0" + data, decode_object)


@given(st.sampled_from(EVENTS), st.integers(0, 2000), st.binary(min_size=1, max_size=4))
def test_changed_bytes_give_a_value_or_the_error(event: Recorded, at: int, change: bytes) -> None:
    data = event.protobuf
    assert is_value_or_error(data[:at] + change + data[at + len(change) :])


def depth(table: Message) -> int:
    """Return the levels of messages in a table."""
    details = [details for _name, _kind, details in table.fields.values()]
    first = [each[0] if isinstance(each, tuple) and each and isinstance(each[0], Message) else each for each in details]
    return 1 + max((depth(each) for each in first if isinstance(each, Message)), default=0)


def test_tables_nest_less_than_ten_levels() -> None:
    assert max(map(depth, protobuf_objects._TABLES.values())) == 5
