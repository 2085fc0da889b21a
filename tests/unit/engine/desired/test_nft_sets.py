# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IP sets as sets of nftables: names, types, elements."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenode.engine.desired import sets
from kubenode.engine.desired.nft_sets import NAMED_SETS, elements, member_of, named_set
from kubenode.engine.errors import InputError
from kubenode.engine.model.ipset import MemberKey
from kubenode.engine.model.net import contains
from kubenode.engine.model.nftables import ElementKey, NftSet, SetKey, TableKey

IP, IP6 = TableKey("ip", "kubenode"), TableKey("ip6", "kubenode")
RANGES = "KUBE-LOAD-BALANCER-SOURCE-CIDR"


def test_every_set_of_both_families_has_a_counterpart() -> None:
    assert len(NAMED_SETS) == 36
    keys = [named.key for named in NAMED_SETS.values()]
    assert len(set(keys)) == 36
    assert {key.name for key in keys if key.table == IP} == {key.name for key in keys if key.table == IP6}
    assert {key.name for key in keys} == {name[5:].lower() for name in (*sets.SETS, sets.NO_ENDPOINTS)}


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("KUBE-IPVS-IPS", (IP, "ipvs-ips"), (("ipv4_addr",), False)),
        ("KUBE-6-CLUSTER-IP", (IP6, "cluster-ip"), (("ipv6_addr", "inet_proto", "inet_service"), False)),
        ("KUBE-LOOP-BACK", (IP, "loop-back"), (("ipv4_addr", "inet_proto", "inet_service", "ipv4_addr"), False)),
        (RANGES, (IP, "load-balancer-source-cidr"), (("ipv4_addr", "inet_proto", "inet_service", "ipv4_addr"), True)),
        ("KUBE-6-NODE-PORT-LOCAL-SCTP-HAS", (IP6, "node-port-local-sctp-hash"), None),
        ("KUBE-NODE-PORT-TCP", (IP, "node-port-tcp"), (("inet_service",), False)),
    ],
)
def test_set(name: str, key: tuple[TableKey, str], value: tuple[tuple[str, ...], bool] | None) -> None:
    assert named_set(name).key == SetKey(*key)
    if value is not None:
        assert named_set(name).value == NftSet(*value)


@pytest.mark.parametrize(
    ("name", "member", "fields"),
    [
        ("KUBE-IPVS-IPS", "10.96.0.1", ("10.96.0.1",)),
        ("KUBE-CLUSTER-IP", "10.96.0.1,tcp:80", ("10.96.0.1", "tcp", "80")),
        ("KUBE-6-CLUSTER-IP", "fd00::1,sctp:80", ("fd00::1", "sctp", "80")),
        ("KUBE-6-LOOP-BACK", "fd00::5,udp:53,fd00::5", ("fd00::5", "udp", "53", "fd00::5")),
        ("KUBE-NODE-PORT-UDP", "30053", ("30053",)),
        (RANGES, "10.96.0.1,tcp:80,192.0.2.0/24", ("10.96.0.1", "tcp", "80", "192.0.2.0/24")),
        (RANGES, "10.96.0.1,tcp:80,192.0.2.7", ("10.96.0.1", "tcp", "80", "192.0.2.7")),
        (RANGES, "10.96.0.1,tcp:80,0.0.0.0/1", ("10.96.0.1", "tcp", "80", "0.0.0.0/1")),
    ],
)
def test_element(name: str, member: str, fields: tuple[str, ...]) -> None:
    assert list(elements([MemberKey(name, member)])) == [ElementKey(named_set(name).key, fields)]
    assert member_of(ElementKey(named_set(name).key, fields)) == MemberKey(name, member)


def test_element_of_a_foreign_set_has_no_member() -> None:
    assert member_of(ElementKey(SetKey(IP, "theirs"), ("10.96.0.1",))) is None


def test_networks_within_another_are_left_out() -> None:
    """A set of nftables refuses them; they match nothing that the larger network does not."""
    nets = ["10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "11.0.0.0/8", "0.0.0.0/5", "192.0.2.7"]
    members = [MemberKey(RANGES, f"10.96.0.1,tcp:{port},{net}") for port in (80, 443) for net in nets]
    assert sorted(key.fields[2:] for key in elements(members)) == sorted(
        (port, net) for port in ("80", "443") for net in ("0.0.0.0/5", "10.0.0.0/8", "11.0.0.0/8", "192.0.2.7")
    )


@given(st.sets(st.builds(lambda value, length: (value >> 8 - length << 8 - length, length), *[st.integers(0, 8)] * 2)))
def test_disjoint_networks_match_the_same(pairs: set[tuple[int, int]]) -> None:
    nets = [f"10.0.0.{value & 255}/{24 + length}" for value, length in pairs]
    kept = [key.fields[3] for key in elements(MemberKey(RANGES, f"10.96.0.1,tcp:80,{net}") for net in nets)]
    for last in range(256):
        address = f"10.0.0.{last}"
        matches = sum(contains(net, address) for net in kept)
        assert matches == any(contains(net, address) for net in nets)


def test_unknown_set_and_member_are_errors() -> None:
    with pytest.raises(InputError, match="set is 'KUBE-OTHER', expected one of kube-proxy's sets"):
        named_set("KUBE-OTHER")
    with pytest.raises(InputError, match=r"member of set KUBE-CLUSTER-IP is '10\.96\.0\.1', expected 3 fields"):
        list(elements([MemberKey("KUBE-CLUSTER-IP", "10.96.0.1")]))
