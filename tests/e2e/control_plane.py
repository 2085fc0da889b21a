# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Control plane on this machine, in the lab's namespace: etcd, API server, controller manager and scheduler.

Removing the lab ends them, as all processes in its namespace.
"""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from lab import netns
from support.fakes.certificates import Authority

from .api import Api, Object
from .errors import E2eError
from .settings import API_SERVICE, HOST, WORK, Settings

PORT, ETCD, ETCD_PEERS = 6443, 2379, 2380
ADMIN = "admin"
_PATIENCE = 300.0  # seconds until the API server is ready
_HOURS = 24.0  # validity of certificates
# Token, user and groups. A node's user is added for each node.
_USERS = {
    ADMIN: ("admin", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
}


class ControlPlane:
    """Programs of a control plane, from :meth:`start` until the lab is removed."""

    def __init__(self, settings: Settings, namespace: str) -> None:
        self.url = f"https://{HOST.ipv4}:{PORT}"
        self._settings = settings
        self._namespace = namespace
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        authority = Authority("kubernetes-ca")
        self.authority = authority.pem.decode()
        (WORK / "ca.pem").write_bytes(authority.pem)
        names = ("kubernetes.default.svc", "localhost")
        for name, addresses in {
            "server": (HOST.ipv4, HOST.ipv6, API_SERVICE, "127.0.0.1", *names),
            "accounts": (),
            "kubelet-client": (),
        }.items():
            certificate, key = authority.issue(name, *addresses, hours=_HOURS)
            (WORK / f"{name}.pem").write_bytes(certificate)
            (WORK / f"{name}.key").write_bytes(key)
        users = {**_USERS, **{node: (f"system:node:{node}", "system:nodes") for node in settings.names}}
        lines = [
            f"{token(name)},{user},{name}{f',{group}' if group else ''}\n" for name, (user, group) in users.items()
        ]
        (WORK / "tokens").write_text("".join(lines))
        self.admin = self.write_kubeconfig(ADMIN)

    @property
    def api(self) -> Api:
        """Client with all rights."""
        return Api(self.url, self.authority, token(ADMIN))

    def kubeconfig(self, bearer: str) -> str:
        """Return the text of a kubeconfig with a token."""
        cluster = {"server": self.url, "certificate-authority-data": _base64(self.authority)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "e2e",
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
            "clusters": [{"name": "e2e", "cluster": cluster}],
            "users": [{"name": "e2e", "user": {"token": bearer}}],
        }
        return json.dumps(config, indent=1) + "\n"

    def write_kubeconfig(self, name: str) -> Path:
        """Write the kubeconfig of a user of the token file."""
        path = WORK / f"{name}.kubeconfig"
        path.write_text(self.kubeconfig(token(name)))
        return path

    def start(self) -> None:
        """Start all programs, and wait until the API server is ready.

        Raises:
            E2eError: a program ended, or the API server is not ready in time.
        """
        self._start("etcd", *_etcd())
        self._start("kube-apiserver", *self._api_server())
        self._wait()
        self._start("kube-controller-manager", *self._controller_manager())
        self._start("kube-scheduler", *self._component("scheduler"), f"--cert-dir={WORK / 'scheduler'}")

    def check(self) -> None:
        """Check that all programs run.

        Raises:
            E2eError: one has ended.
        """
        for name, process in self._running.items():
            if process.poll() is not None:
                raise E2eError(f"{name} ended with status {process.returncode}: {self._log(name)}")

    def items(self, path: str) -> list[Object]:
        """Return the items of the list at a path."""
        with netns.inside(self._namespace):
            listed: list[Object] = (self.api.get(path) or {}).get("items", [])
        return listed

    def kubectl(self, *words: str, text: str = "") -> str:
        """Run kubectl as administrator; return its output.

        Raises:
            E2eError: it failed.
        """
        command = [str(self._settings.programs / "kubectl"), f"--kubeconfig={self.admin}", *words]
        with netns.inside(self._namespace):
            done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise E2eError(f"kubectl {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def _start(self, name: str, *options: str) -> None:
        with netns.inside(self._namespace), (WORK / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                [str(self._settings.programs / name), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=WORK,
                start_new_session=True,  # an interrupt is for the run, which removes all in its order
            )

    def _wait(self) -> None:
        context = ssl.create_default_context(cadata=self.authority)
        request = urllib.request.Request(f"{self.url}/readyz", headers={"Authorization": f"Bearer {token(ADMIN)}"})
        end = time.monotonic() + _PATIENCE
        with netns.inside(self._namespace):
            while time.monotonic() < end:
                self.check()
                try:
                    with urllib.request.urlopen(request, timeout=10, context=context):
                        return
                except (OSError, urllib.error.HTTPError):
                    time.sleep(0.5)
        raise E2eError(f"kube-apiserver is not ready after {_PATIENCE:.0f} s: {self._log('kube-apiserver')}")

    def _log(self, name: str) -> str:
        return (WORK / f"{name}.log").read_text(errors="replace")[-2000:]

    def _api_server(self) -> list[str]:
        return [
            f"--etcd-servers=http://127.0.0.1:{ETCD}",
            "--bind-address=::",
            f"--advertise-address={HOST.ipv4}",
            f"--secure-port={PORT}",
            f"--tls-cert-file={WORK / 'server.pem'}",
            f"--tls-private-key-file={WORK / 'server.key'}",
            f"--client-ca-file={WORK / 'ca.pem'}",
            f"--kubelet-client-certificate={WORK / 'kubelet-client.pem'}",
            f"--kubelet-client-key={WORK / 'kubelet-client.key'}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--token-auth-file={WORK / 'tokens'}",
            f"--service-account-key-file={WORK / 'accounts.pem'}",
            f"--service-account-signing-key-file={WORK / 'accounts.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-cluster-ip-range={self._settings.service_networks}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
        ]

    def _controller_manager(self) -> list[str]:
        return [
            *self._component("controller-manager"),
            f"--cert-dir={WORK / 'controller-manager'}",
            f"--service-account-private-key-file={WORK / 'accounts.key'}",
            f"--root-ca-file={WORK / 'ca.pem'}",
            "--use-service-account-credentials=true",
            f"--service-cluster-ip-range={self._settings.service_networks}",
            f"--cluster-cidr={self._settings.pod_networks}",
            "--allocate-node-cidrs=false",
            "--kube-api-qps=100",
            "--kube-api-burst=200",
        ]

    def _component(self, name: str) -> list[str]:
        path = self.write_kubeconfig(name)
        options = [f"--{use}kubeconfig={path}" for use in ("", "authentication-", "authorization-")]
        return [*options, "--leader-elect=false"]


def token(name: str) -> str:
    """Return the token of a user of the token file."""
    return f"token-of-{name}"


def _etcd() -> list[str]:
    url, peers = f"http://127.0.0.1:{ETCD}", f"http://127.0.0.1:{ETCD_PEERS}"
    return [
        f"--data-dir={WORK / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--log-level=warn",
        "--unsafe-no-fsync",  # the data ends with the run
    ]


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
