# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every state between two steps of a plan: each new connection gets what it gets before or after the plan.

The exceptions are those of docs/explanation/hitless.md, and each of them does occur.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.clusters import objects
from support.walks.exceptions import EXCEPTIONS, exception_of
from support.walks.judging import Violation
from support.walks.scenarios import changed, cleaned, handed_back, kube_proxy_node, owned_node, taken_over, walk_to
from support.walks.world import CHANGES, CLUSTER_CIDRS, NODE, POD_NETS, World

PAGE = Path(__file__).parents[4] / "docs/explanation/hitless.md"
SEEDS = st.integers(0, 2**32)
WALKS = 32  # without --walks; docs and --help say "some thirty"


def hold(violations: list[Violation]) -> None:
    """Fail with the first violation that no exception covers."""
    assert [each.words for each in violations if not exception_of(each)][:1] == []


def walks(pytestconfig: pytest.Config, share: float) -> Any:
    """Return the settings: the same walks each time, or with ``--walks`` others, which meet what these do not."""
    number = pytestconfig.getoption("--walks")
    return settings(max_examples=max(1, round((number or WALKS) * share)), database=None, derandomize=number is None)


def test_changes_are_hitless_at_every_step(pytestconfig: pytest.Config) -> None:
    @walks(pytestconfig, 0.6)
    @given(
        SEEDS,
        st.integers(1, 2),
        st.lists(st.tuples(st.sampled_from(sorted(CHANGES)), st.integers(0, 2)), min_size=1, max_size=3),
    )
    @example(1, 2, [("add_endpoints", 0), ("change_policy", 0), ("switch_backend", 0)])
    @example(57, 1, [("add_endpoints", 0), ("change_settings", 2), ("switch_backend", 0)])
    @example(4100832520, 2, [("change_settings", 2), ("add_endpoints", 1), ("switch_backend", 1)])
    @example(16, 1, [("replace_service", 0), ("change_settings", 1)])
    @example(131912688, 2, [("change_ranges", 0), ("replace_service", 0)])
    @example(75, 2, [("replace_service", 0), ("change_ranges", 0)])
    @example(63, 1, [("change_ranges", 0), ("change_endpoint", 0)])
    @example(65612568, 1, [("change_ranges", 0), ("add_endpoints", 0)])
    def judge(seed: int, services: int, changes: list[tuple[str, int]]) -> None:
        hold(changed(seed, services, changes))

    judge()


@pytest.mark.parametrize("mode", ["ipvs", "iptables"])
def test_takeover_is_hitless_at_every_step(mode: str, pytestconfig: pytest.Config) -> None:
    @walks(pytestconfig, 0.1)
    @given(SEEDS)
    def judge(seed: int) -> None:
        hold(taken_over(seed, mode))

    judge()


def test_cleanup_is_hitless_at_every_step(pytestconfig: pytest.Config) -> None:
    @walks(pytestconfig, 0.1)
    @given(SEEDS)
    def judge(seed: int) -> None:
        hold(cleaned(seed))

    judge()


def test_way_back_is_hitless_at_every_step(pytestconfig: pytest.Config) -> None:
    @walks(pytestconfig, 0.1)
    @given(SEEDS)
    def judge(seed: int) -> None:
        hold(handed_back(World(Random(seed), 2)))

    judge()


# one Service and one change at a time


class Example:
    """World with one Service, whose fields a test changes."""

    def __init__(self, backend: str = "iptables", **spec: Any) -> None:
        self.world = World(Random(1), 0)
        self.world.backend = backend
        self.world.proxy, self.world.agent, self.world.zone = {"clusterCIDR": CLUSTER_CIDRS}, {}, ""
        self.pods: tuple[tuple[int, int], ...] = spec.pop("pods", ((1, 1), (2, 1)))
        self.states: dict[tuple[int, int], str] = {}  # of pods that are not ready
        self.families: tuple[int, ...] = spec.pop("families", (4,))
        self.cluster_ip = 1  # last part of its cluster IPs
        self.protocol, self.first_port, self.target = "TCP", 80, 8080
        self.ports = 1
        self.spec: dict[str, Any] = {"type": "LoadBalancer", **spec}

    def put(self) -> None:
        numbers = range(self.ports)
        ports = [objects.port(self.first_port + n, f"p{n}", self.protocol, 30000 + n) for n in numbers]
        kind, external = self.spec.get("type", "LoadBalancer"), self.spec.get("externalTrafficPolicy", "Cluster")
        if kind == "ClusterIP":
            ports = [{**port, "nodePort": 0} for port in ports]
        fields = {
            key: value for key, value in self.spec.items() if key not in ("type", "ingress", "externalTrafficPolicy")
        }
        self.world.services[0] = objects.service(
            "s0",
            [{4: f"10.96.0.{self.cluster_ip}", 6: f"fd00:96::{self.cluster_ip}"}[fam] for fam in self.families],
            ports,
            kind=kind,
            ingress=[{"ip": ip} for ip in self.spec.get("ingress", ["198.51.100.1"]) if kind == "LoadBalancer"],
            externalTrafficPolicy=external,
            **fields,
        )
        targets = [{"name": port["name"], "protocol": self.protocol, "port": self.target} for port in ports]
        for fam in self.families:
            endpoints = [self._endpoint(pod, fam) for pod in self.pods]
            self.world.slices[0, fam] = objects.piece("s0", endpoints, targets, name=f"s0-{fam}", family=fam)

    def _endpoint(self, pod: tuple[int, int], fam: int) -> dict[str, Any]:
        state = self.states.get(pod, "ready")
        conditions = {"ready": state == "ready", "serving": state != "failing", "terminating": state == "terminating"}
        return objects.endpoint(POD_NETS[fam].format(*pod), NODE if pod[0] == 1 else "n2", **conditions)

    def walk(self, change: Callable[[Example], None], drains: bool = False) -> list[Violation]:
        """Walk from the present state to the one after a change."""
        self.put()
        before = self.world.state()
        change(self)
        if 0 in self.world.services:
            self.put()
        after = self.world.state()
        assert after != before
        return walk_to(owned_node(before), after, Random(1), drains)


def _with(**fields: Any) -> Callable[[Example], None]:
    def change(example: Example) -> None:
        for name, value in fields.items():
            if hasattr(example, name):
                setattr(example, name, value)
            else:
                example.spec[name] = value

    return change


def _remove(example: Example) -> None:
    example.world.services.clear()
    example.world.slices.clear()


def _settings(example: Example) -> None:
    example.world.proxy = {"clusterCIDR": CLUSTER_CIDRS, "iptables": {"masqueradeAll": True, "masqueradeBit": 15}}
    example.pods = ((1, 1), (1, 2))


def _switch(example: Example) -> None:
    example.world.backend = {"iptables": "nftables", "nftables": "iptables"}[example.world.backend]


def _settings_and_switch(example: Example) -> None:
    _settings(example)
    _switch(example)


CASES: dict[str, tuple[dict[str, Any], Callable[[Example], None]]] = {
    "an endpoint comes": ({}, _with(pods=((1, 1), (1, 2), (2, 1)))),
    "an endpoint goes": ({}, _with(pods=((1, 1),))),
    "an endpoint terminates": ({}, _with(states={(1, 1): "terminating"})),
    "an endpoint fails": ({}, _with(states={(2, 1): "failing"})),
    "the last endpoint goes": ({}, _with(pods=())),
    "the first endpoint comes": ({"pods": ()}, _with(pods=((2, 1),))),
    "all endpoints are replaced": ({}, _with(pods=((1, 3), (2, 3)))),
    "a port is added": ({}, _with(ports=2)),
    "the port changes": ({}, _with(first_port=81)),
    "the target port changes": ({}, _with(target=9090)),
    "the protocol changes": ({}, _with(protocol="UDP")),
    "the type becomes ClusterIP": ({}, _with(type="ClusterIP")),
    "the type becomes NodePort": ({"type": "ClusterIP"}, _with(type="NodePort")),
    "the type becomes LoadBalancer": ({"type": "NodePort"}, _with(type="LoadBalancer")),
    "a family is added": ({}, _with(families=(4, 6))),
    "a family goes": ({"families": (4, 6)}, _with(families=(4,))),
    "the cluster IP changes": ({}, _with(cluster_ip=9)),
    "the external IP changes": ({"externalIPs": ["203.0.113.1"]}, _with(externalIPs=["203.0.113.2"])),
    "the load balancer address changes": ({}, _with(ingress=["198.51.100.2"])),
    "the internal policy becomes Local": ({}, _with(internalTrafficPolicy="Local")),
    "the internal policy becomes Cluster": ({"internalTrafficPolicy": "Local"}, _with(internalTrafficPolicy="Cluster")),
    "session affinity is set": ({}, _with(sessionAffinity="ClientIP")),
    "the rules back end changes": ({}, _switch),
    "the last Service goes": ({"externalTrafficPolicy": "Local"}, _remove),
    "the policy becomes Local": ({}, _with(externalTrafficPolicy="Local")),
    "the policy becomes Cluster": ({"externalTrafficPolicy": "Local"}, _with(externalTrafficPolicy="Cluster")),
    "source ranges are added": ({}, _with(loadBalancerSourceRanges=["192.0.2.0/24"])),
    "source ranges go": ({"loadBalancerSourceRanges": ["192.0.2.0/24"]}, _with(loadBalancerSourceRanges=[])),
    "source ranges change": (
        {"loadBalancerSourceRanges": ["192.0.2.0/24"]},
        _with(loadBalancerSourceRanges=["192.0.0.0/16"]),
    ),
    "the policy and source ranges change": (
        {"loadBalancerSourceRanges": ["10.99.0.0/16"], "ingress": ["198.51.100.1"]},
        _with(loadBalancerSourceRanges=["203.0.113.7/32"], externalTrafficPolicy="Local"),
    ),
    "source ranges and all endpoints change": (
        {"loadBalancerSourceRanges": ["192.0.2.0/24"]},
        _with(loadBalancerSourceRanges=["203.0.113.7/32"], pods=((1, 2),)),
    ),
    "source ranges change and the first endpoint comes": (
        {"loadBalancerSourceRanges": ["192.0.2.9/32"], "pods": ()},
        _with(loadBalancerSourceRanges=["203.0.113.7/32"], pods=((2, 1),)),
    ),
    "a restricted Service goes": ({"loadBalancerSourceRanges": ["192.0.2.0/24"]}, _remove),
    "an external IP becomes a load balancer address": (
        {"externalTrafficPolicy": "Local", "externalIPs": ["203.0.113.1"]},
        _with(externalIPs=[], ingress=["203.0.113.1"]),
    ),
    "a restricted load balancer address becomes an external IP": (
        {"loadBalancerSourceRanges": ["203.0.113.7/32"], "ingress": ["203.0.113.1"]},
        _with(externalTrafficPolicy="Local", externalIPs=["203.0.113.1"], ingress=[]),
    ),
    "settings and endpoints change": ({}, _settings),
    "settings, endpoints and the rules back end change": ({}, _settings_and_switch),
    "the scheduler is mh and an endpoint goes": (
        {"annotations": {"kubenode.ipvs/scheduler": "mh"}},
        _with(pods=((1, 1),)),
    ),
}


@pytest.mark.parametrize("drains", [True, False], ids=["drains", "at once"])
@pytest.mark.parametrize("backend", ["iptables", "nftables"])
@pytest.mark.parametrize("case", CASES)
def test_change_of_one_service_is_hitless(case: str, backend: str, drains: bool) -> None:
    fields, change = CASES[case]
    hold(Example(backend, **fields).walk(change, drains))


@pytest.mark.parametrize("backend", ["iptables", "nftables"])
def test_replacing_all_endpoints_refuses_no_flow(backend: str) -> None:
    assert Example(backend).walk(_with(pods=((1, 3), (2, 3)))) == []


@pytest.mark.parametrize("backend", ["iptables", "nftables"])
@pytest.mark.parametrize("mode", ["ipvs", "iptables"])
def test_takeover_of_source_ranges_is_hitless(mode: str, backend: str) -> None:
    example = Example(backend, loadBalancerSourceRanges=["192.0.2.0/24"])
    example.put()
    hold(walk_to(kube_proxy_node(example.world, mode), example.world.state(), Random(1)))


@pytest.mark.parametrize("backend", ["iptables", "nftables"])
def test_cleanup_of_source_ranges_is_hitless(backend: str) -> None:
    example = Example(backend, loadBalancerSourceRanges=["192.0.2.0/24"])
    example.put()
    hold(walk_to(owned_node(example.world.state()), {}, Random(1)))


@pytest.mark.parametrize("backend", ["iptables", "nftables"])
def test_way_back_of_source_ranges_is_hitless(backend: str) -> None:
    example = Example(backend, loadBalancerSourceRanges=["192.0.2.0/24"])
    example.put()
    hold(handed_back(example.world))


# the exceptions


def _unbound() -> list[Violation]:
    example = Example(loadBalancerSourceRanges=["203.0.113.7/32"])
    example.world.proxy = {}
    node = owned_node(example.world.state())
    example.put()
    return walk_to(node, example.world.state(), Random(1))


def _nothing_in_common() -> list[Violation]:
    return Example().walk(_with(externalTrafficPolicy="Local", pods=((1, 2),)))


def _bound_before_the_rules() -> list[Violation]:
    example = Example()
    example.world.proxy = {}
    example.put()
    return walk_to(kube_proxy_node(example.world, "iptables"), example.world.state(), Random(1))


def _marked_for_kube_proxy() -> list[Violation]:
    example = Example("nftables", pods=())
    example.put()
    return handed_back(example.world)


EXAMPLES = (_unbound, _nothing_in_common, _bound_before_the_rules, _marked_for_kube_proxy)


@pytest.mark.parametrize(("title", "example"), [*zip(EXCEPTIONS, EXAMPLES, strict=True)])
def test_documented_exception_occurs(title: str, example: Callable[[], list[Violation]]) -> None:
    violations = example()
    hold(violations)
    assert title in {exception_of(each) for each in violations}


def test_exceptions_are_those_of_the_page() -> None:
    rows = re.findall(r"^\| \*\*(.+?)\*\* \|", PAGE.read_text(), re.MULTILINE)
    assert [row.lower() for row in rows] == [title.lower() for title in EXCEPTIONS]
