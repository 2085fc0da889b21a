# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IP sets (kinds ``set`` and ``member``), through ``ipset save`` and ``ipset restore``: one process for everything.

The sets of a service proxy change all the time, so they are read and written without a process (``dump``, ``direct``).
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence

from ...model.step import Step
from .. import Result
from .read import Saved, read, read_saved, version

__all__ = ["Saved", "apply", "read", "read_saved", "reading_fingerprint", "version"]


def apply(steps: Sequence[Step], keep_going: bool = False) -> Result:
    """Call :func:`.write.apply`, which is imported only if needed.

    A module's code is compiled in each of its runs.
    """
    from . import write

    return write.apply(steps, keep_going)


def reading_fingerprint(names: Collection[str]) -> Generator[None, None, bytes | None]:
    """Call :func:`.dump.reading_fingerprint`, which is imported only if needed."""
    from . import dump

    return dump.reading_fingerprint(names)
