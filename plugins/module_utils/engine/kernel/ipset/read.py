# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From ``ipset save`` to sets and members. A set may have a hundred thousand: no work is done line by line where it can be helped."""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterable
from itertools import repeat
from typing import Any

from ...model.ipset import IPSet, MemberKey
from ..command import run
from . import dump
from .tool import query

_FLAGS = frozenset(("counters", "comment", "skbinfo", "forceadd"))
_CREATE = "create "


def read(names: Collection[str] | None = None, members: bool = True) -> dict[str, dict[Any, Any]]:
    """Return the kinds ``set`` and, unless told not to, ``member`` of all sets or of those named (absent ones are left out).

    Raises:
        MissingError: no ipset, no kernel support, no right.
    """
    if names is not None and members:
        try:
            return dump.read(names)
        except dump.UnfamiliarError:
            pass
    only = next(iter(names)) if names is not None and len(names) == 1 else None
    what = ["save"] if members else ["list", "-t"]
    output = query(what if only is None else [*what, only])
    if not members:
        return {"set": {name: header for name, header in _listed(output) if names is None or name in names}}
    sets: dict[Any, Any] = {}
    found: dict[Any, Any] = {}
    collecting = gc.isenabled()
    gc.disable()  # nothing here is garbage, and looking for it again and again takes half of the time
    try:
        for block in _blocks(output):
            head, _newline, body = block.partition("\n")
            name, header = _header(head)
            if names is None or name in names:
                sets[name] = header
                found.update(_members(name, body))
    finally:
        if collecting:
            gc.enable()
    return {"set": sets, "member": found}


def version() -> str:
    """Return what the tool says about its version, for example ``ipset v7.17, protocol version: 7``.

    Raises:
        MissingError: there is no ipset.
    """
    return run(["ipset", "--version"]).output.partition("\n")[0]


def _blocks(output: str) -> Iterable[str]:
    """Yield one block per set, without ``create`` in front."""
    if not output.startswith(_CREATE):
        return []
    return output[len(_CREATE) :].rstrip("\n").split("\n" + _CREATE)


def _header(text: str) -> tuple[str, IPSet]:
    """Take ``NAME TYPE OPTIONS`` apart; a name made by other tools may have blanks in it."""
    words = text.split(" ")
    at = next((index for index, word in enumerate(words[1:], 1) if word.startswith(("hash:", "bitmap:", "list:"))), 1)
    return " ".join(words[:at]), IPSet(words[at], _options(words[at + 1 :]))


def _options(words: list[str]) -> tuple[tuple[str, str], ...]:
    found = []
    left = iter(words)
    for word in left:
        found.append((word, "" if word in _FLAGS else next(left, "")))
    return tuple(found)


def _members(name: str, body: str) -> Iterable[tuple[MemberKey, str]]:
    if not body:
        return ()
    prefix = f"add {name} "
    texts = body[len(prefix) :].split("\n" + prefix)
    if body.count(" ") == len(texts) * prefix.count(" "):  # not one member has an option
        return zip(_keys(name, texts), repeat(""))
    pairs = [text.partition(" ") for text in texts]
    return zip(_keys(name, (pair[0] for pair in pairs)), (pair[2] for pair in pairs))


def _keys(name: str, members: Iterable[str]) -> Iterable[MemberKey]:
    """Make the keys without a Python call for each."""
    return map(tuple.__new__, repeat(MemberKey), zip(repeat(name), members))


def _listed(output: str) -> Iterable[tuple[str, IPSet]]:
    """Yield name and header of each block of ``ipset list -t``."""
    for block in output.split("\n\n"):
        fields = dict(line.partition(": ")[::2] for line in block.splitlines())
        if "Name" in fields:
            yield fields["Name"], IPSet(fields["Type"], _options(fields.get("Header", "").split()))
