# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events report what the agent cannot serve: once each, a bounded number, and never by delaying the proxy."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import pytest
from support.agent.watched_source import NODE, Fixed, WatchedSource
from support.clusters import objects
from support.fakes.apiserver import FakeApiServer
from support.fakes.apiserver_http import Answer
from support.waiting import eventually

from kubenode.sources.kubernetes.access import Identity
from kubenode.sources.kubernetes.api import Session
from kubenode.sources.kubernetes.credentials import Credentials
from kubenode.sources.kubernetes.event_recorder import Events

BAD = ("Service", "ns1/bad")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def events(fake: FakeApiServer) -> Iterator[Events]:
    recorder = Events(Session(Fixed(fake.url), Credentials()), NODE, Clock(), burst=5)
    recorder.start()
    yield recorder
    recorder.stop()
    recorder.join(60)
    assert not recorder.is_alive()


def uid(_key: object) -> str:
    return "u1"


def test_event_refers_to_its_object(fake: FakeApiServer, events: Events) -> None:
    events.report({BAD: ("spec.ports is wrong",)}, uid)
    eventually(lambda: bool(fake.events))
    (event,) = fake.events
    assert event["regarding"] == {"apiVersion": "v1", "kind": "Service", "name": "bad", "namespace": "ns1", "uid": "u1"}
    assert (event["note"], event["type"], event["reason"]) == ("spec.ports is wrong", "Warning", "CannotServe")
    assert (event["reportingController"], event["reportingInstance"]) == ("kubenode-agent", f"kubenode-agent-{NODE}")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", event["eventTime"])
    assert event["metadata"]["namespace"] == "ns1"
    assert fake.requests[-1].path == "/apis/events.k8s.io/v1/namespaces/ns1/events"


def test_failed_health_check_event_has_kube_proxy_reason(fake: FakeApiServer, events: Events) -> None:
    events.report(
        {BAD: ("Service ns1/bad: spec.healthCheckNodePort is 32000, expected a port that the agent can listen on",)},
        uid,
    )
    eventually(lambda: bool(fake.events))
    assert fake.events[0]["reason"] == "FailedToStartServiceHealthcheck"


def test_start_event_refers_to_the_node(fake: FakeApiServer, events: Events) -> None:
    events.began()
    eventually(lambda: bool(fake.events))
    (event,) = fake.events
    assert event["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": NODE}
    assert (event["reason"], event["type"], event["metadata"]["namespace"]) == ("Starting", "Normal", "default")


def test_repeated_problem_sends_no_second_event(fake: FakeApiServer, events: Events) -> None:
    for _time in range(3):
        events.report({BAD: ("a", "b")}, uid)
    eventually(lambda: len(fake.events) == 2)
    events.report({BAD: ("b",)}, uid)
    events.report({BAD: ("a", "b")}, uid)
    eventually(lambda: len(fake.events) == 3)
    assert [event["note"] for event in fake.events] == ["a", "b", "a"]


def test_event_storm_is_limited_and_continued_later(fake: FakeApiServer) -> None:
    clock = Clock()
    events = Events(Session(Fixed(fake.url), Credentials()), NODE, clock, burst=5, refill=10.0)
    events.start()
    many = {("Service", f"ns1/bad{number}"): ("bad",) for number in range(50)}
    events.report(many, uid)
    eventually(lambda: len(fake.events) == 5)
    clock.now = 9.0
    events.report(many, uid)
    clock.now = 21.0
    events.report(many, uid)
    eventually(lambda: len(fake.events) == 7)
    assert len({event["regarding"]["name"] for event in fake.events}) == 7
    events.stop()
    events.join(60)


def test_long_note_is_cut_at_the_api_limit(fake: FakeApiServer, events: Events) -> None:
    events.report({BAD: ("é" * 3000,)}, uid)
    eventually(lambda: bool(fake.events))
    assert 1000 < len(fake.events[0]["note"].encode()) <= 1024


def test_api_that_refuses_events_gets_no_more(fake: FakeApiServer, events: Events) -> None:
    fake.script["/apis/events.k8s.io/v1/namespaces/ns1/events"] = [Answer(403, b"{}"), Answer(500, b"")]
    events.report({BAD: ("a", "b", "c")}, uid)
    eventually(lambda: len(fake.events) == 1)
    assert events.dropped == 2


def test_events_are_retried_after_an_outage(fake: FakeApiServer) -> None:
    """The API server restarts, or the idle connection has ended."""
    events = Events(Session(Fixed(fake.url), Credentials()), NODE, Clock(), pause=0.02)
    events.start()
    events.report({BAD: ("a",)}, uid)
    eventually(lambda: bool(fake.events) and events._session._connection is None)  # the answer has been read, too
    fake.close()
    events.report({BAD: ("a", "b")}, uid)
    time.sleep(0.05)
    again = FakeApiServer(port=fake.port)
    eventually(lambda: [event["note"] for event in again.events] == ["b"] and events._session._connection is None)
    events.stop()
    events.join(60)
    again.close()
    assert events.dropped == 0


def test_expired_token_of_events_is_renewed(fake: FakeApiServer) -> None:
    accessor = Fixed(fake.url, Identity(token="old"))
    fake.users = {"old": "admin"}
    events = Events(Session(accessor, Credentials()), NODE, Clock())
    events.start()
    events.report({BAD: ("a",)}, uid)
    eventually(lambda: bool(fake.events) and events._session._connection is None)
    fake.users = {"new": "admin"}
    accessor._access = Fixed(fake.url, Identity(token="new")).access()
    events.report({BAD: ("a", "b")}, uid)
    eventually(lambda: len(fake.events) == 2)
    events.stop()
    events.join(60)


def test_recorder_ends_promptly_without_an_answer(fake: FakeApiServer) -> None:
    fake.close()
    events = Events(Session(Fixed(fake.url), Credentials()), NODE, Clock(), burst=3)
    events.start()
    events.report({BAD: ("a", "b", "c")}, uid)
    eventually(lambda: events._queue.qsize() == 2)
    events.stop()
    events.join(60)
    assert not events.is_alive()


def test_source_reports_when_all_objects_are_known(fake: FakeApiServer, follow: Callable[..., WatchedSource]) -> None:
    fake.put({**objects.service("bad"), "metadata": {"name": "bad", "namespace": "ns1", "uid": "u-7"}})
    watched = follow()
    watched.source.report({BAD: ("wrong",)})
    assert fake.events == []
    watched.complete()
    watched.source.report({BAD: ("wrong",)})
    watched.source.report({BAD: ("wrong",)})
    eventually(lambda: len(fake.events) == 2)
    assert [(event["reason"], event["regarding"]["uid"]) for event in fake.events] == [
        ("Starting", NODE),
        ("CannotServe", "u-7"),
    ]
