# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limit of this machine on a process's memory mappings, raised while a node of user-mode Linux is measured."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from lab.host import MAX_MAP_COUNT, max_map_count

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

ENOUGH = 1 << 20  # the default of Fedora 39 and Ubuntu 24.04


@contextmanager
def many_mappings(progress: Callable[[str], None]) -> Generator[None]:
    """Raise vm.max_map_count, if it is lower than newer distributions have it, and set it back at the end.

    Each page of a node's process can be a mapping of its own. At the limit, user-mode Linux repeats the page fault
    without an end: with 65,530 mappings the agent of 10,000 Services hung in one of two runs.
    """
    before = max_map_count()
    if before >= ENOUGH:
        yield
        return
    try:
        MAX_MAP_COUNT.write_text(f"{ENOUGH}\n")
    except OSError as error:
        progress(f"vm.max_map_count of this machine stays {before}, a process of the node may hang: {error.strerror}")
        yield
        return
    progress(f"vm.max_map_count of this machine is {ENOUGH} instead of {before} until the end")
    try:
        yield
    finally:
        MAX_MAP_COUNT.write_text(f"{before}\n")
