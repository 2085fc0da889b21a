# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refused changes of nftables, on this machine's kernel: named steps, and what is written beside them."""

from __future__ import annotations

import pytest
from support import properties  # noqa: F401
from support.processes.namespace import fresh, sh
from support.tables.nft_example import (
    CLUSTER_IPS,
    OWNED,
    SOURCES,
    STATE,
    TABLE,
    VIPS,
    applied,
    elements,
    listed,
)

from kubenode.engine.errors import BusyError
from kubenode.engine.kernel import nftables
from kubenode.engine.kernel.nftables.write import rehearse
from kubenode.engine.model.nftables import (
    ChainKey,
    ElementKey,
    Lookup,
    NftChain,
    Rule,
    Verdict,
)
from kubenode.engine.model.step import Step
from kubenode.engine.plan import plan


@pytest.fixture(autouse=True)
def namespace() -> None:
    fresh()


def test_refused_step_is_named_and_leaves_all_as_it_was() -> None:
    applied(STATE)
    before = listed()
    good = elements(CLUSTER_IPS, [(f"10.0.0.{number}", "tcp", "80") for number in range(200)])
    missing = Step("nft_element", ElementKey(CLUSTER_IPS, ("10.9.9.9", "tcp", "80")), "", None)
    outcome = nftables.apply([*good, missing])
    assert (outcome.done, [failure.step for failure in outcome.failed]) == ([], [missing])
    assert "No such file" in outcome.failed[0].message
    assert listed() == before


@pytest.mark.parametrize("position", [0, 7, 199])
def test_refused_element_is_named_among_many(position: int) -> None:
    applied(STATE)
    steps = elements(SOURCES, [("10.96.0.2", "tcp", str(port), "10.0.0.0/8") for port in range(1, 200)])
    overlap = elements(SOURCES, [("10.96.0.1", "tcp", "80", "10.1.0.0/16")])
    outcome = nftables.apply([*steps[:position], *overlap, *steps[position:]], keep_going=True)
    assert [failure.step for failure in outcome.failed] == overlap
    assert "overlaps" in outcome.failed[0].message
    assert outcome.done == steps
    assert len(nftables.read()["nft_element"]) == len(STATE["nft_element"]) + len(steps)


def test_refused_chain_fails_all_steps() -> None:
    applied(STATE)
    bad = Step("nft_chain", ChainKey(TABLE, "bad"), None, NftChain(None, (Rule((Verdict("jump", "nowhere"),)),)))
    good = elements(VIPS, [("10.0.0.9",)])
    outcome = nftables.apply([*good, bad], keep_going=True)
    assert outcome.done == []
    assert [failure.step for failure in outcome.failed] == [bad, *good]
    assert "not done together with nftables chain ip kubenode bad" in outcome.failed[1].message
    assert nftables.read() == STATE


def test_value_that_cannot_be_written_is_named() -> None:
    applied(STATE)
    (bad,) = elements(VIPS, [("fd00::1",)])
    outcome = nftables.apply([bad])
    assert [failure.step for failure in outcome.failed] == [bad]
    assert "fd00::1" in outcome.failed[0].message


def test_steps_for_a_table_that_went_away_are_named() -> None:
    applied(STATE)
    sh("nft", "flush", "ruleset")
    steps = elements(VIPS, [("10.0.0.9",), ("10.0.0.10",)])
    outcome = nftables.apply(steps)
    assert outcome.done == []
    assert [failure.step for failure in outcome.failed] == steps[:1]


def test_change_of_another_process_is_noticed() -> None:
    number, have = nftables.read_generation()
    steps = plan(have, STATE, OWNED).steps
    sh("nft", "add", "table", "ip", "theirs")
    with pytest.raises(BusyError):
        nftables.apply(steps, generation=number)
    assert nftables.read([TABLE])["nft_table"] == {}
    assert nftables.apply(steps, generation=nftables.generation()).failed == []


def test_probe_and_rehearsal_change_nothing() -> None:
    before = nftables.generation()
    assert nftables.missing_features() == []
    assert rehearse(plan({}, STATE, OWNED).steps) == []
    assert nftables.generation() == before
    bad = Step("nft_chain", ChainKey(TABLE, "bad"), None, NftChain(None, (Rule((Lookup(("ip daddr",), "none"),)),)))
    assert [failure.step for failure in rehearse([Step("nft_table", TABLE, None, 0), bad])] == [bad]
    assert nftables.generation() == before
