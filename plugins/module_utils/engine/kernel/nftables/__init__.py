# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of nftables (kinds ``nft_table``, ``nft_set``, ``nft_element``, ``nft_chain``), by nfnetlink.

All steps are one transaction, which the kernel takes as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...model.nftables import NftSet, SetKey
from ...model.step import Step
from .. import Result
from .read import generation, read, read_generation, read_tables

__all__ = ["apply", "generation", "missing_features", "read", "read_generation", "read_tables"]


def apply(
    steps: Sequence[Step],
    keep_going: bool = False,
    *,
    generation: int | None = None,
    types: Mapping[SetKey, NftSet] | None = None,
) -> Result:
    """Call :func:`.write.apply`, which is imported only if needed."""
    from . import write

    return write.apply(steps, keep_going, generation=generation, types=types)


def missing_features() -> list[str]:
    """Call :func:`.probe.missing_features`."""
    from . import probe

    return probe.missing_features()
