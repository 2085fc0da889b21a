# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings that the role prepare gives to firewalld, NetworkManager and networkd.

The real daemons read them, in a root directory, on this machine's kernel.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.distributions.foreign_root import ForeignRoot
from support.distributions.neighbours import FILES, FIREWALLD, PATHS, ROLE, render
from support.playbooks import run_playbook

# The service address is on a link with the name kube-ipvs0; this kernel may lack dummy links. A client is behind a
# second link. A read-only /sys tells NetworkManager and networkd that there is no udev to wait for.
LINKS = """
set -e
ip link set lo up
ip link add kube-ipvs0 type veth peer name kube-peer
ip address add 10.96.0.1/32 dev kube-ipvs0
ip link set kube-ipvs0 up
ip link add eth0 type veth peer name client0
ip address add 192.0.2.1/24 dev eth0
ip link set eth0 up
mkdir -p /run/netns
ip netns add client
ip link set client0 netns client
ip -n client address add 192.0.2.2/24 dev client0
ip -n client link set client0 up
ip -n client route add default via 192.0.2.1
mkdir -p /run/dbus /run/udev
mount -t sysfs -o ro sysfs /sys
dbus-daemon --system --fork
"""


class Node:
    """A machine with a system bus. The test starts its services."""

    def __init__(self, root: ForeignRoot) -> None:
        self.root = root
        root.run("sh", "-c", LINKS)
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *command: str) -> None:
        self.started.append(
            subprocess.Popen([*self.root.enter, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        )

    def end(self, name: str) -> None:
        """End the service that was started last, by its process name."""
        self.root.run(
            "sh", "-c", f'for p in /proc/[0-9]*; do read -r n <$p/comm; [ "$n" != {name} ] || kill ${{p#/proc/}}; done'
        )
        self.started[-1].wait()

    def until(self, *command: str, shows: str) -> str:
        """Repeat the command until its output contains the words."""
        for _ in range(600):
            done = self.root.attempt(*command)
            if shows in done.stdout:
                return str(done.stdout)
            time.sleep(0.1)
        raise AssertionError(f"{' '.join(command)}: {done.stdout}{done.stderr}, expected {shows}")

    def tell(self, name: str) -> None:
        self.root.write(FILES[name], render(name))

    def reached(self, address: str, port: int) -> bool:
        """Return whether the client can connect."""
        return (
            self.root.attempt("ip", "netns", "exec", "client", "nc", "-z", "-w", "1", address, str(port)).returncode
            == 0
        )


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    root = ForeignRoot(tmp_path)
    running = Node(root)
    yield running
    root.close()
    for process in running.started:
        process.wait()


def test_firewalld_admits_balanced_traffic_only(node: Node) -> None:
    for port in (80, 30080, 8080):
        node.start("nc", "-lk", "0.0.0.0", str(port))
        node.until("ss", "-Hlnt", "sport", "=", f"{port}", shows=f":{port}")
    assert node.reached("10.96.0.1", 80)
    node.start("firewalld", "--nofork", "--nopid")
    node.until("firewall-cmd", "--state", shows="running")
    asked = (("10.96.0.1", 80), ("192.0.2.1", 30080), ("192.0.2.1", 8080))
    assert [node.reached(*each) for each in asked] == [False, False, False]
    node.root.run("iptables-nft", "-N", "KUBENODE-TEST")
    node.root.run("iptables-nft", "-A", "FORWARD", "-j", "KUBENODE-TEST")
    assert "-A FORWARD -j KUBENODE-TEST" in node.root.run("iptables-nft", "-S", "FORWARD")

    for name in FIREWALLD:
        node.tell(name)
    node.root.run("firewall-cmd", "--check-config")
    node.root.run("firewall-cmd", "--reload")
    assert node.root.run("firewall-cmd", "--get-active-zones").split() == [
        "kubenode", "interfaces:", "kube-ipvs0", "sources:", "10.244.0.0/16", "fd00:244::/32",
    ]  # fmt: skip
    assert "kubenode-services" in node.root.run("firewall-cmd", "--get-active-policies")
    assert [node.reached(*each) for each in asked] == [True, True, False]
    # The how-to promises this for a reload, whatever FirewallBackend is.
    assert node.root.run("iptables-nft", "-S", "FORWARD") == "-P FORWARD ACCEPT\n"
    node.root.run("firewall-cmd", "--complete-reload")
    assert [node.reached(*each) for each in asked] == [True, True, False]


def test_network_manager_restart_leaves_the_link_alone(node: Node) -> None:
    node.start("NetworkManager", "--no-daemon")
    node.until("nmcli", "-g", "DEVICE,STATE", "device", shows="kube-ipvs0:connected")
    node.tell("network_manager.conf.j2")
    node.root.run("nmcli", "general", "reload")
    node.until("nmcli", "-g", "DEVICE,STATE", "device", shows="kube-ipvs0:unmanaged")
    node.end("NetworkManager")
    node.start("NetworkManager", "--no-daemon")
    states = node.until("nmcli", "-g", "DEVICE,STATE", "device", shows="eth0:connected")
    assert "kube-ipvs0:unmanaged" in states
    assert "10.96.0.1/32" in node.root.run("ip", "-4", "address", "show", "dev", "kube-ipvs0")


# Some distributions and clouds let networkd manage every link that has no other configuration.
EVERY_LINK = """[Match]
Name=*

[Network]
LinkLocalAddressing=no
"""


def test_networkd_restart_leaves_the_link_alone(node: Node) -> None:
    def is_up() -> bool:
        return ",UP" in node.root.run("ip", "link", "show", "dev", "kube-ipvs0")

    def start() -> None:
        node.start("/lib/systemd/systemd-networkd")
        node.until("networkctl", "list", "eth0", shows=" configured")

    node.root.write("/etc/systemd/network/80-every-link.network", EVERY_LINK)
    node.root.run("install", "-d", "-o", "systemd-network", "/run/systemd/netif")
    node.root.run("ip", "link", "set", "kube-ipvs0", "down")
    start()
    node.until("networkctl", "list", "kube-ipvs0", shows=" configured")
    assert is_up()

    node.tell("networkd.network.j2")
    node.root.run("networkctl", "reload")
    node.until("networkctl", "list", "kube-ipvs0", shows=" unmanaged")
    node.root.run("ip", "link", "set", "kube-ipvs0", "down")
    node.end("systemd-network")
    start()
    assert " unmanaged" in node.root.run("networkctl", "list", "kube-ipvs0")
    assert not is_up()
    assert "10.96.0.1/32" in node.root.run("ip", "-4", "address", "show", "dev", "kube-ipvs0")


PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: kubenode.ipvs.prepare
        tasks_from: neighbours
"""


OLDER = "<zone><short>older</short></zone>\n"


@pytest.mark.parametrize(
    ("harm", "ports", "message"),
    [
        (
            "true",
            ["30000-32767/tcp", "99999/tcp"],
            "firewalld refuses its configuration with prepare_firewalld_sources, _addresses and _ports",
        ),
        (
            "mount -t tmpfs -o nr_inodes=1 full /etc/firewalld/policies",
            ["30000-32767/tcp"],
            "kubenode-services.xml cannot be written: ",
        ),
        (
            "mount -t tmpfs -o ro sealed /etc/firewalld/policies",
            ["30000-32767/tcp"],
            "kubenode-services.xml cannot be written: ",
        ),
    ],
    ids=["not understood", "no space", "read-only"],
)
def test_invalid_firewalld_files_are_restored(
    node: Node, tmp_path: Path, harm: str, ports: list[str], message: str
) -> None:
    """The role refuses ports that firewalld does not accept. If one of two files cannot be written, none changes."""
    node.root.write(FILES[FIREWALLD[0]], OLDER)
    node.root.run("sh", "-c", harm)
    host = {"ansible_connection": "local", "ansible_remote_tmp": f"{tmp_path}/remote"}
    host["ansible_python_interpreter"] = node.root.interpreter(tmp_path / "python")
    (tmp_path / "inventory.json").write_text(json.dumps({"all": {"hosts": {"node": host}}}))
    (tmp_path / "play.yml").write_text(PLAY)
    registered = {"services": ["firewalld"], "contents": dict.fromkeys(PATHS), "files": dict.fromkeys(PATHS, False)}
    given = json.dumps({"prepare_node": registered, "prepare_firewalld_ports": ports})
    words = ["-i", "inventory.json", "-e", given, "play.yml"]
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROLE.parents[1] / "collection")}
    done = run_playbook(words, tmp_path, environment)
    assert done.returncode == 2, done.stdout + done.stderr
    text = " ".join((done.stdout + done.stderr).split())
    assert message in text, text
    assert "the files are restored" in text, text
    assert ("INVALID_PORT: port number in '99999' is too big" in text) == ("99999/tcp" in ports), text
    assert node.root.run("cat", FILES[FIREWALLD[0]]) == OLDER
    listed = node.root.run("sh", "-c", "ls /etc/firewalld/zones /etc/firewalld/policies /etc/NetworkManager/conf.d")
    assert listed.split() == [
        "/etc/NetworkManager/conf.d:", "/etc/firewalld/policies:", "/etc/firewalld/zones:", "kubenode.xml",
    ]  # fmt: skip
