# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counters: 64-bit ones are preferred, 32-bit ones suffice, and each number is in its field."""

from __future__ import annotations

import struct

import pytest

from kubenode.engine.kernel.ipvs.attributes import Dest, Service, Stats
from kubenode.engine.kernel.ipvs.statistics import Traffic, _traffic
from kubenode.engine.kernel.netlink import attribute

WIDE = Traffic(*(2**40 + number for number in range(10)))
NARROW = Traffic(*range(100, 110))


def nest(traffic: Traffic, widths: list[str]) -> bytes:
    pairs = enumerate(zip(traffic, widths, strict=True), Stats.CONNS)
    return b"".join(attribute(number, struct.pack(f"={width}", value)) for number, (value, width) in pairs)


@pytest.mark.parametrize(("wide", "narrow"), [(Service.STATS64, Service.STATS), (Dest.STATS64, Dest.STATS)])
def test_sixty_four_bits_where_the_kernel_has_them(wide: int, narrow: int) -> None:
    old = nest(NARROW, ["I"] * 3 + ["Q"] * 2 + ["I"] * 5)  # byte counters always had 64 bits
    assert _traffic({narrow: old}, wide, narrow) == NARROW
    assert _traffic({narrow: old, wide: nest(WIDE, ["Q"] * 10)}, wide, narrow) == WIDE


def test_padding_between_counters_is_passed_over() -> None:
    padded = nest(WIDE, ["Q"] * 10) + attribute(11, b"")  # IPVS_STATS_ATTR_PAD
    assert _traffic({Service.STATS64: padded}, Service.STATS64, Service.STATS) == WIDE
