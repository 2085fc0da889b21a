# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Process of a service proxy on the node: start it until all is in the kernel, measure it, remove all that it made."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from kernel_views import VIEWS, Expected, output
from removed_servers import forget

WORK = Path("/root/bench/work")
PATIENCE = 1200.0  # seconds
_STILL = 0.5  # seconds without a change of the signature before the state is listed
_SHARE = 10  # a look at the signature takes at most one tenth of the time
_CLEAN = """
ip link delete kube-ipvs0; ipvsadm --clear
for table in kube-proxy kubenode; do nft delete table ip $table; nft delete table ip6 $table; done
for tables in iptables ip6tables; do for table in nat filter mangle; do
$tables -w -t $table -F; $tables -w -t $table -X; done; done
ipset destroy; conntrack -F
"""


class Proxy:
    """One service proxy: its command, its view of the kernel, and whether it notifies systemd when it is ready."""

    def __init__(self, command: list[str], view: str, notifies: bool) -> None:
        self.view: Any = VIEWS[view]()
        self._command = command
        self._notifies = notifies
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, expected: Expected) -> float:
        """Start the proxy; return the seconds until the kernel has the expected state."""
        address = WORK / "notify"
        address.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, open(WORK / "log", "wb") as log:
            manager.bind(str(address))
            manager.settimeout(PATIENCE)
            environment = {"PATH": os.environ["PATH"], "MALLOC_ARENA_MAX": "1"}  # as the agent's unit; Go ignores it
            if self._notifies:
                environment["NOTIFY_SOCKET"] = str(address)
            began = time.perf_counter()
            self._process = subprocess.Popen(self._command, env=environment, stdout=log, stderr=log)
            if not self._notifies:
                return self._complete(expected) - began
            while b"READY=1" not in manager.recv(4096):
                pass
            seconds = time.perf_counter() - began
        if self.view.missing(expected):
            # The agent does not hold up the boot for lists that take more than three seconds.
            program = self._command[: self._command.index("run")]
            subprocess.run([*program, "status", "--wait", str(int(PATIENCE))], stdout=subprocess.DEVNULL, check=True)
            seconds = time.perf_counter() - began
        if missing := self.view.missing(expected):
            self._fail(f"has converged without {missing}")
        return seconds

    def _complete(self, expected: Expected) -> float:
        """Return the time of the last change before the state was complete."""
        deadline = time.perf_counter() + PATIENCE
        last, changed, listed = self.view.signature(), time.perf_counter(), False
        missing = "everything"
        while time.perf_counter() < deadline:
            began = time.perf_counter()
            signature = self.view.signature()
            now = time.perf_counter()
            if signature != last:
                last, changed, listed = signature, now, False
            elif not listed and now - changed > _STILL:
                missing, listed = self.view.missing(expected), True
                if not missing:
                    return changed
            elif listed and not self.view.complete_signature and now - changed > _STILL:
                listed, changed = False, now - _STILL  # members of sets may have come
            if self._process and self._process.poll() is not None:
                self._fail(f"ended without {missing}")
            time.sleep(max(0.01, _SHARE * (now - began)))
        self._fail(f"has not made {missing}")
        raise AssertionError

    def _fail(self, what: str) -> None:
        sys.exit(f"{self._command[0]} {what}:\n{(WORK / 'log').read_text(errors='replace')[-3000:]}")

    def pids(self) -> list[int]:
        """Return the process ids of the proxy and of its descendants."""
        assert self._process
        parents = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents[int(stat.parent.name)] = int(fields[1])
        members = [self._process.pid]
        for member in members:
            members += [pid for pid, parent in parents.items() if parent == member]
        return members

    def memory(self, field: str) -> float:
        """Return resident memory in MiB: `VmRSS` for now, `VmHWM` for the largest so far; of all its processes."""
        total = 0
        for pid in self.pids():
            try:
                lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            except OSError:
                continue
            total += sum(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))
        return total / 1024

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End the process; what it made stays."""
        if self._process:
            self._process.send_signal(number)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


def clean() -> None:
    """Remove all that a proxy leaves in the kernel and in files."""
    subprocess.run(["sh", "-c", _CLEAN], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for directory in ("/run/kubenode", "/var/lib/kubenode"):
        shutil.rmtree(directory, ignore_errors=True)
    left = output("ipvsadm", "-Sn") + output("ipset", "list", "-name")
    if left:
        sys.exit(f"cannot remove what a proxy left: {left[:500]}")
    forget()


def state(view: str) -> list[str]:
    """Return the kernel's state in lines that are comparable between proxies of the same view."""
    if view != "ipvs":
        return []
    members = [line for line in output("ipset", "save").splitlines() if line.startswith("add ")]
    return sorted([*output("ipvsadm", "-Sn").splitlines(), *members])
