# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stream of watch events, cut into single events: lines of JSON, or frames of protobuf with their length before them.

The API server chooses the format by the header Accept. An API server or relay without protobuf answers with JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from ...manifests.documents import decode
from .errors import ApiError, BrokenOffError

JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"

_CHUNK = 65536
_MOST_EVENT = 16 << 20  # etcd holds objects of 1.5 MiB
_LENGTH = 4  # bytes before each frame, big-endian


class RawEvent(NamedTuple):
    """Bytes of one watch event, and their format."""

    data: bytes
    is_protobuf: bool = False

    @property
    def is_empty(self) -> bool:
        """Tell whether this is no event: the begin of a stream, or an empty line."""
        return not (self.data if self.is_protobuf else self.data.strip())

    def decode(self) -> Any:
        """Return the event's type and object, in the form of JSON.

        Raises:
            ValueError: the data is malformed.
            ApiError: the decoder cannot be loaded.
        """
        return _protobuf_decoder()(self.data) if self.is_protobuf else decode(self.data.decode())


def _protobuf_decoder() -> Callable[[bytes], Any]:
    """Import the decoder with the first event: not before the first pass."""
    try:
        from .protobuf_objects import decode_event
    except OSError as error:  # no descriptor is free
        raise ApiError(f"the decoder of protobuf cannot be loaded: {error.strerror}") from None
    return decode_event


def raw_events(read: Callable[[int], bytes], is_protobuf: bool) -> Generator[RawEvent, None, None]:
    """Yield the events of a stream until its end.

    Args:
        read: waits for data, and returns at most that number of bytes, none at the end of the stream.
        is_protobuf: format of the stream.

    Raises:
        ApiError: an event is larger than 16 MiB, or the stream ends in the middle of an event.
    """
    for data in _frames(read) if is_protobuf else _lines(read):
        yield RawEvent(data, is_protobuf)


def _lines(read: Callable[[int], bytes]) -> Generator[bytes, None, None]:
    parts: list[bytes] = []
    size = 0
    while True:
        data = read(_CHUNK)
        if not data:
            break
        head, newline, rest = data.partition(b"\n")
        parts.append(head)
        size += len(head)
        _check_size(size)
        if not newline:
            continue
        yield b"".join(parts)
        *whole, last = rest.split(b"\n")
        yield from whole
        parts, size = [last], len(last)
    _check_end(size)


def _frames(read: Callable[[int], bytes]) -> Generator[bytes, None, None]:
    parts: list[bytes] = []
    size, needed = 0, _LENGTH  # bytes in parts; bytes until a frame may be complete
    while True:
        data = read(_CHUNK)
        if not data:
            break
        parts.append(data)
        size += len(data)
        if size < needed:
            continue
        joined, at, needed = b"".join(parts), 0, _LENGTH
        while size - at >= _LENGTH:
            length = int.from_bytes(joined[at : at + _LENGTH], "big")
            _check_size(length)
            if size - at < _LENGTH + length:
                needed = _LENGTH + length
                break
            yield joined[at + _LENGTH : at + _LENGTH + length]
            at += _LENGTH + length
        parts, size = [joined[at:]], size - at
    _check_end(size)


def _check_size(size: int) -> None:
    if size > _MOST_EVENT:
        raise ApiError(f"the API sends a watch event of more than {_MOST_EVENT >> 20} MiB")


def _check_end(unread: int) -> None:
    if unread:
        raise BrokenOffError("the API's stream was cut off in the middle of a watch event")
