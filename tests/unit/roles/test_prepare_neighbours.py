# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings that the role prepare gives to NetworkManager, systemd-networkd and firewalld."""

from __future__ import annotations

import configparser
from xml.etree import ElementTree

from support.distributions.neighbours import render


def attributes(text: str, name: str) -> list[dict[str, str]]:
    return [dict(element.attrib) for element in ElementTree.fromstring(text).iter(name)]


def test_network_manager_leaves_the_link_alone() -> None:
    parser = configparser.ConfigParser(delimiters=("+=", "="))
    parser.read_string(render("network_manager.conf.j2"))
    assert dict(parser["keyfile"]) == {"unmanaged-devices": "interface-name:kube-ipvs0"}


def test_networkd_leaves_the_link_alone() -> None:
    parser = configparser.ConfigParser()
    parser.read_string(render("networkd.network.j2"))
    assert {name: dict(parser[name]) for name in parser.sections()} == {
        "Match": {"name": "kube-ipvs0"},
        "Link": {"unmanaged": "yes"},
    }


def test_the_zone_of_firewalld() -> None:
    text = render("firewalld_zone.xml.j2", prepare_firewalld_sources=["10.244.0.0/16", "fd00::/64"])
    assert ElementTree.fromstring(text).attrib == {"target": "ACCEPT"}
    assert attributes(text, "interface") == [{"name": "kube-ipvs0"}]
    assert attributes(text, "source") == [{"address": "10.244.0.0/16"}, {"address": "fd00::/64"}]


def test_the_policy_of_firewalld() -> None:
    text = render(
        "firewalld_policy.xml.j2",
        prepare_firewalld_addresses=["10.96.0.0/12", "fd00::/108"],
        prepare_firewalld_ports=["30000-32767/tcp"],
    )
    assert attributes(text, "ingress-zone") == [{"name": "ANY"}]
    assert attributes(text, "egress-zone") == [{"name": "HOST"}]
    assert attributes(text, "rule") == [{"family": "ipv4"}, {"family": "ipv6"}]
    assert attributes(text, "destination") == [{"address": "10.96.0.0/12"}, {"address": "fd00::/108"}]
    assert attributes(text, "port") == [{"port": "30000-32767", "protocol": "tcp"}]
    assert len(list(ElementTree.fromstring(text).iter("accept"))) == 2
