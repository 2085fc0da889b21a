# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Members of a set as a task or a file spells them, with their positions. There may be hundreds of thousands."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

from ..engine.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Callable

# A file without any of these holds one member a line and nothing else, so no line needs work of its own.
_UNTIDY = tuple(sign.encode() for sign in ("#", '"', "  ", "\n\n", " \n", "\n ", *"\t\r\x0b\x0c\x1c\x1d\x1e\x1f"))


class Lines:
    """Members with their options, one to a line of ``text``.

    ``option_path(index)`` names a member in errors: by its option path, or by its file and line.
    """

    def __init__(self, text: bytes, option_path: Callable[[int], str]) -> None:
        self._text = text
        self.option_path = option_path

    @classmethod
    def of(cls, texts: Iterable[str], option_path: Callable[[int], str]) -> Lines:
        """Return Lines of a list of texts."""
        return cls(encoded("".join(f"{text}\n" for text in texts)), option_path)

    def __len__(self) -> int:
        return self._text.count(b"\n")

    def __iter__(self) -> BytesIO:
        """Yield each line with its newline; only one line at a time is in memory."""
        return BytesIO(self._text)

    @property
    def texts(self) -> list[str]:
        """All members."""
        return decoded(self._text).split("\n")[:-1]

    def called(self, index: int) -> str:
        """Return a member for an error: its position and its text."""
        return f"{self.option_path(index)} ({self.texts[index]})"


def encoded(text: str) -> bytes:
    """Return text as bytes."""
    return text.encode("utf-8", "surrogateescape")


def decoded(raw: bytes) -> str:
    """Return bytes as text; :func:`encoded` restores bytes that are not UTF-8."""
    return raw.decode("utf-8", "surrogateescape")


def inline(option_path: str, option: str, given: Iterable[str]) -> Lines:
    """Return the members in an option.

    Raises:
        InputError: a member is empty or has more than one line.
    """
    texts = []
    for index, text in enumerate(given):
        if not text.strip() or "\n" in text.strip():
            raise InputError(f"{option_path}.{option}[{index}]", "text", text, "a member in the syntax of ipset add")
        texts.append(_spaced(text.strip()))
    return Lines.of(texts, lambda index: f"{option_path}.{option}[{index}]")


def from_file(option_path: str, path: str) -> Lines:
    """Return the members in a file: one a line; ``#`` begins a comment, and empty lines are skipped.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as error:
        raise InputError(option_path, "src", path, f"a file that can be read ({error.strerror})") from error
    if text and not text.endswith(b"\n"):
        text += b"\n"
    if text.isascii() and text[:1] not in (b" ", b"\n") and not any(sign in text for sign in _UNTIDY):
        return Lines(text, lambda index: f"{path}:{index + 1}")
    members = map(_uncommented, decoded(text).split("\n"))
    kept = [(number, _spaced(member)) for number, member in enumerate(members, 1) if member]
    return Lines.of([member for _number, member in kept], lambda index: f"{path}:{kept[index][0]}")


def _uncommented(line: str) -> str:
    """Return a line without its comment.

    A ``#`` begins a comment at the start of the line and after a blank, but not within quotes.
    """
    if "#" not in line:
        return line.strip()
    quoted, before = False, " "
    for index, char in enumerate(line):
        if char == '"':
            quoted = not quoted
        elif char == "#" and not quoted and before.isspace():
            return line[:index].strip()
        before = char
    return line.strip()


def _spaced(text: str) -> str:
    """Return a member with single spaces between its words; a member with quotes stays as it is."""
    return text if '"' in text else " ".join(text.split())
