# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Local routes of the real kernel, compared with the output of ip(8)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from support.processes.namespace import fresh, sh

from kubenode.engine.kernel.rtnetlink import addresses
from kubenode.engine.model.link import STATIC, AddressKey, Link, Route, RouteKey
from kubenode.engine.plan import Step

KEYS = [RouteKey("lo", net) for net in ("10.96.0.0/12", "198.51.100.7/32", "fd00:96::/108", "2001:db8::7/128")]
LINK = "kube-ipvs0"


def ip(*arguments: str) -> Any:
    return json.loads(sh("ip", "-j", *arguments) or "[]")


def listed(*more: str) -> set[tuple[str, str]]:
    """Return networks and protocols of the local routes on lo, as ip prints them.

    ip prints single addresses without a prefix length; this function adds it.
    """
    routes = set()
    for family in ("-4", "-6"):
        for route in ip(family, "-d", "route", "show", "table", "local", "type", "local", "dev", "lo", *more):
            length = "" if "/" in route["dst"] else "/128" if family == "-6" else "/32"
            routes.add((route["dst"] + length, route["protocol"]))
    return routes


@pytest.fixture(autouse=True)
def node() -> Iterator[None]:
    fresh()
    subprocess.run(["modprobe", "dummy", "numdummies=0"], check=True)
    sh("ip", "link", "set", "lo", "up")
    yield
    subprocess.run(["ip", "link", "del", LINK], check=False, capture_output=True)


def made(keys: list[RouteKey]) -> list[Step]:
    return [Step("route", key, None, STATIC) for key in keys]


def test_written_routes_are_read_back_and_match_ip() -> None:
    before = listed()
    assert addresses.read_routes(["lo"]) == {}  # the kernel made those of 127.0.0.1 and ::1
    steps = made(KEYS)
    assert addresses.apply(steps) == (steps, [])
    assert addresses.read_routes(["lo", "nosuch"]) == dict.fromkeys(KEYS, STATIC)
    assert addresses.read_routes(["nosuch"]) == {}
    assert listed() - before == {(key.network, "static") for key in KEYS}
    for address in ("10.111.255.255", "198.51.100.7", "fd00:96::f:ffff", "2001:db8::7"):
        (route,) = ip("route", "get", address)
        assert route["type"] == "local", address
    # creating an existing route succeeds
    assert addresses.apply(steps) == (steps, [])
    assert listed() - before == {(key.network, "static") for key in KEYS}
    gone = [step.inverse() for step in steps]
    assert addresses.apply(gone) == (gone, [])
    assert listed() == before
    assert addresses.apply(gone) == (gone, [])


def test_foreign_route_is_seen_and_survives() -> None:
    sh("ip", "route", "add", "local", "203.0.113.0/24", "dev", "lo")
    sh("ip", "-6", "route", "add", "local", "2001:db8:1::/64", "dev", "lo")
    foreign = {RouteKey("lo", "203.0.113.0/24"): Route(3), RouteKey("lo", "2001:db8:1::/64"): Route(3)}
    assert addresses.read_routes(["lo"]) == foreign
    steps = made(KEYS)
    assert addresses.apply(steps).failed == []
    assert addresses.apply([step.inverse() for step in steps]).failed == []
    assert addresses.read_routes(["lo"]) == foreign
    # after adoption they can be removed as well
    assert addresses.apply([Step("route", key, route, None) for key, route in foreign.items()]).failed == []
    assert addresses.read_routes(["lo"]) == {}


def counted(network: str) -> list[tuple[str, int]]:
    """Return protocol and priority of each local route of a network on lo, as ip prints them, in the kernel's order."""
    family = "-6" if ":" in network else "-4"
    routes = ip(family, "-N", "-d", "route", "show", "table", "255", "type", "local", "dev", "lo", network)
    return [(str(route["protocol"]), route.get("metric", 0)) for route in routes]


FOREIGN = [
    "proto boot metric 5",
    "proto boot metric 4096",
    "proto static metric 5",
    "proto static metric 4096",
    "proto bird metric 4096",
]


@pytest.mark.parametrize("foreign_first", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("foreign", FOREIGN)
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_route_beside_a_foreign_one_is_read_and_removed(key: RouteKey, foreign: str, foreign_first: bool) -> None:
    """A foreign route of the same network on the same link differs by its protocol number or by its priority."""
    family = "-6" if ":" in key.network else "-4"
    add = ["ip", family, "route", "append", "local", key.network, "dev", "lo", "table", "local", *foreign.split()]
    sh(*add)
    alone = counted(key.network)
    before = addresses.read_routes(["lo"])
    assert before[key] != STATIC
    if not foreign_first:
        sh("ip", family, "route", "flush", "table", "local", "root", key.network, "type", "local", "dev", "lo")
    (step,) = made([key])
    assert addresses.apply([step]) == ([step], [])
    if not foreign_first:
        sh(*add)
    assert len(counted(key.network)) == 2
    assert addresses.read_routes(["lo"]) == {key: STATIC}
    assert addresses.apply([step.inverse()]) == ([step.inverse()], [])
    assert counted(key.network) == alone
    assert addresses.read_routes(["lo"]) == before
    # a second removal leaves the foreign route
    assert addresses.apply([step.inverse()]) == ([step.inverse()], [])
    assert counted(key.network) == alone
    # after adoption it can be removed as well
    assert addresses.apply([Step("route", key, before[key], None)]).failed == []
    assert counted(key.network) == []


def test_foreign_ipv4_route_of_the_same_priority_is_not_taken() -> None:
    """IPv6 has one route of a priority on a link, IPv4 one of each protocol."""
    key, *_rest = KEYS
    (step,) = made([key])
    foreign = ["local", key.network, "dev", "lo", "table", "local", "proto", "boot"]
    for first in (True, False):
        if first:
            sh("ip", "route", "append", *foreign)
        assert addresses.apply([step]).failed == []
        if not first:
            sh("ip", "route", "append", *foreign)
        assert addresses.read_routes(["lo"]) == {key: STATIC}
        assert addresses.apply([step.inverse()]).failed == []
        assert counted(key.network) == [("3", 0)]
        assert addresses.read_routes(["lo"]) == {key: Route(3)}
        sh("ip", "route", "del", *foreign)


def test_foreign_ipv4_route_of_a_type_of_service_is_not_taken() -> None:
    key, *_rest = KEYS
    (step,) = made([key])
    foreign = ["local", key.network, "dev", "lo", "table", "local", "proto", "static", "tos", "0x10"]
    sh("ip", "route", "add", *foreign)
    assert addresses.read_routes(["lo"]) == {}
    assert addresses.apply([step]).failed == []
    assert addresses.read_routes(["lo"]) == {key: STATIC}
    for _time in range(2):
        assert addresses.apply([step.inverse()]).failed == []
        assert counted(key.network) == [("4", 0)]
    sh("ip", "route", "del", *foreign)


def test_route_and_address_of_same_ip_coexist() -> None:
    """A change from routes to addresses leaves no moment without either of them."""
    both = [("198.51.100.7", 32), ("2001:db8::7", 128)]
    marks = [AddressKey(LINK, address, prefix) for address, prefix in both]
    routes = made([RouteKey("lo", f"{address}/{prefix}") for address, prefix in both])
    assert (
        addresses.apply([Step("link", LINK, None, Link()), *(Step("address", key, None, True) for key in marks)]).failed
        == []
    )

    def local() -> list[str]:
        return [ip("route", "get", address)[0]["type"] for address, _prefix in both]

    for steps in (
        routes,
        # removing the last address of a link removes the IPv4 routes on that link, but not the routes on lo
        [Step("address", key, True, None) for key in marks],
        [Step("address", key, None, True) for key in marks],
        [step.inverse() for step in routes],
    ):
        assert addresses.apply(steps) == (steps, [])
        assert local() == ["local", "local"]
    assert addresses.read_routes(["lo"]) == {}
    assert addresses.read([LINK])["address"] == dict.fromkeys(marks, True)


def test_errors_name_the_item() -> None:
    steps = made([RouteKey("nosuch", KEYS[0].network), KEYS[2], KEYS[0]])
    sh("sysctl", "-qw", "net.ipv6.conf.lo.disable_ipv6=1")
    result = addresses.apply(steps, True)
    assert [failure.message for failure in result.failed] == [
        "local route 10.96.0.0/12 on nosuch: there is no such link",
        "local route fd00:96::/108 on lo: IPv6 is disabled on the link (sysctl net.ipv6.conf.*.disable_ipv6)",
    ]
    assert result.done == [steps[2]]


def test_thousand_routes_are_written_and_removed() -> None:
    """Both bindings of docs/explanation/vip-binding.md; ``make bench`` measures how long each takes."""
    ips = [f"10.96.{number // 250}.{number % 250 + 1}" for number in range(1000)]
    ways = {
        "addresses": [Step("address", AddressKey(LINK, address, 32), None, True) for address in ips],
        "a route each": made([RouteKey("lo", f"{address}/32") for address in ips]),
        "one route": made([RouteKey("lo", "10.96.0.0/12")]),
    }
    assert addresses.apply([Step("link", LINK, None, Link())]).failed == []
    for way, steps in ways.items():
        assert addresses.apply(steps).failed == [], way
        bound = {address for _link, address, _prefix in addresses.node_addresses()} & set(ips)
        assert bound == (set(ips) if way == "addresses" else set()), way
        assert addresses.apply([step.inverse() for step in steps]).failed == [], way
