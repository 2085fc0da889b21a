# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""iptables (kinds ``chain`` and ``jump``), through ``iptables-save`` and ``iptables-restore``.

The node's back end is used, legacy or nft.

Rules of others never change. One side effect is the legacy back end's: any change of a table resets the counters of its
policies, but not those of its rules.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...model.step import Step
from .. import Result
from .normalise import Spelled, mentioned_sets, normalise
from .read import read
from .tool import Version, choose, version

__all__ = ["Spelled", "Version", "apply", "choose", "fingerprint", "mentioned_sets", "normalise", "read", "version"]


def apply(steps: Sequence[Step], keep_going: bool = False) -> Result:
    """Call :func:`.write.apply`, which is imported only if needed.

    A module's code is compiled in each of its runs.
    """
    from . import write

    return write.apply(steps, keep_going)


def fingerprint(backend: str) -> bytes | None:
    """Call :func:`.fingerprints.fingerprint`, which is imported only if needed."""
    from . import fingerprints

    return fingerprints.fingerprint(backend)
