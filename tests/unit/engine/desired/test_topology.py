# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kube-proxy's cases of CategorizeEndpoints (topology_test.go), and the resulting real servers."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from support.clusters.objects import endpoint, piece, port, service
from support.kube_proxy.wanted import cluster, node, servers

from kubenode.engine.desired.endpoints import Candidate, choose
from kubenode.engine.kubernetes.endpoint_slice import parse_slice

HERE = "test-node"
GONE = {"ready": False, "serving": False}
LEAVING = {"ready": False, "serving": True, "terminating": True}
A, B, C = ["zone-a"], ["zone-b"], ["zone-c"]
FOUR = {"3": {"zones": A}, "4": {"zones": B}, "5": {"zones": C}, "6": {"zones": A}}
MIXED = {**FOUR, "3": {"zones": A, "node": HERE}, "4": {"zones": B, "node": HERE}}
MANY_ZONES = {"3": {"zones": A + B + C}, "4": {"zones": B + C}, "5": {"zones": ["zone-b", "zone-d"]}, "6": {"zones": C}}
TWO = {"0": {"node": HERE}, "1": {"node": "other"}}
REMOTE = {"0": {"node": "other"}, "1": {"node": "other"}}
LOCAL = {"0": {"node": HERE}, "1": {"node": HERE}}


class Case(NamedTuple):
    """A case; ``cluster`` and ``local`` are last parts of addresses, None if the list is not used."""

    name: str
    endpoints: dict[str, dict[str, Any]]
    cluster: str | None
    local: str | None
    all: str
    any: bool = True
    internal_local: bool = False
    external_local: bool = False
    accessible: bool = False
    zone: str = "zone-a"


NP = {"accessible": True}
CASES = (
    Case("zone hints", FOUR, "3 6", None, "3 6"),
    Case("external local", MIXED, "3 6", "3 4", "3 4 6", external_local=True, **NP),
    Case("internal local", MIXED, "3 6", "3 4", "3 4 6", internal_local=True, **NP),
    Case("node without zone", {"3": {"zones": A}}, "3", None, "3", zone=""),
    Case("node in another zone", {"3": {"zones": A}}, "3", None, "3", zone="zone-b"),
    Case("one in zone is not ready", {**FOUR, "6": {"zones": A, **GONE}}, "3", None, "3"),
    Case("none in zone is ready", {**FOUR, "3": {"zones": A, **GONE}, "6": {"zones": A, **GONE}}, "4 5", None, "4 5"),
    Case("one without hint", {**FOUR, "5": {}}, "3 4 5 6", None, "3 4 5 6"),
    Case("several zones", MANY_ZONES, "3 4 6", None, "3 4 6", zone="zone-c"),
    Case(
        "hints and external local",
        {"0": {"zones": A, "node": HERE}, "1": {"zones": B, "node": HERE}, "2": {"zones": A}, "3": {"zones": B}},
        "0 2",
        "0 1",
        "0 1 2",
        external_local=True,
        **NP,
    ),
    Case("internal local, none", {}, None, "", "", any=False, internal_local=True),
    Case("internal local, all remote", REMOTE, None, "", "", internal_local=True),
    Case("internal local, all local", LOCAL, None, "0 1", "0 1", internal_local=True),
    Case("internal local, one remote", TWO, None, "0", "0", internal_local=True),
    Case("none ready", {"0": GONE, "1": GONE}, "", None, "", any=False),
    Case("one ready", {"0": GONE, "1": {}}, "1", None, "1"),
    Case("all leaving", {"0": {"node": HERE, **LEAVING}, "1": LEAVING}, "0 1", None, "0 1"),
    Case("internal local with node port", TWO, "0 1", "0", "0 1", internal_local=True, **NP),
    Case("external local with node port", TWO, "0 1", "0", "0 1", external_local=True, **NP),
    Case("both local", TWO, "0 1", "0", "0 1", internal_local=True, external_local=True, **NP),
    Case("both local, all remote", REMOTE, "0 1", "", "0 1", internal_local=True, external_local=True, **NP),
    Case(
        "both local, all remote and leaving",
        {"0": {"node": "other", **LEAVING}, "1": {"node": "other", **LEAVING}},
        "0 1",
        "",
        "0 1",
        internal_local=True,
        external_local=True,
        **NP,
    ),
    Case(
        "external local, the local one is leaving",
        {
            "0": {"node": "other"},
            "1": {"node": HERE, **GONE},
            "2": {"node": HERE, **LEAVING},
            "3": {"node": "other", **LEAVING},
        },
        "0",
        "2",
        "0 2",
        external_local=True,
        **NP,
    ),
    Case("external local, but not to be reached from outside", TWO, "0 1", None, "0 1", external_local=True),
    Case("internal local only", {"0": {"node": "other"}, "1": {"node": HERE}}, None, "1", "1", internal_local=True),
    Case("node hints", {"0": {"nodes": [HERE]}, "1": {"nodes": ["other"]}}, "0", None, "0"),
    Case(
        "node hints go before zone hints",
        {"0": {"nodes": [HERE], "zones": A}, "1": {"nodes": ["other"], "zones": A}},
        "0",
        None,
        "0",
    ),
    Case(
        "node hints for others only: zone hints",
        {"0": {"nodes": ["x"], "zones": A}, "1": {"nodes": ["y"], "zones": B}},
        "0",
        None,
        "0",
    ),
    Case(
        "one without node hint: zone hints",
        {"0": {"nodes": [HERE], "zones": A}, "1": {"zones": A}, "2": {"zones": B}},
        "0 1",
        None,
        "0 1",
    ),
    Case("one without node hint, no zones", {"0": {"nodes": [HERE]}, "1": {}}, "0 1", None, "0 1"),
)


def candidates(given: dict[str, dict[str, Any]]) -> list[Candidate]:
    parsed, problems = parse_slice(
        piece(endpoints=[endpoint(f"10.1.2.{last}", **more) for last, more in given.items()])
    )
    assert parsed is not None
    assert not problems
    return [Candidate(item, 80, 1) for item in parsed.endpoints]


def lasts(items: list[Candidate] | None) -> str | None:
    return None if items is None else " ".join(sorted(item.endpoint.address.rpartition(".")[2] for item in items))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_endpoints_are_categorised(case: Case) -> None:
    choice = choose(
        candidates(case.endpoints),
        case.accessible or not case.internal_local,
        case.internal_local or (case.external_local and case.accessible),
        HERE,
        case.zone,
    )
    assert (lasts(choice.cluster), lasts(choice.local), choice.any) == (case.cluster, case.local, case.any)
    assert lasts(choice.all()) == case.all


CLUSTER, NODE_PORT = "tcp 10.20.30.41:80", "tcp 10.99.0.11:3001"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_real_servers_follow_the_categories(case: Case) -> None:
    """Policy Local without a local endpoint falls back to the cluster's endpoints, if the Service uses them."""
    obj = service(
        ports=[port(node_port=3001 if case.accessible else 0)],
        kind="NodePort",
        internalTrafficPolicy="Local" if case.internal_local else "Cluster",
        externalTrafficPolicy="Local" if case.external_local else "Cluster",
    )
    ends = piece(endpoints=[endpoint(f"10.1.2.{last}", **more) for last, more in case.endpoints.items()])
    built = cluster([obj, ends], node("10.99.0.11", zone=case.zone))
    wanted = {CLUSTER: (case.internal_local and case.local) or case.cluster or ""}
    if case.accessible:
        wanted[NODE_PORT] = (case.external_local and case.local) or case.cluster or ""
    chosen = {key: " ".join(real[7:].split(":")[0] for real in reals) for key, reals in servers(built.state()).items()}
    assert chosen == wanted
    lost = case.any and not case.local
    counts = built.no_local_endpoints()
    assert counts[4, "internal"] == int(lost and case.internal_local)
    assert counts[4, "external"] == int(lost and case.external_local and case.accessible)
    assert counts[6, "internal"] == counts[6, "external"] == 0


def test_no_fallback_unless_configured() -> None:
    from kubenode.engine.desired.settings import Config

    obj = service(ports=[port(node_port=3001)], kind="NodePort", externalTrafficPolicy="Local")
    built = cluster(
        [obj, piece(endpoints=[endpoint("10.1.2.1", "other")])], node("10.99.0.11"), Config(local_fallback="drop")
    )
    assert servers(built.state()) == {CLUSTER: ["10.1.2.1:80"], NODE_PORT: []}
