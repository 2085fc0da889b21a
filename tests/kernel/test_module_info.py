# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules that read: their results are valid options of the converging modules, which then change nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel.modules import ModuleError, run


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    subprocess.run(["modprobe", "-a", "ip_vs", "ip_vs_rr", "ip_vs_sh"], check=True)
    subprocess.run(["modprobe", "dummy", "numdummies=0"], check=True)
    yield
    for name in ("virtual_addresses", "ipvs_services", "iptables_chains", "ipsets", "sysctls", "kernel_modules"):
        run(name, purge="owned")


# Arguments of each converging module, and the keys of the reading module's result that can be its options.
ROUNDS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "ipvs_services": (
        {
            "services": [
                {
                    "protocol": "tcp",
                    "address": "192.0.2.80",
                    "port": 80,
                    "scheduler": "sh",
                    "scheduler_flags": ["sh-port"],
                    "persistence_timeout": 60,
                    "netmask": "24",
                    "real_servers": [{"address": "198.51.100.1", "port": 8080, "weight": 2, "upper_threshold": 9}],
                },
                {"protocol": "udp", "address": "192.0.2.53", "port": 53, "one_packet": True},
                {
                    "fwmark": 7,
                    "family": "ipv6",
                    "real_servers": [
                        {
                            "address": "2001:db8::1",
                            "forwarding_method": "tunnel",
                            "tunnel_type": "gue",
                            "tunnel_port": 6080,
                            "tunnel_checksum": "remote",
                        }
                    ],
                },
            ],
            "timeouts": {"tcp": 800},
        },
        ("services", "timeouts", "sync_daemons"),
    ),
    "ipsets": (
        {
            "sets": [
                {"name": "s", "type": "hash:ip", "timeout": 0, "comment": True, "members": ['192.0.2.1 comment "x y"']},
                {"name": "n", "type": "hash:net", "family": "inet6", "members": ["2001:db8::/64 nomatch"]},
                {
                    "name": "p",
                    "type": "bitmap:port",
                    "range": "1-99",
                    "counters": True,
                    "members": ["80 packets 3 bytes 4"],
                },
                {"name": "l", "type": "list:set", "members": ["n", "s"]},
            ]
        },
        ("sets",),
    ),
    "iptables_chains": (
        {
            "chains": [
                {
                    "name": "MINE",
                    "families": ["ipv4", "ipv6"],
                    "rules": [
                        "-p tcp --dport 80 -m comment --comment \"a 'b'\" -j ACCEPT",
                        {"ctstate": "NEW", "jump": "DROP"},
                    ],
                    "jumps": [{"chain": "INPUT"}],
                },
                {"name": "EMPTY", "table": "nat", "rules": []},
            ]
        },
        ("chains",),
    ),
    "virtual_addresses": (
        {
            "links": [
                {"name": "vips", "up": True, "addresses": ["192.0.2.80", "2001:db8::80"]},
                {"name": "lo", "addresses": ["192.0.2.81"]},
            ]
        },
        ("links",),
    ),
}


@pytest.mark.parametrize("name", ROUNDS)
def test_result_as_options_changes_nothing(name: str) -> None:
    wanted, options = ROUNDS[name]
    run(name, **wanted)
    returned = run(f"{name}_info", as_options=True)
    for purge in ("none", "owned"):
        again = run(name, purge=purge, **{option: returned[option] for option in options})
        assert (again["changed"], again["plan"]) == (False, [])


def test_virtual_servers_are_returned_with_owners() -> None:
    run(
        "ipvs_services",
        services=[
            {"protocol": "tcp", "address": "192.0.2.80", "port": 80, "real_servers": [{"address": "198.51.100.1"}]}
        ],
    )
    (service,) = run("ipvs_services_info")["services"]
    (real,) = service["real_servers"]
    assert (service["owner"], real["active_connections"], real["inactive_connections"]) == ("ansible", 0, 0)
    subprocess.run(["ipvsadm", "-A", "-t", "192.0.2.9:9"], check=True)
    assert {each.get("address"): each["owner"] for each in run("ipvs_services_info")["services"]}["192.0.2.9"] == ""
    subprocess.run(["ipvsadm", "-D", "-t", "192.0.2.9:9"], check=True)


def test_sets_are_returned_with_owners() -> None:
    run(
        "ipsets",
        sets=[{"name": "s", "type": "hash:ip", "timeout": 0, "comment": True, "members": ['192.0.2.1 comment "x y"']}],
    )
    (returned,) = run("ipsets_info", names=["s", "nosuch"])["sets"]
    assert returned["owner"] == "ansible"
    assert returned["members"] == ['192.0.2.1 timeout 0 comment "x y"']
    assert (returned["type"], returned["timeout"], returned["comment"]) == ("hash:ip", 0, True)
    (bare,) = run("ipsets_info", members=False)["sets"]
    assert "members" not in bare


def test_every_option_of_a_set_is_returned() -> None:
    common = {"timeout": 60, "counters": True, "comment": True, "skbinfo": True}
    sets = [
        {
            "name": "h",
            "type": "hash:ip",
            "netmask": 24,
            "forceadd": True,
            "maxelem": 5,
            "initval": "0x0000002a",
            "bucketsize": 4,
            **common,
        },
        {"name": "m", "type": "hash:ip,mark", "family": "inet6", "markmask": "0x000000ff", "hashsize": 64},
        {"name": "b", "type": "bitmap:ip", "range": "10.0.0.0-10.0.255.255", "netmask": 24, **common},
        {"name": "l", "type": "list:set", "size": 9, "members": ["h", "m"]},
    ]
    run("ipsets", sets=sets)
    returned = run("ipsets_info", as_options=True)["sets"]
    assert [{**there, **given} for there, given in zip(returned, sets, strict=True)] == returned
    again = run("ipsets", sets=returned, purge="owned")
    assert (again["changed"], again["plan"]) == (False, [])


def test_chains_are_returned_with_owners() -> None:
    run(
        "iptables_chains",
        chains=[{"name": "MINE", "rules": ["-p tcp --dport 80 -j ACCEPT"], "jumps": [{"chain": "INPUT"}]}],
    )
    result = run("iptables_chains_info", families=["ipv4"], tables=["filter"])
    assert result["chains"] == [
        {
            "name": "MINE",
            "table": "filter",
            "families": ["ipv4"],
            "rules": ["-p tcp -m tcp --dport 80 -j ACCEPT"],
            "owner": "ansible",
        }
    ]
    assert result["rules"] == [
        {"chain": "INPUT", "table": "filter", "family": "ipv4", "position": 1, "rule": "-j MINE", "owner": "ansible"}
    ]


def test_addresses_are_returned_with_owners() -> None:
    run(
        "virtual_addresses",
        links=[{"name": "vips", "addresses": ["192.0.2.80"]}, {"name": "lo", "addresses": ["192.0.2.81"]}],
    )
    links = {link["name"]: link for link in run("virtual_addresses_info")["links"]}
    assert links["vips"] == {
        "name": "vips",
        "type": "dummy",
        "up": False,
        "owner": "ansible",
        "addresses": [{"address": "192.0.2.80/32", "owner": "ansible"}],
    }
    assert {each["address"]: each["owner"] for each in links["lo"]["addresses"]} == {
        "127.0.0.1/8": "",
        "192.0.2.81/32": "ansible",
        "::1/128": "",
    }
    assert run("virtual_addresses_info", links=["nosuch"])["links"] == []


def test_sysctls_are_returned_with_owners() -> None:
    forward = Path("/proc/sys/net/ipv4/ip_forward")
    forward.write_text("0")
    late = Path("/etc/sysctl.d/99-late.conf")
    late.write_text("-net/ipv4/tcp_keepalive_time=7200\n")
    try:
        assert run("sysctls_info")["sysctls"] == []
        run("sysctls", sysctls={"net.ipv4.ip_forward": 1})
        own = "/etc/sysctl.d/90-kubenode-ansible.conf"
        forwarding = {
            "name": "net.ipv4.ip_forward",
            "value": "1",
            "owner": "ansible",
            "former": "0",
            "boot": {"value": "1", "path": own},
        }
        assert run("sysctls_info")["sysctls"] == [forwarding]
        result = run(
            "sysctls_info",
            names=["net.ipv4.tcp_keepalive_*", "net/ipv4/ip_forward", "net.nosuch", "net.ipv4.route.flush"],
        )
        by_name = {each["name"]: each for each in result["sysctls"]}
        assert by_name.pop("net.ipv4.ip_forward") == forwarding
        keepalive = by_name["net.ipv4.tcp_keepalive_time"]
        assert (keepalive["owner"], keepalive["former"], keepalive["boot"]["path"]) == ("", None, str(late))
        assert sorted(by_name) == [
            "net.ipv4.route.flush",
            "net.ipv4.tcp_keepalive_intvl",
            "net.ipv4.tcp_keepalive_probes",
            "net.ipv4.tcp_keepalive_time",
        ]
        assert by_name["net.ipv4.route.flush"]["value"] is None
        again = run(
            "sysctls", sysctls={name: each["value"] for name, each in by_name.items() if each["value"]}, check=True
        )
        assert [step for step in again["plan"] if step["kind"] == "sysctl"] == []
    finally:
        late.unlink()
        forward.write_text("0")
    with pytest.raises(ModuleError, match=r"names\[0\]: name is 'net/\.\./x', expected a sysctl's name"):
        run("sysctls_info", names=["net/../x"])


def test_kernel_modules_are_returned_with_owners() -> None:
    run("kernel_modules", modules=["ip_vs", "ip-vs-wrr"])
    modules = {each["name"]: each for each in run("kernel_modules_info")["modules"]}
    assert modules["ip_vs_wrr"] == {
        "name": "ip_vs_wrr",
        "state": "loaded",
        "parameters": {},
        "used_by": [],
        "owner": "ansible",
        "boot": "/etc/modules-load.d/kubenode-ansible.conf",
    }
    assert "ip_vs_wrr" in modules["ip_vs"]["used_by"]
    assert modules["ip_vs"]["parameters"]["conn_tab_bits"] == "12"
    assert modules["dummy"]["owner"] == ""
    named = run("kernel_modules_info", names=["ip-vs", "no_such", "ip_vs_ftp", "ext4"])["modules"]
    assert {each["name"]: each["state"] for each in named} == {
        "ip_vs": "loaded",
        "no_such": "absent",
        "ip_vs_ftp": "loadable",
        "ext4": "builtin",
    }
    with pytest.raises(ModuleError, match=r"names\[0\]: name is '\.\./x', expected a kernel module's name"):
        run("kernel_modules_info", names=["../x"])
