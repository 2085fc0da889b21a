# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drift of every kind of item: the agent repairs, counts and logs it."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agent.process import AgentProcess, dump, eventually, metrics, same
from support.agent.web import WEB, node, web
from support.processes.namespace import sh


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    yield from node(tmp_path)


RULES_GONE = "iptables -t nat -F && iptables -t filter -F"
# Harm by another process, and the kind of the items that the agent has to repair.
HARMS = {
    "ipvsadm -C": "virtual_server",
    f"ipvsadm -d -t {WEB}:80 -r 10.244.1.1:8080": "real_server",
    "ipset flush KUBE-CLUSTER-IP": "member",
    f"{RULES_GONE} && ipset destroy KUBE-CLUSTER-IP": "set",
    "iptables -t nat -D PREROUTING 1": "jump",
    "iptables -t filter -F KUBE-FORWARD": "chain",
    f"{RULES_GONE} && iptables -t nat -X KUBE-MARK-MASQ": "chain",
    f"ip addr del {WEB}/32 dev kube-ipvs0": "address",
    "ip link del kube-ipvs0": "link",
    "ip link set kube-ipvs0 up": "link",
    "sysctl -w net.ipv4.vs.expire_nodest_conn=0": "sysctl",
}


@pytest.mark.parametrize(("harm", "kind"), HARMS.items(), ids=HARMS)
def test_drift_is_reverted_and_counted(agent: AgentProcess, harm: str, kind: str) -> None:
    has_event = harm.startswith("ip ")  # the kernel sends an event at once
    agent.configure({"ipvs": {"syncPeriod": "5m" if has_event else "2s"}, "metricsBindAddress": "127.0.0.1:10249"})
    agent.start()
    before = dump()
    counted = f'kubenode_drift_healed_total{{kind="{kind}"}} '
    assert counted not in metrics()
    agent.kill(signal.SIGSTOP)  # the agent would repair between two commands
    sh("sh", "-c", harm)
    agent.kill(signal.SIGCONT)
    eventually(lambda: same(dump(), before))
    eventually(lambda: agent.plan() == [])
    eventually(lambda: counted in metrics())  # the metrics server repeats an answer for a second
    lines = [line for line in agent.log.read_text().splitlines() if "drift healed" in line]
    assert lines
    for line in lines:
        about = re.search(r"(virtual server|real server|member|address) ", line.partition(" step=")[2])
        assert (" object=ns1/web " in line) is bool(about), line
        assert " reason=" in line


def test_prepended_jump_stays_where_other_rules_push_it(agent: AgentProcess) -> None:
    """A jump that another process pushes down stays there, as with kube-proxy.

    A process that keeps its own rules first, as Calico's Felix does, would push the jump down again, without end.
    """
    agent.configure({"ipvs": {"syncPeriod": "1s"}, "metricsBindAddress": "127.0.0.1:10249"})
    agent.start()
    sh("iptables", "-t", "nat", "-I", "PREROUTING", "-d", "192.0.2.1", "-j", "RETURN")
    sh("iptables", "-I", "INPUT", "2", "-d", "192.0.2.1", "-j", "RETURN")
    pushed, looked = dump(), full_syncs()
    eventually(lambda: full_syncs() > looked + 1)
    assert same(dump(), pushed)
    assert 'kubenode_drift_healed_total{kind="jump"}' not in metrics()


def full_syncs() -> int:
    return sum(int(count) for count in re.findall(r"^kubenode_full_syncs_total{.*} (\d+)$", metrics(), re.MULTILINE))


def test_recurring_drift_is_counted_and_logged_once(agent: AgentProcess) -> None:
    agent.configure({"ipvs": {"syncPeriod": "1h"}, "metricsBindAddress": "127.0.0.1:10249"})
    agent.start()
    at_first = agent.log.read_text().splitlines()
    for _time in range(8):
        sh("ip", "addr", "del", f"{WEB}/32", "dev", "kube-ipvs0")
        eventually(lambda: f"{WEB}/32" in sh("ip", "addr", "show", "dev", "kube-ipvs0"))
    eventually(lambda: 'kubenode_drift_healed_total{kind="address"} 8' in metrics())
    (line,) = agent.log.read_text().splitlines()[len(at_first) :]
    assert f'drift healed object=ns1/web step="+ address {WEB}/32 on kube-ipvs0" reason=' in line


def test_undesired_item_removed_by_another_process_is_unowned(agent: AgentProcess) -> None:
    """Another process removes a virtual server before the agent does, and later creates it as its own."""
    agent.configure({"ipvs": {"syncPeriod": "1s"}})
    agent.start()
    before = agent.ask("status")["owners"]
    agent.write("other.json", web(1, "other", "10.96.0.11", 30081))
    eventually(lambda: agent.ask("status")["owners"] != before)
    agent.stop()
    sh("ipvsadm", "-C")
    sh("ip", "addr", "del", "10.96.0.11/32", "dev", "kube-ipvs0")
    (agent.manifests / "other.json").unlink()
    agent.start()
    assert agent.ask("status")["owners"] == before
    sh("ipvsadm", "-A", "-t", "10.96.0.11:80")
    agent.stop()
    agent.start()
    assert "-A -t 10.96.0.11:80 -s wlc" in sh("ipvsadm", "-Sn")
