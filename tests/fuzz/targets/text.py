# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""User input as text: manifests, and the files KubeProxyConfiguration and AgentConfiguration, in YAML and JSON."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from fuzz.choices import Choices, wreck
from fuzz.target import Target
from fuzz.targets.objects import MAKERS, seeds

from kubenode.configuration import load
from kubenode.engine.desired.cluster import Cluster
from kubenode.engine.desired.node_facts import NodeFacts
from kubenode.engine.desired.settings import Config
from kubenode.engine.errors import EngineError
from kubenode.manifests.directory import Manifests
from kubenode.manifests.documents import DocumentError, documents, objects

ROOT = Path(__file__).resolve().parents[3]
SCRATCH = tempfile.mkdtemp(prefix="kubenode-fuzz-")
atexit.register(shutil.rmtree, SCRATCH, ignore_errors=True)
YAML_WORDS = (
    "---", "...", "- ", ": ", "? ", "&a ", "*a", "<<: ", "!!int ", "!!float ", "!!bool ", "!!null ", "!!str ",
    "!!binary ", "!!set ", "!!omap ", "!!pairs ", "!!timestamp ", "!!merge ", "!!value ", "!!python/none ", "!a ",
    "%YAML 1.1", "%TAG ! tag:a,2000:", "{", "}", "[", "]", ",", "|", ">-", "'", '"', "#", "0x", "0b", "0o7", "1:30",
    ".inf", ".nan", "~", "true", "null", "\\u0000", "\\xff", "\ufeff", "\u2028", "\x85", "@", "`", "apiVersion", "kind",
    "metadata", "name", "namespace", "items", "List", "v1", "Service", "EndpointSlice", "Node", "discovery.k8s.io/v1",
    "spec", "status", "conditions", "addresses", "ports",
)  # fmt: skip
_MANIFEST = """apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop, annotations: {kubenode.ipvs/scheduler: wrr}}
spec:
  clusterIP: 10.96.0.10
  ports: [{name: http, port: 80, protocol: TCP}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints:
- addresses: [10.244.1.5]
  conditions: {ready: true}
  nodeName: n1
ports: [{name: http, port: 8080}]
"""
_ODD_YAML = (
    "a: &a [1, *a]\n", "!!int ''\n", "!!bool maybe\n", "!!timestamp x\n", "a: !!binary zz\n", "? [a]\n: b\n",
    "<<: [a]\n", "kind: 0x" + "f" * 5000 + "\n", "- " * 300, "{" * 300, '"\\ud800"\n', "%YAML 9.9\n--- a\n",
    "a: 1:2:3\n", "!!set {a, b}\n", "a: &a [x,x]\nb: &b [*a,*a,*a]\nc: &c [*b,*b,*b]\nkind: *c\n", "!!omap [a: 1]\n",
    "2026-01-01\n", "!!float ''\n", "=\n",
)  # fmt: skip


def _documents(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for _line, document in documents(text):
        if not isinstance(document, dict):
            continue
        document.get("kind")
    by_key = objects(text)
    cluster = Cluster(Config(), NodeFacts("n1"))
    for item in by_key.values():
        try:
            cluster.put(item)
        except EngineError:
            continue
    cluster.state()
    assert all(isinstance(text, str) for texts in cluster.problems.values() for text in texts)


def _manifests(data: bytes) -> None:
    """Read objects with unexpected values as JSON from a directory of manifests; conditions must not change."""
    choices = Choices(data)
    items = []
    for _ in range(1 + choices.below(3)):
        item: Any = MAKERS[choices.pick(tuple(MAKERS))](choices)
        for _ in range(choices.below(3)):
            item = wreck(choices, item)
        items.append(item)
    document: Any = items[0] if choices.chance(2) else {"kind": "List", "apiVersion": "v1", "items": items}
    try:
        text = json.dumps(document, default=str)
    except (TypeError, ValueError):
        return  # JSON cannot express the value
    with open(f"{SCRATCH}/a.json", "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    source = Manifests(SCRATCH)
    changes = source.scan()
    given = _by_key(json.loads(text))
    for item in changes.put:
        written = given.get(f"{item['kind']} {item['metadata']['name']}")
        if written is not None and written.get("endpoints") == item.get("endpoints"):
            assert repr(_conditions(written)) == repr(_conditions(item)), "conditions of another object are used"
    assert all(isinstance(text, str) for text in source.problems.values())


def _by_key(document: Any) -> dict[str, dict[str, Any]]:
    """Return the objects of a document as a plain JSON parser reads them; of equal names, the last object."""
    items = document.get("items") if isinstance(document, dict) else None
    by_name = {}
    for item in items if isinstance(items, list) else [document]:
        if isinstance(item, dict) and isinstance(item.get("metadata"), dict):
            by_name[f"{item.get('kind')} {item['metadata'].get('name')}"] = item
    return by_name


def _conditions(item: dict[str, Any]) -> list[Any]:
    endpoints = item.get("endpoints")
    return (
        [each.get("conditions") for each in endpoints if isinstance(each, dict)] if isinstance(endpoints, list) else []
    )


def _configuration(data: bytes) -> None:
    path = f"{SCRATCH}/config.yaml"
    with open(path, "wb") as file:
        file.write(data)
    config, warnings = load(path, required=True)
    assert all(isinstance(warning, str) for warning in warnings)
    hash(config)
    Cluster(config, NodeFacts("n1", (("eth0", "10.99.0.11"),), ("10.99.0.11",))).state()


def _config_seeds() -> list[bytes]:
    documents = [(ROOT / "tests/golden/kube-proxy-defaults.yaml").read_bytes()]
    for path in sorted((ROOT / "docs").glob("**/*.md")):
        for block in path.read_text().split("```yaml\n")[1:]:
            text = block.partition("```")[0]
            if "Configuration" in text:
                documents.append(text.encode())
    from kubenode.engine.desired.settings_fields import AGENT_FIELDS, KUBE_PROXY_FIELDS

    for api, kind, fields in (
        ("kubeproxy.config.k8s.io/v1alpha1", "KubeProxyConfiguration", KUBE_PROXY_FIELDS),
        ("kubenode.ipvs/v1alpha1", "AgentConfiguration", AGENT_FIELDS),
    ):
        for path in fields:
            for value in (
                "1",
                '"1"',
                "1m30s",
                "[10.0.0.0/8]",
                "9" * 400,
                "0x" + "f" * 4000,
                "{a: b}",
                ".inf",
                "'10.0.0.1:80'",
            ):
                nested = "".join(f"{{{part}: " for part in path.split(".")) + value + "}" * (path.count(".") + 1)
                documents.append(f"apiVersion: {api}\nkind: {kind}\n{nested[1:-1]}\n".encode())
    return documents


def _config_words() -> tuple[str, ...]:
    from kubenode.engine.desired.settings_fields import AGENT_FIELDS, KUBE_PROXY_FIELDS

    return tuple(sorted({part for path in (*AGENT_FIELDS, *KUBE_PROXY_FIELDS) for part in path.split(".")}))


_JSON_SEEDS = [json.dumps(MAKERS[kind](Choices(data))).encode() for kind in MAKERS for data in seeds(6, 100, 5)]
TARGETS = {
    "documents": Target(
        _documents,
        [_MANIFEST.encode(), *(text.encode("utf-8", "replace") for text in _ODD_YAML), *_JSON_SEEDS],
        (DocumentError,),
        YAML_WORDS,
    ),
    "manifests": Target(_manifests, seeds(40, 300, 6), longest=512),
    "configuration": Target(
        _configuration,
        [*_config_seeds(), *(text.encode("utf-8", "replace") for text in _ODD_YAML)],
        words=(*YAML_WORDS, *_config_words()),
        longest=8192,
    ),
}
