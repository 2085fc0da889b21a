# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse ``ipset save`` into sets and members.

A set may have a hundred thousand members, so the code avoids work for each line.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Iterator
from io import BytesIO
from itertools import islice, repeat
from operator import itemgetter
from typing import Any, NamedTuple

from ...model.ipset import IPSet, MemberKey
from ..command import run
from ..decoding import decoding
from .forceadd import forced
from .tool import query

_FLAGS = frozenset(("counters", "comment", "skbinfo", "forceadd"))
_CREATE = b"create "
_PRINTED = "what ipset prints of the kernel's sets"


class Saved(NamedTuple):
    """Set as ``ipset save`` prints it: its header, and the range of the output that holds its members' lines.

    ``start`` is the end of the header's line, ``end`` that of the set's last line.
    """

    name: str
    header: IPSet
    output: bytes = b""
    start: int = 0
    end: int = 0

    def lines(self) -> Iterator[bytes]:
        """Yield the line of each member with its options; no line is kept in memory."""
        text = BytesIO(self.output)
        text.seek(self.start + 1)
        without = itemgetter(slice(len(self._before()) - 1, None))
        return map(without, islice(text, self.output.count(b"\n", self.start, self.end)))

    def members(self) -> list[str]:
        """Return the members with their options, in the set's order."""
        return _text(self.output[self.start : self.end]).split(_text(self._before()))[1:]

    def bare(self) -> bool:
        """Tell whether no member has an option."""
        blanks, lines = (self.output.count(sign, self.start, self.end) for sign in (b" ", b"\n"))
        return blanks == lines * self._before().count(b" ")

    def _before(self) -> bytes:
        """Return the text between a member and the line before it."""
        return f"\nadd {self.name} ".encode("utf-8", "surrogateescape")


def read(
    names: Collection[str] | None = None, members: bool = True, use: Callable[[bytes], None] | None = None
) -> dict[str, dict[Any, Any]]:
    """Return the kinds ``set`` and, with ``members``, ``member`` of all sets or of those in ``names``.

    Absent sets are left out. ``use`` gets the kernel's bytes of each set, and nothing of one that only the tool reads.

    Raises:
        MissingError: no ipset, no kernel support, no right.
    """
    if names is not None and members:
        from . import dump

        try:
            return dump.read(names, use)
        except dump.UnfamiliarError:
            pass
    items: dict[Any, Any]
    if not members:
        output = query(["list", "-t", *_only(names)])
        with decoding(_PRINTED):
            items = {name: header for name, header in _listed(_text(output)) if names is None or name in names}
        return {"set": _with_forceadd(items)}
    saved = read_saved(names)
    items = {}
    collecting = gc.isenabled()
    gc.disable()  # no garbage arises here, and collections take half of the time
    try:
        for one in saved.values():
            items.update(_members(one))
    finally:
        if collecting:
            gc.enable()
    return {"set": {name: one.header for name, one in saved.items()}, "member": items}


def read_saved(names: Collection[str] | None = None) -> dict[str, Saved]:
    """Return all sets, or the named ones, as ``ipset save`` prints them, without parsing their members.

    Raises:
        MissingError: no ipset, no kernel support, no right.
    """
    sets = {}
    output = query(["save", *_only(names)])
    with decoding(_PRINTED):
        for head, start, end in _blocks(output):
            name, header = _header(head)
            if names is None or name in names:
                sets[name] = Saved(name, header, output, start, end)
    headers = _with_forceadd({name: saved.header for name, saved in sets.items()})
    return {name: saved._replace(header=headers[name]) for name, saved in sets.items()}


def _with_forceadd(headers: dict[str, IPSet]) -> dict[str, IPSet]:
    """Add the one option to headers that the tool does not print."""
    names = forced() if headers else ()
    return {
        name: IPSet(header.type, (*header.options, ("forceadd", ""))) if name in names else header
        for name, header in headers.items()
    }


def _only(names: Collection[str] | None) -> list[str]:
    """Return the argument that restricts ipset to one set; it takes no more than one."""
    return list(names) if names is not None and len(names) == 1 else []


def version() -> str:
    """Return the tool's version line, for example ``ipset v7.17, protocol version: 7``.

    Raises:
        MissingError: there is no ipset.
    """
    return run(["ipset", "--version"]).output.partition("\n")[0]


def _blocks(output: bytes) -> Iterator[tuple[str, int, int]]:
    """Yield each set's first line without ``create``, the end of that line, and the end of the set's last line."""
    start = 0 if output.startswith(_CREATE) else -1
    while start >= 0:
        next_block = output.find(b"\n" + _CREATE, start)
        end = len(output) - output.endswith(b"\n") if next_block < 0 else next_block
        head = output.find(b"\n", start, end)
        head = end if head < 0 else head
        yield _text(output[start + len(_CREATE) : head]), head, end
        start = -1 if next_block < 0 else next_block + 1


def _header(text: str) -> tuple[str, IPSet]:
    """Parse ``NAME TYPE OPTIONS``; a name that another tool made may contain blanks."""
    words = text.split(" ")
    at = next((index for index, word in enumerate(words[1:], 1) if word.startswith(("hash:", "bitmap:", "list:"))), 1)
    return " ".join(words[:at]), IPSet(words[at], _options(words[at + 1 :]))


def _options(words: list[str]) -> tuple[tuple[str, str], ...]:
    options = []
    left = iter(words)
    for word in left:
        options.append((word, "" if word in _FLAGS else next(left, "")))
    return tuple(options)


def _members(saved: Saved) -> Iterable[tuple[MemberKey, str]]:
    texts = saved.members()
    if saved.bare():
        return zip(_keys(saved.name, texts), repeat(""))
    pairs = [text.partition(" ") for text in texts]
    return zip(_keys(saved.name, (pair[0] for pair in pairs)), (pair[2] for pair in pairs))


def _keys(name: str, members: Iterable[str]) -> Iterable[MemberKey]:
    """Create the keys without a Python call for each."""
    return map(tuple.__new__, repeat(MemberKey), zip(repeat(name), members))


def _listed(output: str) -> Iterable[tuple[str, IPSet]]:
    """Yield name and header of each block of ``ipset list -t``."""
    for block in output.split("\n\n"):
        fields = dict(line.partition(": ")[::2] for line in block.splitlines())
        if "Name" in fields:
            yield fields["Name"], IPSet(fields["Type"], _options(fields.get("Header", "").split()))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
