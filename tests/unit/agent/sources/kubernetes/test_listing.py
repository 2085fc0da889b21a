# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists of the resources that kube-proxy lists, page by page.

The source repeats a failed list. It knows nothing before all lists are complete.
"""

from __future__ import annotations

import gzip
import json
import resource
import time
import zlib
from collections.abc import Callable

import pytest
from support.agent.watched_source import (
    FAST,
    NODE,
    NODES,
    SERVICES,
    SLICES,
    Fixed,
    WatchedSource,
    fill,
    service_names,
    services,
)
from support.clusters import objects
from support.fakes.apiserver import FakeApiServer
from support.fakes.apiserver_answers import encode, failure
from support.fakes.apiserver_http import Answer

from kubenode.sources.kubernetes.api import Session
from kubenode.sources.kubernetes.credentials import Credentials
from kubenode.sources.kubernetes.errors import RefusedError, TooLargeError

Follow = Callable[..., WatchedSource]


def test_objects_are_unknown_before_the_first_list(fake: FakeApiServer, follow: Follow) -> None:
    watched = follow(begin=False)
    assert watched.source.waiting == "the Kubernetes API: its lists are being read"
    assert watched.source.unknown == {SERVICES, SLICES}
    assert watched.scan() == ([], [])


def test_list_is_read_by_pages_and_then_watched(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 8)
    watched = follow().complete()
    assert services(watched) == service_names(8)
    assert len(watched.names) == 17
    assert [request.query.get("limit") for request in fake.asked(SERVICES)] == ["3", "3", "3"]
    watched.until(lambda: fake.watching(SERVICES))
    watch = fake.asked(SERVICES, watch=True)[0].query
    assert watch["resourceVersion"] == str(fake.version)
    assert watch["allowWatchBookmarks"] == "true"
    assert 20 <= int(watch["timeoutSeconds"]) <= 40
    assert watched.source.problems == {}


def test_requests_match_kube_proxy(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 1)
    other = {"service.kubernetes.io/service-proxy-name": "other"}
    headless = {"service.kubernetes.io/headless": ""}
    fake.put(objects.service("foreign", labels=other))
    fake.put(objects.service("labelled", labels=headless))
    fake.put(objects.piece("foreign", labels=other))
    fake.put(objects.piece("headless", labels=headless))
    fake.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "somebody-else"}})
    watched = follow().complete()
    assert {name for name in watched.names if "Slice" not in name} == {
        "Service web0",
        "Service labelled",
        f"Node {NODE}",
    }
    assert {"EndpointSlice foreign-4"} == {name for name in watched.names if "Slice" in name and "web" not in name}
    for path, label in ((SERVICES, "service-proxy-name"), (SLICES, "headless")):
        selectors = {request.query["labelSelector"] for request in fake.requests if request.path == path}
        assert selectors == {f"!service.kubernetes.io/{label}"}
    assert {request.query["fieldSelector"] for request in fake.requests if request.path == NODES} == {
        f"metadata.name={NODE}"
    }
    watched.until(lambda: fake.watching(SERVICES))
    fake.put(objects.service("web0", labels=other))  # given to another proxy: the selector excludes it
    watched.until(lambda: services(watched) == {"Service labelled"})


def test_objects_keep_kind_and_needed_fields_only(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 1)
    watched = follow().complete()
    held = {item["kind"]: item for item in watched.held.values()}
    assert held["Service"]["apiVersion"] == "v1"
    assert held["Node"]["status"] == {"addresses": []}
    assert all("resourceVersion" not in item["metadata"] for item in held.values())
    assert {json.dumps(item, sort_keys=True) for item in watched.source.objects()} == {
        json.dumps(item, sort_keys=True) for item in held.values()
    }


def test_expired_page_begins_the_list_again(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 7)
    expired = Answer(410, encode(failure(410, "Expired", "The provided continue parameter is too old")))
    page = encode(fake.listed(SERVICES, {"limit": "3"}))
    fake.script[SERVICES] = [Answer(200, page), expired, Answer(200, page), expired]
    watched = follow().complete()
    assert services(watched) == service_names(7)
    assert [("continue" in request.query, request.query["limit"]) for request in fake.asked(SERVICES)] == [
        (False, "3"), (True, "3"), (False, "3"), (True, "3"), (False, "0"),
    ]  # fmt: skip


def test_refused_continue_token_begins_again(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 7)
    page = fake.listed(SERVICES, {"limit": "3"})
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
        (Answer(200, b"{}", {"Content-Encoding": "gzip"}), "is not gzip"),
        (Answer(200, gzip.compress(b"{}" * 999)[:-9], {"Content-Encoding": "gzip"}), "broke off"),
    ],
    ids=["401", "403", "500", "html", "no list", "items", "no version", "short", "redirect", "no gzip", "half a gzip"],
)
def test_failed_list_is_retried(fake: FakeApiServer, follow: Follow, answer: Answer, words: str) -> None:
    fill(fake, 2)
    fake.script[SERVICES] = [answer] * 10_000
    watched = follow()
    watched.until(lambda: words in watched.source.waiting)
    assert words in watched.source.problems[SERVICES]
    fake.script.clear()
    watched.complete()
    assert services(watched) == service_names(2)
    watched.until(lambda: not watched.source.problems)


def test_retry_waits_for_retry_after(fake: FakeApiServer, follow: Follow) -> None:
    """Priority and Fairness answers in plain text."""
    fill(fake, 1)
    plain = {"Content-Type": "text/plain; charset=utf-8", "Retry-After": "1"}
    fake.script[SERVICES] = [Answer(429, b"Too many requests, please try again later.\n", plain)] * 1000
    begun = time.monotonic()
    watched = follow()
    watched.until(lambda: watched.source.problems)
    assert "the API answers 429: Too Many Requests" in watched.source.problems[SERVICES]
    fake.script.clear()
    watched.complete()
    assert time.monotonic() - begun >= 1


@pytest.mark.parametrize(("asked", "waits"), [("7", 7.0), ("86400", 60.0), ("soon", 0.0), ("\u00b2", 0.0)])
def test_retry_after_is_bounded(fake: FakeApiServer, asked: str, waits: float) -> None:
    fake.script[SERVICES] = [Answer(503, b"", {"Retry-After": asked})]
    with pytest.raises(RefusedError) as caught:
        Session(Fixed(fake.url), Credentials()).get(SERVICES, {})
    assert caught.value.retry_after == waits


def test_failed_lists_back_off(fake: FakeApiServer, follow: Follow, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait doubles up to its bound; half of it is random."""
    fill(fake, 1)
    waits: list[tuple[float, float]] = []
    monkeypatch.setattr("random.uniform", lambda least, most: waits.append((least, most)) or least)
    fake.script[SERVICES] = [Answer(500, b"")] * 10_000
    watched = follow(timing=FAST._replace(first_backoff=0.05, most_backoff=0.4))
    watched.until(lambda: len(backed_off(waits)) >= 5)
    assert backed_off(waits)[:5] == [(0.025, 0.05), (0.05, 0.1), (0.1, 0.2), (0.2, 0.4), (0.2, 0.4)]


def backed_off(waits: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the waits after a failure; the others are seconds of a watch."""
    return [wait for wait in waits if wait[1] < 1]


def test_large_page_is_compressed(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 3)
    many = [objects.endpoint(f"10.244.{number // 250}.{number % 250 + 1}") for number in range(3000)]
    fake.put(objects.piece("web0", many))
    watched = follow().complete()
    (large,) = [item for item in watched.held.values() if len(item.get("endpoints", "")) > 1]
    assert len(large["endpoints"]) == 3000
    assert 4 * max(fake.sizes) < len(json.dumps(large))
    assert "gzip" not in "".join(request.headers["accept-encoding"] for request in fake.asked(SLICES, watch=True))


def test_endless_list_removes_nothing(fake: FakeApiServer, follow: Follow) -> None:
    """The source knows its objects only when both lists are complete."""
    fill(fake, 4)
    fake.stalled.add(SLICES)
    watched = follow()
    watched.until(lambda: services(watched) == service_names(4))
    for _number in range(5):
        watched.scan()
        time.sleep(0.02)
    assert watched.source.waiting != ""
    assert watched.source.unknown == {SLICES}
    fake.stalled.clear()
    watched.complete()


def test_missing_node_object_is_reported(fake: FakeApiServer, follow: Follow) -> None:
    fake.put(objects.service("web"))
    watched = follow().complete()
    watched.until(lambda: "hostnameOverride" in watched.source.problems.get(NODES, ""))


def test_forbidden_node_object_is_not_waited_for(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 1)
    fake.script[NODES] = [Answer(403, encode(failure(403, "Forbidden", "no")))] * 1000
    watched = follow().complete()
    assert "answers 403" in watched.source.problems[NODES]


def test_object_without_a_name_is_skipped(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 2)
    fake.objects["Service"]["ns1", "odd"] = {**objects.service("odd"), "metadata": {"name": "", "namespace": "ns1"}}
    watched = follow().complete()
    assert services(watched) == service_names(2)
    assert any("metadata.name is missing" in text for text in watched.source.problems.values())


def large(fake: FakeApiServer, name: str, mebibytes: int) -> None:
    """Put a Service with an annotation of this size."""
    service = objects.service(name)
    service["metadata"]["annotations"] = {"large": "x" * (mebibytes << 20)}
    fake.put(service)


def test_too_large_page_is_requested_in_halves(fake: FakeApiServer, follow: Follow) -> None:
    for number in range(6):
        large(fake, f"a{number}", 6)
    for number in range(20):
        fake.put(objects.service(f"b{number:02}"))
    watched = follow(timing=FAST._replace(page=8, silence=60.0))
    watched.until(lambda: not watched.source.waiting and not watched.source.unknown, 60.0)
    assert len(services(watched)) == 26
    limits = [request.query["limit"] for request in fake.asked(SERVICES)]
    assert limits == ["8", "4", "2", "2", "2", "2", "4", "8", "8"]
    assert SERVICES not in watched.source.problems


def test_object_larger_than_any_page_is_an_error(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 3)
    large(fake, "large", 17)
    watched = follow(timing=FAST._replace(page=4, silence=60.0))
    wanted = "the API's answer is larger than 16 MiB, though it was asked for one Service only"
    watched.until(lambda: wanted in watched.source.problems.get(SERVICES, ""), 60.0)
    assert {request.query["limit"] for request in fake.asked(SERVICES)} >= {"4", "2", "1"}


def test_decompression_bomb_is_abandoned_early(fake: FakeApiServer) -> None:
    bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join([*(bomb.compress(bytes(1 << 20)) for _piece in range(512)), bomb.flush()])
    fake.script[SERVICES] = [Answer(200, packed, {"Content-Encoding": "gzip"})]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TooLargeError, match="larger than 16 MiB"):
        Session(Fixed(fake.url), Credentials()).get(SERVICES, {"limit": "1"})
    # KiB: room for an answer, and for its decompression
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40 << 10
