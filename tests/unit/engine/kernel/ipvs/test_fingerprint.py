# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fingerprint of the IPVS table: what changes it, and what does not."""

from __future__ import annotations

import pytest

from kubenode.engine.kernel.ipvs.fingerprint import IpvsFingerprint

SHOWN = """\
IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A600001:0050 rr  persistent 30000 FFFFFFFF
  -> 0AF40001:1F90      Masq    1      2          30        @
  -> [2001:0db8:0000:0000:0000:0000:0000:0002]:0050      Masq    1      0          0         @
""".replace("@", "")


def value(text: str, pieces: int = 1) -> bytes | None:
    fingerprint = IpvsFingerprint()
    lines = text.splitlines(keepends=True)
    for start in range(0, len(lines), len(lines) // pieces):
        fingerprint.add_piece("".join(lines[start : start + len(lines) // pieces]))
    fingerprint.end()
    return fingerprint.value


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("2          30        ", "4294967295 1234567890", True),
        ("0          0 ", "7          0 ", True),
        ("size=4096", "size=8192", True),
        ("Masq    1      2", "Masq    10     2", False),
        ("Masq    1      2", "Masq    0      2", False),
        ("Masq    1      2", "Route   1      2", False),
        ("1F90", "1F91", False),
        (" rr ", " wrr ", False),
        ("30000", "3000", False),
        ("  -> 0AF40001:1F90      Masq    1      2          30        \n", "", False),
    ],
)
def test_only_traffic_leaves_the_fingerprint(old: str, new: str, same: bool) -> None:
    assert old in SHOWN
    assert (value(SHOWN) == value(SHOWN.replace(old, new, 1))) is same


def test_pieces_do_not_matter() -> None:
    assert value(SHOWN) == value(SHOWN, 3) == value(SHOWN, 6)


def test_unfinished_fingerprint_has_no_value() -> None:
    fingerprint = IpvsFingerprint()
    fingerprint.add_piece(SHOWN)
    assert fingerprint.value is None
