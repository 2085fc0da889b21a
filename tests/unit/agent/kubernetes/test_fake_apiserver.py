# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fake answers as a real API server has been recorded: byte for byte, wherever the bytes do not depend on time."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from support.fake_apiserver import FakeApiServer
from support.fake_apiserver_answers import encode

RECORDED = Path(__file__).parents[3] / "golden/api"
SERVICES, SLICES = "/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices"


def recorded(name: str) -> tuple[int, bytes]:
    """Status and body of a recording."""
    head, _blank, body = (RECORDED / name).read_bytes().replace(b"\r\n", b"\n").partition(b"\n\n")
    return int(head.split()[1]), body


def ask(fake: FakeApiServer, path: str, token: str = "") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", fake.port, timeout=5)
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
    response = connection.getresponse()
    try:
        return response.status, response.read()
    finally:
        connection.close()


def services() -> list[dict[str, Any]]:
    """The Services of the recorded cluster."""
    lines = [json.loads(line) for line in recorded("watch-list.http")[1].splitlines()]
    return [line["object"] for line in lines if line["type"] == "ADDED"]


def loaded(fake: FakeApiServer) -> None:
    for item in services():
        fake.objects["Service"][item["metadata"]["namespace"], item["metadata"]["name"]] = item
    fake.version = 5207


def same(answer: tuple[int, bytes], name: str) -> None:
    status, body = recorded(name)
    assert (answer[0], answer[1].strip()) == (status, body.strip())


def test_the_first_page_of_a_list(fake: FakeApiServer) -> None:
    loaded(fake)
    same(ask(fake, f"{SERVICES}?limit=3"), "list-page1.http")


def test_a_page_that_continues(fake: FakeApiServer) -> None:
    loaded(fake)
    first = json.loads(ask(fake, f"{SERVICES}?limit=3")[1])
    second = json.loads(ask(fake, f"{SERVICES}?limit=3&continue={quote(first['metadata']['continue'])}")[1])
    wanted = json.loads(recorded("list-page2.http")[1])
    wanted["metadata"].pop("continue"), second["metadata"].pop("continue")  # opaque, and of another form from the API's cache
    assert second == wanted


def test_a_token_that_is_none(fake: FakeApiServer) -> None:
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
    watch.close()  # type: ignore[attr-defined]


def test_a_version_that_has_expired(fake: FakeApiServer) -> None:
    fake.version = fake.oldest = 4610
    same(ask(fake, f"{SLICES}?watch=true&resourceVersion=1"), "watch-expired.http")


def test_nobody_and_somebody_unknown(fake: FakeApiServer) -> None:
    fake.users = {"good": "admin"}
    same(ask(fake, SERVICES), "anonymous.http")
    same(ask(fake, SERVICES, "bad"), "unauthorized.http")
    assert ask(fake, SERVICES, "good")[0] == 200


def test_what_is_not_there(fake: FakeApiServer) -> None:
    same(ask(fake, "/api/v1/nodes/none"), "not-found.http")


def test_version(fake: FakeApiServer) -> None:
    status, body = recorded("version.http")
    assert json.loads(ask(fake, "/version")[1]) == json.loads(body)
    assert status == 200


def test_encoding_is_the_api_servers() -> None:
    for line in recorded("watch-list.http")[1].splitlines(keepends=True):
        assert encode(json.loads(line)).strip() == line.strip()
