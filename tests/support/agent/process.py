# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Agent in its own process and directories, in the network namespace of the test."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..processes.kernel import IPTABLES
from ..processes.namespace import each
from ..waiting import PATIENCE, eventually

ROOT = Path(__file__).parents[3]
NODE = "node1"


class AgentProcess:
    """Starts, queries and ends agents that share one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.manifests = directory / "manifests"
        self.manifests.mkdir()
        self.config = directory / "config.yaml"
        self.run = directory / "run"
        self.state = directory / "state"
        self.log = directory / "log"
        self.process: subprocess.Popen[bytes] | None = None
        self.configure({})

    def configure(self, kube_proxy: dict[str, Any], **agent: Any) -> None:
        """Write a configuration: KubeProxyConfiguration, and AgentConfiguration by keywords. JSON is YAML."""
        first = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "ipvs",
            "conntrack": {
                "maxPerCore": 0
            },  # nf_conntrack_max belongs to the machine: a network namespace cannot write it
            **kube_proxy,
        }
        second = {"apiVersion": "kubenode.ipvs/v1alpha1", "kind": "AgentConfiguration", **agent}
        self.config.write_text(json.dumps(first) + "\n" + json.dumps(second))

    def use_api(self, url: str, kube_proxy: dict[str, Any]) -> None:
        """Write a configuration whose source is the Kubernetes API at this URL, with a kubeconfig for it."""
        kubeconfig = self.directory / "kubeconfig"
        kubeconfig.write_text(
            json.dumps(
                {
                    "kind": "Config",
                    "current-context": "x",
                    "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
                    "clusters": [{"name": "x", "cluster": {"server": url}}],
                    "users": [{"name": "x", "user": {"token": "secret-token"}}],
                }
            )
        )
        self.configure(kube_proxy, source={"kubernetes": {"kubeconfig": str(kubeconfig)}})

    def write(self, name: str, objects: Iterable[dict[str, Any]]) -> None:
        """Replace a file of manifests atomically."""
        temporary = self.directory / f"{name}.new"
        temporary.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
        temporary.rename(self.manifests / name)

    def command(
        self, *words: str, expect: int | None = 0, environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the command line to its end."""
        environment = {**self.environment(), **(environment or {})}
        done = subprocess.run(self.words(*words), env=environment, capture_output=True, text=True, check=False)
        assert expect is None or done.returncode == expect, (
            f"kubenode {words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
        return done

    def words(self, *words: str) -> list[str]:
        """Return the command that runs the command line with these words."""
        return [sys.executable, "-m", "kubenode", *words]

    def plan(self) -> list[str]:
        """Return the steps of kubenode plan."""
        words = ("plan", *self.options(), "--objects", str(self.manifests))
        done = self.command(*words, expect=None)
        assert done.returncode in (0, 2), done.stderr
        assert bool(done.stdout) == (done.returncode == 2)
        return done.stdout.splitlines()

    def options(self) -> tuple[str, ...]:
        """Options for this agent's directories."""
        return ("--config", str(self.config), "--node", NODE, "--run-dir", str(self.run))

    def start(self, *words: str, wait: bool = True, environment: dict[str, str] | None = None) -> None:
        """Start an agent; wait until the node is converged."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.words(
                    "run", *self.options(), "--manifests", str(self.manifests), "--state-dir", str(self.state), *words
                ),
                env={**self.environment(), **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        if wait:
            self.converged()

    def converged(self, seconds: float = PATIENCE) -> dict[str, Any]:
        """Wait until the agent reports that the node is converged; return its status."""

        def asked() -> Any:
            """the agent converges"""
            assert not self.exited(), self.log.read_text()
            answer = self.ask("status")
            return answer if answer and answer["converged"] else None

        try:
            return dict(eventually(asked, seconds))
        except AssertionError:
            raise AssertionError(f"no convergence: {self.ask('status')}\n{self.log.read_text()}") from None

    def exited(self) -> bool:
        """Tell whether the agent has ended."""
        return self.process is None or self.process.poll() is not None

    def ask(self, command: str) -> Any:
        """Return the running agent's answer; None if it does not answer."""
        from kubenode.daemon.outputs.control import ask

        try:
            return ask(str(self.run / "agent.sock"), command)
        except OSError:
            return None

    def kill(self, number: int) -> None:
        """Send a signal."""
        assert self.process is not None
        os.kill(self.process.pid, number)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End the agent and return its status."""
        assert self.process is not None
        self.kill(number)
        status = self.process.wait(PATIENCE)
        self.process = None
        return status

    def close(self) -> None:
        """End the agent if it still runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def environment(self) -> dict[str, str]:
        """Environment of the agent and the command line."""
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT / "agent/src"),
            "PYTHONPYCACHEPREFIX": str(ROOT / ".cache/pycache"),
            "MALLOC_ARENA_MAX": "1",  # as in the unit and in the image
        }


def metrics() -> str:
    """Return the metrics of an agent that serves them at 127.0.0.1:10249."""
    with urllib.request.urlopen("http://127.0.0.1:10249/metrics", timeout=PATIENCE) as answer:
        return str(answer.read(), "utf-8")


def dump() -> dict[str, str]:
    """Return the output of the native tools for this namespace.

    Counters, and values that the kernel chooses, are left out.
    """
    tools = ("true",) * 3 if IPTABLES == "none" else ("ipset save", "iptables-save", "ip6tables-save")
    ipvs, sets, v4, v6, addresses, links = each("ipvsadm -Sn", *tools, "ip -o addr", "ip -o link")
    return {
        "ipvs": ipvs,
        "ipset": _sets(sets),
        "iptables": _rules(v4),
        "ip6tables": _rules(v6),
        # Duplicate address detection of a link ends after seconds, whatever the test does.
        "addresses": addresses.replace(" tentative", ""),
        "links": _links(links),
    }


def same(one: dict[str, str], other: dict[str, str]) -> bool:
    """Compare dumps, without interface numbers and hardware addresses: a new interface gets other ones."""
    return all(one[part] == other[part] for part in one if part not in ("links", "addresses")) and _plain(
        one
    ) == _plain(other)


def _plain(dumped: dict[str, str]) -> list[str]:
    lines = [line.split(": ", 1)[1] for line in dumped["addresses"].splitlines()]
    lines += [line.split(": ", 1)[1].split(" mtu")[0].split("@")[0] for line in dumped["links"].splitlines()]
    return sorted(lines)


def _links(listed: str) -> str:
    """Return the links without values that depend on the carrier, and without names of other namespaces.

    The kernel notices the carrier up to a second late.
    """
    listed = re.sub(r"(?<=[<,])(?:NO-CARRIER|LOWER_UP|DORMANT),?|,(?:NO-CARRIER|LOWER_UP|DORMANT)(?=>)", "", listed)
    return re.sub(r" (?:qdisc|state|link-netns|link-netnsid) \S+", "", listed)


def _sets(saved: str) -> str:
    # not `ipset -sorted save`: it sometimes prints a member without its port
    return "\n".join(sorted(re.sub(r" initval 0x[0-9a-f]+", "", saved).splitlines()))


def _rules(saved: str) -> str:
    """Return the rules without counters; of iptables-nft, without tables that are as at first: it leaves those."""
    lines = [line for line in saved.splitlines() if not line.startswith("#")]
    text = "\n".join(line.partition(" [")[0] if line.startswith(":") else line for line in lines)
    if IPTABLES != "nft":
        return text
    return re.sub(r"^\*\w+\n(?::[A-Z]+ ACCEPT\n)*COMMIT(?:\n|\Z)", "", text, flags=re.MULTILINE).rstrip("\n")
