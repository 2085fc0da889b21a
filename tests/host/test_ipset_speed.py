# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A large set, in a network namespace of this machine.

Not in user-mode Linux: a page fault is so dear there that other load on the machine would decide. CPU time is compared, for the same reason.
"""

from __future__ import annotations

import resource
import time

import pytest
from support.namespace import fresh, sh

from kubenode.engine.kernel import ipset
from kubenode.engine.model.ipset import IPSet, MemberKey
from kubenode.engine.plan import plan


def test_a_hundred_thousand_members(capsys: pytest.CaptureFixture[str]) -> None:
    """Parsing and comparing cost at most three times what ``ipset save`` itself costs."""
    fresh()
    header = IPSet("hash:ip", (("family", "inet"), ("hashsize", "65536"), ("maxelem", "200000")))
    want = {
        "set": {"S": header},
        "member": {MemberKey("S", f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}"): "" for n in range(100_000)},
    }
    start = time.perf_counter()
    assert ipset.apply(plan({}, want, {}).steps).failed == []
    written = time.perf_counter() - start
    owned = {"set": {"S"}}
    saves, reads, compares = [], [], []
    for _attempt in range(7):
        before = _seconds_of_children()
        sh("ipset", "save")
        saves.append(_seconds_of_children() - before)
        start = time.process_time()
        have = ipset.read()
        read = time.process_time()
        assert plan(have, want, owned).steps == []
        reads.append(read - start)
        compares.append(time.process_time() - read)
    save, read, compare = min(saves), min(reads), min(compares)
    with capsys.disabled():
        print(
            f"\n100,000 members: written in {written:.2f} s; CPU: ipset save {save:.3f} s, parse {read:.3f} s, compare {compare:.3f} s"
        )
    assert read + compare <= 3 * save


def _seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
