# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's links, addresses and local routes, read by the engine and by pyroute2."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import properties  # noqa: F401
from support.processes.namespace import fresh, sh
from support.properties import of_a_kernel
from support.second_opinion import rtnetlink as second_opinion

from kubenode.engine.kernel.rtnetlink import addresses
from kubenode.engine.model.link import STATIC, AddressKey, Route, RouteKey
from kubenode.engine.model.net import unpack

TYPES = ("dummy", "bridge", "veth")
random_tables = of_a_kernel(25)
links = st.lists(st.tuples(st.sampled_from(TYPES), st.booleans()), max_size=6)
hosts4 = st.tuples(st.integers(1, 100), *[st.integers(0, 255)] * 2, st.integers(1, 254)).map(bytes).map(unpack)
hosts6 = st.binary(min_size=14, max_size=14).map(lambda raw: unpack(b"\x20\x01" + raw))
addresses4 = st.tuples(hosts4, st.integers(8, 32))
addresses6 = st.tuples(hosts6, st.integers(16, 128))
# network, routing protocol, priority (0: the kernel's default)
NETWORKS = ("10.96.0.0/12", "198.51.100.7/32", "0.0.0.0/0", "fd00:96::/108", "2001:db8::7/128", "::/0")
routes = st.tuples(
    st.sampled_from(("lo", "dummy0")),
    st.sampled_from(NETWORKS),
    st.sampled_from((3, 4, 12, 200)),
    st.sampled_from((0, 5, 1024, 4096, 0xFFFFFFFF)),
)


@pytest.fixture(scope="module", autouse=True)
def _modules() -> Iterator[None]:
    subprocess.run(["modprobe", "dummy", "numdummies=0"], check=True)
    subprocess.run(["modprobe", "-a", "bridge", "veth"], check=True)
    yield
    fresh()


def batch(lines: list[str]) -> None:
    """Execute commands of ip(8) in one process; those that the kernel refuses change nothing."""
    subprocess.run(["ip", "-force", "-batch", "-"], input="\n".join(lines), text=True, check=False, capture_output=True)


@random_tables
@given(links)
def test_links_read_as_with_pyroute2(made: list[tuple[str, bool]]) -> None:
    fresh()
    names = [f"{kind}-{number}" for number, (kind, _up) in enumerate(made)]
    batch([f"link add {name} type {kind}" for name, (kind, _up) in zip(names, made, strict=True)])
    batch([f"link set {name} up" for name, (_kind, is_up) in zip(names, made, strict=True) if is_up])
    present = second_opinion.links()
    assert set(names) <= present.keys()
    assert addresses.read([*present, "nosuch"])["link"] == present


@random_tables
@given(st.lists(st.one_of(addresses4, addresses6), max_size=12), st.lists(st.tuples(hosts4, hosts4), max_size=3))
def test_addresses_read_as_with_pyroute2(made: list[tuple[str, int]], peers: list[tuple[str, str]]) -> None:
    fresh()
    sh("ip", "link", "add", "dummy0", "type", "dummy")
    batch([f"address add {address}/{prefix} dev dummy0 nodad" for address, prefix in made if ":" in address])
    batch([f"address add {address}/{prefix} dev dummy0" for address, prefix in made if ":" not in address])
    batch([f"address add {address} peer {peer} dev dummy0" for address, peer in peers])
    present = second_opinion.addresses()
    assert len(present) >= len({address for address, _prefix in made})
    assert set(addresses.node_addresses()) == present
    on_link = {AddressKey(*entry): True for entry in present if entry[0] == "dummy0"}
    assert addresses.read(["dummy0"])["address"] == on_link


@random_tables
@given(st.lists(routes, max_size=20))
def test_local_routes_read_as_with_pyroute2(made: list[tuple[str, str, int, int]]) -> None:
    """The engine reads its own of several routes of a network on a link, or else the first."""
    fresh()
    sh("ip", "link", "add", "dummy0", "type", "dummy")
    sh("ip", "link", "set", "dummy0", "up")
    sh("ip", "link", "set", "lo", "up")
    batch(
        [
            f"route append local {network} dev {link} table local proto {protocol}"
            + (f" metric {priority}" if priority else "")
            for link, network, protocol, priority in made
        ]
    )
    present: dict[RouteKey, list[Route]] = {}
    for key, route in second_opinion.local_routes():
        present.setdefault(key, []).append(route)
    assert present.keys() == {RouteKey(link, network) for link, network, _protocol, _priority in made}
    assert addresses.read_routes(["lo", "dummy0"]) == {
        key: STATIC if STATIC in several else several[0] for key, several in present.items()
    }
