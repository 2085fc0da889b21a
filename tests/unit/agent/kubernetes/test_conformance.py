# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for every API server: the fake, and a real one if KUBENODE_TEST_KUBECONFIG names a kubeconfig for it.

It has to allow writing Services and EndpointSlices in the namespace ``default``; what is made there has a label and is deleted.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.fake_apiserver import PATHS, FakeApiServer
from support.following import FAST, Fixed, Following

from kubenode.sources.documents import ObjectKey
from kubenode.sources.kubernetes.api import Session
from kubenode.sources.kubernetes.credentials import Credentials
from kubenode.sources.kubernetes.errors import RefusedError
from kubenode.sources.kubernetes.kubeconfig import Kubeconfig

KUBECONFIG = os.environ.get("KUBENODE_TEST_KUBECONFIG", "")
COLLECTIONS = {
    "Service": "/api/v1/namespaces/default/services",
    "EndpointSlice": "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
}
SERVICES = "/api/v1/services"
OTHERS = {"service.kubernetes.io/service-proxy-name": "other"}


class Fake:
    """Writes to the fake."""

    def __init__(self, server: FakeApiServer) -> None:
        self.server = server
        self.accessor: Any = Fixed(server.url)

    def create(self, obj: dict[str, Any]) -> None:
        self.server.put(obj)

    replace = create

    def delete(self, kind: str, name: str) -> None:
        self.server.delete(kind, "default", name)


class Real:
    """Writes to a real API server; deletes in the end what it made."""

    def __init__(self) -> None:
        self.accessor: Any = Kubeconfig(KUBECONFIG)
        self._session = Session(self.accessor, Credentials())
        self._made: set[tuple[str, str]] = set()

    def create(self, obj: dict[str, Any]) -> None:
        self._made.add((obj["kind"], obj["metadata"]["name"]))
        self._session.post(COLLECTIONS[obj["kind"]], obj)

    def replace(self, obj: dict[str, Any]) -> None:
        path = f"{COLLECTIONS[obj['kind']]}/{obj['metadata']['name']}"
        now = self._session.get(path, {})
        now["metadata"]["labels"] = obj["metadata"]["labels"]
        self._session._document("PUT", path, {}, json.dumps(now).encode())

    def delete(self, kind: str, name: str) -> None:
        self._made.discard((kind, name))
        self._session._document("DELETE", f"{COLLECTIONS[kind]}/{name}", {}, None)

    def close(self) -> None:
        for kind, name in list(self._made):
            self.delete(kind, name)
        self._session.drop()


@pytest.fixture(params=["fake", "real"] if KUBECONFIG else ["fake"])
def api(request: pytest.FixtureRequest, fake: FakeApiServer) -> Iterator[Fake | Real]:
    if request.param == "fake":
        yield Fake(fake)
        return
    real = Real()
    yield real
    real.close()


@pytest.fixture
def follow(api: Fake | Real, tmp_path: Path) -> Iterator[Callable[[], Following]]:
    started: list[Following] = []

    def start() -> Following:
        timing = FAST._replace(silence=30.0, first_backoff=0.1, most_backoff=1.0)
        started.append(Following("", tmp_path / "objects", timing, api.accessor))
        started[-1].source.start()
        return started[-1]

    yield start
    for following in started:
        following.close()


@pytest.fixture
def session(api: Fake | Real) -> Iterator[Session]:
    found = Session(api.accessor, Credentials())
    yield found
    found.drop()


def service(name: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default", "labels": labels or {}},
        "spec": {"ports": [{"name": "http", "port": 80, "protocol": "TCP"}]},
    }


def piece(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": "default", "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.77"], "conditions": {"ready": True}}],
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    }


def named(count: int = 1) -> list[str]:
    run = uuid.uuid4().hex[:8]
    return [f"kubenode-test-{run}-{number}" for number in range(count)]


def key(kind: str, name: str) -> ObjectKey:
    return ObjectKey(kind, "default", name)


def test_all_pages_of_a_list(api: Fake | Real, follow: Callable[[], Following]) -> None:
    names = named(8)
    for name in names:
        api.create(service(name))
    following = follow().complete()
    assert {key("Service", name) for name in names} <= following.held.keys()
    assert following.held[key("Service", names[0])]["spec"]["ports"][0]["port"] == 80


def test_objects_that_come_change_and_go(api: Fake | Real, follow: Callable[[], Following]) -> None:
    (name,) = named()
    following = follow().complete()
    api.create(service(name))
    api.create(piece(name))
    following.until(lambda: {key("Service", name), key("EndpointSlice", name)} <= following.held.keys(), 20)
    api.replace(service(name, OTHERS))  # another proxy's from now on
    following.until(lambda: key("Service", name) not in following.held, 20)
    api.replace(service(name))
    following.until(lambda: key("Service", name) in following.held, 20)
    api.delete("EndpointSlice", name)
    following.until(lambda: key("EndpointSlice", name) not in following.held, 20)


def test_a_second_list_has_the_same_text_as_the_watch(api: Fake | Real, follow: Callable[[], Following]) -> None:
    """Or else every list would look like a change of everything."""
    (name,) = named()
    following = follow().complete()
    api.create(service(name))
    following.until(lambda: key("Service", name) in following.held, 20)
    watched = {text for text in following.source._store.texts() if name.encode() in text}
    listed = {text for text in follow().complete().source._store.texts() if name.encode() in text}
    assert watched == listed
    assert len(watched) == 1


def test_a_continue_token_that_is_none(session: Session) -> None:
    with pytest.raises(RefusedError) as caught:
        session.get(SERVICES, {"limit": "1", "continue": "bad"})
    assert (caught.value.status, caught.value.reason) == (400, "BadRequest")


def test_bookmarks_and_the_end_of_a_watch(api: Fake | Real, session: Session) -> None:
    version = session.get(SERVICES, {"limit": "1"})["metadata"]["resourceVersion"]
    query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version, "timeoutSeconds": "2"}
    lines = [json.loads(line) for line in session.lines(SERVICES, query, 30) if line]
    assert {line["type"] for line in lines} <= {"ADDED", "MODIFIED", "DELETED", "BOOKMARK"}


def test_a_version_that_has_expired(api: Fake | Real, session: Session) -> None:
    if isinstance(api, Fake):
        api.server.expire()
    query = {"watch": "true", "resourceVersion": "1", "timeoutSeconds": "5"}
    lines = [json.loads(line) for line in session.lines(SERVICES, query, 30) if line]
    if lines and lines[0]["type"] == "ERROR":
        assert lines[0]["object"]["code"] == 410
    else:
        assert isinstance(api, Real), "a young cluster may still have its first version"


def test_everything_that_is_asked_for_exists(session: Session) -> None:
    for path, (kind, api_version) in PATHS.items():
        answer = session.get(path, {"limit": "1"})
        assert (answer["kind"], answer["apiVersion"]) == (f"{kind}List", api_version)
