# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watches: the source holds the API's objects, whatever the API sends or omits.

The source never removes an object by mistake.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from support.agent.watched_source import (
    FAST,
    NODE,
    NODES,
    SERVICES,
    SLICES,
    WatchedSource,
    fill,
    service_names,
    services,
)
from support.clusters import objects
from support.fakes.apiserver import FakeApiServer
from support.fakes.apiserver_answers import encode, failure
from support.fakes.apiserver_http import Answer

Follow = Callable[..., WatchedSource]


def test_watch_follows_changes(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 1)
    watched = follow().complete()
    watched.until(lambda: fake.watching(SERVICES) and fake.watching(SLICES))
    fake.put(objects.service("new"))
    watched.until(lambda: "Service new" in watched.names)
    fake.put(objects.service("new", ["10.96.9.9"]))
    watched.until(
        lambda: {"10.96.9.9"} & {item["spec"].get("clusterIP") for item in watched.held.values() if "spec" in item}
    )
    fake.delete("Service", "ns1", "new")
    watched.until(lambda: "Service new" not in watched.names)
    assert len(fake.asked(SERVICES)) == 1


def test_unneeded_fields_cause_no_change(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 1)
    watched = follow().complete()
    watched.until(lambda: fake.watching(NODES))
    seen = len(watched.changes)
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NODE},
        "status": {"images": ["b"], "addresses": []},
    }
    fake.put(node)  # a heartbeat
    fake.bookmark(NODES)
    reflector = watched.source._reflectors[-1]
    watched.until(lambda: reflector._version == str(fake.version))
    assert len(watched.changes) == seen
    fake.put({**node, "metadata": {"name": NODE, "labels": {"topology.kubernetes.io/zone": "z1"}}})
    watched.until(
        lambda: any(item["metadata"].get("labels") for item in watched.held.values() if item["kind"] == "Node")
    )
    assert len(watched.changes) == seen + 1


@pytest.mark.parametrize("end", ["ends", "is cut", "falls silent"])
def test_watch_resumes_at_its_version(fake: FakeApiServer, follow: Follow, end: str) -> None:
    fill(fake, 1)
    watched = follow().complete()
    watched.until(lambda: fake.watching(SERVICES))
    fake.put(objects.service("before"))
    watched.until(lambda: "Service before" in watched.names)
    version = str(fake.version)
    if end == "is cut":
        fake.cut(SERVICES)
    elif end == "ends":
        fake.script[SERVICES] = [Answer(200, b"")]  # the next watch ends at once
        fake.cut(SERVICES)
    else:
        fake.stalled.add(SERVICES)
        watched.until(lambda: len(fake.asked(SERVICES, watch=True)) > 1)
        fake.stalled.clear()
    fake.put(objects.service("after"))
    watched.until(lambda: "Service after" in watched.names)
    assert fake.asked(SERVICES, watch=True)[1].query["resourceVersion"] == version
    assert len(fake.asked(SERVICES)) == 1
    assert not any(changes.removed for changes in watched.changes)
    watched.until(lambda: not watched.source.problems)


def test_bookmark_moves_the_version_to_resume_at(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 1)
    watched = follow().complete()
    watched.until(lambda: fake.watching(SERVICES))
    fake.version += 100  # other resources changed
    version = str(fake.version)
    fake.bookmark(SERVICES)
    fake.cut(SERVICES)
    watched.until(lambda: len(fake.asked(SERVICES, watch=True)) > 1)
    assert fake.asked(SERVICES, watch=True)[1].query["resourceVersion"] == version


def test_expired_watch_reports_only_differences(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 4)
    watched = follow().complete()
    watched.until(lambda: fake.watching(SERVICES))
    seen = len(watched.changes)
    with fake.lock:  # without a watch: one object goes, one comes, and the history expires
        fake.cut(SERVICES)
        del fake.objects["Service"]["ns1", "web1"]
        fake.objects["Service"]["ns1", "new"] = objects.service("new")
        fake.expire()
    watched.until(lambda: "Service new" in watched.names and "Service web1" not in watched.names)
    changes = watched.changes[seen:]
    assert [item["metadata"]["name"] for change in changes for item in change.put] == ["new"]
    assert [str(key) for change in changes for key in change.removed] == ["Service ns1/web1"]
    assert len(fake.asked(SERVICES)) > 1
    watched.until(lambda: not watched.source.problems)


def test_watches_ended_early_by_the_api_back_off(
    fake: FakeApiServer, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All nodes would reconnect at once when an API server stops."""
    fill(fake, 1)
    watched = follow(timing=FAST._replace(first_backoff=0.07)).complete()
    watched.until(lambda: fake.watching(SERVICES))
    waits: list[tuple[float, float]] = []
    monkeypatch.setattr("random.uniform", lambda least, most: waits.append((least, most)) or most)
    fake.end(SERVICES)
    watched.until(lambda: len(fake.asked(SERVICES, watch=True)) == 2)
    assert (0.0, 0.07) in waits
    assert not watched.source.problems


@pytest.mark.parametrize(
    "answer",
    [
        Answer(410, encode(failure(410, "Expired", "too old resource version"))),
        Answer(200, encode({"type": "ERROR", "object": failure(410, "Expired", "too old resource version")})),
    ],
    ids=["answer", "event"],
)
def test_nodes_with_expired_version_delay_the_next_list(
    fake: FakeApiServer, follow: Follow, monkeypatch: pytest.MonkeyPatch, answer: Answer
) -> None:
    fill(fake, 1)
    watched = follow(timing=FAST._replace(spread=0.07)).complete()
    watched.until(lambda: fake.watching(SERVICES))
    waits: list[tuple[float, float]] = []
    monkeypatch.setattr("random.uniform", lambda least, most: waits.append((least, most)) or most)
    fake.script[SERVICES] = [answer]
    fake.cut(SERVICES)
    watched.until(lambda: len(fake.asked(SERVICES)) == 2)
    assert 0.07 in [most for _least, most in waits]


@pytest.mark.parametrize(
    "answer",
    [
        Answer(410, encode(failure(410, "Expired", "too old resource version"))),
        Answer(
            504,
            encode(failure(504, "Timeout", "Too large", details={"causes": [{"reason": "ResourceVersionTooLarge"}]})),
        ),
        Answer(
            200,
            encode({"type": "ERROR", "object": failure(500, "InternalError", "etcd event received with PrevKv=nil")}),
        ),
        Answer(200, b"<html>\n"),
        Answer(200, b'{"type":"ADDED"}\n'),
        Answer(200, b'{"type":"ADDED","object":{"kind":"Service","metadata":{"resourceVersion":"7"}}}\n'),
        Answer(200, b'{"type":"ADDED","object":{"kind":"Secret","metadata":{"name":"x","resourceVersion":"7"}}}\n'),
        Answer(200, b"\xff\xfe\n"),
        Answer(200, b"[" * 100000 + b"\n"),
        Answer(200, b"null\n"),
    ],
    ids=[
        "410",
        "version too large",
        "error event",
        "html",
        "no object",
        "no name",
        "another kind",
        "not text",
        "deep",
        "null",
    ],
)
def test_malformed_watch_lists_again(fake: FakeApiServer, follow: Follow, answer: Answer) -> None:
    fill(fake, 2)
    watched = follow().complete()
    watched.until(lambda: fake.watching(SERVICES))
    fake.script[SERVICES] = [answer]
    fake.cut(SERVICES)
    watched.until(lambda: len(fake.asked(SERVICES)) == 2 and fake.watching(SERVICES))
    fake.put(objects.service("after"))
    watched.until(lambda: "Service after" in watched.names)
    assert services(watched) == {*service_names(2), "Service after"}
    assert not any(changes.removed for changes in watched.changes)


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_refusal_keeps_the_version_to_resume_at(fake: FakeApiServer, follow: Follow, status: int) -> None:
    """An API server that just started lacks its roles and answers 403 for a moment. The source keeps its version."""
    fill(fake, 2)
    watched = follow().complete()
    watched.until(lambda: fake.watching(SERVICES))
    fake.script[SERVICES] = [Answer(status, encode(failure(status, "Reason", "words")))] * 10_000
    fake.cut(SERVICES)
    watched.until(lambda: f"answers {status} Reason: words" in watched.source.problems.get(SERVICES, ""))
    fake.script.clear()
    fake.put(objects.service("after"))
    watched.until(lambda: "Service after" in watched.names)
    assert len(fake.asked(SERVICES)) == 1
    assert not any(changes.removed for changes in watched.changes)


def test_truncated_watch_is_reported(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 1)
    watched = follow(timing=FAST._replace(first_backoff=60.0, most_backoff=60.0)).complete()
    watched.until(lambda: fake.watching(SERVICES))
    fake.cut(SERVICES)
    watched.until(lambda: SERVICES in watched.source.problems)
    assert "the API's stream broke off: the connection was closed;" in watched.source.problems[SERVICES]


def test_idle_watch_ended_by_a_proxy_is_no_problem(fake: FakeApiServer, follow: Follow) -> None:
    """Load balancers end idle connections, some after half a minute; later changes must not wait longer and longer."""
    fill(fake, 1)
    watched = follow(timing=FAST._replace(first_backoff=0.05, most_backoff=60.0, steady=0.1, silence=60.0)).complete()
    for number in range(1, 10):
        watched.until(lambda number=number: len(fake.asked(SERVICES, watch=True)) == number and fake.watching(SERVICES))
        assert not watched.source.problems
        time.sleep(0.15)
        fake.cut(SERVICES)
    fake.put(objects.service("after"))
    watched.until(lambda: "Service after" in watched.names)
    assert len(fake.asked(SERVICES)) == 1
    assert not any("broke off" in line for line in watched.lines)


def test_garbage_in_a_stream_lists_again(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 2)
    watched = follow().complete()
    watched.until(lambda: fake.watching(SERVICES))
    fake.send(SERVICES, b'{"type":"DELETED","obj\n')
    fake.put(objects.service("after"))
    watched.until(lambda: "Service after" in watched.names)
    assert services(watched) == {*service_names(2), "Service after"}


def test_flood_of_changes_is_merged_into_few(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 2)
    watched = follow(timing=FAST._replace(silence=5.0)).complete()
    watched.until(lambda: fake.watching(SERVICES))
    for number in range(2000):
        fake.put(objects.service("web0", [f"10.96.{number // 250}.{number % 250 + 1}"]))
    last = fake.objects["Service"]["ns1", "web0"]["spec"]["clusterIP"]
    fake.put(objects.service("last"))
    time.sleep(1.0)  # no scan
    changes = watched.scan()
    watched.until(lambda: "Service last" in watched.names)
    assert len(changes.put) <= 2
    assert [item["spec"]["clusterIP"] for key, item in watched.held.items() if key.name == "web0"] == [last]


def test_object_added_and_deleted_between_lists_is_ignored(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 1)
    watched = follow().complete()
    watched.until(lambda: fake.watching(SERVICES))
    fake.put(objects.service("brief"))
    fake.delete("Service", "ns1", "brief")
    fake.delete("Service", "ns1", "web0")
    fake.put(objects.service("web0", ["10.96.7.7"]))
    reflector = watched.source._reflectors[0]
    while reflector._version != str(fake.version):
        time.sleep(0.01)
    changes = watched.scan()
    assert [item["metadata"]["name"] for item in changes.put] == ["web0"]
    assert changes.removed == []
