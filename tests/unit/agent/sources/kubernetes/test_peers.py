# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses of the API servers, from the connection and from the configuration.

After a restart without the API the snapshot provides them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.agent.watched_source import Fixed, WatchedSource, fill
from support.fakes.apiserver import FakeApiServer

from kubenode.sources.kubernetes.peers import Peers

Follow = Callable[..., WatchedSource]


def test_connected_peer_is_known_when_the_server_is_a_name(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 1)
    named = Fixed(fake.url.replace("127.0.0.1", "localhost"))
    watched = follow(accessor=named).complete()
    assert watched.source.servers & {"127.0.0.1", "::1"}


def test_configured_address_is_known_before_any_connection(follow: Follow) -> None:
    assert follow(accessor=Fixed("https://192.0.2.10:6443")).source.servers == {"192.0.2.10"}
    assert follow(accessor=Fixed("https://[2001:DB8::10]:6443")).source.servers == {"2001:db8::10"}


def test_snapshot_keeps_peers_of_a_named_server(fake: FakeApiServer, follow: Follow, tmp_path: Path) -> None:
    """A hostile object survives in the snapshot, so the address must be known before the first connection."""
    fill(fake, 1)
    state = tmp_path / "objects.snapshot"
    named = Fixed(fake.url.replace("127.0.0.1", "localhost"))
    first = follow(accessor=named).complete()
    first.until(lambda: state.exists() and json.loads(state.read_bytes().splitlines()[0])["peers"])
    seen = first.source.servers
    first.close()
    fake.close()
    again = follow(accessor=Fixed("https://no-such-host.invalid:6443"))
    again.until(lambda: "snapshot" in again.source.problems)
    assert again.source.servers == seen


def test_snapshot_of_a_release_without_peers_is_read(fake: FakeApiServer, follow: Follow, tmp_path: Path) -> None:
    fill(fake, 1)
    state = tmp_path / "objects.snapshot"
    first = follow().complete()
    first.until(state.exists)
    first.close()
    fake.close()
    head, rest = state.read_bytes().split(b"\n", 1)
    header = json.loads(head)
    del header["peers"]
    state.write_bytes(json.dumps({**header, "server": "https://192.0.2.10:6443"}).encode() + b"\n" + rest)
    again = follow(accessor=Fixed("https://no-such-host.invalid:6443"))
    again.until(lambda: "snapshot" in again.source.problems)
    assert again.source.servers == {"192.0.2.10"}


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("::ffff:192.0.2.1", {"192.0.2.1"}),
        ("fe80::1%eth0", {"fe80::1"}),
        ("api.example", set()),
        ("", set()),
        ("::1", {"::1"}),
    ],
)
def test_addresses_are_canonical(text: str, canonical: set[str]) -> None:
    peers = Peers()
    assert peers.add((text,)) is bool(canonical)
    assert peers.addresses == canonical
    assert not peers.add((text,))


def test_last_peers_are_kept() -> None:
    peers = Peers()
    for number in range(100):
        peers.add((f"10.0.0.{number}",))
    assert peers.addresses == {f"10.0.0.{number}" for number in range(36, 100)}
