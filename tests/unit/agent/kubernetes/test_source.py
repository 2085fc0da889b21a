# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List and watch: whatever the API does, what is held is what the API has, and nothing of it was ever taken away by mistake."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support import objects
from support.fake_apiserver import Answer, FakeApiServer, encode, failure
from support.following import FAST, NODE, Following

Follow = Callable[..., Following]
SERVICES, SLICES, NODES = "/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices", "/api/v1/nodes"


def fill(fake: FakeApiServer, count: int = 4) -> None:
    fake.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "status": {"images": ["a"], "addresses": []}})
    for number in range(count):
        fake.put(objects.service(f"web{number}", [f"10.96.0.{number + 1}"]))
        fake.put(objects.piece(f"web{number}", [objects.endpoint(f"10.244.0.{number + 1}")]))


def service_names(count: int) -> set[str]:
    return {f"Service web{number}" for number in range(count)}


def services(following: Following) -> set[str]:
    return {name for name in following.names if name.startswith("Service ")}


def test_nothing_is_known_before_it_began(fake: FakeApiServer, follow: Follow) -> None:
    following = follow(begin=False)
    assert following.source.waiting == "the Kubernetes API: its lists are being read"
    assert following.source.unknown == {SERVICES, SLICES}
    assert following.scan() == ([], [])


def test_lists_page_by_page_then_watches_from_there(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 8)
    following = follow().complete()
    assert services(following) == service_names(8)
    assert len(following.names) == 17
    assert [request.query.get("limit") for request in fake.asked(SERVICES)] == ["3", "3", "3"]
    following.until(lambda: fake.watching(SERVICES))
    watch = fake.asked(SERVICES, watch=True)[0].query
    assert watch["resourceVersion"] == str(fake.version)
    assert watch["allowWatchBookmarks"] == "true"
    assert 20 <= int(watch["timeoutSeconds"]) <= 40
    assert following.source.problems == {}


def test_asks_for_what_kube_proxy_asks_for(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 1)
    other = {"service.kubernetes.io/service-proxy-name": "other"}
    fake.put(objects.service("foreign", labels=other))
    fake.put(objects.service("headless", labels={"service.kubernetes.io/headless": ""}))
    fake.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "somebody-else"}})
    following = follow().complete()
    assert {name for name in following.names if "Slice" not in name} == {"Service web0", f"Node {NODE}"}
    selector = "!service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name"
    for path in (SERVICES, SLICES):
        assert {request.query["labelSelector"] for request in fake.requests if request.path == path} == {selector}
    assert {request.query["fieldSelector"] for request in fake.requests if request.path == NODES} == {f"metadata.name={NODE}"}
    following.until(lambda: fake.watching(SERVICES))
    fake.put(objects.service("web0", labels=other))  # given to another proxy: gone for us
    following.until(lambda: not services(following))


def test_objects_say_what_they_are_and_keep_only_what_matters(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 1)
    following = follow().complete()
    held = {item["kind"]: item for item in following.held.values()}
    assert held["Service"]["apiVersion"] == "v1"
    assert held["Node"]["status"] == {"addresses": []}
    assert all("resourceVersion" not in item["metadata"] for item in held.values())
    assert {json.dumps(item, sort_keys=True) for item in following.source.objects()} == {
        json.dumps(item, sort_keys=True) for item in held.values()
    }


def test_follows_changes(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 1)
    following = follow().complete()
    following.until(lambda: fake.watching(SERVICES) and fake.watching(SLICES))
    fake.put(objects.service("new"))
    following.until(lambda: "Service new" in following.names)
    fake.put(objects.service("new", ["10.96.9.9"]))
    following.until(lambda: {"10.96.9.9"} & {item["spec"].get("clusterIP") for item in following.held.values() if "spec" in item})
    fake.delete("Service", "ns1", "new")
    following.until(lambda: "Service new" not in following.names)
    assert len(fake.asked(SERVICES)) == 1


def test_nothing_changes_if_only_others_fields_do(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 1)
    following = follow().complete()
    following.until(lambda: fake.watching(NODES))
    told = len(following.told)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "status": {"images": ["b"], "addresses": []}}
    fake.put(node)  # a heartbeat
    fake.bookmark(NODES)
    reflector = following.source._reflectors[-1]
    following.until(lambda: reflector._version == str(fake.version))
    assert len(following.told) == told
    fake.put({**node, "metadata": {"name": NODE, "labels": {"topology.kubernetes.io/zone": "z1"}}})
    following.until(lambda: any(item["metadata"].get("labels") for item in following.held.values() if item["kind"] == "Node"))
    assert len(following.told) == told + 1


@pytest.mark.parametrize("end", ["ends", "is cut", "falls silent"])
def test_a_watch_goes_on_where_it_was(fake: FakeApiServer, follow: Follow, end: str) -> None:
    fill(fake, 1)
    following = follow().complete()
    following.until(lambda: fake.watching(SERVICES))
    fake.put(objects.service("before"))
    following.until(lambda: "Service before" in following.names)
    version = str(fake.version)
    if end == "is cut":
        fake.cut(SERVICES)
    elif end == "ends":
        fake.script[SERVICES] = [Answer(200, b"")]  # the next one ends at once
        fake.cut(SERVICES)
    else:
        fake.stalled.add(SERVICES)
        following.until(lambda: len(fake.asked(SERVICES, watch=True)) > 1)
        fake.stalled.clear()
    fake.put(objects.service("after"))
    following.until(lambda: "Service after" in following.names)
    assert fake.asked(SERVICES, watch=True)[1].query["resourceVersion"] == version
    assert len(fake.asked(SERVICES)) == 1
    assert not any(changes.removed for changes in following.told)
    following.until(lambda: not following.source.problems)


def test_a_bookmark_moves_the_place_to_go_on_from(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 1)
    following = follow().complete()
    following.until(lambda: fake.watching(SERVICES))
    fake.version += 100  # other resources changed
    version = str(fake.version)
    fake.bookmark(SERVICES)
    fake.cut(SERVICES)
    following.until(lambda: len(fake.asked(SERVICES, watch=True)) > 1)
    assert fake.asked(SERVICES, watch=True)[1].query["resourceVersion"] == version


def test_an_expired_watch_lists_again_and_tells_only_differences(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 4)
    following = follow().complete()
    following.until(lambda: fake.watching(SERVICES))
    told = len(following.told)
    with fake.lock:  # while nobody watches: one goes, one comes, and history is forgotten
        fake.cut(SERVICES)
        del fake.objects["Service"]["ns1", "web1"]
        fake.objects["Service"]["ns1", "new"] = objects.service("new")
        fake.expire()
    following.until(lambda: "Service new" in following.names and "Service web1" not in following.names)
    changes = following.told[told:]
    assert [item["metadata"]["name"] for change in changes for item in change.put] == ["new"]
    assert [str(key) for change in changes for key in change.removed] == ["Service ns1/web1"]
    assert len(fake.asked(SERVICES)) > 1
    following.until(lambda: not following.source.problems)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(410, encode(failure(410, "Expired", "too old resource version"))),
        Answer(200, encode({"type": "ERROR", "object": failure(410, "Expired", "too old resource version")})),
    ],
    ids=["answer", "event"],
)
def test_nodes_whose_version_has_expired_do_not_list_again_at_once(
    fake: FakeApiServer, follow: Follow, monkeypatch: pytest.MonkeyPatch, answer: Answer
) -> None:
    fill(fake, 1)
    following = follow(timing=FAST._replace(spread=0.07)).complete()
    following.until(lambda: fake.watching(SERVICES))
    waits: list[tuple[float, float]] = []
    monkeypatch.setattr("random.uniform", lambda least, most: waits.append((least, most)) or most)
    fake.script[SERVICES] = [answer]
    fake.cut(SERVICES)
    following.until(lambda: len(fake.asked(SERVICES)) == 2)
    assert 0.07 in [most for _least, most in waits]


@pytest.mark.parametrize(
    "answer",
    [
        Answer(410, encode(failure(410, "Expired", "too old resource version"))),
        Answer(
            504,
            encode(failure(504, "Timeout", "Too large", details={"causes": [{"reason": "ResourceVersionTooLarge"}]})),
        ),
        Answer(200, encode({"type": "ERROR", "object": failure(500, "InternalError", "etcd event received with PrevKv=nil")})),
        Answer(200, b"<html>\n"),
        Answer(200, b'{"type":"ADDED"}\n'),
        Answer(200, b'{"type":"ADDED","object":{"kind":"Service","metadata":{"resourceVersion":"7"}}}\n'),
        Answer(200, b'{"type":"ADDED","object":{"kind":"Secret","metadata":{"name":"x","resourceVersion":"7"}}}\n'),
        Answer(200, b"\xff\xfe\n"),
        Answer(200, b"[" * 100000 + b"\n"),
        Answer(200, b"null\n"),
    ],
    ids=["410", "version too large", "error event", "html", "no object", "no name", "another kind", "not text", "deep", "null"],
)
def test_a_watch_that_makes_no_sense_lists_again(fake: FakeApiServer, follow: Follow, answer: Answer) -> None:
    fill(fake, 2)
    following = follow().complete()
    following.until(lambda: fake.watching(SERVICES))
    fake.script[SERVICES] = [answer]
    fake.cut(SERVICES)
    following.until(lambda: len(fake.asked(SERVICES)) == 2 and fake.watching(SERVICES))
    fake.put(objects.service("after"))
    following.until(lambda: "Service after" in following.names)
    assert services(following) == {*service_names(2), "Service after"}
    assert not any(changes.removed for changes in following.told)


def test_garbage_in_the_midst_of_a_stream(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 2)
    following = follow().complete()
    following.until(lambda: fake.watching(SERVICES))
    fake.send(SERVICES, b'{"type":"DELETED","obj\n')
    fake.put(objects.service("after"))
    following.until(lambda: "Service after" in following.names)
    assert services(following) == {*service_names(2), "Service after"}


def test_a_page_that_has_expired_begins_again(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 7)
    expired = Answer(410, encode(failure(410, "Expired", "The provided continue parameter is too old")))
    page = encode(fake.listed(SERVICES, {"limit": "3"})[1])
    fake.script[SERVICES] = [Answer(200, page), expired, Answer(200, page), expired]
    following = follow().complete()
    assert services(following) == service_names(7)
    assert [("continue" in request.query, request.query["limit"]) for request in fake.asked(SERVICES)] == [
        (False, "3"), (True, "3"), (False, "3"), (True, "3"), (False, "0"),
    ]  # fmt: skip


def test_a_continue_token_that_the_api_does_not_take(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 7)
    page = fake.listed(SERVICES, {"limit": "3"})[1]
    page["metadata"]["continue"] = "bad"
    fake.script[SERVICES] = [Answer(200, encode(page))]
    assert services(follow().complete()) == service_names(7)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(401, encode(failure(401, "Unauthorized", "Unauthorized"))), "answers 401 Unauthorized"),
        (Answer(403, encode(failure(403, "Forbidden", 'User "x" cannot list'))), 'User "x" cannot list'),
        (Answer(500, b"<h1>oops</h1>", {"Content-Type": "text/html"}), "answers 500: Internal Server Error"),
        (Answer(200, b"<h1>login</h1>"), "is not JSON"),
        (Answer(200, b"[1]"), "is not a list"),
        (Answer(200, b'{"metadata":{},"items":{}}'), "is not a list"),
        (Answer(200, b'{"metadata":{},"items":[]}'), "has no resourceVersion"),
        (Answer(200, b'{"metadata":{"resour', {"Content-Length": "1000", "Connection": "close"}), "the API's answer"),
        (Answer(302, b"", {"Location": "http://192.0.2.1/"}), "answers 302"),
    ],
    ids=["401", "403", "500", "html", "no list", "items", "no version", "short", "redirect"],
)
def test_a_list_that_fails_is_tried_again(fake: FakeApiServer, follow: Follow, answer: Answer, words: str) -> None:
    fill(fake, 2)
    fake.script[SERVICES] = [answer] * 3
    following = follow()
    following.until(lambda: words in following.source.waiting)
    assert words in following.source.problems[SERVICES]
    following.complete()
    assert services(following) == service_names(2)
    following.until(lambda: not following.source.problems)


def test_waits_as_long_as_the_api_asks_for(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 1)
    fake.script[SERVICES] = [Answer(429, encode(failure(429, "TooManyRequests", "later")), {"Retry-After": "1"})]
    begun = time.monotonic()
    follow().complete()
    assert time.monotonic() - begun >= 1


def test_backs_off(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 1)
    fake.script[SERVICES] = [Answer(500, b"")] * 1000
    following = follow(timing=FAST._replace(first_backoff=0.05, most_backoff=0.4))
    following.until(lambda: following.source.problems)
    time.sleep(1.0)
    assert 3 <= len(fake.asked(SERVICES)) <= 9


def test_a_list_without_end_is_not_a_reason_to_remove(fake: FakeApiServer, follow: Follow) -> None:
    """Both lists have to be complete before anything counts as known."""
    fill(fake, 4)
    fake.stalled.add(SLICES)
    following = follow()
    following.until(lambda: services(following) == service_names(4))
    for _number in range(5):
        following.scan()
        time.sleep(0.02)
    assert following.source.waiting != ""
    assert following.source.unknown == {SLICES}
    fake.stalled.clear()
    following.complete()


def test_without_a_node_object_it_goes_on_and_says_so(fake: FakeApiServer, follow: Follow) -> None:
    fake.put(objects.service("web"))
    following = follow().complete()
    following.until(lambda: "hostnameOverride" in following.source.problems.get(NODES, ""))


def test_a_node_that_may_not_be_read_is_not_waited_for(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 1)
    fake.script[NODES] = [Answer(403, encode(failure(403, "Forbidden", "no")))] * 1000
    following = follow().complete()
    assert "answers 403" in following.source.problems[NODES]


def test_an_object_without_a_name_stops_nobody_else(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 2)
    fake.objects["Service"]["ns1", "odd"] = {**objects.service("odd"), "metadata": {"name": "", "namespace": "ns1"}}
    following = follow().complete()
    assert services(following) == service_names(2)
    assert any("metadata.name is missing" in text for text in following.source.problems.values())


def test_a_flood_costs_what_the_objects_are_worth(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 2)
    following = follow(timing=FAST._replace(silence=5.0)).complete()
    following.until(lambda: fake.watching(SERVICES))
    for number in range(2000):
        fake.put(objects.service("web0", [f"10.96.{number // 250}.{number % 250 + 1}"]))
    last = fake.objects["Service"]["ns1", "web0"]["spec"]["clusterIP"]
    fake.put(objects.service("last"))
    time.sleep(1.0)  # nobody looks
    changes = following.scan()
    following.until(lambda: "Service last" in following.names)
    assert len(changes.put) <= 2
    assert [item["spec"]["clusterIP"] for key, item in following.held.items() if key.name == "web0"] == [last]


def test_the_api_goes_away_and_comes_back(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 3)
    following = follow().complete()
    port, kept = fake.port, fake.objects
    fake.close()
    following.until(lambda: "cannot be reached: connection refused" in following.source.problems.get(SERVICES, ""))
    assert "what is known of it stays in place" in following.source.problems[SERVICES]
    assert services(following) == service_names(3)
    assert following.source.waiting == ""
    assert following.source.unknown == set()
    again = FakeApiServer(version=fake.version, port=port)
    again.objects = kept
    again.put(objects.service("new"))
    try:
        following.until(lambda: "Service new" in following.names)
        assert not any(changes.removed for changes in following.told)
        following.until(lambda: not following.source.problems)
    finally:
        following.close()
        again.close()


def test_ends_promptly_while_watching_and_while_nobody_answers(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 1)
    following = follow(timing=FAST._replace(silence=60.0)).complete()
    following.until(lambda: fake.watching(SERVICES))
    stalled = follow(begin=False)
    fake.stalled.add(SERVICES)
    stalled.source.start()
    time.sleep(0.1)
    begun = time.monotonic()
    following.close()
    stalled.close()
    assert time.monotonic() - begun < 10
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(("watch", "snapshot", "events"))]
    fake.stalled.clear()


# the snapshot


def stored(path: Path, following: Following) -> None:
    following.until(lambda: path.exists() and path.read_bytes().count(b"\n") == len(following.held) + 1)


def test_a_start_while_the_api_is_away_restores(fake: FakeApiServer, follow: Follow, tmp_path: Path) -> None:
    fill(fake, 3)
    first = follow().complete()
    stored(tmp_path / "objects.snapshot", first)
    first.close()
    fake.stalled.update((SERVICES, SLICES, NODES))
    fake.script = {path: [Answer(503, b"")] * 1000 for path in (SERVICES, SLICES, NODES)}
    second = follow()
    second.until(lambda: not second.source.waiting)
    second.until(lambda: second.names == first.names)
    assert second.held == first.held
    assert second.source.unknown == {SERVICES, SLICES}  # what came since is not known: nothing may be removed
    assert "are restored from" in second.source.problems["snapshot"]
    assert any("are restored from" in line for line in second.lines)
    told = len(second.told)
    with fake.lock:
        del fake.objects["Service"]["ns1", "web2"]
        fake.put(objects.service("new"))
        fake.stalled.clear()
        fake.script.clear()
    second.complete()
    second.until(lambda: services(second) == {"Service web0", "Service web1", "Service new"})
    changes = second.told[told:]
    assert [item["metadata"]["name"] for change in changes for item in change.put] == ["new"]
    assert [str(key) for change in changes for key in change.removed] == ["Service ns1/web2"]
    second.until(lambda: not second.source.problems)


def test_an_api_that_does_not_answer_is_away_too(
    fake: FakeApiServer, follow: Follow, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fill(fake, 1)
    first = follow().complete()
    stored(tmp_path / "objects.snapshot", first)
    first.close()
    monkeypatch.setattr("kubenode.sources.kubernetes.source._RESTORE_AFTER", 0.2)
    fake.stalled.update((SERVICES, SLICES, NODES))
    second = follow()
    second.until(lambda: not second.source.waiting)
    assert "are restored from" in second.source.problems["snapshot"]
    fake.stalled.clear()


def test_what_the_api_told_goes_before_the_snapshot(fake: FakeApiServer, follow: Follow, tmp_path: Path) -> None:
    fill(fake, 2)
    first = follow().complete()
    stored(tmp_path / "objects.snapshot", first)
    first.close()
    fake.put(objects.service("web0", ["10.96.7.7"]))
    del fake.objects["Service"]["ns1", "web1"]
    fake.script[SLICES] = [Answer(503, b"")] * 1000
    second = follow()
    second.until(lambda: not second.source.waiting)
    second.until(lambda: services(second) == {"Service web0"})
    assert {item["spec"]["clusterIP"] for item in second.held.values() if item["kind"] == "Service"} == {"10.96.7.7"}
    assert "EndpointSlice web1-4" in second.names


def test_a_snapshot_that_cannot_be_used_is_told_and_nothing_is_known(fake: FakeApiServer, follow: Follow, tmp_path: Path) -> None:
    (tmp_path / "objects.snapshot").write_bytes(b"{}\n")
    fake.script = {path: [Answer(503, b"")] * 1000 for path in (SERVICES, SLICES, NODES)}
    following = follow()
    following.until(lambda: any("is not a snapshot" in line for line in following.lines))
    assert "answers 503" in following.source.waiting


def test_a_snapshot_that_cannot_be_written_is_a_problem_and_nothing_else(
    fake: FakeApiServer, follow: Follow, tmp_path: Path
) -> None:
    fill(fake, 1)
    (tmp_path / "objects.snapshot.new").mkdir()
    following = follow().complete()
    following.until(lambda: "cannot be written" in following.source.problems.get(str(tmp_path / "objects.snapshot"), ""))
    assert services(following) == service_names(1)
    (tmp_path / "objects.snapshot.new").rmdir()
    fake.put(objects.service("new"))
    following.until(lambda: not following.source.problems)
