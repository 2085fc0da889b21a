# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the items that need a plan after a full read, in slices.

Between two slices the believed and the desired state may change. A large node is nearly always in the desired
state, so comparing is cheaper than planning every item.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator
from typing import Any, NamedTuple

from ..model import ReadState, State

_A_SLICE = 4096  # items: some milliseconds on a slow node


class Differences(NamedTuple):
    """Differences that a full read has found.

    ``news`` are the items where the read state differs from the believed state. ``odd`` are the keys that differ from
    the desired state.
    """

    news: State
    odd: dict[str, set[Any]]


def differing(read: State, believed: ReadState, wanted: ReadState) -> Generator[None, None, Differences]:
    """Compare every item, each once. Consumes ``read``, but for what it shares with ``believed``: that has no news.

    An item that changes after its turn is not compared again. The caller that changes it also updates the desired and
    the believed state.
    """
    differences = Differences({}, {})
    for kind in [*{**read, **believed, **wanted}]:
        has, thinks, wants = read.get(kind, {}), believed.get(kind, {}), wanted.get(kind, {})
        news = differences.news[kind] = {}
        odd = differences.odd[kind] = set()
        if has is thinks:
            for part in _parts({**has, **wants}):
                odd.update(key for key in part if has.get(key) != wants.get(key))
                yield
            continue
        for part in _parts(thinks):
            news.update(dict.fromkeys(key for key in part if key not in has))
            yield
        for part in _parts(wants):
            odd.update(key for key in part if key not in has)
            yield
        while has:
            for _item in range(min(len(has), _A_SLICE)):
                key, value = has.popitem()  # freeing the whole dictionary at the end would take a slice of its own
                if thinks.get(key) != value:
                    news[key] = value
                if wants.get(key) != value:
                    odd.add(key)
            yield
    return differences


def _parts(keys: Collection[Any]) -> Iterator[list[Any]]:
    present = list(keys)
    return (present[start : start + _A_SLICE] for start in range(0, len(present), _A_SLICE))
