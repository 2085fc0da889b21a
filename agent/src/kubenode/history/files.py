# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of the ring as bytes: logs that grow, sealed logs, and checkpoints of the whole desired state.

Each begins with a line that names the format. A log has one line for each write, with its CRC-32: a line that was cut
off is noticed, and ends the log. A log of full size is sealed, which compresses it. A checkpoint is the state before
the record of its number. The checksum of the compression protects both, and a CRC-32 their first line.
"""

from __future__ import annotations

import bz2
import json
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from ..engine.digest import blake2b
from ..engine.model import State
from ..engine.model.ipvs import VirtualServerKey
from . import items, records
from .items import DecodeError, number
from .records import Line

LOG, SEALED, CHECKPOINT = "log", "sealed", "state"
_FORMAT = b"kubenode-history 2 "
LOG_HEAD = _FORMAT + b"log\n"
_LARGEST = {SEALED: 1 << 26, CHECKPOINT: 1 << 27}  # bytes of a file before compression
_LONGEST_HEAD = 1000
_LEVEL = 6
_CHUNK = 4096  # items that are spelled before they are compressed
_DIGEST_BYTES = 32

# Frequent parts of a log, which a sealed log has as one byte each: the first as 0x80, the next as 0x81. The lines are
# ASCII, so these bytes are free. bzip2 sorts long repetitions slowly: without this it takes four times as long.
_FRAGMENTS = (
    b',"Wanted",[[["',
    b',"Passed",["event",false,0.',
    b"],[],[],null]],[",
    b'],null]],[],["EndpointSlice ',
    b'"],[]]],[',
    b'real_server",[["tcp","',
    b'real_server",[["udp","',
    b'member",["',
    b'nft_element",[[["ip","',
    b'],null],["',
    b": weight 1 masquerade -> weight 0 masquerade",
    b": weight 0 masquerade -> weight 1 masquerade",
    b',"masquerade",0,0,"ipip",0,0]',
    b"masquerade",
    b"weight ",
    b" -> ",
    b',4],"',
    b',6],"',
)

Names = dict[VirtualServerKey, str]


class Span(NamedTuple):
    """Numbers of the first and the last record, and the earliest and the latest moment."""

    first: int
    last: int
    since: int
    until: int


class Checkpoint(NamedTuple):
    """Head of a checkpoint: number of the next record, moment, number of items, digest of its lines in any order."""

    number: int
    moment: int
    items: int
    digest: str


class Log(NamedTuple):
    """Content of a log: its records, the length of its readable part, and whether lines behind that are damaged."""

    lines: list[Line]
    length: int
    is_damaged: bool


def log_line(line: bytes) -> bytes:
    """Return a line of records as a log has it."""
    return b"%08x %b\n" % (zlib.crc32(line), line)


def parse_log(data: bytes) -> Log:
    """Return the content of a log. A line without an end is no damage: a crash cut it off.

    Raises:
        ValueError: it is none.
    """
    if not data.startswith(LOG_HEAD):
        if LOG_HEAD.startswith(data):
            return Log([], 0, False)  # cut off at its very beginning
        raise DecodeError("it is no log of this release")
    lines: list[Line] = []
    at = len(LOG_HEAD)
    is_damaged = False
    while True:
        end = data.find(b"\n", at)
        if end < 0:
            return Log(lines, at, is_damaged)
        more = _log_records(data[at:end])
        if not more or (lines and more[0].number <= lines[-1].number):
            return Log(lines, at, True)
        lines += more
        at = end + 1


def _log_records(line: bytes) -> list[Line]:
    content = line[9:]
    if line[:9] != b"%08x " % zlib.crc32(content):
        return []
    try:
        return records.decode(content)
    except ValueError:
        return []


def seal(data: bytes) -> bytes:
    """Return the sealed form of a log, up to the first damaged line.

    It reads numbers and moments of each line only: the agent, which wrote the log, does this again and again.

    Raises:
        ValueError: the log has no line.
    """
    lines: list[bytes] = []
    spans: list[Span] = []
    last = latest = 0
    for text in data[len(LOG_HEAD) : data.rfind(b"\n")].split(b"\n"):
        if text[:9] != b"%08x " % zlib.crc32(text[9:]):
            break
        *fields, rest = text[10:].split(b",", 4)
        first, further, since, length = map(int, fields)
        lines.append(b"[%d,%d,%d,%d,%b\n" % (first - last, further, since - latest, length, rest))  # small numbers
        last, latest = first + further, since + length
        spans.append(Span(first, last, since, latest))
    if not lines:
        raise DecodeError("it has no record")
    span = Span(spans[0].first, last, min(each.since for each in spans), max(each.until for each in spans))
    # bzip2 needs less than half of zlib's room, because it sees all lines at once.
    return _head(SEALED, span) + bz2.compress(_shortened(b"".join(lines)))


def _shortened(text: bytes) -> bytes:
    for code, fragment in enumerate(_FRAGMENTS, 0x80):
        text = text.replace(fragment, b"%c" % code)
    return text


def _lengthened(text: bytes) -> bytes:
    for code, fragment in reversed(list(enumerate(_FRAGMENTS, 0x80))):
        if len(text) + text.count(b"%c" % code) * len(fragment) > _LARGEST[SEALED]:
            raise DecodeError("it is too long")
        text = text.replace(b"%c" % code, fragment)
    return text


def span_of(data: bytes) -> Span:
    """Return the span of a sealed log, from its beginning.

    Raises:
        ValueError: it is none.
    """
    return Span(*map(number, _fields(data, SEALED, 4)[0]))


def unseal(data: bytes) -> list[Line]:
    """Return the lines of a sealed log.

    Raises:
        ValueError: it is damaged, or none.
    """
    raw, body = _fields(data, SEALED, 4)
    span = Span(*map(number, raw))
    lines: list[Line] = []
    last = latest = 0
    for text in _lengthened(_inflate(body, SEALED, bz2.BZ2Decompressor())).splitlines():
        more = records.decode(text, last, latest)
        last, latest = more[-1].number, max(each.moment for each in more)
        lines += more
    if not lines or (lines[0].number, lines[-1].number) != (span.first, span.last):
        raise DecodeError("its records are not those that its first line names")
    return lines


def checkpoint(
    number_: int, moment: int, state: State, names: Names, between: Callable[[], object] = lambda: None
) -> tuple[Checkpoint, bytes]:
    """Return a checkpoint of a state with the names of its virtual servers, and its bytes.

    The digest is the sum of the lines' digests, which is the same in any order. To sort them, all would be in memory
    at once: 10 MiB for 10,000 Services. ``between`` is called again and again.
    """
    number_of_lines, total, deflate = 0, 0, zlib.compressobj(_LEVEL)
    parts: list[bytes] = []
    lines = _lines(state, names)
    while chunk := list(islice(lines, _CHUNK)):
        number_of_lines += len(chunk)
        total += sum(int.from_bytes(blake2b(line, digest_size=_DIGEST_BYTES).digest(), "big") for line in chunk)
        parts.append(deflate.compress(b"".join(chunk)))
        between()
    parts.append(deflate.flush())
    digest = (total % (1 << 8 * _DIGEST_BYTES)).to_bytes(_DIGEST_BYTES, "big").hex()
    head = Checkpoint(number_, moment, number_of_lines, digest)
    return head, b"".join([_head(CHECKPOINT, head), *parts])


def _lines(state: State, names: Names) -> Iterator[bytes]:
    for kind, values in state.items():
        for key, value in values.items():
            yield _spelled(items.encode(kind, key, value))
    for name in names.items():
        yield _spelled(name)


def _spelled(value: Any) -> bytes:
    return items.to_json(value).encode() + b"\n"


def head_of(data: bytes) -> Checkpoint:
    """Return the head of a checkpoint, from its beginning.

    Raises:
        ValueError: it is none.
    """
    fields, _body = _fields(data, CHECKPOINT, 4)
    return Checkpoint(number(fields[0]), number(fields[1]), number(fields[2]), items.text(fields[3]))


def parse_checkpoint(data: bytes) -> tuple[Checkpoint, State, Names]:
    """Return a checkpoint with its state and names.

    Raises:
        ValueError: it is damaged, or none.
    """
    head = head_of(data)
    lines = _inflate(_fields(data, CHECKPOINT, 4)[1], CHECKPOINT, zlib.decompressobj()).splitlines()
    if len(lines) != head.items:
        raise DecodeError("it has not the number of items that its first line names")
    state: State = {}
    names: Names = {}
    for line in lines:
        try:
            raw = json.loads(line)
        except RecursionError:
            raise DecodeError("expected an item") from None
        if type(raw) is list and len(raw) == 2:
            name = records.NAME(raw)
            names[name.server] = name.port
        else:
            item = items.decode(raw)
            if item.value is None:
                raise DecodeError("expected an item with a value")
            state.setdefault(item.kind, {})[item.key] = item.value
    return head, state, names


def _head(form: str, fields: Any) -> bytes:
    content = items.to_json(fields).encode()
    return b"%b%b %08x %b\n" % (_FORMAT, form.encode(), zlib.crc32(content), content)


def _fields(data: bytes, form: str, count: int) -> tuple[list[Any], bytes]:
    start = _FORMAT + form.encode() + b" "
    end = data.find(b"\n", 0, _LONGEST_HEAD)
    if not data.startswith(start) or end < 0:
        raise DecodeError(f"it is no {'sealed log' if form == SEALED else 'checkpoint'} of this release")
    content = data[len(start) + 9 : end]
    fields = json.loads(content) if data[len(start) : len(start) + 9] == b"%08x " % zlib.crc32(content) else None
    if type(fields) is not list or len(fields) != count:
        raise DecodeError("its first line is damaged")
    return fields, data[end + 1 :]


def _inflate(body: bytes, form: str, inflate: Any) -> bytes:
    try:
        lines: bytes = inflate.decompress(body, _LARGEST[form])
    except (OSError, zlib.error):
        raise DecodeError("it is damaged") from None
    if not inflate.eof or inflate.unused_data:
        raise DecodeError("it is cut off or too long")
    return lines
