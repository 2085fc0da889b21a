# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connections to the API server that are cut, silent or missing.

The source removes no object by mistake, and misses no change.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.agent.watched_source import FAST, SERVICES, SLICES, Following
from support.clusters.cluster import Cluster, service

from kubenode.manifests.documents import ObjectKey

Follow = Callable[..., Following]


def key(name: str) -> ObjectKey:
    return ObjectKey("Service", "default", name)


def differences(following: Following, since: int) -> tuple[set[str], set[str]]:
    """Return the names of objects put and removed after the first ``since`` reported changes.

    They include unknown names if other users share the cluster with the tests.
    """
    changes = following.told[since:]
    put = {item["metadata"]["name"] for change in changes for item in change.put}
    return put, {gone.name for change in changes for gone in change.removed}


@pytest.mark.parametrize("trouble", ["cut", "silence"])
def test_a_watch_goes_on_where_it_was(cluster: Cluster, follow: Follow, trouble: str) -> None:
    before, after = cluster.names(2)
    following = follow(timing=FAST._replace(silence=3.0)).complete()
    cluster.create(service(before))
    following.until(lambda: key(before) in following.held, 20)
    getattr(cluster.relay, trouble)()
    cluster.create(service(after))
    following.until(lambda: key(after) in following.held, 20)
    assert differences(following, 0)[1] == set()
    following.until(lambda: not set(following.source.problems) & {SERVICES, SLICES}, 20)


@pytest.mark.parametrize("version", ["the last", "expired"])
def test_the_api_goes_away_and_comes_back(cluster: Cluster, follow: Follow, version: str) -> None:
    stays, goes, comes = names = cluster.names(3)
    for name in (stays, goes):
        cluster.create(service(name))
    following = follow().complete()
    told = len(following.told)
    cluster.relay.down()
    following.until(lambda: "cannot be reached: connection refused" in following.source.problems.get(SERVICES, ""), 20)
    assert {key(stays), key(goes)} <= following.held.keys()
    cluster.delete(key(goes))
    cluster.create(service(comes))
    if version == "expired":
        for reflector in following.source._reflectors:
            reflector._version = "1"
    cluster.relay.up()
    following.until(lambda: key(comes) in following.held and key(goes) not in following.held, 20)
    put, removed = differences(following, told)
    assert (put & set(names), removed & set(names)) == ({comes}, {goes})
    following.until(lambda: not set(following.source.problems) & {SERVICES, SLICES}, 20)


def test_an_api_server_that_was_restored_from_a_backup(cluster: Cluster, follow: Follow) -> None:
    """The API server sends nothing to a client with a newer version until that client lists again."""
    before, after = cluster.names(2)
    cluster.create(service(before))
    following = follow(timing=FAST._replace(silence=2.0)).complete()
    told = len(following.told)
    for reflector in following.source._reflectors:
        reflector._version = "999999999999"
    cluster.relay.cut()
    cluster.create(service(after))
    following.until(lambda: key(after) in following.held, 30)
    assert before not in differences(following, told)[0]
    following.until(lambda: not set(following.source.problems) & {SERVICES, SLICES}, 30)


def test_a_start_while_the_api_is_away_restores(cluster: Cluster, follow: Follow, tmp_path: Path) -> None:
    stays, goes, comes = names = cluster.names(3)
    for name in (stays, goes):
        cluster.create(service(name))
    first = follow().complete()
    first.until(lambda: (tmp_path / "objects").exists(), 20)
    first.close()
    cluster.relay.down()
    second = follow()
    second.until(lambda: not second.source.waiting, 20)
    second.until(lambda: second.held == first.held, 20)
    assert second.source.unknown == {SERVICES, SLICES}  # changes since then are unknown: nothing may be removed
    assert "are restored from" in second.source.problems["snapshot"]
    told = len(second.told)
    cluster.delete(key(goes))
    cluster.create(service(comes))
    cluster.relay.up()
    second.until(lambda: not second.source.unknown, 20)
    second.until(lambda: key(comes) in second.held and key(goes) not in second.held, 20)
    put, removed = differences(second, told)
    assert (put & set(names), removed & set(names)) == ({comes}, {goes})
    second.until(lambda: not set(second.source.problems) & {SERVICES, SLICES, "snapshot"}, 20)


def test_ends_promptly_when_nobody_answers(cluster: Cluster, follow: Follow) -> None:
    following = follow().complete()
    cluster.relay.silence()
    following.close()
    assert not any(reflector.is_alive() for reflector in following.source._reflectors)
