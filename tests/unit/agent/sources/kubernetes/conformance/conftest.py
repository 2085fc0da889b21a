# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures for tests that run against the fake API server and, if given, against a real one.

KUBENODE_TEST_KUBECONFIG names a kubeconfig of the real one. No test knows which one it uses. The identity must be
an administrator's. The run gives its objects unique names and deletes them.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.agent.watched_source import FAST, WatchedSource
from support.clusters.cluster import Cluster
from support.fakes.apiserver import FakeApiServer
from support.fakes.certificates import Authority

KUBECONFIG = os.environ.get("KUBENODE_TEST_KUBECONFIG", "")
PATIENT = FAST._replace(first_backoff=0.1, most_backoff=1.0, silence=30.0, watch=60.0)


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()


@pytest.fixture(params=["fake", "real"] if KUBECONFIG else ["fake"])
def kubeconfig(request: pytest.FixtureRequest, authority: Authority, tmp_path: Path) -> Iterator[Path]:
    """Return an administrator's kubeconfig."""
    if request.param == "real":
        yield Path(KUBECONFIG)
        return
    fake = FakeApiServer(authority.server_context(tmp_path))
    fake.users = {"administrators-token": "admin"}
    path = tmp_path / "admin.kubeconfig"
    certificates = base64.b64encode(authority.pem).decode()
    config = {
        "kind": "Config",
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": fake.url, "certificate-authority-data": certificates}}],
        "users": [{"name": "x", "user": {"token": "administrators-token"}}],
    }
    path.write_text(json.dumps(config))
    yield path
    fake.close()


@pytest.fixture
def cluster(kubeconfig: Path) -> Iterator[Cluster]:
    connected = Cluster(kubeconfig)
    yield connected
    connected.close()


@pytest.fixture
def follow(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[..., WatchedSource]]:
    """Start sources that connect through the cluster's relay; stop all of them after the test."""
    started: list[WatchedSource] = []

    def start(node: str = "kubenode-test-none", timing: object = PATIENT) -> WatchedSource:
        source = WatchedSource("", tmp_path / "objects", timing, cluster.accessor, node)
        started.append(source)
        source.source.start()
        return source

    yield start
    for watched in started:
        watched.close()
