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
from support.agent.watched_source import FAST, SERVICES, SLICES, WatchedSource
from support.clusters.cluster import Cluster, service

from kubenode.manifests.documents import ObjectKey

Follow = Callable[..., WatchedSource]


def key(name: str) -> ObjectKey:
    return ObjectKey("Service", "default", name)


def differences(watched: WatchedSource, since: int) -> tuple[set[str], set[str]]:
    """Return the names of objects put and removed after the first ``since`` reported changes.

    They include unknown names if other users share the cluster with the tests.
    """
    changes = watched.changes[since:]
    put = {item["metadata"]["name"] for change in changes for item in change.put}
    return put, {gone.name for change in changes for gone in change.removed}


@pytest.mark.parametrize("trouble", ["cut", "silence"])
def test_watch_resumes_at_its_version(cluster: Cluster, follow: Follow, trouble: str) -> None:
    before, after = cluster.names(2)
    watched = follow(timing=FAST._replace(silence=3.0)).complete()
    cluster.create(service(before))
    watched.until(lambda: key(before) in watched.held, 20)
    getattr(cluster.relay, trouble)()
    cluster.create(service(after))
    watched.until(lambda: key(after) in watched.held, 20)
    assert differences(watched, 0)[1] == set()
    watched.until(lambda: not set(watched.source.problems) & {SERVICES, SLICES}, 20)


@pytest.mark.parametrize("version", ["the last", "expired"])
def test_source_survives_an_api_outage(cluster: Cluster, follow: Follow, version: str) -> None:
    stays, goes, comes = names = cluster.names(3)
    for name in (stays, goes):
        cluster.create(service(name))
    watched = follow().complete()
    seen = len(watched.changes)
    cluster.relay.down()
    watched.until(lambda: "cannot be reached: connection refused" in watched.source.problems.get(SERVICES, ""), 20)
    assert {key(stays), key(goes)} <= watched.held.keys()
    cluster.delete(key(goes))
    cluster.create(service(comes))
    if version == "expired":
        for reflector in watched.source._reflectors:
            reflector._version = "1"
    cluster.relay.up()
    watched.until(lambda: key(comes) in watched.held and key(goes) not in watched.held, 20)
    put, removed = differences(watched, seen)
    assert (put & set(names), removed & set(names)) == ({comes}, {goes})
    watched.until(lambda: not set(watched.source.problems) & {SERVICES, SLICES}, 20)


def test_api_restored_from_backup_is_listed_again(cluster: Cluster, follow: Follow) -> None:
    """The API server sends nothing to a client with a newer version until that client lists again."""
    before, after = cluster.names(2)
    cluster.create(service(before))
    watched = follow(timing=FAST._replace(silence=2.0)).complete()
    seen = len(watched.changes)
    for reflector in watched.source._reflectors:
        reflector._version = "999999999999"
    cluster.relay.cut()
    cluster.create(service(after))
    watched.until(lambda: key(after) in watched.held, 30)
    assert before not in differences(watched, seen)[0]
    watched.until(lambda: not set(watched.source.problems) & {SERVICES, SLICES}, 30)


def test_start_without_the_api_restores_the_snapshot(cluster: Cluster, follow: Follow, tmp_path: Path) -> None:
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
    seen = len(second.changes)
    cluster.delete(key(goes))
    cluster.create(service(comes))
    cluster.relay.up()
    second.until(lambda: not second.source.unknown, 20)
    second.until(lambda: key(comes) in second.held and key(goes) not in second.held, 20)
    put, removed = differences(second, seen)
    assert (put & set(names), removed & set(names)) == ({comes}, {goes})
    second.until(lambda: not set(second.source.problems) & {SERVICES, SLICES, "snapshot"}, 20)


def test_source_ends_promptly_without_an_answer(cluster: Cluster, follow: Follow) -> None:
    watched = follow().complete()
    cluster.relay.silence()
    watched.close()
    assert not any(reflector.is_alive() for reflector in watched.source._reflectors)
