# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module service_proxy on the kernel: it applies the state of its objects, and nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kernel.modules import ModuleError, converge, run
from support.agent.process import dump
from support.clusters import objects
from support.kube_proxy import leftovers, recorded
from support.kube_proxy.node import IPVS_MODULES
from support.processes.kernel import use_tables
from support.processes.namespace import fresh, sh

from kubenode.engine.render import render

MODULES = (*IPVS_MODULES, "nf_conntrack", "ip_set", "xt_set", "xt_ipvs", "xt_physdev", "xt_statistic")
MODULES += ("dummy", "br_netfilter")
VIP = "10.96.0.10"
QUIET = {
    "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}
}  # per machine, not per namespace


@pytest.fixture(autouse=True)
def node() -> Iterator[None]:
    subprocess.run(["modprobe", "-a", *MODULES], check=True)
    fresh()
    sh("ip", "link", "set", "lo", "up")
    sh("ip", "link", "add", "vec0", "type", "dummy")
    sh("ip", "link", "set", "vec0", "up")
    use_tables()
    yield
    for owner in ("service_proxy", "other"):
        run("service_proxy", state="absent", owner=owner)


def web(count: int = 2, name: str = "web", ip: str = VIP) -> list[objects.Object]:
    ports = [objects.port(80, "p", node_port=30080)]
    ends = [objects.endpoint(f"10.244.1.{number}", "n1") for number in range(1, count + 1)]
    return [objects.service(name, [ip], ports, kind="NodePort"), objects.piece(name, ends, [objects.port(8080, "p")])]


def proxy(*given: objects.Object, **arguments: Any) -> dict[str, Any]:
    return converge("service_proxy", objects=list(given), node_name="n1", config=QUIET, **arguments)


def recorded_addresses(recording: dict[str, Any]) -> None:
    """Add the addresses of the recorded node to this node."""
    for link in json.loads(recording["state"]["node"]):
        for item in link["addr_info"] if link["ifname"] == "vec0" else ():
            extra = ["nodad"] if item["family"] == "inet6" else []
            if item["scope"] == "global":
                sh("ip", "addr", "add", f"{item['local']}/{item['prefixlen']}", "dev", "vec0", *extra)


def as_recorded(recording: dict[str, Any]) -> None:
    state = recorded.cluster(recording).state()
    assert recorded.servers(sh("ipvsadm", "-Sn")) == recorded.servers(render(state, "ipvsadm"))
    assert recorded.sets(sh("ipset", "save")) == recorded.sets(render(state, "ipset"))
    assert recorded.rules(sh("iptables-save")) == recorded.rules(render(state, "iptables"))
    assert recorded.rules(sh("ip6tables-save")) == recorded.rules(render(state, "ip6tables"))
    assert recorded.addresses(sh("ip", "-j", "addr", "show", "dev", "kube-ipvs0")) == set(
        render(state, "addresses").split()
    )


@pytest.mark.parametrize("path", recorded.RECORDINGS, ids=lambda path: path.stem)
def test_present_matches_render_and_absent_removes_all(path: Path, tmp_path: Path) -> None:
    recording = recorded.load(path)
    recorded_addresses(recording)
    sh("ipvsadm", "-A", "-t", "203.0.113.250:443", "-s", "wrr")
    sh("ipset", "create", "mine", "hash:ip")
    foreign = ("INPUT", "-p", "tcp", "--dport", "9", "-j", "DROP")
    sh("iptables", "-A", *foreign)
    before = dump()
    config = {
        key: value
        for key, value in recording["config"].items()
        if key not in ("apiVersion", "kind", "clientConnection")
    }
    (tmp_path / "all.json").write_text(json.dumps(recording["objects"]))
    result = converge("service_proxy", src=str(tmp_path), config={**config, **QUIET})
    assert result["diff"]["before"].keys() <= result["diff"]["after"].keys()
    sh("ipvsadm", "-D", "-t", "203.0.113.250:443")
    sh("ipset", "destroy", "mine")
    sh("iptables", "-D", *foreign)
    as_recorded(recording)
    sh("iptables", "-A", *foreign)
    sh("ipvsadm", "-A", "-t", "203.0.113.250:443", "-s", "wrr")
    sh("ipset", "create", "mine", "hash:ip")
    converge("service_proxy", state="absent")
    assert dump() == before


def test_unwanted_items_are_removed() -> None:
    proxy(*web(), *web(1, "other", "10.96.0.11")[:1])
    result = proxy(*web(1))
    assert "- virtual server tcp 10.96.0.11:80" in result["lines"]
    assert "- real server 10.244.1.2:8080 of tcp 10.96.0.10:80" in result["lines"]
    assert "10.96.0.11" not in sh("ipvsadm", "-Sn") + sh("ip", "addr")


FORMER = {"net.ipv4.ip_forward": "0", "net.ipv4.vs.conntrack": "0", "net.ipv4.conf.all.arp_ignore": "8"}


def sysctls() -> dict[str, str]:
    return dict(zip(FORMER, sh("sysctl", "-n", *FORMER).split(), strict=True))


@pytest.fixture
def former() -> Iterator[None]:
    """Set known values of the sysctls that the service proxy changes."""
    sh("sysctl", "-w", *(f"{name}={value}" for name, value in FORMER.items()))
    yield
    run("sysctls", purge="owned")


def test_absent_restores_sysctls_after_last_service(former: None) -> None:
    for count in (2, 1):  # the saved values survive a second run
        proxy(*web(count))
    assert sysctls() == {**FORMER, "net.ipv4.ip_forward": "1", "net.ipv4.vs.conntrack": "1"}
    lines = converge("service_proxy", state="absent")["lines"]
    assert sysctls() == FORMER
    back = lines.index("~ sysctl net.ipv4.ip_forward: 1 -> 0")
    assert back > lines.index("- virtual server tcp 10.96.0.10:80")
    assert all(line.startswith("~ sysctl") for line in lines[back:])


def test_sysctl_changed_since_is_not_restored(former: None) -> None:
    run("service_proxy", objects=web(), node_name="n1", config={**QUIET, "ipvs": {"strictARP": True}})
    assert sysctls()["net.ipv4.conf.all.arp_ignore"] == "1"
    sh("sysctl", "-w", "net.ipv4.conf.all.arp_ignore=2")
    converge("service_proxy", state="absent")
    assert sysctls() == {**FORMER, "net.ipv4.conf.all.arp_ignore": "2"}
    run("service_proxy", objects=web(), node_name="n1", config={**QUIET, "ipvs": {"strictARP": True}})
    converge("service_proxy", state="absent")
    assert sysctls() == {**FORMER, "net.ipv4.conf.all.arp_ignore": "2"}


def test_sysctl_of_another_task_is_not_restored(former: None) -> None:
    proxy(*web())
    run("sysctls", sysctls={"net.ipv4.ip_forward": 1}, persist=False)
    converge("service_proxy", state="absent")
    assert sysctls() == {**FORMER, "net.ipv4.ip_forward": "1"}


def test_kube_proxy_items_are_adopted_only_with_adopt() -> None:
    recording = recorded.load(recorded.GOLDEN / "clustercidr-0.json")
    recorded_addresses(recording)
    leftovers.load(recording["state"])
    sh("ipvsadm", "-A", "-t", "10.96.9.9:80", "-s", "rr")
    sh("ip", "addr", "add", "10.96.9.9/32", "dev", "kube-ipvs0")
    config = {"clusterCIDR": recording["config"]["clusterCIDR"], **QUIET}
    before = dump()
    with pytest.raises(ModuleError, match=r"exists already and has no owner.*nothing was changed"):
        run(
            "service_proxy",
            objects=[*recording["objects"], *web()],
            node_name="n1",
            config={**config, "iptables": {"masqueradeBit": 9}},
        )
    assert dump() == before
    result = converge("service_proxy", objects=recording["objects"], node_name="n1", config=config, adopt=True)
    assert "virtual server tcp 10.96.217.1:1167" in result["adopted"]
    assert [line for line in result["lines"] if "KUBE-IPVS-OUT-FILTER" not in line and "sysctl" not in line] == [
        "- address 10.96.9.9/32 on kube-ipvs0",
        "- virtual server tcp 10.96.9.9:80",
    ]
    as_recorded(recording)


def test_iptables_mode_rules_are_removed_after_ipvs_serves(tmp_path: Path) -> None:
    mode = leftovers.iptables_mode(VIP, 80, 30080, ["10.244.1.1:8080", "10.244.1.2:8080"], "10.244.0.0/16")
    leftovers.load_foreign()
    leftovers.use_iptables_mode(mode, tmp_path)
    lines = proxy(*web(), adopt=True)["lines"]
    (services,) = [number for number, line in enumerate(lines) if line.startswith("~ chain IPv4 nat KUBE-SERVICES")]
    assert lines.index(f"+ address {VIP}/32 on kube-ipvs0") < services
    assert services < lines.index("- chain IPv4 nat KUBE-SVC-ABCDEFGH2345672A")
    assert "KUBE-SVC" not in sh("iptables-save")
    assert "THEIRS" in sh("iptables-save")


def test_second_owner_on_one_node_is_refused() -> None:
    proxy(*web())
    with pytest.raises(ModuleError, match=r"belongs to owner 'service_proxy'; .*nothing was changed"):
        run("service_proxy", objects=web(), node_name="n1", config=QUIET, owner="other")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"objects": [{"kind": "Service"}]}, r"objects\[0\]: Service: apiVersion is None"),
        ({"objects": [*web(), *web()]}, r"objects\[2\]: Service ns1/web is there twice"),
        ({"objects": [objects.service("bad", ["10.96.0.12"], [objects.port(70000)])]}, r"Service ns1/bad: .*70000"),
        ({"config": {"ipvs": {"syncPeriod": "soon"}}}, r"syncPeriod.*soon"),
        ({"agent_config": {"vipBinding": "magic"}}, r"vipBinding.*magic"),
        ({"src": "/nowhere"}, r"src: /nowhere cannot be read"),
        ({"owner": "agent"}, "service proxy's"),
    ],
    ids=["no version", "twice", "a bad port", "a bad duration", "a bad setting", "no file", "the agent's name"],
)
def test_bad_input_is_one_sentence_without_changes(arguments: dict[str, Any], words: str) -> None:
    before = dump()
    with pytest.raises(ModuleError, match=words):
        run("service_proxy", node_name="n1", **arguments)
    assert dump() == before


def test_yaml_needs_pyyaml_and_json_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.yaml").write_text("kind: Service\n")
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ModuleError, match=r"a\.yaml: .*YAML, which needs PyYAML"):
        run("service_proxy", src=str(tmp_path), node_name="n1")
    (tmp_path / "a.yaml").write_text(json.dumps(web()))
    converge("service_proxy", src=str(tmp_path), node_name="n1", config=QUIET)
    assert re.search(f"-A -t {VIP}:80 ", sh("ipvsadm", "-Sn"))


def test_duplicate_object_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(web()))
    with pytest.raises(
        ModuleError, match=r"in objects and in .*: Service ns1/web, EndpointSlice ns1/web-4; name each object once"
    ):
        run("service_proxy", objects=web(), src=str(tmp_path), node_name="n1")


def test_kube_ipvs0_has_no_queue_like_kube_proxy() -> None:
    proxy(*web())
    (link,) = json.loads(sh("ip", "-j", "link", "show", "kube-ipvs0"))
    assert "txqlen" not in link


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 5000], ids=["digits", "brackets"])
def test_poisonous_object_is_named_and_nothing_changed(value: str) -> None:
    poison = objects.piece("web", name="poison", annotations={"kubenode.ipvs/weight": value})
    before = dump()
    with pytest.raises(
        ModuleError, match=r"EndpointSlice ns1/poison: annotation kubenode\.ipvs/weight is .*nothing was changed"
    ) as caught:
        run("service_proxy", objects=[*web(), poison], node_name="n1", config=QUIET)
    assert len(str(caught.value)) < 1500
    assert dump() == before


def test_invalid_object_is_skipped_with_a_warning() -> None:
    poison = objects.piece("web", name="poison", annotations={"kubenode.ipvs/weight": "9" * 5000})
    result = proxy(*web(), poison, invalid_objects="skip")
    assert f"-A -t {VIP}:80" in sh("ipvsadm", "-Sn")
    (warning,) = [text for text in result["warnings"] if "ns1/poison" in text]
    assert warning.startswith("left out: EndpointSlice ns1/poison: annotation kubenode.ipvs/weight is ")


def test_respelled_address_is_served_with_a_warning() -> None:
    result = proxy(*web(ip="010.096.000.010"))
    assert f"-A -t {VIP}:80" in sh("ipvsadm", "-Sn")
    assert [text for text in result["warnings"] if "which is read as 10.96.0.10 (write it like that)" in text]


@pytest.mark.parametrize("written", [json.dumps, yaml.safe_dump])
def test_api_server_of_the_kubeconfig_is_refused(tmp_path: Path, written: Callable[[Any], str]) -> None:
    known = {
        "clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.10:6443"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c"}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(written({"current-context": "x", **known}))
    bad = objects.service("bad", ["10.96.0.66"], externalIPs=["192.0.2.10"])
    agent_config = {"source": {"kubernetes": {"kubeconfig": str(path)}}}
    result = proxy(*web(), bad, invalid_objects="skip", agent_config=agent_config)
    assert any("spec.externalIPs is '192.0.2.10', expected" in text for text in result["warnings"])
    assert "192.0.2.10" not in sh("ipvsadm", "-Sn")
    path.write_text("{")
    result = proxy(*web(), bad, invalid_objects="skip", agent_config=agent_config)
    assert any(text.startswith(f"config: kubeconfig {path}: line 1: not valid JSON: ") for text in result["warnings"])
