# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of nftables as text, in one canonical form.

The text of a table is its body in nft's language, as ``nft --stateless list table`` prints it: without values of
counters and without expiry times. Chains, sets and objects are sorted by kind and name, and elements stand one a line
in their order, because the kernel lists them in the order of their creation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_COUNT = re.compile(r"\s*# count \d+\Z")  # newer releases print the number of elements behind the size
_ELEMENT = re.compile(r"""(?:[^,"{}]+|"[^"]*"|\{[^{}]*\})+""")
_WORD = r'(?:"[^"]*"|[^\s"]+)'
_ELEMENT_KEY = re.compile(rf"{_WORD}(?: [.|] {_WORD})*")
_NUMBER = re.compile(r"(\d+)")
_ELEMENTS = "elements = {"
_LAST = ("set", "map", "flowtable", "chain")  # kinds that can refer to objects stand behind them
COLLECTIONS = ("set", "map")


class TextTableKey(NamedTuple):
    """A table: family (``ip``, ``ip6``, ``inet``, ``arp``, ``bridge`` or ``netdev``) and name."""

    family: str
    name: str

    def __str__(self) -> str:
        """Return for example ``inet edge``, as nft's commands name the table."""
        return f"{self.family} {self.name}"


class Block(NamedTuple):
    """A chain with its rules, a set or map with its elements, or another object, which has no ``content``."""

    kind: str
    name: str
    header: tuple[str, ...]
    content: tuple[str, ...]

    @property
    def is_dynamic(self) -> bool:
        """Tell whether packets add elements."""
        return any(line.startswith("flags ") and "dynamic" in line[6:].split(",") for line in self.header)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the canonical text."""
        yield f"{self.kind} {self.name} {{"
        yield from (f"  {line}" for line in self.header)
        if self.kind in COLLECTIONS and self.content:
            yield f"  {_ELEMENTS}"
            yield from (f"    {element}," for element in self.content)
            yield "  }"
        else:
            yield from (f"  {line}" for line in self.content)
        yield "}"


class Table(NamedTuple):
    """A table's options (flags, comment), and its blocks by kind and name."""

    options: tuple[str, ...]
    blocks: dict[tuple[str, str], Block]

    @property
    def flags(self) -> list[str]:
        """Flags of the table."""
        return [flag for line in self.options if line.startswith("flags ") for flag in line[6:].split(",")]

    def text(self) -> str:
        """Return the canonical text."""
        lines = [*self.options]
        for block in sorted(self.blocks.values(), key=_rank):
            lines += block.lines()
        return "".join(f"{line}\n" for line in lines)


def listed(listing: str) -> Table:
    """Return the table of which ``nft list table`` prints this listing."""
    lines = [line for line in _whole_lines(listing) if not line.startswith("#")]
    return _parsed(line[1:] for line in lines if line.startswith("\t"))


def parsed(text: str) -> Table:
    """Return the table with this canonical text."""
    return _parsed(_whole_lines(text))


def element_key(element: str) -> str:
    """Return an element without its options, and without the value that a map has for it."""
    match = _ELEMENT_KEY.match(element)
    return match.group() if match else element


def settled(live: Table, wanted: Table) -> Table:
    """Return the live table as it is to be compared with the wanted one.

    Packets add elements to a dynamic set, and renew the timeouts of its elements. So of its elements only those count
    that the wanted set has, as the wanted set has them.
    """
    blocks = {}
    for key, block in live.blocks.items():
        other = wanted.blocks.get(key)
        if other is not None and block.is_dynamic and block.header == other.header:
            keys = set(map(element_key, block.content))
            block = block._replace(content=tuple(each for each in other.content if element_key(each) in keys))
        blocks[key] = block
    return live._replace(blocks=blocks)


def same_text(live: str, wanted: str) -> bool:
    """Tell whether a live table equals the desired one, apart from elements that packets added."""
    if live == wanted:
        return True
    table = parsed(wanted)
    return settled(parsed(live), table).text() == table.text()


def _rank(block: Block) -> tuple[int, str, str]:
    return _LAST.index(block.kind) + 1 if block.kind in _LAST else 0, block.kind, block.name


def _parsed(lines: Iterable[str]) -> Table:
    options: list[str] = []
    blocks: dict[tuple[str, str], Block] = {}
    head = ""
    body: list[str] = []
    for line in lines:
        if head and line == "}":
            block = _block(head, body)
            blocks[block.kind, block.name] = block
            head, body = "", []
        elif head:
            body.append(line.strip())
        elif line.endswith(" {"):
            head = line[:-2]
        elif line:
            options.append(line)
    return Table(tuple(options), blocks)


def _block(head: str, body: list[str]) -> Block:
    kind, _blank, name = head.rpartition(" ")
    if kind == "chain":
        split = next((at for at, line in enumerate(body) if not line.startswith(('comment "', "type "))), len(body))
        return Block(kind, name, tuple(body[:split]), tuple(body[split:]))
    if kind not in COLLECTIONS:
        return Block(kind, name, tuple(body), ())
    split = next((at for at, line in enumerate(body) if line.startswith(_ELEMENTS)), len(body))
    elements = "\n".join(body[split:])[len(_ELEMENTS) :].rpartition("}")[0]
    texts = [text for text in (each.strip() for each in _ELEMENT.findall(elements)) if text]
    header = tuple(_COUNT.sub("", line) for line in body[:split])
    return Block(kind, name, header, tuple(sorted(texts, key=_natural)))


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts numbers within texts by their value."""
    return [(1, int(part), "") if index % 2 else (0, 0, part) for index, part in enumerate(_NUMBER.split(text))]


def _whole_lines(text: str) -> Iterator[str]:
    """Yield the lines; a line end within quotes does not end a line."""
    held: list[str] = []
    is_open = False
    for line in text.split("\n"):
        held.append(line)
        is_open ^= line.count('"') % 2 == 1
        if not is_open:
            yield "\n".join(held)
            held = []
    if held:
        yield "\n".join(held)
