# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module ipvs_services against the kernel."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from kernel.modules import ModuleError, converge, run

WEB = {"protocol": "tcp", "address": "192.0.2.80", "port": 80}
REALS = [{"address": "198.51.100.11", "port": 8080}, {"address": "198.51.100.12", "port": 8080, "weight": 3}]


@pytest.fixture(autouse=True)
def table() -> Iterator[None]:
    subprocess.run(["modprobe", "-a", "ip_vs", "ip_vs_rr", "ip_vs_wrr", "ip_vs_sh"], check=True)
    yield
    run("ipvs_services", purge="owned")
    run("ipvs_services", purge="owned", owner="other")
    subprocess.run(["ipvsadm", "-C"], check=True)


def saved() -> str:
    return subprocess.run(["ipvsadm", "-Sn"], check=True, capture_output=True, text=True).stdout


def services(*items: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    return converge("ipvs_services", services=list(items), **arguments)


def test_creates_changes_and_removes() -> None:
    result = services({**WEB, "real_servers": REALS})
    assert result["changed"]
    assert saved() == (
        "-A -t 192.0.2.80:80 -s rr\n"
        "-a -t 192.0.2.80:80 -r 198.51.100.11:8080 -m -w 1\n"
        "-a -t 192.0.2.80:80 -r 198.51.100.12:8080 -m -w 3\n"
    )
    result = services({**WEB, "scheduler": "wrr", "real_servers": [{**REALS[0], "weight": 2}]})
    assert result["lines"] == [
        "~ virtual server tcp 192.0.2.80:80: scheduler rr -> scheduler wrr",
        "~ real server 198.51.100.11:8080 of tcp 192.0.2.80:80: weight 1 masquerade -> weight 2 masquerade",
        "- real server 198.51.100.12:8080 of tcp 192.0.2.80:80",
    ]
    assert result["diff"]["before"]["virtual server tcp 192.0.2.80:80"] == "scheduler rr"
    assert result["diff"]["after"]["virtual server tcp 192.0.2.80:80"] == "scheduler wrr"
    assert saved() == "-A -t 192.0.2.80:80 -s wrr\n-a -t 192.0.2.80:80 -r 198.51.100.11:8080 -m -w 2\n"
    services({**WEB, "state": "absent"})
    assert saved() == ""


def test_every_option_is_read_back() -> None:
    result = services(
        {
            "protocol": "udp",
            "address": "2001:DB8::53",
            "port": 53,
            "scheduler": "sh",
            "scheduler_flags": ["sh-port", "sh-fallback"],
            "persistence_timeout": 300,
            "netmask": "64",
            "one_packet": True,
            "real_servers": [{"address": "2001:db8:1:0::53", "upper_threshold": 100, "lower_threshold": 50}],
        },
        {
            "fwmark": 4294967295,
            "real_servers": [
                {
                    "address": "198.51.100.1",
                    "forwarding_method": "tunnel",
                    "tunnel_type": "gue",
                    "tunnel_port": 6080,
                    "tunnel_checksum": "remote",
                },
                {"address": "2001:db8::1", "forwarding_method": "tunnel"},
                {"address": "198.51.100.2", "forwarding_method": "direct"},
                {"address": "198.51.100.3", "forwarding_method": "bypass", "weight": 0},
            ],
        },
        {"fwmark": 7, "family": "ipv6", "persistence_timeout": 60},
        {"protocol": "sctp", "address": "192.0.2.1", "port": 0, "persistence_timeout": 60, "netmask": "255.255.255.0"},
    )
    assert len(result["plan"]) == 9
    text = saved()
    assert "-A -u [2001:db8::53]:53 -s sh -p 300 -M 64 -o -b sh-fallback,sh-port\n" in text
    # ipvsadm prints the mark as a signed number.
    assert "-a -f -1 -r 198.51.100.1:0 -i -w 1 --tun-type gue --tun-port 6080 --tun-remcsum\n" in text


def test_omitted_real_servers_stay() -> None:
    services({**WEB, "real_servers": REALS})
    before = saved()
    assert not services(WEB)["changed"]
    assert not services({**WEB, "purge_real_servers": False, "real_servers": REALS[:1]})["changed"]
    assert saved() == before
    result = services({**WEB, "purge_real_servers": False, "real_servers": [{**REALS[0], "state": "absent"}]})
    assert result["lines"] == ["- real server 198.51.100.11:8080 of tcp 192.0.2.80:80"]
    assert services({**WEB, "real_servers": []})["lines"] == ["- real server 198.51.100.12:8080 of tcp 192.0.2.80:80"]


def test_foreign_virtual_servers_are_left_alone() -> None:
    subprocess.run(["ipvsadm", "-R"], input="-A -t 192.0.2.80:80 -s wrr\n-A -u 192.0.2.9:53 -s rr\n", text=True, check=True)
    before = saved()
    for arguments in ({}, {"purge": "owned"}):
        with pytest.raises(ModuleError, match=r"^virtual server tcp 192\.0\.2\.80:80 exists already and was not made by us"):
            run("ipvs_services", services=[{**WEB, "real_servers": REALS}], **arguments)
    subprocess.run(["ipvsadm", "-a", "-u", "192.0.2.9:53", "-r", "198.51.100.1:53", "-m"], check=True)
    before = saved()
    with pytest.raises(
        ModuleError, match=r"^virtual server udp 192\.0\.2\.9:53 was not made by us and keeps its real server 198"
    ):
        run("ipvs_services", services=[{"protocol": "udp", "address": "192.0.2.9", "port": 53, "real_servers": []}])
    with pytest.raises(ModuleError, match="was not made by us and is not removed"):
        run("ipvs_services", services=[{**WEB, "state": "absent"}])
    assert saved() == before
    result = services({**WEB, "real_servers": REALS[:1]}, adopt=True)
    assert result["adopted"] == ["virtual server tcp 192.0.2.80:80"]
    assert "-A -t 192.0.2.80:80 -s rr\n-a -t 192.0.2.80:80 -r 198.51.100.11:8080 -m -w 1\n" in saved()
    assert "-A -u 192.0.2.9:53 -s rr\n" in saved()
    services(purge="owned")
    assert saved() == "-A -u 192.0.2.9:53 -s rr\n-a -u 192.0.2.9:53 -r 198.51.100.1:53 -m -w 1\n"
    services({**WEB}, purge="all")
    assert saved() == "-A -t 192.0.2.80:80 -s rr\n"


def test_owners_do_not_touch_each_other() -> None:
    services({**WEB, "real_servers": REALS}, owner="other")
    before = saved()
    for arguments in ({}, {"adopt": True}, {"purge": "all"}):
        with pytest.raises(ModuleError, match=r"virtual server tcp 192\.0\.2\.80:80 belongs to owner 'other'"):
            run("ipvs_services", services=[WEB], **arguments)
    services(purge="owned")
    services(purge="all")
    assert saved() == before


def test_purge_none_leaves_own_things_that_are_not_named() -> None:
    services(WEB)
    services({**WEB, "port": 81})
    assert saved() == "-A -t 192.0.2.80:80 -s rr\n-A -t 192.0.2.80:81 -s rr\n"
    services({**WEB, "port": 81}, purge="owned")
    assert saved() == "-A -t 192.0.2.80:81 -s rr\n"


def test_a_refusal_undoes_what_came_before() -> None:
    services(WEB)
    before = saved()
    with pytest.raises(ModuleError) as error:
        run("ipvs_services", services=[{**WEB, "port": 81, "real_servers": REALS}, {**WEB, "port": 82, "scheduler": "magic"}])
    assert "tcp 192.0.2.80:82" in str(error.value)
    assert "magic" in str(error.value)
    assert saved() == before
    services(WEB, purge="owned")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([{"protocol": "tcp", "port": 80}], "services[0]: address is None, expected a value, unless fwmark is given"),
        ([{**WEB, "address": "192.0.2.300"}], "services[0]: address is '192.0.2.300', expected an IPv4 or IPv6 address"),
        ([{**WEB, "port": 70000}], "services[0]: port is 70000, expected a number between 0 and 65535"),
        ([{**WEB, "fwmark": 1}], "services[0]: protocol is 'tcp', expected nothing beside fwmark 1"),
        ([{"fwmark": 0}], "services[0]: fwmark is 0, expected a number between 1 and 4294967295"),
        (
            [WEB, {"fwmark": 1}, {**WEB, "scheduler": "wrr"}],
            "services[2] and services[0] are both tcp 192.0.2.80:80; name each thing once",
        ),
        ([{**WEB, "one_packet": True}], "services[0] (tcp 192.0.2.80:80): one_packet is True, expected false (only UDP has it)"),
        (
            [{**WEB, "netmask": "24"}],
            "services[0] (tcp 192.0.2.80:80): netmask is '24', expected nothing without persistence_timeout",
        ),
        (
            [{**WEB, "persistence_timeout": 5, "netmask": "255.0.255.0"}],
            "services[0] (tcp 192.0.2.80:80): netmask is '255.0.255.0', expected a prefix length between 1 and 32 or a netmask",
        ),
        (
            [{**WEB, "real_servers": [{"address": "2001:db8::1"}]}],
            "services[0].real_servers[0] of tcp 192.0.2.80:80: address is '2001:db8::1', "
            "expected an IPv4 address, or forwarding_method tunnel",
        ),
        (
            [{**WEB, "real_servers": [REALS[0], REALS[1], REALS[0]]}],
            "services[0].real_servers[2] and services[0].real_servers[0] are both 198.51.100.11:8080 of tcp 192.0.2.80:80; "
            "name each thing once",
        ),
        (
            [{**WEB, "real_servers": [{**REALS[0], "tunnel_type": "gre"}]}],
            "services[0].real_servers[0] (198.51.100.11:8080 of tcp 192.0.2.80:80): tunnel_type is 'gre', "
            "expected nothing without forwarding_method tunnel",
        ),
    ],
)
def test_wrong_input_is_one_clear_message(wrong: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ModuleError) as error:
        run("ipvs_services", services=wrong)
    assert str(error.value) == message
    assert saved() == ""
