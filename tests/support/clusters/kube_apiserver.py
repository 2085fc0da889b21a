# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real kube-apiserver with its own etcd, in the network namespace of the test.

It checks permissions, and writes every request to its audit log.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from ..fakes.certificates import Authority
from ..waiting import eventually

PORT, ETCD, ETCD_PEERS = 6443, 2379, 2380
ADMIN = "admin-token"
# users with permissions: from the role's manifest, and from the API server itself
ROLE, PROXY = "system:serviceaccount:kube-system:kubenode-agent", "system:kube-proxy"
# Listening address: address in the cluster, and networks of cluster IPs. A Service without cluster IPs gets one of the
# first network.
NETWORKS = {"127.0.0.1": ("192.0.2.1", "10.96.0.0/16"), "::1": ("2001:db8::1", "fd00:10:96::/112,10.96.0.0/16")}
_SECONDS = 300  # to start, in a kernel with one processor
_AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


class Asked(NamedTuple):
    """Request in the API server's audit log: path, query (first values), status of the answer, and stage."""

    path: str
    query: dict[str, str]
    status: int
    stage: str


class KubeApiServer:
    """API server that runs from its creation until :meth:`close`.

    ``address`` is one of NETWORKS, or an IPv4 address of this machine; clients reach it there.
    """

    def __init__(self, directory: Path, etcd: str, program: str, address: str) -> None:
        self.authority = Authority("kubernetes-ca")
        self._address = address
        self._host = f"[{address}]" if ":" in address else address
        self.url = f"https://{self._host}:{PORT}"
        self._directory = directory
        self._programs = {"etcd": etcd, "kube-apiserver": program}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        for name, (certificate, key) in {
            "server": self.authority.issue("kube-apiserver", address),
            "accounts": self.authority.issue("service-accounts"),
        }.items():
            (directory / f"{name}.pem").write_bytes(certificate)
            (directory / f"{name}.key").write_bytes(key)
        (directory / "ca.pem").write_bytes(self.authority.pem)
        (directory / "tokens").write_text(f'{ADMIN},admin,1,"system:masters"\n')
        (directory / "audit.json").write_text(json.dumps(_AUDIT))
        self.admin = self.kubeconfig("admin", {"token": ADMIN})
        try:
            self.up()
        except BaseException:
            self.close()
            raise

    def kubeconfig(self, name: str, user: dict[str, str], port: int = PORT) -> Path:
        """Write a kubeconfig for a user; the port may be a relay's."""
        path = self._directory / f"{name}.kubeconfig"
        cluster = {"server": f"https://{self._host}:{port}", "certificate-authority": str(self._directory / "ca.pem")}
        config = {
            "kind": "Config",
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "clusters": [{"name": "x", "cluster": cluster}],
            "users": [{"name": "x", "user": user}],
        }
        path.write_text(json.dumps(config))
        return path

    def through(self, kubeconfig: Path, port: int) -> Path:
        """Write the same kubeconfig with the port of a relay."""
        path = kubeconfig.with_suffix(".relay")
        path.write_text(kubeconfig.read_text().replace(f":{PORT}", f":{port}"))
        return path

    def certificate(self, name: str, hours: float = 1) -> dict[str, str]:
        """Return a kubeconfig's user with a certificate of ``hours`` validity; with negative hours, it has expired."""
        files = [self._directory / f"{name}.{suffix}" for suffix in ("pem", "key")]
        for file, content in zip(files, self.authority.issue(name, hours=hours), strict=True):
            file.write_bytes(content)
        return {"client-certificate": str(files[0]), "client-key": str(files[1])}

    # life

    def pid(self, name: str = "kube-apiserver") -> int:
        """Return the process id of the API server, or of ``etcd``."""
        return self._running[name].pid

    def up(self) -> None:
        """Start etcd and the API server if they do not run; wait until they are ready."""
        if "etcd" not in self._running:
            self._start("etcd", *self._etcd_options())
        if "kube-apiserver" not in self._running:
            self._start("kube-apiserver", *self._options())

        def ready() -> bool:
            """the API server is ready"""
            for name, process in self._running.items():
                assert process.poll() is None, self._log(name)
            return self._ready()

        try:
            eventually(ready, _SECONDS, pause=0.5)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self._log('kube-apiserver')}") from None

    def kill(self) -> None:
        """Kill the API server."""
        self._end("kube-apiserver", signal.SIGKILL)

    def pause(self) -> None:
        """Stop the API server's process; its connections stay."""
        self._running["kube-apiserver"].send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Continue the API server's process."""
        self._running["kube-apiserver"].send_signal(signal.SIGCONT)

    def backup(self) -> None:
        """Copy etcd's data."""
        self.kill()
        self._end("etcd", signal.SIGTERM)
        shutil.rmtree(self._directory / "backup", ignore_errors=True)
        shutil.copytree(self._data, self._directory / "backup")
        self.up()

    def restore(self) -> None:
        """Restart from the last backup."""
        self.kill()
        self._end("etcd", signal.SIGKILL)
        shutil.rmtree(self._data)
        shutil.copytree(self._directory / "backup", self._data)
        self.up()

    def compact(self, version: str) -> None:
        """Compact etcd's history before a version."""
        body = json.dumps({"revision": version, "physical": True}).encode()
        urllib.request.urlopen(
            urllib.request.Request(f"http://127.0.0.1:{ETCD}/v3/kv/compaction", body), timeout=30
        ).close()

    def close(self) -> None:
        """End etcd and the API server."""
        for name in list(self._running):
            self._end(name, signal.SIGKILL)

    # requests

    def asked(self, user: str, path: str = "") -> list[Asked]:
        """Return the requests of a user for a path, or for all, oldest first; a watch is there at begin and at end."""
        return [request for name, request in self._audit() if name == user and path in ("", request.path)]

    def _audit(self) -> Iterator[tuple[str, Asked]]:
        for line in (self._directory / "audit.log").read_text().splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue  # the API server was killed while it wrote the line
            parts = urlsplit(event["requestURI"])
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            status = (event.get("responseStatus") or {}).get("code", 0)
            yield event["user"].get("username", ""), Asked(parts.path, query, status, event["stage"])

    # inside

    @property
    def _data(self) -> Path:
        return self._directory / "etcd"

    def _etcd_options(self) -> list[str]:
        url, peers = f"http://127.0.0.1:{ETCD}", f"http://127.0.0.1:{ETCD_PEERS}"
        return [
            f"--data-dir={self._data}",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--log-level=warn",
        ]

    def _options(self) -> list[str]:
        here = self._directory
        advertised, networks = NETWORKS.get(self._address, (self._address, "10.96.0.0/12"))
        return [
            f"--etcd-servers=http://127.0.0.1:{ETCD}",
            "--etcd-compaction-interval=0",
            f"--bind-address={self._address}",
            f"--secure-port={PORT}",
            f"--advertise-address={advertised}",
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={here / 'server.pem'}",
            f"--tls-private-key-file={here / 'server.key'}",
            f"--client-ca-file={here / 'ca.pem'}",
            f"--token-auth-file={here / 'tokens'}",
            f"--service-account-key-file={here / 'accounts.pem'}",
            f"--service-account-signing-key-file={here / 'accounts.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-cluster-ip-range={networks}",
            "--authorization-mode=RBAC",
            f"--audit-policy-file={here / 'audit.json'}",
            f"--audit-log-path={here / 'audit.log'}",
        ]

    def _start(self, name: str, *options: str) -> None:
        with (self._directory / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [self._programs[name], *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "HOME": "/tmp"},
            )

    def _end(self, name: str, number: int) -> None:
        process = self._running.pop(name)
        process.send_signal(number)
        process.wait(60)

    def _ready(self) -> bool:
        request = urllib.request.Request(f"{self.url}/readyz", headers={"Authorization": f"Bearer {ADMIN}"})
        context = ssl.create_default_context(cadata=self.authority.pem.decode())
        try:
            with urllib.request.urlopen(request, timeout=30, context=context) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.HTTPError):
            return False

    def _log(self, name: str) -> Any:
        return f"{name}: {(self._directory / f'{name}.log').read_text(errors='replace')[-3000:]}"
