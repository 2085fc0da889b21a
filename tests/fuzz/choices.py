# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choices of a generator, read from the fuzzer's bytes.

Each choice consumes some bytes, so a mutation changes a single choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")

# Values that no field expects, although JSON or YAML allows them anywhere.
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 80, 65535, 65536, 1 << 31, 1 << 63, 1 << 64, 10**400, 1 << 20000, 0.5, -0.0, 1e308,
    float("nan"), float("inf"), "", " ", "None", "0", "-1", "9" * 5000, "x" * 70000, "\ud800", "\0", "a/b", "../a",
    "\n", "::ffff:192.0.2.1", "010.0.0.1", "0.0.0.0", "::", "127.0.0.1", "224.0.0.1", "255.255.255.255", "fe80::1%eth0",
    "10.0.0.0/8", "0.0.0.0/0", "::/0", "10.0.0.1/33", "\u0661", "TCP", "IPv4", "IPv6", "Local", "Cluster", "wrr",
    [], [None], [[]], [{}], [""], ["x" * 5000], {}, {"": ""}, {"a": None}, {1: 2}, {None: None}, b"bytes", (1, 2),
    {"name": {}},
)  # fmt: skip


class Choices:
    """Choices from ``data``. After its end, each is the first choice."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        """Return the number of bytes that are left."""
        return len(self._data) - self._at

    def byte(self) -> int:
        """Return the next byte."""
        at = self._at
        if at >= len(self._data):
            return 0
        self._at = at + 1
        return self._data[at]

    def below(self, end: int) -> int:
        """Return a number from 0 to ``end`` - 1."""
        number = self.byte()
        if end > 256:
            number = number << 8 | self.byte()
        return number % end

    def pick(self, values: Sequence[T]) -> T:
        """Return one of the values."""
        return values[self.below(len(values))]

    def some(self, values: Sequence[T], most: int) -> list[T]:
        """Return up to ``most`` of the values, in any order and with repetitions."""
        return [self.pick(values) for _ in range(self.below(most + 1))]

    def chance(self, one_of: int) -> bool:
        """Return True for one of ``one_of`` byte values."""
        return self.byte() % one_of == one_of - 1

    def odd(self) -> Any:
        """Return a value that no field expects, or text made of input bytes."""
        number = self.below(len(ODD) + 8)
        return ODD[number] if number < len(ODD) else self.text()

    def text(self) -> str:
        """Return text of up to 31 characters."""
        return self.bytes(self.byte() & 31).decode("latin-1")

    def bytes(self, size: int) -> bytes:
        """Return the next bytes."""
        data = self._data[self._at : self._at + size]
        self._at += len(data)
        return data

    def rest(self) -> bytes:
        """Return all bytes that are left."""
        return self.bytes(self.left)


def wreck(choices: Choices, value: Any, depth: int = 0) -> Any:
    """Return a copy of a document with one value replaced, removed or added."""
    if isinstance(value, dict) and value and depth < 8 and not choices.chance(8):
        key = choices.pick(list(value))
        changed = dict(value)
        kind = choices.below(8)
        if kind == 7:
            del changed[key]
        elif kind == 6:
            changed[choices.text()] = choices.odd()
        else:
            changed[key] = wreck(choices, value[key], depth + 1)
        return changed
    if isinstance(value, list) and value and depth < 8 and not choices.chance(8):
        index = choices.below(len(value))
        if choices.chance(6):
            return value + [value[index]] * choices.below(4)
        return [*value[:index], wreck(choices, value[index], depth + 1), *value[index + 1 :]]
    return choices.odd()
