# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module virtual_addresses against the kernel."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel.modules import ModuleError, converge, run


@pytest.fixture(autouse=True)
def table() -> Iterator[None]:
    subprocess.run(["modprobe", "dummy", "numdummies=0"], check=True)
    yield
    run("virtual_addresses", purge="owned")
    run("virtual_addresses", purge="owned", owner="other")
    subprocess.run(["ip", "link", "delete", "foreign"], check=False, capture_output=True)


def shown(link: str) -> tuple[str, list[str]] | None:
    """Return flags and addresses of a link, as ``ip`` prints them; None if there is no such link."""
    ended = subprocess.run(["ip", "-json", "address", "show", "dev", link], check=False, capture_output=True, text=True)
    if ended.returncode:
        return None
    (printed,) = json.loads(ended.stdout)
    addresses = [f"{each['local']}/{each['prefixlen']}" for each in printed["addr_info"] if each["scope"] != "link"]
    return "UP" if "UP" in printed["flags"] else "DOWN", sorted(addresses)


def links(*items: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    return converge("virtual_addresses", links=list(items), **arguments)


def test_creates_changes_and_removes() -> None:
    result = links({"name": "vips", "addresses": ["192.0.2.80", "2001:DB8::80", "198.51.100.1/24"]})
    assert result["lines"][0] == "+ link vips: type dummy up False"
    assert shown("vips") == ("DOWN", ["192.0.2.80/32", "198.51.100.1/24", "2001:db8::80/128"])
    result = links({"name": "vips", "up": True, "addresses": ["192.0.2.80", "192.0.2.81"]})
    assert result["lines"] == [
        "~ link vips: type dummy up False -> type dummy up True",
        "+ address 192.0.2.81/32 on vips",
        "- address 198.51.100.1/24 on vips",
        "- address 2001:db8::80/128 on vips",
    ]
    assert shown("vips") == ("UP", ["192.0.2.80/32", "192.0.2.81/32"])
    links({"name": "vips", "state": "absent"})
    assert shown("vips") is None


def test_single_addresses_are_added_and_removed() -> None:
    links({"name": "vips", "addresses": ["192.0.2.1"]})
    assert not links({"name": "vips"})["changed"]
    links({"name": "vips", "purge_addresses": False, "addresses": ["192.0.2.2"], "absent_addresses": ["192.0.2.1"]})
    assert shown("vips") == ("DOWN", ["192.0.2.2/32"])
    links({"name": "other", "addresses": ["192.0.2.9"]}, purge="owned")
    assert shown("vips") is None
    assert shown("other") == ("DOWN", ["192.0.2.9/32"])
    assert not links({"name": "other"}, purge="owned")["changed"], "what is not mentioned of a link stays"
    assert not links({"name": "other", "purge_addresses": False, "addresses": []}, purge="owned")["changed"]


def test_prefix_length_is_changed() -> None:
    links({"name": "vips", "addresses": ["2001:db8::1/64", "192.0.2.1/24"]})
    result = links({"name": "vips", "addresses": ["2001:db8::1", "192.0.2.1"]})
    assert result["lines"] == [
        "- address 2001:db8::1/64 on vips",
        "+ address 2001:db8::1/128 on vips",
        "+ address 192.0.2.1/32 on vips",
        "- address 192.0.2.1/24 on vips",
    ]
    assert shown("vips") == ("DOWN", ["192.0.2.1/32", "2001:db8::1/128"])
    subprocess.run(["ip", "address", "add", "2001:db8::9/64", "dev", "vips"], check=True)
    with pytest.raises(ModuleError, match=r"^address 2001:db8::9/128 on vips: it is there with the prefix length 64; "):
        run("virtual_addresses", links=[{"name": "vips", "purge_addresses": False, "addresses": ["2001:db8::9"]}])
    assert shown("vips") == ("DOWN", ["192.0.2.1/32", "2001:db8::1/128", "2001:db8::9/64"])


def test_primary_address_is_removed_alone() -> None:
    links({"name": "vips", "addresses": ["192.0.2.1/24", "192.0.2.2/24"]})
    # another process's address, secondary like the second one
    subprocess.run(["ip", "address", "add", "192.0.2.9/24", "dev", "vips"], check=True)
    sysctl = Path("/proc/sys/net/ipv4/conf/vips/promote_secondaries")
    assert sysctl.read_text() == "0\n"
    links({"name": "vips", "addresses": ["192.0.2.2/24"]})
    assert shown("vips") == ("DOWN", ["192.0.2.2/24", "192.0.2.9/24"])
    assert sysctl.read_text() == "0\n"


def test_foreign_links_and_addresses_are_left_alone() -> None:
    commands = (
        "link add foreign type dummy\naddress add 192.0.2.1/32 dev foreign\naddress add 192.0.2.2/32 dev foreign\n"
    )
    subprocess.run(["ip", "-batch", "-"], input=commands, text=True, check=True)
    assert not links({"name": "foreign", "addresses": ["192.0.2.1"]})["changed"]
    links({"name": "foreign", "addresses": ["192.0.2.1", "192.0.2.3"]})
    assert shown("foreign") == ("DOWN", ["192.0.2.1/32", "192.0.2.2/32", "192.0.2.3/32"])
    links({"name": "lo", "addresses": ["192.0.2.7"]})
    assert shown("lo") == ("UP", ["127.0.0.1/8", "192.0.2.7/32", "::1/128"])
    for link in ("foreign", "lo"):
        with pytest.raises(ModuleError, match=f"link {link} has no owner and is not removed"):
            run("virtual_addresses", links=[{"name": link, "state": "absent"}])
    with pytest.raises(ModuleError, match="link foreign exists already and has no owner"):
        run("virtual_addresses", links=[{"name": "foreign", "up": True}])
    links(purge="owned")
    assert shown("foreign") == ("DOWN", ["192.0.2.1/32", "192.0.2.2/32"])
    assert shown("lo") == ("UP", ["127.0.0.1/8", "::1/128"])
    links({"name": "foreign", "addresses": ["192.0.2.2"]}, purge="all")
    assert shown("foreign") == ("DOWN", ["192.0.2.2/32"])


def test_owners_do_not_touch_each_other() -> None:
    links({"name": "vips", "addresses": ["192.0.2.1"]})
    links({"name": "vips", "addresses": ["192.0.2.2"]}, owner="other")
    with pytest.raises(ModuleError, match=r"address 192\.0\.2\.1/32 on vips belongs to owner 'ansible'"):
        run("virtual_addresses", links=[{"name": "vips", "addresses": ["192.0.2.1"]}], owner="other")
    with pytest.raises(ModuleError, match=r"link vips carries address 192\.0\.2\.2/32 on vips of owner 'other'"):
        run("virtual_addresses", links=[{"name": "vips", "state": "absent"}])
    links({"name": "vips", "addresses": []}, owner="other")
    assert shown("vips") == ("DOWN", ["192.0.2.1/32"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            [{"name": "a/b"}],
            "links[0]: name is 'a/b', expected a link's name: 1 to 15 characters without '/', ':', '%' and spaces",
        ),
        (
            [{"name": "v%d"}],
            "links[0]: name is 'v%d', expected a link's name: 1 to 15 characters without '/', ':', '%' and spaces",
        ),
        (
            [{"name": "all"}],
            "links[0]: name is 'all', expected a link's name: 1 to 15 characters without '/', ':', '%' and spaces",
        ),
        (
            [{"name": "v", "addresses": ["::/64"]}],
            "links[0].addresses[0]: address is '::', expected the address of a host",
        ),
        (
            [{"name": "v", "addresses": ["224.0.0.1"]}],
            "links[0].addresses[0]: address is '224.0.0.1', expected the address of a host",
        ),
        ([{"name": "v"}, {"name": "v"}], "links[1] and links[0] are both link v; name each item once"),
        (
            [{"name": "v", "addresses": ["10.0.0.256"]}],
            "links[0].addresses[0]: address is '10.0.0.256', expected an IPv4 or IPv6 address",
        ),
        (
            [{"name": "v", "addresses": ["10.0.0.1/33"]}],
            "links[0].addresses[0]: address is '10.0.0.1/33', expected a prefix length between 0 and 32",
        ),
        (
            [{"name": "v", "addresses": ["2001:db8::1", "10.0.0.1", "2001:db8:0::1/64"]}],
            (
                "links[0].addresses[2] and links[0].addresses[0] are both address 2001:db8::1 of link v; name each"
                " item once"
            ),
        ),
    ],
)
def test_wrong_input_is_one_clear_message(wrong: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ModuleError) as error:
        run("virtual_addresses", links=wrong)
    assert str(error.value) == message
    assert shown("v") is None
