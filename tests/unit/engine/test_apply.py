# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Execution of plans on a node in memory: when items are claimed, and the effect of a failure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fakes.node import PaperNode

from kubenode.engine.apply import ApplyError, execute
from kubenode.engine.errors import MissingError
from kubenode.engine.kernel import Result
from kubenode.engine.ledger import Ledger
from kubenode.engine.model.ipset import IPSet
from kubenode.engine.model.ipvs import RealServer, RealServerKey, VirtualServer, VirtualServerKey
from kubenode.engine.model.link import Link
from kubenode.engine.plan import plan

GOOD = VirtualServerKey("tcp", "10.96.0.10", 80, 4)
BAD = VirtualServerKey("tcp", "10.96.0.11", 80, 4)
WANT = {
    "virtual_server": {BAD: VirtualServer("nosuch"), GOOD: VirtualServer()},
    "real_server": {RealServerKey(server, "10.244.1.5", 8080): RealServer() for server in (BAD, GOOD)},
}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(str(tmp_path))
    yield opened
    opened.close()


def test_keep_going_skips_only_dependent_steps(ledger: Ledger) -> None:
    node = PaperNode({})
    node.refuse = {BAD}
    outcome = execute(plan({}, WANT, {}), node.tables, ledger, "agent", keep_going=True)
    assert [failure.step.key for failure in outcome.failed] == [BAD]
    assert list(node.state["virtual_server"]) == [GOOD]
    assert list(node.state["real_server"]) == [RealServerKey(GOOD, "10.244.1.5", 8080)]
    assert ledger.owned("agent") == {"virtual_server": {GOOD}}


def test_error_names_step_reason_and_undone_steps(ledger: Ledger) -> None:
    node = PaperNode({})
    bad_real = RealServerKey(BAD, "10.244.1.5", 8080)
    node.refuse = {bad_real}
    with pytest.raises(ApplyError) as caught:
        execute(plan({}, WANT, {}), node.tables, ledger, "site")
    assert (
        str(caught.value)
        == "+ real server 10.244.1.5:8080 of tcp 10.96.0.11:80: weight 1 masquerade failed: refused; 2 earlier step(s)"
        " were undone"
    )
    assert ledger.owned("site") == {}


def test_a_removal_that_fails_stays_claimed(ledger: Ledger) -> None:
    node = PaperNode({"virtual_server": {BAD: VirtualServer()}})
    ledger.claim("agent", [("virtual_server", BAD)])
    node.refuse = {BAD}
    outcome = execute(plan(node.state, {}, ledger.owned("agent")), node.tables, ledger, "agent", keep_going=True)
    assert len(outcome.failed) == 1
    assert ledger.owned("agent") == {"virtual_server": {BAD}}


@pytest.mark.parametrize("keep_going", [True, False])
def test_owned_item_that_cannot_be_restored_stays_claimed(ledger: Ledger, keep_going: bool) -> None:
    """The item may exist, although the read did not show it."""
    node = PaperNode({})
    ledger.claim("site", [("virtual_server", BAD)])
    node.refuse = {BAD}
    try:
        execute(plan({}, WANT, {}), node.tables, ledger, "site", keep_going=keep_going)
    except ApplyError:
        assert not keep_going
    assert ledger.owned("site") == {"virtual_server": {BAD, GOOD} if keep_going else {BAD}}


def test_failed_adoption_leaves_the_item_unowned(ledger: Ledger) -> None:
    node = PaperNode({"virtual_server": {GOOD: VirtualServer()}})
    node.refuse = {BAD}
    with pytest.raises(ApplyError):
        execute(plan(node.state, WANT, {}, adopt=True), node.tables, ledger, "site")
    assert ledger.owned("site") == {}


def test_a_claim_is_written_before_anything_is_made(ledger: Ledger) -> None:
    ledger.claim("other", [("virtual_server", GOOD)])
    node = PaperNode({})
    with pytest.raises(Exception, match="belongs to owner 'other'"):
        execute(plan({}, WANT, {}), node.tables, ledger, "agent")
    assert node.log == []


def test_superseded_item_is_claimed_before_its_removal(ledger: Ledger) -> None:
    """After a kill, nothing else may tell that it was kube-proxy's: the members that named it are gone."""

    class Killed(BaseException):
        pass

    def kill(_steps: object, _keep_going: bool) -> Result:
        raise Killed

    node = PaperNode({"virtual_server": {GOOD: VirtualServer()}})
    superseded = {"virtual_server": {GOOD}}
    with pytest.raises(Killed):
        execute(plan(node.state, {}, superseded), {**node.tables, "ipvs": kill}, ledger, "agent", keep_going=True)
    assert ledger.owned("agent") == superseded
    execute(plan(node.state, {}, ledger.owned("agent")), node.tables, ledger, "agent", keep_going=True)
    assert (node.state["virtual_server"], ledger.owned("agent")) == ({}, {})


def test_restored_item_without_an_owner_stays_unowned(ledger: Ledger) -> None:
    node = PaperNode({"virtual_server": {GOOD: VirtualServer(), BAD: VirtualServer()}})
    node.refuse = {BAD}
    with pytest.raises(ApplyError):
        execute(plan(node.state, {}, {"virtual_server": {GOOD, BAD}}), node.tables, ledger, "site")
    assert (set(node.state["virtual_server"]), ledger.owned("site")) == ({GOOD, BAD}, {})


def test_unusable_table_undoes_the_earlier_tables(ledger: Ledger) -> None:
    def unusable(_steps: object, _keep_going: bool) -> Result:
        raise MissingError("the tool ipset is missing; install the package ipset")

    node = PaperNode({})
    want = {"link": {"kube-ipvs0": Link()}, "set": {"ONE": IPSet("hash:ip")}}
    with pytest.raises(ApplyError, match="the tool ipset is missing; install the package ipset; 1 earlier step"):
        execute(plan({}, want, {}), {**node.tables, "ipset": unusable}, ledger, "site")
    assert node.state["link"] == {}
    assert ledger.owned("site") == {}
