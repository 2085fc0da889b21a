# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A running kube-proxy makes of random clusters, and of what changes in them, what we want: every table, line by line.

Run by ``molecule/lab/uml-pytest tests/peers/test_kube_proxy.py --kube-proxy=PATH [--clusters=N] [--first=SEED]``.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.agent.process import eventually
from support.clusters import plain_cluster
from support.fakes.apiserver import FakeApiServer
from support.kube_proxy import recorded
from support.processes.namespace import fresh, sh

from kubenode.engine.render import render

MODULES = (
    "ip_vs",
    "ip_vs_rr",
    "ip_vs_wlc",
    "ip_vs_sh",
    "ip_vs_mh",
    "nf_conntrack",
    "ip_set",
    "xt_set",
    "xt_ipvs",
    "xt_physdev",
)
MODULES += ("dummy", "br_netfilter")
Objects = list[dict[str, Any]]


@pytest.fixture(scope="module")
def program(pytestconfig: pytest.Config) -> str:
    path: str | None = pytestconfig.getoption("--kube-proxy")
    assert path, "tests/peers/test_kube_proxy.py needs --kube-proxy=PATH"
    subprocess.run(["modprobe", "-a", *MODULES], check=True)
    return path


@pytest.fixture
def api() -> Iterator[FakeApiServer]:
    """The node, and the API that it asks."""
    fresh()
    for link in ("eth0", "eth1"):
        sh("ip", "link", "add", link, "type", "dummy")
        sh("ip", "link", "set", link, "up")
    sh("ip", "link", "set", "lo", "up")
    for link, address in plain_cluster.ADDRESSES:
        if link != "lo":
            sh(
                "ip",
                "address",
                "add",
                *([f"{address}/64", "nodad"] if ":" in address else [f"{address}/24"]),
                "dev",
                link,
            )
    server = FakeApiServer()
    yield server
    server.close()


@pytest.fixture
def kube_proxy(program: str, api: FakeApiServer, seed: int, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A kube-proxy that runs; its configuration."""
    config = {**plain_cluster.a_cluster(Random(seed))[1], "hostnameOverride": plain_cluster.NODE}
    kubeconfig = tmp_path / "kubeconfig"
    context = {"name": "here", "context": {"cluster": "here", "user": "nobody"}}
    cluster = {"name": "here", "cluster": {"server": api.url}}
    documents = {"clusters": [cluster], "contexts": [context], "users": [{"name": "nobody", "user": {}}]}
    kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "here", **documents}))
    written = tmp_path / "config"
    extra = {
        "clientConnection": {"kubeconfig": str(kubeconfig), "contentType": "application/json"},
        "featureGates": {"WatchListClient": False},  # the API server of the tests has no lists in watches
        "conntrack": {"maxPerCore": 0, "min": 0},
    }
    written.write_text(
        json.dumps({**config, **extra, "ipvs": {**config["ipvs"], "minSyncPeriod": "0s", "syncPeriod": "10s"}})
    )
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([program, "--config", str(written)], stdout=log, stderr=log)
        yield config
        ended = process.poll()
        process.kill()
        process.wait()
    assert ended is None, (tmp_path / "log").read_text()[-3000:]


def shown() -> dict[str, Any]:
    """Each table of the node, without what carries no meaning."""
    sets, members = recorded.sets(sh("ipset", "save"))
    return {
        "virtual servers": recorded.servers(sh("ipvsadm", "-Sn")),
        "sets": sets,
        "members": members,
        "rules": recorded.rules(sh("iptables-save")),
        "rules6": recorded.rules(sh("ip6tables-save")),
        "addresses": recorded.addresses(sh("ip", "-json", "address", "show", "dev", "kube-ipvs0")),
    }


def wanted(config: dict[str, Any], objects: Objects) -> dict[str, Any]:
    """The same tables, as we want them of the node as it is."""
    recording = {
        "config": config,
        "agent": [plain_cluster.ALLOWED],
        "objects": objects,
        "state": {"node": sh("ip", "-json", "address")},
    }
    state = recorded.cluster(recording).state()
    sets, members = recorded.sets(render(state, "ipset"))
    return {
        "virtual servers": recorded.servers(render(state, "ipvsadm")),
        "sets": sets,
        "members": members,
        "rules": recorded.rules(render(state, "iptables")),
        "rules6": recorded.rules(render(state, "ip6tables")),
        "addresses": set(render(state, "addresses").split()),
    }


def same(config: dict[str, Any], objects: Objects) -> None:
    """Wait until kube-proxy has made what we want."""

    def there() -> bool:
        time.sleep(0.5)  # looking is much work for the node, too
        try:
            return shown() == wanted(config, objects)
        except (AssertionError, KeyError):  # its first pass has not come so far
            return False

    try:
        eventually(there, seconds=60)
    except AssertionError:
        lines = list(differences("", shown(), wanted(config, objects)))
        assert not lines, "\n".join(lines)


def differences(where: str, theirs: Any, ours: Any) -> Iterator[str]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted({*theirs, *ours}):
            yield from differences(f"{where} {key}", theirs.get(key), ours.get(key))
    elif theirs != ours:
        yield f"{where}: kube-proxy has {theirs}, we want {ours}"


def test_changing_cluster_matches_kube_proxy(api: FakeApiServer, kube_proxy: dict[str, Any], seed: int) -> None:
    """The second cluster has Services and slices of the same names as the first: all of them change, or come and go."""
    first, second = (plain_cluster.a_cluster(Random(number))[0] for number in (seed, seed + 1_000_000))
    for obj in first:
        api.put(obj)
    same(kube_proxy, first)
    names = {(obj["kind"], obj["metadata"]["name"]) for obj in second}
    for obj in first:
        if (obj["kind"], obj["metadata"]["name"]) not in names:
            api.delete(obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
    for obj in second:
        if obj["kind"] != "Node":
            api.put(obj)
    same(kube_proxy, [obj for obj in first if obj["kind"] == "Node"] + [obj for obj in second if obj["kind"] != "Node"])
