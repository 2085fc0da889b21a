# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cost limit of one Service: refused before its expansion, and computed in slices.

The tests count work, and measure no time.
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from support.clusters.objects import endpoint, piece, port, service
from support.kube_proxy.wanted import cluster, node, servers

from kubenode.engine.desired import cluster as module
from kubenode.engine.desired.cluster import Cluster
from kubenode.engine.desired.service_vips import Contribution
from kubenode.engine.desired.settings import Config


def large(ports: int, external_ips: int, name: str = "large") -> dict[str, Any]:
    ips = [f"203.{number >> 8}.{number & 255}.1" for number in range(external_ips)]
    return service(name, ["10.0.0.1"], [port(number + 1, f"p{number}") for number in range(ports)], externalIPs=ips)


GOOD = (service("good", ["10.20.30.99"]), piece("good", [endpoint("10.180.0.9")]))


def test_oversized_service_is_refused_before_it_costs_memory() -> None:
    """An attack in which 41 KB of text became 371 MiB."""
    obj = large(200, 2000)
    tracemalloc.start()
    try:
        built = cluster([obj, *GOOD])
        assert servers(built.state()) == {"tcp 10.20.30.99:80": ["10.180.0.9:80"]}
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20
    assert built.problems == {
        ("Service", "ns1/large"): (
            "Service ns1/large: spec.ports is '400200 virtual servers (ports x addresses)', "
            "expected at most 4096: use several Services, or raise maxVirtualServersPerService",
        )
    }
    assert built.refused() == 1
    built.put(large(2, 2))
    assert len(servers(built.state())) == 7
    assert built.problems == {}


def test_node_ports_on_every_address_count() -> None:
    obj = service("s", ["10.0.0.1"], [port(80, node_port=30001)], kind="NodePort")
    facts = node(*(f"10.99.0.{number}" for number in range(1, 5)))
    assert not cluster([obj], facts, Config(max_virtual_servers=5)).problems
    assert "is '5 virtual servers" in str(cluster([obj], facts, Config(max_virtual_servers=4)).problems)


def test_real_servers_are_limited_too() -> None:
    ends = piece("large", [endpoint(f"10.180.{number >> 8}.{number & 255}") for number in range(100)], ports_of(1))
    built = cluster([large(1, 9), ends], config=Config(max_real_servers=999))
    (text,) = built.problems["Service", "ns1/large"]
    assert "is '1000 real servers (virtual servers x endpoints)', expected at most 999" in text
    assert servers(built.state()) == {}
    assert len(cluster([large(1, 9), ends], config=Config(max_real_servers=1000)).state()["real_server"]) == 1000


def test_settling_is_sliced_within_one_service() -> None:
    objects = [large(10, 100), piece("large", [endpoint(f"10.180.0.{number}") for number in range(10)], ports_of(10))]
    built = cluster(objects)
    slices = 0
    for _left in built.settling():
        slices += 1
    assert slices >= 1010 * 11 // (module._SLICE + 11) - 1 >= 9
    assert built.state() == cluster(objects).state()


def ports_of(count: int) -> list[dict[str, Any]]:
    return [{"name": f"p{number}", "protocol": "TCP", "port": 8080} for number in range(count)]


def test_changes_between_slices_are_not_lost() -> None:
    built = cluster([large(10, 300), *GOOD])
    running = built.settling()
    next(running)
    built.put(large(1, 1))
    next(built.settling())  # another caller continues the same work
    built.remove("Service", "ns1", "good")
    for _left in running:
        pass
    assert built.state() == cluster([large(1, 1), GOOD[1]]).state()


def test_internal_error_costs_one_service(monkeypatch: pytest.MonkeyPatch) -> None:
    real = module.contribution

    def faulty(obj: Any, *rest: Any) -> Contribution:
        if obj.name == "large":
            raise RuntimeError("x" * 1000)
        return real(obj, *rest)

    monkeypatch.setattr(module, "contribution", faulty)
    built: Cluster = cluster([large(1, 1), *GOOD])
    assert servers(built.state()) == {"tcp 10.20.30.99:80": ["10.180.0.9:80"]}
    (text,) = built.problems["Service", "ns1/large"]
    assert text.startswith("Service ns1/large: cannot be worked out: RuntimeError: xxx")
    assert len(text) == 300
