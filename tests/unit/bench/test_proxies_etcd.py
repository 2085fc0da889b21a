# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of the benchmark that go to etcd: their keys and values, and an answer that is an error."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from bench.objects import cluster
from bench.proxies.etcd import store


class FakeEtcd(HTTPServer):
    """Fake of etcd's JSON gateway; the real one is beneath `make bench KUBE_APISERVER=… ETCD=…`."""

    def __init__(self, status: int) -> None:
        self.values: dict[str, Any] = {}
        self.transactions: list[int] = []
        self.status = status
        super().__init__(("127.0.0.1", 0), Gateway)


class Gateway(BaseHTTPRequestHandler):
    """Takes transactions of puts."""

    server: FakeEtcd
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/v3/kv/txn"
        puts = [each["requestPut"] for each in body["success"]]
        self.server.transactions.append(len(puts))
        for put in puts:
            self.server.values[base64.b64decode(put["key"]).decode()] = json.loads(base64.b64decode(put["value"]))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *arguments: object) -> None:
        """Write nothing."""


@pytest.fixture(params=[200])
def etcd(request: pytest.FixtureRequest) -> Iterator[FakeEtcd]:
    server = FakeEtcd(request.param)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_services_have_their_addresses_beside_them(etcd: FakeEtcd) -> None:
    store(etcd.server_port, cluster(60, 2))
    services = {key: value for key, value in etcd.values.items() if key.startswith("/registry/services/specs/default/")}
    assert len(services) == 60
    assert len([key for key in etcd.values if key.startswith("/registry/endpointslices/default/")]) == 60
    for value in services.values():
        address = etcd.values[f"/registry/ipaddresses/{value['spec']['clusterIP']}"]
        assert address["spec"]["parentRef"]["name"] == value["metadata"]["name"]
        assert "resourceVersion" not in value["metadata"]
    assert etcd.transactions == [100, 80]


@pytest.mark.parametrize("etcd", [400], indirect=True)
def test_refused_transaction_is_an_error(etcd: FakeEtcd) -> None:
    with pytest.raises(RuntimeError, match="etcd: 400"):
        store(etcd.server_port, cluster(1, 1))
