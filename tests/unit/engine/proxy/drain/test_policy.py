# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Graceful termination: which real servers stay, with which weight, until when."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenode.engine.model.ipvs import SCHED1, SCHED2, RealServer, RealServerKey, VirtualServer, VirtualServerKey
from kubenode.engine.model.link import STATIC, AddressKey, RouteKey
from kubenode.engine.proxy.drain.policy import Drain, Verdict, counted, retain, turn, unwanted, with_fallback
from kubenode.engine.proxy.planning import Claims, make_plan

TCP = VirtualServerKey("tcp", "10.96.0.1", 80, 4)
UDP = VirtualServerKey("udp", "10.96.0.1", 80, 4)
A, B = (RealServerKey(TCP, f"10.244.0.{number}", 8080) for number in (1, 2))
VIP = AddressKey("kube-ipvs0", "10.96.0.1", 32)
OTHER = AddressKey("kube-ipvs0", "10.96.0.2", 32)


def state(*reals: tuple[RealServerKey, int], servers: Any = (TCP,), addresses: Any = (VIP, OTHER)) -> Any:
    return {
        "virtual_server": {key: VirtualServer() for key in servers},
        "real_server": {key: RealServer(weight) for key, weight in reals},
        "address": dict.fromkeys(addresses, True),
    }


def kept(verdict: Verdict) -> Any:
    return {kind: items for kind, items in verdict.keep.items() if items}


def test_only_unwanted_tcp_servers_of_the_owner_drain() -> None:
    of_udp = RealServerKey(UDP, "10.244.0.1", 53)
    have = state((A, 1), (B, 1), (of_udp, 1), servers=(TCP, UDP))
    want = state((B, 1), servers=(TCP, UDP))
    assert unwanted(have, want, {TCP, UDP}) == [A]
    assert unwanted(have, want, {UDP}) == []


def test_drain_sets_weight_0_and_waits_for_connections() -> None:
    want = state((B, 1))
    have = state((A, 3), (B, 1))
    assert counted(have, [A]) == set()
    verdict = retain(have, want, [A], {}, Drain({}, 100.0))
    assert kept(verdict) == {"real_server": {A: RealServer(0)}}
    assert verdict.draining == {A: 100.0}
    have = state((A, 0), (B, 1))
    assert counted(have, [A]) == {TCP}
    for counts in ((1, 0), (0, 1)):
        assert retain(have, want, [A], {A: counts}, Drain(verdict.draining, 160.0)).draining == {A: 100.0}
    verdict = retain(have, want, [A], {A: (0, 0)}, Drain(verdict.draining, 160.0))
    assert (kept(verdict), verdict.draining) == ({}, {})


def test_drain_ends_at_its_bound() -> None:
    have, want = state((A, 0)), state()
    assert retain(have, want, [A], {A: (1, 0)}, Drain({A: 100.0}, 109.0, 10.0)).draining
    assert not retain(have, want, [A], {A: (1, 0)}, Drain({A: 100.0}, 110.0, 10.0)).draining
    assert retain(have, want, [A], {A: (1, 0)}, Drain({A: 100.0}, 10**6, 0.0)).draining


def test_deleted_service_keeps_server_and_address_while_draining() -> None:
    have, want = state((A, 1)), state(servers=(), addresses=(OTHER,))
    verdict = retain(have, want, [A], {}, Drain({}, 1.0))
    assert verdict.keep["virtual_server"] == {TCP: VirtualServer()}
    assert verdict.keep["address"] == {VIP: True}
    assert verdict.keep["route"] == {}


def test_a_deleted_service_keeps_its_local_route_as_long() -> None:
    mine, other, network = (RouteKey("lo", net) for net in ("10.96.0.1/32", "10.96.0.2/32", "10.96.0.0/16"))
    have = {**state((A, 1), addresses=()), "route": dict.fromkeys((mine, other, network), STATIC)}
    verdict = retain(have, {"route": {network: STATIC}}, [A], {}, Drain({}, 1.0))
    assert verdict.keep["route"] == {mine: STATIC}
    assert retain(have, {"route": {mine: STATIC}}, [A], {}, Drain({}, 1.0)).keep["route"] == {}


def test_weight_zero_before_restart_counts_as_draining_at_once() -> None:
    have, want = state((A, 0)), state()
    assert retain(have, want, [A], {A: (2, 0)}, Drain({}, 7.0)).draining == {A: 7.0}
    assert not retain(have, want, [A], {}, Drain({}, 7.0)).draining


@given(
    st.dictionaries(st.sampled_from([A, B]), st.integers(0, 2)),
    st.dictionaries(st.sampled_from([A, B]), st.tuples(st.integers(0, 1), st.integers(0, 1))),
    st.dictionaries(st.sampled_from([A, B]), st.floats(0, 100)),
    st.floats(0, 100),
    st.sampled_from([0.0, 5.0]),
)
def test_server_with_connections_stays_until_the_bound(
    reals: Any, connections: Any, draining: Any, now: float, maximum: float
) -> None:
    have = state(*reals.items())
    verdict = retain(have, state(), list(reals), connections, Drain(draining, now, maximum))
    for key, weight in reals.items():
        expired = maximum and key in draining and now - min(draining[key], now) >= maximum
        busy = weight > 0 or any(connections.get(key, (0, 0)))
        assert (key in verdict.draining) == (busy and not expired)
    assert verdict.keep["real_server"].keys() == verdict.draining.keys()
    assert all(value.weight == 0 for value in verdict.keep["real_server"].values())


MH = VirtualServer("mh", SCHED2)


def mh(*reals: tuple[RealServerKey, int]) -> Any:
    return {**state(*reals), "virtual_server": {TCP: MH}}


def test_mh_fallback_lasts_as_long_as_the_drain() -> None:
    """Without the flag the kernel refuses what hashes to a real server of weight 0 (kubernetes/kubernetes#139497)."""
    falling_back = {TCP: MH._replace(flags=SCHED1 | SCHED2)}
    have, want = mh((A, 1), (B, 1)), mh((B, 1))
    assert retain(have, want, [A], {}, Drain({}, 1.0)).keep["virtual_server"] == falling_back
    assert retain(mh((A, 0)), want, [A], {A: (1, 0)}, Drain({A: 1.0}, 2.0)).keep["virtual_server"] == falling_back
    assert retain(mh((A, 0)), want, [A], {}, Drain({A: 1.0}, 2.0)).keep["virtual_server"] == {}
    # one real server that drains in another turn
    assert retain(mh((B, 1)), want, [], {}, Drain({A: 1.0}, 2.0, elsewhere=[A])).keep["virtual_server"] == falling_back
    assert (
        retain(mh((B, 1)), {"virtual_server": {}}, [], {}, Drain({A: 1.0}, 2.0, elsewhere=[A])).keep["virtual_server"]
        == {}
    )
    assert retain(state((A, 1)), state(), [A], {}, Drain({}, 1.0)).keep["virtual_server"] == {}


def test_mh_flag_is_set_before_weight_0_and_removed_last() -> None:
    def steps(have: Any, want: Any, counts: Any, now: float) -> list[tuple[str, str]]:
        claims = Claims({"virtual_server": {TCP}}, {})
        made, _draining = make_plan(have, want, claims, Drain({}, now, connections=lambda _of: counts))
        return [(step.kind, step.verb) for step in made.steps]

    want = mh((B, 1))
    assert steps(mh((A, 1), (B, 1)), want, {}, 1.0) == [("virtual_server", "change"), ("real_server", "change")]
    drained = {**mh((A, 0), (B, 1)), "virtual_server": {TCP: with_fallback(MH)}}
    assert steps({**drained, "address": {}}, {**want, "address": {}}, {A: (1, 0)}, 2.0) == []
    assert steps({**drained, "address": {}}, {**want, "address": {}}, {}, 3.0) == [
        ("real_server", "delete"),
        ("virtual_server", "change"),
    ]


def test_every_virtual_server_of_a_kept_real_server_is_kept() -> None:
    with pytest.raises(KeyError):
        retain({"real_server": {A: RealServer(1)}}, {}, [A], {}, Drain({}, 0.0))


@given(st.sets(st.integers(1, 30), min_size=1), st.integers(1, 5), st.integers(0, 31))
def test_every_draining_server_gets_a_turn(numbers: set[int], most: int, begin: int) -> None:
    draining = {RealServerKey(TCP, "10.244.0.1", number): 100.0 for number in numbers}
    last, seen = RealServerKey(TCP, "10.244.0.1", begin), []
    for _time in range(-(-len(draining) // most)):
        chosen = turn(draining, last, most)
        assert len(chosen) == min(most, len(draining)) == len(set(chosen))
        seen, last = [*seen, *chosen], chosen[-1]
    assert set(seen) == set(draining)


def test_server_past_its_bound_always_gets_a_turn() -> None:
    draining = {A: 100.0, B: 130.0}
    assert turn(draining, None, 1) == [A]
    assert turn(draining, A, 1, until=99.0) == [B]
    assert turn(draining, A, 1, until=100.0) == [A, B]
    assert turn(draining, B, 5, until=100.0) == [A, B]
