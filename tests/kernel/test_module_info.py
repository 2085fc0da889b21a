# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules that read: what they return can be given to the module that converges, which then has nothing to do."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from kernel.modules import run


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    subprocess.run(["modprobe", "-a", "ip_vs", "ip_vs_rr", "ip_vs_sh"], check=True)
    subprocess.run(["modprobe", "dummy", "numdummies=0"], check=True)
    yield
    for name in ("virtual_addresses", "ipvs_services", "iptables_chains", "ipsets"):
        run(name, purge="owned")


def test_virtual_servers() -> None:
    run(
        "ipvs_services",
        services=[
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
            {"fwmark": 7, "family": "ipv6", "real_servers": [{"address": "2001:db8::1", "forwarding_method": "tunnel"}]},
        ],
    )
    found = run("ipvs_services_info")["services"]
    assert [each.pop("owner") for each in found] == ["ansible", "ansible"]
    for real in [real for each in found for real in each["real_servers"]]:
        assert (real.pop("active_connections"), real.pop("inactive_connections")) == (0, 0)
    again = run("ipvs_services", services=found, purge="owned")
    assert (again["changed"], again["plan"]) == (False, [])
    subprocess.run(["ipvsadm", "-A", "-t", "192.0.2.9:9"], check=True)
    assert {each.get("address"): each["owner"] for each in run("ipvs_services_info")["services"]}["192.0.2.9"] == ""
    subprocess.run(["ipvsadm", "-D", "-t", "192.0.2.9:9"], check=True)


def test_sets() -> None:
    run("ipsets", sets=[{"name": "s", "type": "hash:ip", "timeout": 0, "comment": True, "members": ['192.0.2.1 comment "x y"']}])
    (found,) = run("ipsets_info", names=["s", "nosuch"])["sets"]
    assert found["owner"] == "ansible"
    assert found["members"] == ['192.0.2.1 timeout 0 comment "x y"']
    assert (found["type"], found["timeout"], found["comment"]) == ("hash:ip", 0, True)
    (bare,) = run("ipsets_info", members=False)["sets"]
    assert "members" not in bare


def test_chains() -> None:
    run("iptables_chains", chains=[{"name": "MINE", "rules": ["-p tcp --dport 80 -j ACCEPT"], "jumps": [{"chain": "INPUT"}]}])
    found = run("iptables_chains_info", families=["ipv4"], tables=["filter"])
    assert found["chains"] == [
        {"name": "MINE", "table": "filter", "family": "ipv4", "rules": ["-p tcp -m tcp --dport 80 -j ACCEPT"], "owner": "ansible"}
    ]
    assert found["rules"] == [
        {"chain": "INPUT", "table": "filter", "family": "ipv4", "position": 1, "rule": "-j MINE", "owner": "ansible"}
    ]


def test_addresses() -> None:
    run("virtual_addresses", links=[{"name": "vips", "addresses": ["192.0.2.80"]}, {"name": "lo", "addresses": ["192.0.2.81"]}])
    found = {link["name"]: link for link in run("virtual_addresses_info")["links"]}
    assert found["vips"] == {
        "name": "vips",
        "type": "dummy",
        "up": False,
        "owner": "ansible",
        "addresses": [{"address": "192.0.2.80/32", "owner": "ansible"}],
    }
    assert {each["address"]: each["owner"] for each in found["lo"]["addresses"]} == {
        "127.0.0.1/8": "",
        "192.0.2.81/32": "ansible",
        "::1/128": "",
    }
    assert run("virtual_addresses_info", links=["nosuch"])["links"] == []
