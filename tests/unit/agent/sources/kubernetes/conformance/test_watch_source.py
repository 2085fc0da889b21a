# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists and watches: the source holds the API's objects."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from support.agent.watched_source import NODES, SERVICES, SLICES, WatchedSource
from support.clusters.cluster import Cluster, node, piece, service

from kubenode.manifests.documents import ObjectKey
from kubenode.sources.kubernetes.errors import RefusedError

Follow = Callable[..., WatchedSource]
OTHERS = {"service.kubernetes.io/service-proxy-name": "other"}
HEADLESS = {"service.kubernetes.io/headless": ""}


def key(kind: str, name: str) -> ObjectKey:
    return ObjectKey(kind, "" if kind == "Node" else "default", name)


def test_all_pages_of_a_list_are_read(cluster: Cluster, follow: Follow) -> None:
    names = cluster.names(8)
    for name in names:
        cluster.create(service(name))
    watched = follow().complete()
    assert {key("Service", name) for name in names} <= watched.held.keys()
    assert watched.held[key("Service", names[0])]["spec"]["ports"][0]["port"] == 80


def test_added_changed_and_deleted_objects_are_followed(cluster: Cluster, follow: Follow) -> None:
    (name,) = cluster.names(1)
    watched = follow().complete()
    cluster.create(service(name))
    cluster.create(piece(name))
    watched.until(lambda: {key("Service", name), key("EndpointSlice", name)} <= watched.held.keys(), 20)
    cluster.label(key("Service", name), {"x": "y"})
    watched.until(lambda: watched.held[key("Service", name)]["metadata"].get("labels") == {"x": "y"}, 20)
    cluster.delete(key("EndpointSlice", name))
    watched.until(lambda: key("EndpointSlice", name) not in watched.held, 20)


def test_objects_of_other_proxies_are_filtered_out(cluster: Cluster, follow: Follow) -> None:
    """Since 1.36 kube-proxy selects Services by the absence of one label, and EndpointSlices by that of another."""
    mine, others = cluster.names(2)
    labels = {
        "Service": (OTHERS, HEADLESS),
        "EndpointSlice": (HEADLESS, OTHERS),
    }  # the first label excludes an object, the second does not
    watched = follow().complete()
    for kind, make in (("Service", service), ("EndpointSlice", piece)):
        cluster.create(make(others, labels[kind][0]))
        cluster.create(make(mine))
    ours = {key("Service", mine), key("EndpointSlice", mine)}
    watched.until(lambda: ours <= watched.held.keys(), 20)
    assert not {key("Service", others), key("EndpointSlice", others)} & watched.held.keys()
    for item in ours:
        cluster.label(item, labels[item.kind][1])
    watched.until(lambda: all(_labels(watched, item) == labels[item.kind][1] for item in ours), 20)
    for item in ours:
        cluster.label(item, labels[item.kind][0])  # the selector no longer matches it
    watched.until(lambda: not ours & watched.held.keys(), 20)
    for item in ours:
        cluster.label(item, {})
    watched.until(lambda: ours <= watched.held.keys(), 20)
    assert not {key("Service", others), key("EndpointSlice", others)} & follow().complete().held.keys()


def _labels(watched: WatchedSource, name: ObjectKey) -> object:
    return watched.held[name]["metadata"].get("labels")


def test_only_the_own_node_is_watched(cluster: Cluster, follow: Follow) -> None:
    mine, others = cluster.names(2)
    cluster.create(node(others))
    watched = follow(mine).complete()
    watched.until(lambda: "hostnameOverride" in watched.source.problems.get(NODES, ""), 20)
    cluster.create(node(mine))
    watched.until(lambda: key("Node", mine) in watched.held, 20)
    assert NODES not in watched.source.problems
    cluster.label(key("Node", mine), {"topology.kubernetes.io/zone": "z1"})
    zone = {"topology.kubernetes.io/zone": "z1"}
    watched.until(lambda: zone.items() <= (watched.held[key("Node", mine)]["metadata"].get("labels") or {}).items(), 20)
    assert key("Node", others) not in watched.held


def test_a_second_list_has_the_same_text_as_the_watch(cluster: Cluster, follow: Follow) -> None:
    """A different text would make every list look like a change of all objects."""
    (name,) = cluster.names(1)
    watched = follow(name).complete()
    for make in (service, piece, node):
        cluster.create(make(name))
    kinds = {key(kind, name) for kind in ("Service", "EndpointSlice", "Node")}
    watched.until(lambda: kinds <= watched.held.keys(), 20)
    texts = {text for text in watched.source._store.texts() if name.encode() in text}
    listed = {text for text in follow(name).complete().source._store.texts() if name.encode() in text}
    assert texts == listed
    assert len(texts) == 3


def test_flood_of_changes_is_followed(cluster: Cluster, follow: Follow) -> None:
    (name,) = cluster.names(1)
    cluster.create(service(name))
    watched = follow().complete()
    for number in range(100):
        cluster.label(key("Service", name), {"number": str(number)})
    watched.until(lambda: watched.held[key("Service", name)]["metadata"]["labels"] == {"number": "99"}, 20)
    assert not any(changes.removed for changes in watched.changes)


def test_invalid_continue_token_begins_again(cluster: Cluster) -> None:
    with pytest.raises(RefusedError) as caught:
        cluster.get(SERVICES, limit="1", **{"continue": "bad"})
    assert (caught.value.status, caught.value.reason) == (400, "BadRequest")


def test_watch_with_changes_ends_with_a_bookmark(cluster: Cluster) -> None:
    version = cluster.get(SERVICES, limit="1")["metadata"]["resourceVersion"]
    selector = f"!{next(iter(OTHERS))},!{next(iter(HEADLESS))}"
    query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version, "timeoutSeconds": "5"}
    watch = cluster.lines(SERVICES, {**query, "labelSelector": selector})
    assert next(watch) == b""
    made = cluster.create(service(cluster.run, OTHERS))  # an object outside the selector moves the version all the same
    lines = [json.loads(line) for line in watch]
    assert lines[-1]["type"] == "BOOKMARK"
    assert (
        int(lines[-1]["object"]["metadata"]["resourceVersion"])
        >= int(made["metadata"]["resourceVersion"])
        > int(version)
    )
    assert cluster.run not in str(lines)


def test_watch_from_a_future_version_is_silent(cluster: Cluster) -> None:
    """An API server restored from a backup does not report that it lacks the requested version."""
    query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "999999999999", "timeoutSeconds": "4"}
    watch = cluster.lines(SERVICES, query)
    assert next(watch) == b""
    cluster.create(service(cluster.run))
    assert list(watch) == []


@pytest.mark.parametrize("path", [SERVICES, SLICES, NODES])
def test_watch_from_an_expired_version_fails(cluster: Cluster, path: str) -> None:
    """A young API server may still have its first version; it then sends all changes since."""
    query = {"watch": "true", "resourceVersion": "1", "timeoutSeconds": "2"}
    for line in (json.loads(line) for line in cluster.lines(path, query) if line):
        code = line["object"].get("code")
        assert (line["type"], code, line["object"].get("reason")) == ("ERROR", 410, "Expired") or code is None


def test_list_of_a_future_version_fails(cluster: Cluster) -> None:
    with pytest.raises(RefusedError) as caught:
        cluster.get(SERVICES, resourceVersion="999999999999", resourceVersionMatch="NotOlderThan")
    assert (caught.value.status, caught.value.reason) == (504, "ResourceVersionTooLarge")
