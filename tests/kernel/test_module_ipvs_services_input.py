# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Invalid input of the module ipvs_services: one clear message, and the kernel's table is unchanged."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from kernel.modules import ModuleError, run

WEB = {"protocol": "tcp", "address": "192.0.2.80", "port": 80}
REALS = [{"address": "198.51.100.11", "port": 8080}, {"address": "198.51.100.12", "port": 8080, "weight": 3}]


def saved() -> str:
    return subprocess.run(["ipvsadm", "-Sn"], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([{"protocol": "tcp", "port": 80}], "services[0]: address is None, expected a value, unless fwmark is given"),
        (
            [{**WEB, "address": "192.0.2.300"}],
            "services[0]: address is '192.0.2.300', expected an IPv4 or IPv6 address",
        ),
        ([{**WEB, "port": 70000}], "services[0]: port is 70000, expected a number between 0 and 65535"),
        ([{**WEB, "fwmark": 1}], "services[0]: protocol is 'tcp', expected nothing beside fwmark 1"),
        ([{"fwmark": 0}], "services[0]: fwmark is 0, expected a number between 1 and 4294967295"),
        (
            [WEB, {"fwmark": 1}, {**WEB, "scheduler": "wrr"}],
            "services[2] and services[0] are both tcp 192.0.2.80:80; name each item once",
        ),
        (
            [{**WEB, "one_packet": True}],
            "services[0] (tcp 192.0.2.80:80): one_packet is True, expected false (only UDP has it)",
        ),
        (
            [{**WEB, "netmask": "24"}],
            "services[0] (tcp 192.0.2.80:80): netmask is '24', expected nothing without persistence_timeout",
        ),
        (
            [{**WEB, "persistence_timeout": 5, "netmask": "255.0.255.0"}],
            (
                "services[0] (tcp 192.0.2.80:80): netmask is '255.0.255.0', expected a prefix length between 1 and 32"
                " or a netmask"
            ),
        ),
        (
            [{**WEB, "real_servers": [{"address": "2001:db8::1"}]}],
            (
                "services[0].real_servers[0] of tcp 192.0.2.80:80: address is '2001:db8::1', "
                "expected an IPv4 address, or forwarding_method tunnel"
            ),
        ),
        (
            [{**WEB, "real_servers": [REALS[0], REALS[1], REALS[0]]}],
            (
                "services[0].real_servers[2] and services[0].real_servers[0] are both 198.51.100.11:8080 of tcp"
                " 192.0.2.80:80; name each item once"
            ),
        ),
        (
            [{**WEB, "real_servers": [{**REALS[0], "tunnel_type": "gre"}]}],
            (
                "services[0].real_servers[0] (198.51.100.11:8080 of tcp 192.0.2.80:80): tunnel_type is 'gre', "
                "expected nothing without forwarding_method tunnel"
            ),
        ),
        (
            [{**WEB, "real_servers": [{**REALS[0], "tunnel_port": 6080}]}],
            (
                "services[0].real_servers[0] (198.51.100.11:8080 of tcp 192.0.2.80:80): "
                "tunnel_port is 6080, expected nothing without forwarding_method tunnel"
            ),
        ),
        (
            [{**WEB, "real_servers": [{**REALS[0], "forwarding_method": "direct", "tunnel_checksum": "checksum"}]}],
            (
                "services[0].real_servers[0] (198.51.100.11:8080 of tcp 192.0.2.80:80): "
                "tunnel_checksum is 'checksum', expected nothing without forwarding_method tunnel"
            ),
        ),
        (
            [{**WEB, "real_servers": [{**REALS[0], "forwarding_method": "tunnel", "tunnel_port": 6080}]}],
            (
                "services[0].real_servers[0] (198.51.100.11:8080 of tcp 192.0.2.80:80): tunnel_port is 6080, expected"
                " nothing without tunnel_type gue"
            ),
        ),
        (
            [{**WEB, "real_servers": [{**REALS[0], "forwarding_method": "tunnel", "tunnel_type": "gue"}]}],
            (
                "services[0].real_servers[0] (198.51.100.11:8080 of tcp 192.0.2.80:80): tunnel_port is 0, expected a"
                " number between 1 and 65535"
            ),
        ),
        (
            [{**WEB, "real_servers": [{**REALS[0], "forwarding_method": "tunnel", "tunnel_checksum": "remote"}]}],
            (
                "services[0].real_servers[0] (198.51.100.11:8080 of tcp 192.0.2.80:80): tunnel_checksum is 'remote',"
                " expected what tunnel_type ipip has"
            ),
        ),
        (
            [
                {
                    **WEB,
                    "real_servers": [
                        {**REALS[0], "forwarding_method": "tunnel", "tunnel_type": "gre", "tunnel_checksum": "remote"}
                    ],
                }
            ],
            (
                "services[0].real_servers[0] (198.51.100.11:8080 of tcp 192.0.2.80:80): tunnel_checksum is 'remote',"
                " expected what tunnel_type gre has"
            ),
        ),
        (
            [{**WEB, "real_servers": [{**REALS[0], "upper_threshold": 5, "lower_threshold": 6}]}],
            (
                "services[0].real_servers[0] (198.51.100.11:8080 of tcp 192.0.2.80:80): lower_threshold is 6, expected"
                " at most upper_threshold, 5"
            ),
        ),
        (
            [{**WEB, "real_servers": [{**REALS[0], "upper_threshold": 2**31}]}],
            (
                "services[0].real_servers[0] (198.51.100.11:8080 of tcp 192.0.2.80:80): upper_threshold is 2147483648,"
                " expected a number between 0 and 2147483647"
            ),
        ),
        (
            [{**WEB, "real_servers": [{**REALS[0], "upper_threshold": 5, "lower_threshold": 2**31}]}],
            (
                "services[0].real_servers[0] (198.51.100.11:8080 of tcp 192.0.2.80:80): lower_threshold is 2147483648,"
                " expected a number between 0 and 2147483647"
            ),
        ),
        (
            [{**WEB, "real_servers": [{**REALS[0], "weight": -1}]}],
            (
                "services[0].real_servers[0] (198.51.100.11:8080 of tcp 192.0.2.80:80): weight is -1, expected a number"
                " between 0 and 2147483647"
            ),
        ),
        (
            [{**WEB, "scheduler": "mh", "scheduler_flags": ["sh-port"]}],
            (
                "services[0] (tcp 192.0.2.80:80): scheduler_flags is 'sh-port', expected flags that the scheduler mh"
                " has, or flag-1 to flag-3"
            ),
        ),
        (
            [{**WEB, "scheduler": "a-very-long-name"}],
            (
                "services[0] (tcp 192.0.2.80:80): scheduler is 'a-very-long-name', expected an ASCII name of at most 15"
                " characters"
            ),
        ),
        (
            [{**WEB, "scheduler": ""}],
            "services[0] (tcp 192.0.2.80:80): scheduler is '', expected an ASCII name of at most 15 characters",
        ),
        (
            [{**WEB, "persistence_timeout": 4294968}],
            "services[0] (tcp 192.0.2.80:80): persistence_timeout is 4294968, expected a number between 0 and 4294967",
        ),
        (
            [{**WEB, "persistence_engine": "sip"}],
            (
                "services[0] (tcp 192.0.2.80:80): persistence_engine is 'sip', expected nothing without"
                " persistence_timeout"
            ),
        ),
        (
            [{**WEB, "port": 0}],
            "services[0] (tcp 192.0.2.80:0): port is 0, expected a port, or a persistence_timeout beside it",
        ),
        (
            [{**WEB, "real_servers": [{"address": "224.0.0.1"}]}],
            "services[0].real_servers[0]: address is '224.0.0.1', expected the address of a host",
        ),
        ([{"fwmark": 7, "port": 80}], "services[0]: port is 80, expected nothing beside fwmark 7"),
        ([{"fwmark": 2**32}], "services[0]: fwmark is 4294967296, expected a number between 1 and 4294967295"),
        (
            [{"protocol": "tcp", "address": "192.0.2.80"}],
            "services[0]: port is None, expected a value, unless fwmark is given",
        ),
        (
            [{**WEB, "family": "ipv6"}],
            "services[0]: family is 'ipv6', expected ipv4 or nothing, as the address 192.0.2.80 is",
        ),
        (
            [{"fwmark": 7}, {"fwmark": 7, "family": "ipv6"}, {"fwmark": 7, "family": "ipv6"}],
            "services[2] and services[1] are both fwmark 7 (IPv6); name each item once",
        ),
        (
            [{**WEB, "address": "2001:db8::1"}, {**WEB, "address": "2001:0DB8:0::1", "state": "absent"}],
            "services[1] and services[0] are both tcp [2001:db8::1]:80; name each item once",
        ),
    ],
)
def test_wrong_input_is_one_clear_message(wrong: list[dict[str, Any]], message: str) -> None:
    subprocess.run(["modprobe", "ip_vs"], check=True)
    with pytest.raises(ModuleError) as error:
        run("ipvs_services", services=wrong)
    assert str(error.value) == message
    assert saved() == ""


@pytest.mark.parametrize(
    ("wrong", "module"),
    [
        ({"scheduler": "magic"}, "ip_vs_magic"),
        ({"persistence_timeout": 5, "persistence_engine": "magic"}, "ip_vs_pe_magic"),
    ],
)
def test_check_mode_names_missing_kernel_modules(wrong: dict[str, Any], module: str) -> None:
    for check in (True, False):
        with pytest.raises(ModuleError, match=rf"^virtual server tcp 192\.0\.2\.80:80: .*\b{module}\b"):
            run("ipvs_services", check=check, services=[{**WEB, **wrong}])
    assert saved() == ""
