# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node addresses that serve node ports (kube-proxy's TestGetNodeIPs and TestFilterCIDRs, and the options)."""

from __future__ import annotations

import pytest

from kubenode.engine.desired.node_addresses import node_addresses, node_port_addresses

LO = {"lo": "127.0.0.1 ::1"}


@pytest.mark.parametrize(
    ("family", "links", "wanted"),
    [
        (4, {"eth0": "1.2.3.4", "lo": "127.0.0.1"}, "1.2.3.4"),
        (4, {"lo": "127.0.0.1"}, ""),
        (4, {}, ""),
        (
            4,
            {"encap0": "10.20.30.40 fe80::200:ff:fe01:1", "lo": "127.0.0.1 ::1", "docker0": "172.17.0.1"},
            "10.20.30.40 172.17.0.1",
        ),
        (4, {"encaps9": "10.20.30.40", **LO, "encap7": "1000:: 10.20.30.31"}, "10.20.30.40 10.20.30.31"),
        (4, {"kube-ipvs0": "2000:: 1.2.3.4", **LO, "encap7": "1000:: 10.20.30.31"}, "10.20.30.31"),
        (4, {"kube-ipvs0": "1.2.3.4 2.3.4.5", **LO}, ""),
        (4, {"kube-ipvs0": "1.2.3.4 2.3.4.5"}, ""),
        (4, {"kube-ipvs0": "1.2.3.4 2.3.4.5", "eth5": "3.4.5.6", **LO}, "3.4.5.6"),
        (4, {"ipvs0": "1.2.3.4", **LO, "encap7": "10.20.30.31"}, "1.2.3.4 10.20.30.31"),
        (6, {"ipvs0": "1.2.3.4 1000::", **LO, "encap7": "10.20.30.31 2000:: fe80::200:ff:fe01:1"}, "1000:: 2000::"),
        # an address on kube-ipvs0 and on a real link belongs to the node (kubernetes/kubernetes#114815)
        (6, {"ipvs0": "1000::", "encap7": "2000::", "kube-ipvs0": "1.2.3.4 2000::"}, "1000:: 2000::"),
        (4, {"eth0": "169.254.1.1"}, "169.254.1.1"),
    ],
)
def test_usable_addresses(family: int, links: dict[str, str], wanted: str) -> None:
    given = [(link, address) for link, addresses in links.items() for address in addresses.split()]
    assert node_addresses(family, given) == tuple(wanted.split())
    assert node_port_addresses(family, given, (), ()) == tuple(wanted.split())


ADDRESSES = (
    ("lo", "127.0.0.1"),
    ("lo", "::1"),
    ("eth0", "10.99.0.11"),
    ("eth0", "10.99.7.11"),
    ("eth0", "fd00:99::11"),
    ("eth1", "fe80::1"),
    ("kube-ipvs0", "10.99.0.77"),
)
PRIMARY = ("10.99.0.11", "fd00:99::11")


@pytest.mark.parametrize(
    ("selectors", "four", "six"),
    [
        ((), "10.99.0.11 10.99.7.11", "fd00:99::11"),
        (("0.0.0.0/0",), "10.99.0.11 10.99.7.11", "fd00:99::11"),
        (("0.0.0.0/0", "fd00:98::/64"), "10.99.0.11 10.99.7.11", ""),
        (("10.99.0.0/24",), "10.99.0.11", "fd00:99::11"),
        (("10.99.0.0/24", "::/0"), "10.99.0.11", "fd00:99::11"),
        (("10.99.0.0/16", "fd00:99::/64"), "10.99.0.11 10.99.7.11", "fd00:99::11"),
        (("192.0.2.0/24",), "", "fd00:99::11"),
        (("127.0.0.0/8", "::1/128"), "", ""),
        (("fe80::/10",), "10.99.0.11 10.99.7.11", "fe80::1"),
        (("primary",), "10.99.0.11", "fd00:99::11"),
    ],
)
def test_node_port_addresses(selectors: tuple[str, ...], four: str, six: str) -> None:
    assert " ".join(node_port_addresses(4, ADDRESSES, selectors, PRIMARY)) == four
    assert " ".join(node_port_addresses(6, ADDRESSES, selectors, PRIMARY)) == six


def test_primary_of_a_family_without_one_is_nothing() -> None:
    assert node_port_addresses(6, ADDRESSES, ("primary",), ("10.99.0.11",)) == ()
    assert node_port_addresses(4, ADDRESSES, ("primary",), ()) == ()
