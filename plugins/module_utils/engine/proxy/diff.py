# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a node that was read as a whole deserves a plan, found in slices between which beliefs and wishes may change.

A large node is nearly always as it is believed and wanted to be: to find the few items that are not takes longer than to plan them.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator
from typing import Any, NamedTuple

from ..engine.model import ReadState, State

_A_SLICE = 4096  # items: some milliseconds' worth on a slow node


class Differences(NamedTuple):
    """``news``: what was read, where that is not what was believed; None if there is nothing. ``odd``: what was not read as it is wanted."""

    news: State
    odd: dict[str, set[Any]]


def differing(read: State, believed: ReadState, wanted: ReadState) -> Generator[None, None, Differences]:
    """Compare every item, each once; of ``read`` nothing is left.

    An item that changes after its turn is not looked at again: whoever changes it makes sure that it is as wanted, and that it is believed.
    """
    found = Differences({}, {})
    for kind in [*{**read, **believed, **wanted}]:
        has, thinks, wants = read.get(kind, {}), believed.get(kind, {}), wanted.get(kind, {})
        news = found.news[kind] = {}
        odd = found.odd[kind] = set()
        for part in _parts(thinks):
            news.update(dict.fromkeys(key for key in part if key not in has))
            yield
        for part in _parts(wants):
            odd.update(key for key in part if key not in has)
            yield
        while has:
            for _item in range(min(len(has), _A_SLICE)):
                key, value = has.popitem()  # to give all of it back at the end would be a slice of its own
                if thinks.get(key) != value:
                    news[key] = value
                if wants.get(key) != value:
                    odd.add(key)
            yield
    return found


def _parts(keys: Collection[Any]) -> Iterator[list[Any]]:
    present = list(keys)
    return (present[start : start + _A_SLICE] for start in range(0, len(present), _A_SLICE))
