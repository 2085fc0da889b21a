# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory of the agent for each Service, virtual server, endpoint and real server: the figures in docs/how-to/size.md.

Run ``python tests/bench/memory.py``. Each size is built in a process of its own, by the agent's store, cluster and
reconciler, without a kernel. This includes a full comparison, which holds the kernel's state beside the desired state.
Standard output: one line for each size, then KiB for each object.
"""

from __future__ import annotations

import gc
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "agent/src"), str(Path(__file__).parent)]

from kernel_free import Packing  # noqa: E402

from kubenode.daemon.sync.reconciler import Reconciler  # noqa: E402
from kubenode.engine.desired.cluster import Cluster  # noqa: E402
from kubenode.engine.desired.node_facts import NodeFacts  # noqa: E402
from kubenode.engine.desired.settings import Config  # noqa: E402
from kubenode.manifests.documents import key_of  # noqa: E402
from kubenode.sources.kubernetes.api import decode  # noqa: E402
from kubenode.sources.kubernetes.store import Store  # noqa: E402

# services, ports of each, external IPs of each, endpoints of each
SIZES = {
    "nothing": (0, 1, 0, 0),
    "services": (10000, 1, 0, 0),
    "virtual servers": (1000, 1, 50, 0),
    "endpoints": (10000, 1, 0, 10),
    "real servers": (100, 1, 20, 100),
    "one Service at its limits": (1, 1, 4095, 16),
}


class Node(Packing):
    """Node that reads copies of the desired items."""

    def __init__(self) -> None:
        super().__init__()
        self.want: dict[str, dict[Any, Any]] = {}

    def reading(
        self, _want: Any, _owned: Any, _believed: Any = None
    ) -> Generator[None, None, dict[str, dict[Any, Any]]]:
        yield
        return {
            kind: {type(key)(*key) if isinstance(key, tuple) else key: value for key, value in items.items()}
            for kind, items in self.want.items()
        }


def texts(services: int, ports: int, external_ips: int, endpoints: int) -> Generator[dict[str, Any], None, None]:
    """Yield Services and EndpointSlices with the fields that the API server sets."""
    for number in range(services):
        meta = {
            "namespace": "bench",
            "uid": f"{number:036d}",
            "resourceVersion": str(number),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        ip = f"10.{96 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
        addresses = [_address(number * external_ips + index) for index in range(external_ips)]
        listed = [
            {"name": f"p{port}", "protocol": "TCP", "port": 80 + port, "targetPort": 8080} for port in range(ports)
        ]
        spec = {
            "type": "ClusterIP",
            "clusterIP": ip,
            "clusterIPs": [ip],
            "ports": listed,
            "externalIPs": addresses,
            "selector": {"app": f"s{number}"},
        }
        yield {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {**meta, "name": f"s{number}"},
            "spec": spec,
            "status": {"loadBalancer": {}},
        }
        if endpoints:
            yield {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {**meta, "name": f"s{number}-x", "labels": {"kubernetes.io/service-name": f"s{number}"}},
                "addressType": "IPv4",
                "ports": [{"name": f"p{port}", "protocol": "TCP", "port": 8080} for port in range(ports)],
                "endpoints": [
                    {
                        "addresses": [f"10.{number % 60 + 128}.{number >> 8 & 255}.{index}"],
                        "conditions": {"ready": True, "serving": True, "terminating": False},
                        "nodeName": f"node-{index % 50}",
                        "targetRef": {
                            "kind": "Pod",
                            "namespace": "bench",
                            "name": f"s{number}-{index}",
                            "uid": f"{index:036d}",
                        },
                    }
                    for index in range(endpoints)
                ],
            }


def _address(number: int) -> str:
    return f"203.{number >> 16}.{number >> 8 & 255}.{number & 255}"


def build(size: tuple[int, int, int, int]) -> float:
    """Return the largest resident memory in MiB."""
    gc.disable()
    store, cluster, node = (
        Store(lambda: None),
        Cluster(Config(), NodeFacts("n1", (("eth0", "10.77.0.11"),), ("10.77.0.11",))),
        Node(),
    )
    for item in texts(*size):
        text = json.dumps(item).encode()
        obj = decode(text.decode())
        key = key_of(obj)
        if key is not None:
            store.restore(key, text, obj)
        cluster.put(obj)
    store.take()
    with tempfile.TemporaryDirectory() as directory:
        reconciler = Reconciler(node, directory)
        reconciler.accept(cluster.take(), whole=True)
        assert not cluster.problems, cluster.problems
        reconciler.full()
        node.want = reconciler.want
        reconciler.full()
        reconciler.close()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure each size in a process of its own."""
    found: dict[str, float] = {}
    for name in SIZES:
        done = subprocess.run([sys.executable, __file__, name], check=True, capture_output=True, text=True)
        found[name] = float(done.stdout)
        print(f"{name} {SIZES[name]}: {found[name]:.1f} MiB", flush=True)
    base = found["nothing"]
    service = (found["services"] - base) / 10000
    server = (found["virtual servers"] - base - 1000 * service) / (1000 * 50)
    endpoint = (found["endpoints"] - found["services"]) / 100000  # each is one real server, too
    real = (found["real servers"] - base - 100 * service - 100 * 20 * server - 100 * 100 * endpoint) / (100 * 20 * 100)
    for name, value in (
        ("Service", service),
        ("virtual server", server),
        ("endpoint", endpoint),
        ("real server", real),
    ):
        print(f"{name}: {value * 1024:.2f} KiB")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(build(SIZES[sys.argv[1]]))
    else:
        main()
