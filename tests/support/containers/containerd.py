# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""containerd and runc in the test's kernel, and containers of the DaemonSet in them, as kubelet would start them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..waiting import PATIENCE, eventually
from . import images

STATE = Path("/run/containerd-test")
_CONFIG = f"""
version = 2
root = "{STATE}/root"
state = "{STATE}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[grpc]
address = "{STATE}/socket"
"""
# What containerd gives a container by default, and kubelet takes away by `drop: [ALL]`.
_DEFAULT = "CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT"
_DEFAULT += " KILL AUDIT_WRITE"


class Containerd:
    """A containerd of its own, from its start to :meth:`close`."""

    def __init__(self) -> None:
        self._path = f"{images.RUNTIME}/usr/bin:{images.RUNTIME}/usr/sbin:{os.environ['PATH']}"
        STATE.mkdir(parents=True, exist_ok=True)
        if not os.path.ismount("/sys/fs/cgroup"):
            subprocess.run(["mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup"], check=True)
        (STATE / "config.toml").write_text(_CONFIG)
        self._log = (STATE / "log").open("wb")
        self._process = subprocess.Popen(
            ["containerd", "--config", STATE / "config.toml"],
            env=self.environment(),
            stdout=self._log,
            stderr=self._log,
        )
        eventually(lambda: self.ctr("version", expect=None).returncode == 0)

    def environment(self) -> dict[str, str]:
        """Return the environment of containerd and its client."""
        return {**os.environ, "PATH": self._path}

    def words(self, *words: str) -> list[str]:
        """Return the client's command."""
        return ["ctr", "--address", f"{STATE}/socket", *words]

    def ctr(self, *words: str, expect: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run the client."""
        done = subprocess.run(self.words(*words), env=self.environment(), capture_output=True, text=True, check=False)
        output = f"{done.stdout}{done.stderr}"
        assert expect is None or done.returncode == expect, f"ctr {words}: {done.returncode}, {output}"
        return done

    def load(self, content: bytes) -> None:
        """Import an image."""
        archive = STATE / "image.tar"
        archive.write_bytes(content)
        self.ctr("image", "import", str(archive))
        archive.unlink()

    def close(self) -> None:
        """End containerd, and what runs in its containers."""
        for name in self.ctr("task", "ls", "-q", expect=None).stdout.split():
            self.ctr("task", "rm", "--force", name, expect=None)
        self._process.terminate()
        self._process.wait(PATIENCE)
        self._log.close()


class Pod:
    """The DaemonSet's pod on one node.

    ``volumes`` are directories in place of the volumes that only a cluster has (ConfigMaps, tokens), by name. Others
    are the node's own. ``namespace`` is the network namespace that stands for the node's network. ``shared`` is a
    directory of the test, which containers have at the same place.
    """

    def __init__(
        self,
        containerd: Containerd,
        daemonset: Mapping[str, Any],
        volumes: Mapping[str, Path],
        namespace: str,
        shared: Path | None = None,
    ) -> None:
        self._shared = shared
        self._containerd = containerd
        self._spec = daemonset["spec"]["template"]["spec"]
        self._namespace = namespace
        self._volumes = dict(volumes)
        for volume in self._spec["volumes"]:
            if "hostPath" in volume:
                path = Path(volume["hostPath"]["path"])
                if volume["hostPath"]["type"] == "DirectoryOrCreate":
                    path.mkdir(parents=True, exist_ok=True)
                elif volume["hostPath"]["type"] == "FileOrCreate" and not path.exists():
                    path.touch(0o644)
                self._volumes[volume["name"]] = path
        self._count = 0
        self.name = ""  # of the agent's container that runs

    def words(self, name: str, image: str, *words: str, container: str = "agent", node: str) -> list[str]:
        """Return ctr's options for a container of the pod, and its command."""
        fields = [*self._spec["initContainers"], *self._spec["containers"]]
        (spec,) = [entry for entry in fields if entry["name"] == container]
        context = spec["securityContext"]
        assert not context["allowPrivilegeEscalation"]  # ctr's default: no new privileges
        assert self._spec["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
        options = ["--seccomp", "--with-ns", f"network:/run/netns/{self._namespace}"]
        options += ["--read-only"] if context["readOnlyRootFilesystem"] else []
        assert context["capabilities"]["drop"] == ["ALL"]
        wanted = set(context["capabilities"]["add"])
        for capability in sorted(set(_DEFAULT.split()) - wanted):
            options += ["--cap-drop", f"CAP_{capability}"]
        for capability in sorted(wanted):
            options += ["--cap-add", f"CAP_{capability}"]
        for variable in spec["env"]:
            value = variable.get("value") or {"spec.nodeName": node}[variable["valueFrom"]["fieldRef"]["fieldPath"]]
            options += ["--env", f"{variable['name']}={value}"]
        for mount in spec["volumeMounts"]:
            right = "ro" if mount.get("readOnly") else "rw"
            source = self._volumes[mount["name"]]
            options += ["--mount", f"type=bind,src={source},dst={mount['mountPath']},options=rbind:{right}"]
        if self._shared is not None:
            options += ["--mount", f"type=bind,src={self._shared},dst={self._shared},options=rbind:ro"]
        return [*options, image, name, "/usr/local/bin/kubenode", *(words or spec["args"])]

    def run(
        self, image: str, *words: str, container: str = "agent", node: str = "node1", expect: int | None = 0
    ) -> subprocess.CompletedProcess[str]:
        """Run a container of the pod to its end."""
        self._count += 1
        options = self.words(f"once{self._count}", image, *words, container=container, node=node)
        return self._containerd.ctr("run", "--rm", *options, expect=expect)

    def begin(self, image: str, *, container: str = "agent", node: str = "node1") -> subprocess.Popen[str]:
        """Start a container of the pod; return ctr, whose output is that of the container."""
        self._count += 1
        options = self.words(f"begun{self._count}", image, container=container, node=node)
        return subprocess.Popen(
            self._containerd.words("run", "--rm", *options),
            env=self._containerd.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def start(self, image: str, log: Path, *words: str, node: str = "node1") -> None:
        """Start the agent's container; ``words`` are arguments in place of the manifest's."""
        self._count += 1
        self.name = f"agent{self._count}"
        log.touch()
        options = self.words(self.name, image, *words, node=node)
        self._containerd.ctr("run", "--detach", "--log-uri", f"file://{log}", *options)

    def execute(self, *words: str, expect: int | None = 0) -> str:
        """Run a command in the agent's container, as `kubectl exec` does."""
        self._count += 1
        options = ("task", "exec", "--exec-id", f"exec{self._count}", self.name)
        return self._containerd.ctr(*options, "/usr/local/bin/kubenode", *words, expect=expect).stdout

    def pid(self) -> int:
        """Return the number of the agent's process in this kernel."""
        rows = [line.split() for line in self._containerd.ctr("task", "ls").stdout.splitlines()]
        return next(int(row[1]) for row in rows if row[0] == self.name)

    def runs(self) -> bool:
        """Tell whether the agent's container runs."""
        return bool(self.name) and "STOPPED" not in self._row()

    def kill(self, number: int) -> None:
        """Send a signal to the agent."""
        self._containerd.ctr("task", "kill", "--signal", str(int(number)), self.name)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End the agent's container, and remove it."""
        self.kill(number)
        eventually(lambda: "STOPPED" in self._row())
        self._containerd.ctr("task", "rm", self.name)
        self._containerd.ctr("container", "rm", self.name)
        self.name = ""

    def _row(self) -> str:
        lines = self._containerd.ctr("task", "ls").stdout.splitlines()
        return next((line for line in lines if line.split()[0] == self.name), "STOPPED")
