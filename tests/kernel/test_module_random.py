# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random state changes by each converging module.

Check mode predicts a change exactly, undo reverts it exactly, and a second run changes nothing.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from kernel.modules import ModuleError, converge, run
from support.clusters.random_cluster import FACTS, RandomCluster
from support.processes.guarded import node, undone
from support.processes.kernel import use_tables
from support.processes.namespace import fresh, sh
from support.tables.iptables_spelling import CHAIN, SET, random_rule
from support.tables.set_members import cases, member

from ansible_collections.kubenode.ipvs.plugins.module_utils._confirm import guard as _guard
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine import apply
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.kernel import Failure, Result
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.plan import Step
from kubenode.engine.desired.cluster import Cluster
from kubenode.engine.desired.settings import Config

SEED = 20261122
TURNS = 2
MODULES = (
    "ip_vs",
    "ip_vs_rr",
    "ip_vs_wrr",
    "ip_vs_sh",
    "nf_conntrack",
    "ip_set",
    "xt_set",
    "xt_ipvs",
    "dummy",
    "br_netfilter",
)
Arguments = dict[str, Any]


def some(draw: random.Random, values: Any, most: int) -> list[Any]:
    values = list(values)
    return draw.sample(values, draw.randrange(min(most, len(values)) + 1))


def services(draw: random.Random) -> Arguments:
    items = []
    for number in some(draw, range(1, 7), 5):
        key: Arguments = (
            {"fwmark": number, "family": "ipv6"}
            if number == 6
            else {"protocol": "tcp", "address": f"192.0.2.{number}", "port": 80}
        )
        reals = [
            {
                "address": f"2001:db8::{host}" if number == 6 else f"198.51.100.{host}",
                "weight": draw.randrange(3),
                "upper_threshold": draw.choice([0, 9]),
                "forwarding_method": draw.choice(["masquerade", "direct", "tunnel"]),
            }
            for host in some(draw, range(1, 6), 4)
        ]
        persistence = (
            {"persistence_timeout": 60, "netmask": "64" if number == 6 else "24"} if draw.random() < 0.3 else {}
        )
        items.append({**key, **persistence, "scheduler": draw.choice(["rr", "wrr", "sh"]), "real_servers": reals})
    return {"services": items, "timeouts": {"udp": draw.choice([100, 200])}}


def sets(draw: random.Random) -> Arguments:
    items: list[Arguments] = [{"name": "one", "type": "hash:ip"}, {"name": "two", "type": "hash:net"}]
    for name in some(draw, "abcd", 4):
        kind, chosen = draw.choice([case.values for case in cases()])
        chosen = {
            option: value for option, value in chosen.items() if option != "timeout"
        }  # the remaining time changes
        texts = [re.sub(r" timeout \d+", "", member(draw, kind, chosen)) for _index in range(draw.randrange(8))]
        named = {text.partition(" ")[0]: text for text in texts if "-" not in text}
        items.append({"name": name, "type": kind, **chosen, "members": list(named.values())})
    return {"sets": draw.sample(items, len(items))}


def chains(draw: random.Random) -> Arguments:
    items = []
    for name in some(draw, ("ONE", "TWO", "THREE"), 3):
        table = draw.choice(["filter", "nat"])
        places = ("POSTROUTING",) if table == "nat" else ("INPUT", "FORWARD", "OUTPUT")
        jumps = [
            {"chain": chain, "position": draw.choice(["first", "prepended", "last"])} for chain in some(draw, places, 2)
        ]
        rules = [random_rule(draw, 4, table) for _index in range(draw.randrange(4))]
        items.append({"name": name, "table": table, "rules": rules, "jumps": jumps})
    return {"chains": items}


def links(draw: random.Random) -> Arguments:
    items = [
        {
            "name": name,
            "up": draw.random() < 0.5,
            "addresses": [f"192.0.2.{base + number}" for number in some(draw, range(1, 9), 5)]
            + [f"2001:db8::{base + number}/128" for number in some(draw, range(1, 9), 2)],
        }
        for base, name in ((10, "vips"), (20, "more"), (30, "last"))
        if draw.random() < 0.7
    ]
    return {"links": items}


def sysctls(draw: random.Random) -> Arguments:
    values = {
        "net.ipv4.ip_forward": [0, 1],
        "net.ipv4.conf.all.arp_ignore": [0, 1, 2],
        "net.ipv4.vs.conntrack": [0, 1],
        "net.ipv4.vs.conn_reuse_mode": [0, 1],
    }
    return {"sysctls": {name: draw.choice(values[name]) for name in some(draw, sorted(values), 4)}}


def proxy(draw: random.Random) -> Arguments:
    cluster = RandomCluster(draw.randrange(1 << 30))
    options: dict[Any, Any] = {}
    for item in [cluster.service() for _index in range(6)] + [cluster.piece() for _index in range(8)]:
        more = {**options, (item["kind"], item["metadata"]["name"]): item}
        tried = Cluster(Config(), FACTS[0])
        for each in more.values():
            tried.put(each)
        options = options if tried.problems else more
    quiet = {"conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}}
    return {"objects": list(options.values()), "node_name": "n1", "owner": "ansible", "config": quiet}


STATES: dict[str, Callable[[random.Random], Arguments]] = {
    "ipvs_services": services,
    "ipsets": sets,
    "iptables_chains": chains,
    "virtual_addresses": links,
    "sysctls": sysctls,
    "service_proxy": proxy,
}


@pytest.fixture(scope="module", autouse=True)
def _node() -> None:
    sh("modprobe", "-a", *MODULES)


def fails_at_the_end(carry_out: Callable[..., Result]) -> Callable[..., Result]:
    """Return a runner that applies all steps and reports the last one as failed; undo succeeds."""
    calls = iter(range(99))

    def carried_out(steps: list[Step], *arguments: Any, **options: Any) -> Result:
        done = carry_out(steps, *arguments, **options)
        return done if next(calls) else done._replace(failed=[Failure(steps[-1], "it fails here")])

    return carried_out


def hurried(guard: Callable[..., Any], _seconds: int, *arguments: Any) -> Any:
    """Return a guard that waits no time at all."""
    return guard(0, *arguments)


@pytest.mark.parametrize("name", STATES)
def test_random_tasks_converge_from_state_to_state(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh()
    sh("ip", "link", "set", "lo", "up")
    use_tables()
    for table in ("nat", "filter"):
        sh("iptables", "-t", table, "-N", CHAIN)
    sh("ipset", "create", SET, "hash:net")
    draw = random.Random(f"{SEED} {name}")
    purge = {} if name == "service_proxy" else {"purge": "owned"}
    turned = 0
    for _draw in range(5 * TURNS):
        wanted = {**STATES[name](draw), **purge}
        try:
            foreseen = run(name, check=True, **wanted)
        except ModuleError:
            continue  # the random task names an item twice
        if not foreseen["changed"]:
            continue
        before = node()
        with monkeypatch.context() as patch:
            patch.setattr(apply, "_run", fails_at_the_end(apply._run))
            with pytest.raises(ModuleError, match=r"it fails here; \d+ earlier step\(s\) were undone$"):
                run(name, **wanted)
        assert node() == before, f"what failed is not undone: {wanted}"
        with monkeypatch.context() as patch:
            patch.setattr(_guard, "Guard", partial(hurried, _guard.Guard))
            record = undone(run(name, **wanted, confirm_timeout=1)["confirm"]["path"])
        assert record["problems"] == []
        assert node() == before, f"what nobody confirmed is not undone: {wanted}"
        assert sorted(converge(name, **wanted)["lines"]) == sorted(foreseen["lines"])
        turned += 1
        if turned == TURNS:
            break
    assert turned == TURNS
    run(name, **({"state": "absent", "owner": "ansible"} if name == "service_proxy" else purge))
