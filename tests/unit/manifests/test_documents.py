# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse text into objects, and report unusable text."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.clusters import objects as make

from kubenode.manifests.documents import DocumentError, ObjectKey, objects

WEB = make.service("web", ["10.96.0.10"], namespace="shop")
SLICE = make.piece("web", [make.endpoint("10.244.1.5")], namespace="shop")
KEYS = [ObjectKey("Service", "shop", "web"), ObjectKey("EndpointSlice", "shop", "web-4")]


@pytest.mark.parametrize(
    "text",
    [
        yaml.safe_dump_all([WEB, SLICE]),
        yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [WEB, SLICE]}),
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [WEB, SLICE]}, indent=4),
        json.dumps(WEB) + "\n" + json.dumps(SLICE),
        json.dumps(WEB) + "\n---\n" + json.dumps(SLICE) + "\n---\n",
        json.dumps([WEB, SLICE]),
        "---\n---\n"
        + yaml.safe_dump_all([WEB, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}}, SLICE]),
    ],
    ids=[
        "documents",
        "list",
        "kubectl -o json",
        "json behind json",
        "json documents",
        "json array",
        "empty and other documents",
    ],
)
def test_every_form_gives_the_same_objects(text: str) -> None:
    by_key = objects(text)
    assert list(by_key) == KEYS
    assert by_key[KEYS[0]]["spec"] == WEB["spec"]
    assert by_key[KEYS[1]]["endpoints"] == SLICE["endpoints"]


def test_items_of_a_typed_list_inherit_kind_and_version() -> None:
    bare = {key: value for key, value in WEB.items() if key not in ("kind", "apiVersion")}
    by_key = objects(json.dumps({"apiVersion": "v1", "kind": "ServiceList", "items": [bare]}))
    assert list(by_key) == KEYS[:1]


def test_managed_fields_are_dropped_and_namespace_is_added() -> None:
    metadata = {"name": "web", "managedFields": [{"manager": "x"}]}
    metadata["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "kubenode.ipvs/scheduler": "lc",
    }
    (item,) = objects(json.dumps({**WEB, "metadata": metadata})).values()
    assert item["metadata"] == {
        "name": "web",
        "namespace": "default",
        "annotations": {"kubenode.ipvs/scheduler": "lc"},
    }


def test_node_status_keeps_addresses_only() -> None:
    """A Node's status lists every image, and changes with every heartbeat."""
    node = make.node("n1", addresses=["192.0.2.1"])
    reports = {"annotations": {"volumes.kubernetes.io/x": "true"}, "labels": {"x": "y"}}
    full = {**node, "metadata": {"name": "n1", **reports}, "status": {**node["status"], "images": [{"names": ["a"]}]}}
    (item,) = objects(json.dumps(full)).values()
    assert item["status"] == node["status"]
    assert item["metadata"] == {"name": "n1", "labels": {"x": "y"}}


def test_a_time_stays_text() -> None:
    text = "apiVersion: v1\nkind: Node\nmetadata:\n  name: n\n  creationTimestamp: 2026-01-01T00:00:00Z\n"
    (item,) = objects(text).values()
    assert item["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: [1,\nb: }", 2, "not valid YAML"),
        ("kind: Service\n\ttab: 1", 2, "not valid YAML"),
        ('{"kind": "Service",\n  "metadata": }', 2, "not valid JSON"),
        ("---\napiVersion: v1\nmetadata: {name: x}\n", 2, "kind is missing"),
        ("apiVersion: v1\nkind: Service\n", 1, "metadata.name is missing"),
        ("kind: Node\napiVersion: v1\nmetadata: {name: n}\n---\njust text\n", 5, "found 'just text'"),
        ("apiVersion: v1\nkind: EndpointSlice\nmetadata: {name: x}", 1, "expected 'discovery.k8s.io/v1'"),
        ("apiVersion: v1\nkind: Service\nmetadata: {name: x, namespace: 7}", 1, "namespace is 7"),
        (json.dumps({"kind": "List", "items": [WEB, WEB]}), 1, "items[1]: Service shop/web is there twice"),
        (json.dumps({"kind": "List", "items": [WEB, 5]}), 1, "items[1]: expected an object"),
        ('{"kind": "Node", "apiVersion": ' + "1" * 5_000 + "}", 1, "... (5000 digits)', expected 'v1'"),
        ("[" * 100_000, 1, "nested too deeply"),
        ("[" * 5_000 + "]" * 5_000, 1, "nested too deeply"),  # Python 3.13 accepts this depth
        ("a: \x07", 0, "not valid YAML"),
    ],
)
def test_invalid_document_gives_one_problem(text: str, line: int, words: str) -> None:
    with pytest.raises(DocumentError) as caught:
        objects(text)
    assert caught.value.line == line
    assert words in caught.value.what


@pytest.mark.parametrize(("invalid", "valid"), [("0", "false"), ("1", "true"), ("1.0", "true")])
def test_conditions_of_an_invalid_slice_stay_its_own(invalid: str, valid: str) -> None:
    """In Python ``0 == False``: slices with equal conditions share them (found by fuzzing)."""
    text = json.dumps(make.piece("web", [make.endpoint("10.244.1.5", ready=True)]))
    for value in (invalid, valid):
        (written,) = objects(text.replace('"ready": true', f'"ready": {value}')).values()
        assert repr(written["endpoints"][0]["conditions"]) == repr({"ready": json.loads(value)})


@given(st.text(max_size=200) | st.from_regex(r"[\[\]{}:,\"a1 \n&*!-]{0,60}", fullmatch=True))
def test_any_text_raises_document_errors_only(text: str) -> None:
    try:
        by_key = objects(text)
    except DocumentError:
        return
    assert all(isinstance(key, ObjectKey) for key in by_key)
