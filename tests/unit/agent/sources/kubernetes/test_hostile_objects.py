# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of a hostile tenant, by list, watch and snapshot: each affects only itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.agent.watched_source import NODE, SERVICES, SLICES, WatchedSource, fill, service_names
from support.clusters import objects
from support.fakes.apiserver import FakeApiServer
from support.fakes.apiserver_http import Answer
from support.kube_proxy.wanted import cluster

from kubenode.manifests.directory import Manifests
from kubenode.manifests.documents import key_of
from kubenode.sources.kubernetes import snapshot
from kubenode.sources.kubernetes.objects import encode, understood

Follow = Callable[..., WatchedSource]
POISON = objects.piece(
    "web1", [objects.endpoint("10.244.0.9")], name="poison", annotations={"kubenode.ipvs/weight": "9" * 5000}
)
VALUES = {"digits": "9" * 5000, "nested": '{"a":' * 5000 + "1" + "}" * 5000, "lists": "[" * 60_000 + "]" * 60_000}


def served(watched: WatchedSource) -> set[str]:
    """Return the virtual servers of the held objects; check that only the hostile object has problems."""
    built = cluster(watched.held.values())
    assert {name for _kind, name in built.problems} <= {"ns1/poison"}
    return {str(key) for key in built.state()["virtual_server"]}


def test_poison_in_a_list(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 3)
    fake.put(POISON)
    watched = follow().complete()
    assert "EndpointSlice poison" in watched.names
    assert served(watched) == {f"tcp 10.96.0.{number}:80" for number in (1, 2, 3)}


def test_poison_in_a_watch(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 3)
    watched = follow().complete()
    watched.until(lambda: fake.watching(SLICES))
    fake.put(POISON)
    watched.until(lambda: "EndpointSlice poison" in watched.names)
    fake.put(objects.piece("after"))
    watched.until(lambda: "EndpointSlice after-4" in watched.names)
    assert len(fake.asked(SLICES)) == 1  # one list suffices
    assert served(watched) == {f"tcp 10.96.0.{number}:80" for number in (1, 2, 3)}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_value_out_of_bounds_in_a_list_costs_only_its_object(fake: FakeApiServer, follow: Follow, value: str) -> None:
    fill(fake, 3)
    items = [
        fake_item(objects.service("poison", ["10.96.0.9"], [objects.port(4711)])),
        fake_item(objects.service("web0", ["10.96.0.1"])),
    ]
    page = json.dumps({"kind": "ServiceList", "metadata": {"resourceVersion": str(fake.version)}, "items": items})
    fake.script[SERVICES] = [Answer(200, page.replace("4711", value, 1).encode())]
    watched = follow().complete()
    assert watched.source.problems == {}
    assert served(watched) == {"tcp 10.96.0.1:80"}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_value_out_of_bounds_in_a_watch_costs_only_its_object(fake: FakeApiServer, follow: Follow, value: str) -> None:
    fill(fake, 3)
    watched = follow().complete()
    watched.until(lambda: fake.watching(SERVICES))
    item = objects.service("poison", ["10.96.0.9"], [objects.port(4711)])
    item["metadata"]["resourceVersion"] = str(fake.version)
    line = json.dumps({"type": "ADDED", "object": item}).replace("4711", value, 1) + "\n"
    fake.script[SERVICES] = [Answer(200, line.encode())]
    fake.cut(SERVICES)
    watched.until(lambda: "Service poison" in watched.names)
    assert len(fake.asked(SERVICES)) == 1  # only the first list
    assert served(watched) == {f"tcp 10.96.0.{number}:80" for number in (1, 2, 3)}


def fake_item(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in ("kind", "apiVersion")}


@pytest.mark.parametrize("metadata", [{}, {"name": 5}, {"name": ""}], ids=["none", "number", "empty"])
def test_object_without_a_name_costs_only_itself(fake: FakeApiServer, follow: Follow, metadata: Any) -> None:
    fill(fake, 2)
    items = [{"metadata": metadata}, fake_item(objects.service("web0", ["10.96.0.1"]))]
    page = json.dumps({"kind": "ServiceList", "metadata": {"resourceVersion": str(fake.version)}, "items": items})
    fake.script[SERVICES] = [Answer(200, page.encode())]
    watched = follow().complete()
    assert {text for text in watched.source.problems.values() if "metadata.name is missing" in text}
    assert {"Service web0"} == {name for name in watched.names if name.startswith("Service ")}


def test_poison_in_a_snapshot(tmp_path: Path) -> None:
    items = [objects.service("web", ["10.96.0.1"]), POISON]
    texts = [encode(understood(item["kind"], item)[1]).encode() for item in items]
    for value in VALUES.values():  # as an agent without these bounds may have saved it
        item = objects.service("poison", ["10.96.0.9"], [objects.port(4711)])
        texts.append(json.dumps(item).replace("4711", value, 1).replace("poison", f"poison{len(texts)}").encode())
    path = tmp_path / "objects"
    snapshot.write(str(path), NODE, "https://h", texts)
    restored = [item for _key, _text, item in snapshot.read(str(path), NODE).objects]
    source = Manifests(str(path))
    source.scan()
    for held in (restored, list(source.objects())):
        assert {str(key_of(item)) for item in held} >= {
            "Service ns1/web",
            "EndpointSlice ns1/poison",
            "Service ns1/poison2",
        }
        built = cluster(held)
        assert {str(key) for key in built.state()["virtual_server"]} == {"tcp 10.96.0.1:80"}
        assert len(built.problems) == 4


def test_poison_is_restored_while_the_api_is_away(fake: FakeApiServer, follow: Follow, tmp_path: Path) -> None:
    fill(fake, 2)
    fake.put(POISON)
    first = follow().complete()
    first.until(lambda: (tmp_path / "objects.snapshot").exists())
    first.close()
    fake.close()
    second = follow()
    second.until(lambda: not second.source.waiting)
    second.scan()
    assert {f"Service {name}" for name in ("web0", "web1")} == service_names(2) <= second.names
    assert served(second) == {"tcp 10.96.0.1:80", "tcp 10.96.0.2:80"}
