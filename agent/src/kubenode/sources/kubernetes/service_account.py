# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Identity of a pod, from kubelet. kubelet replaces the token every hour, so its file is read again."""

from __future__ import annotations

import os

from .access import Access, Identity, check_url, read_file
from .errors import AccessError

DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount"


class ServiceAccount:
    """A pod's service account; ``server`` replaces the ClusterIP in the pod's environment.

    A service proxy should not depend on the ClusterIP that it provides itself: give it a ``server``.
    """

    def __init__(self, server: str = "", directory: str = DIRECTORY) -> None:
        self._server = server
        self._directory = directory

    @property
    def name(self) -> str:
        """Return the source's name in messages."""
        return f"service account {self._directory}"

    def access(self) -> Access:
        """Return the present address and identity.

        Raises:
            AccessError: the process does not run in a pod.
        """
        token, authority = (os.path.join(self._directory, name) for name in ("token", "ca.crt"))
        if not os.path.exists(token):
            raise AccessError(
                f"there is no kubeconfig and no service account (source.kubernetes.kubeconfig is not set, no {token})"
            )
        return Access(
            server=check_url(self._server or _from_environment(), "server", ("https", "http")),
            authority=read_file(authority, "certificate authority").decode("ascii", "replace"),
            identity=Identity(token_file=token),
        )


def _from_environment() -> str:
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise AccessError(
            "no server is known: set source.kubernetes.server (KUBERNETES_SERVICE_HOST and _PORT are not set either)"
        )
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
