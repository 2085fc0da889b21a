# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of the node as the reconciler uses them, and the time spent writing each."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from typing import Any, Callable, Protocol

from ...engine.model import ReadState, State
from ...engine.plan import Step

Apply = Callable[[list[Step], bool], Any]  # steps of one table, and whether to go on after a failure


class Tables(Protocol):
    """Tables of a node; :class:`~..engine.proxy.node.Node` is the real one."""

    @property
    def tables(self) -> Mapping[str, Apply]:
        """Return ``apply`` of each table."""

    def reading(
        self, want: ReadState, owned: Mapping[str, Any], believed: State | None = None
    ) -> Generator[None, None, State]:
        """Return the kernel's items; yield after each slice of the work. ``believed`` are those known before."""

    def read_nftables(self, want: ReadState, owned: Mapping[str, Any], believed: State | None = None) -> State:
        """Return the items of the wanted and owned tables of nftables alone."""

    def connections(self, of: Collection[Any]) -> Mapping[Any, tuple[int, int]]:
        """Return active and inactive connections of the real servers of these virtual servers at least."""


def timed(
    tables: Mapping[str, Apply], spent: dict[str, float], clock: Callable[[], float], progress: Callable[[], None]
) -> dict[str, Apply]:
    """Return the tables' functions, each of which adds the seconds it takes to ``spent``.

    ``progress`` is called before each of them.
    """

    def timing(name: str, apply: Apply) -> Apply:
        def run(steps: list[Step], keep_going: bool) -> Any:
            start = clock()
            progress()
            try:
                return apply(steps, keep_going)
            finally:
                spent[name] = spent.get(name, 0.0) + clock() - start

        return run

    return {name: timing(name, apply) for name, apply in tables.items()}
