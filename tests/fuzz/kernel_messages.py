# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kernel that answers with messages of a test, and the messages as one input of a fuzzer."""

from __future__ import annotations

from collections.abc import Iterator

from .choices import Choices

_ANSWERS = {4: 1, 8: 5, 11: 9}  # IPVS command of a request -> command in its answers


class Kernel:
    """Kernel that answers every request with the same messages.

    A dump has the messages of the requested kind.
    """

    def __init__(self, payloads: list[bytes]) -> None:
        self.payloads = payloads

    def message(self, command: int, *_rest: object) -> bytes:
        return bytes((_ANSWERS.get(command, 0),))

    def dump(self, asked: bytes) -> list[bytes]:
        if len(asked) > 1:
            return self.payloads
        return [payload for payload in self.payloads if payload[:1] == asked]

    def dumping(self, asked: bytes) -> Iterator[list[bytes]]:
        for payload in self.dump(asked):
            yield [payload]

    def query(self, _asked: bytes) -> list[bytes]:
        return self.payloads[:1]

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *_error: object) -> None:
        return None


def payloads(data: bytes) -> list[bytes]:
    """Split bytes into payloads, each preceded by its size."""
    choices = Choices(data)
    split = []
    while choices.left:
        split.append(choices.bytes(choices.byte() << 1 | choices.byte() & 1))
    return split


def packed(split: list[bytes]) -> bytes:
    """Return payloads as one input, which ``payloads`` splits."""
    return b"".join(bytes((len(payload) >> 1, len(payload) & 1)) + payload for payload in split)
