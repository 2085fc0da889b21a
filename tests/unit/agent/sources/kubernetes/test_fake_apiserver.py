# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of the fake API server equal those recorded from a real one.

They agree in their headers, and byte for byte wherever the bytes do not depend on time.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from support.agent.watched_source import NODES, SERVICES, SLICES
from support.fakes.apiserver import FakeApiServer
from support.fakes.apiserver_answers import encode

RECORDED = Path(__file__).parents[4] / "golden/api"


def recorded(name: str) -> tuple[int, bytes]:
    """Return status and body of a recording."""
    head, _blank, body = (RECORDED / name).read_bytes().replace(b"\r\n", b"\n").partition(b"\n\n")
    return int(head.split()[1]), body


def headers(name: str) -> dict[str, str]:
    """Return the headers of a recording that characterise its answer."""
    lines = (RECORDED / name).read_text().partition("\n\n")[0].splitlines()[1:]
    return telling((name, value) for name, _colon, value in (line.partition(": ") for line in lines))


def telling(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the headers except those that depend on time, server or buffer sizes."""
    return {
        name: value for name, value in pairs if name not in ("Date", "Server", "Content-Length", "Transfer-Encoding")
    }


class Reply(NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str]


def ask(fake: FakeApiServer, path: str, token: str = "", document: object = None) -> Reply:
    connection = http.client.HTTPConnection("127.0.0.1", fake.port, timeout=60)
    body = None if document is None else json.dumps(document)
    connection.request(
        "GET" if body is None else "POST", path, body, {"Authorization": f"Bearer {token}"} if token else {}
    )
    response = connection.getresponse()
    try:
        return Reply(response.status, response.read(), telling(response.getheaders()))
    finally:
        connection.close()


def services() -> list[dict[str, Any]]:
    """Return the Services of the recorded cluster."""
    lines = [json.loads(line) for line in recorded("watch-list.http")[1].splitlines()]
    return [line["object"] for line in lines if line["type"] == "ADDED"]


def loaded(fake: FakeApiServer) -> None:
    for item in services():
        fake.objects["Service"][item["metadata"]["namespace"], item["metadata"]["name"]] = item
    fake.version = 5207


def same(answer: Reply, name: str) -> None:
    status, body = recorded(name)
    assert (answer.status, answer.body.strip(), answer.headers) == (status, body.strip(), headers(name))


def test_limit_returns_the_first_page_of_a_list(fake: FakeApiServer) -> None:
    loaded(fake)
    same(ask(fake, f"{SERVICES}?limit=3"), "list-page1.http")


def test_continue_token_returns_the_next_page(fake: FakeApiServer) -> None:
    loaded(fake)
    first = json.loads(ask(fake, f"{SERVICES}?limit=3")[1])
    second = json.loads(ask(fake, f"{SERVICES}?limit=3&continue={quote(first['metadata']['continue'])}")[1])
    wanted = json.loads(recorded("list-page2.http")[1])
    (
        wanted["metadata"].pop("continue"),
        second["metadata"].pop("continue"),
    )  # opaque; the API's cache has another form
    assert second == wanted


def test_invalid_continue_token_is_refused(fake: FakeApiServer) -> None:
    same(ask(fake, f"{SERVICES}?limit=3&continue=bad"), "list-bad-continue.http")


def test_changes_and_a_bookmark(fake: FakeApiServer) -> None:
    lines = recorded("watch-changes.http")[1].splitlines(keepends=True)
    modified, added, _deleted, _bookmark = (json.loads(line)["object"] for line in lines)
    key = (modified["metadata"]["namespace"], modified["metadata"]["name"])
    fake.objects["EndpointSlice"][key] = modified
    fake.version = 5207
    fake.put(modified)
    fake.put(added)
    fake.delete("EndpointSlice", "default", "tmp")
    watch = fake.watched(SLICES, {"resourceVersion": "5207"})
    assert [next(watch) for _line in lines[:3]] == lines[:3]
    fake.bookmark(SLICES)
    assert next(watch) == lines[3]
    watch.close()


def test_a_watch_begins_when_it_is_asked_for(fake: FakeApiServer) -> None:
    """The watch begins at the request, not at its first line: a bookmark tells changes outside the selector."""
    query = {"resourceVersion": str(fake.version), "allowWatchBookmarks": "true", "timeoutSeconds": "2"}
    watch = fake.watched(SLICES, query)
    fake.put({"kind": "Node", "metadata": {"name": "n1"}})
    assert json.loads(next(watch))["type"] == "BOOKMARK"


def test_expired_version_is_refused(fake: FakeApiServer) -> None:
    fake.version = fake.oldest = 4610
    same(ask(fake, f"{SLICES}?watch=true&resourceVersion=1"), "watch-expired.http")


def test_anonymous_and_unknown_users_are_refused(fake: FakeApiServer) -> None:
    fake.users = {"good": "admin"}
    same(ask(fake, SERVICES), "anonymous.http")
    same(ask(fake, SERVICES, "bad"), "unauthorized.http")
    assert ask(fake, SERVICES, "good").status == 200


def test_missing_object_is_not_found(fake: FakeApiServer) -> None:
    same(ask(fake, "/api/v1/nodes/none"), "not-found.http")


def test_user_without_permission_is_refused(fake: FakeApiServer) -> None:
    fake.users = {"known": "system:kube-nobody"}
    same(ask(fake, SLICES, "known"), "forbidden.http")


def test_future_version_of_a_list_is_refused(fake: FakeApiServer) -> None:
    fake.version = int(json.loads(recorded("version-too-large.http")[1])["message"].rpartition(" ")[2])
    same(ask(fake, f"{SERVICES}?resourceVersion=99999999"), "version-too-large.http")


def test_invalid_path_is_not_found(fake: FakeApiServer) -> None:
    same(ask(fake, "/nowhere"), "no-such-path.http")


def test_existing_object_conflicts(fake: FakeApiServer) -> None:
    loaded(fake)
    kubernetes = {"kind": "Service", "apiVersion": "v1", "metadata": {"name": "kubernetes", "namespace": "default"}}
    same(ask(fake, "/api/v1/namespaces/default/services", document=kubernetes), "already-exists.http")


def test_a_bookmark_of_a_node(fake: FakeApiServer) -> None:
    line = recorded("watch-bookmark-node.http")[1]
    watch = fake.watched(NODES, {"resourceVersion": "5000"})
    fake.put({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}})
    next(watch)
    fake.version = int(json.loads(line)["object"]["metadata"]["resourceVersion"])
    fake.bookmark(NODES)
    assert next(watch) == line
    watch.close()


def test_version(fake: FakeApiServer) -> None:
    status, body = recorded("version.http")
    assert json.loads(ask(fake, "/version").body) == json.loads(body)
    assert status == 200


def test_encoding_is_the_api_servers() -> None:
    for line in recorded("watch-list.http")[1].splitlines(keepends=True):
        assert encode(json.loads(line)).strip() == line.strip()
