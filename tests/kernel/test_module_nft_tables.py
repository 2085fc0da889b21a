# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module nft_tables and the node's links, which this machine's kernel may be unable to create."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.processes.namespace import sh
from support.tables.module_nft_tables import listing, separate_node, tables


@pytest.fixture(autouse=True)
def node() -> Iterator[None]:
    with separate_node():
        yield


def test_links_of_the_node_are_known_where_content_is_tried_out() -> None:
    sh("ip", "link", "add", "eth7", "type", "dummy")
    content = "flowtable f { hook ingress priority 0; devices = { eth7 }\n}\nchain c { iif eth7 accept\n}\n"
    tables({"name": "edge", "content": content})
    base = "chain c { type filter hook ingress device eth7 priority 0\n}"
    tables(
        {"name": "edge", "content": content.replace("accept", "drop")},
        {"family": "netdev", "name": "e", "content": base},
    )
    assert 'iif "eth7" drop' in listing("inet", "edge")
