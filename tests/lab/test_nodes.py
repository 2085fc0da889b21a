# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes from outside: running nodes stay up, disks survive crashes, labs are isolated, errors give a reason."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from support.waiting import eventually

if TYPE_CHECKING:
    from conftest import Clone


def test_up_again_changes_nothing_and_other_nodes_are_refused(clone: Clone) -> None:
    clone.lab("up", "test", "--node", "node1")
    began = clone.lab("ssh", "test", "node1", "cat", "/proc/sys/kernel/random/boot_id")
    assert "is up already" in clone.lab("up", "test", "--node", "node1")
    assert clone.lab("ssh", "test", "node1", "cat", "/proc/sys/kernel/random/boot_id") == began
    assert "with other nodes" in clone.lab("up", "test", "--node", "node2", status=2)


def test_disk_outlives_crash_and_reboot(clone: Clone) -> None:
    clone.lab("up", "test", "--node", "node1")
    boots = {clone.lab("ssh", "test", "node1", "echo kept > /root/kept; sync; cat /proc/sys/kernel/random/boot_id")}
    clone.lab("crash", "test", "node1")
    assert "its kernel ended; the end of its console" in clone.lab("wait", "test", "node1", status=1)
    clone.lab("start", "test", "node1")
    boots.add(clone.lab("ssh", "test", "node1", "cat /root/kept > /dev/null; cat /proc/sys/kernel/random/boot_id"))
    for _ in range(2):
        clone.lab("ssh", "test", "node1", "(sleep 0.5; reboot) > /dev/null 2>&1 &")
        time.sleep(4)
        clone.lab("wait", "test", "node1")
        boots.add(clone.lab("ssh", "test", "node1", "cat /root/kept > /dev/null; cat /proc/sys/kernel/random/boot_id"))
    assert len(boots) == 4


def test_stock_kernel_and_its_disk_outlive_a_power_cut(clone: Clone) -> None:
    clone.lab("up", "test", "--node", "node1", "--kernel", "stock")
    assert clone.lab("ssh", "test", "node1", "uname -r").endswith("-cloud-amd64\n")
    assert "with other nodes, clients, kernel or memory" in clone.lab("up", "test", "--node", "node1", status=2)
    clone.lab("ssh", "test", "node1", "echo kept > /root/kept; sync")
    clone.lab("crash", "test", "node1")
    clone.lab("start", "test", "node1")
    clone.lab("ssh", "test", "node1", "cat /root/kept; (sleep 0.5; poweroff) > /dev/null 2>&1 &")
    eventually(lambda: "node1 bookworm stock 10.77.0.11 fd77:6b6e::11 down" in clone.lab("ls"))
    clone.lab("start", "test", "node1")
    assert clone.lab("ssh", "test", "node1", "cat /root/kept") == "kept\n"


def test_labs_and_clients(clone: Clone) -> None:
    clone.lab("up", "one", "--node", "left", "--client", "c1", "--client", "c2", "--mem", "256M")
    clone.lab("up", "two", "--node", "right", "--mem", "256M")
    assert clone.lab("ssh", "one", "left", "hostname").strip() == "left"
    assert clone.lab("ssh", "two", "right", "hostname").strip() == "right"
    for address in ("10.77.0.11", "fd77:6b6e::11"):
        connect = f"import socket; print(socket.create_connection(('{address}', 22), 5).getsockname()[0])"
        assert clone.lab("exec", "one", "c2", "python3", "-c", connect).strip() in ("10.77.0.102", "fd77:6b6e::102")
    packages = clone.lab("ssh", "one", "left", "apt-get update && apt-get install -y ipset ipvsadm conntrack")
    assert "Setting up ipvsadm" in packages
    assert "W:" not in packages
    assert "systemd-networkd" not in clone.lab("ssh", "one", "left", "systemctl --failed --no-legend")


def test_nodes_keep_the_bytecode_of_archives(clone: Clone) -> None:
    clone.lab("up", "test", "--node", "node1", "--mem", "256M")
    pack = "import zipfile; zipfile.ZipFile('a.zip', 'w').writestr('sent.py', 'print(__file__)')"
    script = f'python3 -c "{pack}"; PYTHONPATH=a.zip python3 -c "import sent"; ls /var/cache/archives-cpython-311'
    imported, file = clone.lab("ssh", "test", "node1", script).split()
    assert imported == "/root/a.zip/sent.py"
    assert len(file) == 16


def test_invalid_arguments_are_refused(clone: Clone) -> None:
    for arguments, text in (
        (("up", "Test", "--node", "a"), "lab 'Test': expected"),
        (("up", "test"), "0 nodes"),
        (("up", "test", "--node", "a:sarge"), "release 'sarge', expected one of bookworm"),
        (("up", "test", "--node", "a", "--node", "a"), "'a' is there 2 times"),
        (("up", "test", "--node", "a", "--mem", "7"), "memory '7': expected"),
        (("up", "test", "--node", "a", "--kernel", "xen"), "kernel 'xen': expected one of uml, stock"),
        (("check", "--kernel", "xen"), "kernel 'xen': expected one of uml, stock"),
        (("ssh", "test", "a"), "lab test: not up"),
    ):
        assert text in clone.lab(*arguments, status=2)
    assert clone.left() == []
