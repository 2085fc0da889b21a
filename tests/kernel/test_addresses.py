# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links and addresses of the real kernel, compared with the output of ip(8)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from kubenode.engine.kernel.rtnetlink import addresses
from kubenode.engine.model.link import AddressKey, Link
from kubenode.engine.plan import Step

LINK = "kube-ipvs0"
KEYS = [AddressKey(LINK, f"10.96.{n // 200}.{n % 200 + 1}", 32) for n in range(500)]
KEYS += [AddressKey(LINK, f"fd00:96::{n:x}", 128) for n in range(1, 200)]


def ip(*arguments: str) -> Any:
    return json.loads(
        subprocess.run(["ip", "-j", *arguments], check=True, capture_output=True, text=True).stdout or "[]"
    )


@pytest.fixture(autouse=True)
def no_link() -> Iterator[None]:
    subprocess.run(["modprobe", "dummy", "numdummies=0"], check=True)
    yield
    subprocess.run(["ip", "link", "del", LINK], check=False, capture_output=True)


def test_written_addresses_are_read_back_and_match_ip() -> None:
    before = ip("addr")
    steps = [Step("link", LINK, None, Link()), *(Step("address", key, None, True) for key in KEYS)]
    result = addresses.apply(steps)
    assert result.failed == []
    assert result.done == steps
    assert addresses.read([LINK, "nosuch"]) == {
        "link": {LINK: Link("dummy", False)},
        "address": dict.fromkeys(KEYS, True),
    }
    (shown,) = ip("addr", "show", "dev", LINK)
    assert {(entry["local"], entry["prefixlen"]) for entry in shown["addr_info"]} == {key[1:] for key in KEYS}
    assert all(not entry.get("tentative") for entry in shown["addr_info"])
    assert shown["operstate"] == "DOWN"
    assert "UP" not in shown["flags"]
    assert (LINK, "10.96.0.1", 32) in addresses.node_addresses()
    assert ("lo", "127.0.0.1", 8) in addresses.node_addresses()
    undone = addresses.apply([step.inverse() for step in reversed(steps)])
    assert undone.failed == []
    assert ip("addr") == before


def test_repeated_address_steps_succeed() -> None:
    steps = [Step("link", LINK, None, Link()), Step("address", KEYS[0], None, True)]
    assert addresses.apply(steps).failed == []
    assert addresses.apply(steps).done == steps
    gone = [Step("address", KEYS[0], True, None), Step("link", LINK, Link(), None)]
    assert addresses.apply(gone).failed == []
    assert addresses.apply(gone).done == gone


def test_link_is_set_up_and_down() -> None:
    """Setting the link down would make the kernel drop its IPv6 addresses."""
    steps = [Step("link", LINK, None, Link()), *(Step("address", key, None, True) for key in (KEYS[0], KEYS[-1]))]
    assert addresses.apply(steps).failed == []
    assert addresses.apply([Step("link", LINK, Link(), Link("dummy", True))]).failed == []
    assert addresses.read([LINK])["link"] == {LINK: Link("dummy", True)}
    assert addresses.apply([Step("link", LINK, Link("dummy", True), Link())]).failed == []
    assert addresses.read([LINK]) == {"link": {LINK: Link()}, "address": {KEYS[0]: True, KEYS[-1]: True}}


def test_errors_name_the_item() -> None:
    (failure,) = addresses.apply([Step("address", KEYS[0], None, True)], True).failed
    assert failure.message == "address 10.96.0.1/32 on kube-ipvs0: there is no such link"
    (failure,) = addresses.apply([Step("link", LINK, None, Link("nosuchtype"))], True).failed
    assert (
        failure.message
        == "link kube-ipvs0: the kernel does not know this type of link: load the kernel module nosuchtype"
    )
    assert addresses.apply([Step("link", LINK, None, Link())]).failed == []
    subprocess.run(["sysctl", "-qw", f"net.ipv6.conf.{LINK}.disable_ipv6=1"], check=True)
    steps = [Step("address", key, None, True) for key in (KEYS[-1], KEYS[0])]
    result = addresses.apply(steps, True)
    assert [failure.message for failure in result.failed] == [
        f"address {KEYS[-1]}: IPv6 is disabled on the link (sysctl net.ipv6.conf.*.disable_ipv6)"
    ]
    assert result.done == steps[1:]


def test_foreign_link_may_have_any_name() -> None:
    subprocess.run(["ip", "link", "add", b"caf\xe9", "type", "dummy"], check=True)
    try:
        subprocess.run(["ip", "addr", "add", "192.0.2.9/32", "dev", b"caf\xe9"], check=True)
        assert ("caf\udce9", "192.0.2.9", 32) in addresses.node_addresses()
        there = addresses.read(["caf\udce9"])
        assert there == {"link": {"caf\udce9": Link()}, "address": {AddressKey("caf\udce9", "192.0.2.9", 32): True}}
    finally:
        assert addresses.apply([Step("link", "caf\udce9", Link(), None)]).failed == []
    assert addresses.read(["caf\udce9"])["link"] == {}
