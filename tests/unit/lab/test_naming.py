# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names and addresses: short, unique, and traceable to their lab."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab import naming
from lab.errors import UsageError

NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,14}", fullmatch=True)
ROOTS = st.sampled_from([Path("/home/a/clone"), Path("/home/b/clone"), Path("/home/a/clone/.cache/other")])
LONGEST_LINK = 15


@given(st.lists(st.tuples(ROOTS, NAMES, st.none() | NAMES), unique=True))
def test_no_two_namespaces_have_one_name(things: list[tuple[Path, str, str | None]]) -> None:
    names = [
        naming.lab_namespace(root, lab) if client is None else naming.client_namespace(root, lab, client)
        for root, lab, client in things
    ]
    assert len(set(names)) == len(names)


@given(ROOTS, ROOTS, NAMES, NAMES)
def test_namespace_names_its_lab_and_clone(mine: Path, other: Path, lab: str, client: str) -> None:
    for name in (naming.lab_namespace(mine, lab), naming.client_namespace(mine, lab, client)):
        assert naming.lab_of_namespace(mine, name) == lab
        if other != mine:
            assert naming.lab_of_namespace(other, name) is None


@pytest.mark.parametrize("name", ["", "Node", "1node", "-n", "a.b", "a b", "a/b", "..", "a" * 16, "n\u00f6de", "a\n"])
def test_unfit_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="expected 1 to 15"):
        naming.check_name("node", name)


def test_addresses_of_all_hosts_differ_and_are_on_one_network() -> None:
    hosts = [naming.bridge_addresses()]
    for index in range(naming.MAX_HOSTS):
        hosts += [naming.node_addresses(index), naming.client_addresses(index)]
    for family in (0, 1):
        assert len({host[family] for host in hosts}) == len(hosts)
        networks = {ipaddress.ip_interface(host.with_lengths[family]).network for host in hosts}
        assert len(networks) == 1
        assert networks.pop().is_private


def test_links_have_names_that_the_kernel_takes() -> None:
    last = naming.MAX_HOSTS - 1
    assert all(len(name) <= LONGEST_LINK for name in (naming.BRIDGE, naming.tap(last), naming.client_cable(last)))
    assert len({naming.node_mac(index) for index in range(naming.MAX_HOSTS)}) == naming.MAX_HOSTS
