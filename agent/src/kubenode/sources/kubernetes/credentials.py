# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Credentials for one connection: rotating tokens, certificates in files or in memory, credential plugins.

No credential ever appears in a message.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from typing import Any, Callable, NamedTuple

from .access import Identity, Plugin, read_file
from .errors import AccessError

_PLUGIN_SECONDS = 60.0
_EARLY = 10.0  # seconds before its end from which a credential is not used
_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class _Issued(NamedTuple):
    plugin: Plugin
    identity: Identity
    until: float  # wall clock; 0 for ever
    until_monotonic: float


class Credentials:
    """Turns an identity into a token and a certificate; caches a plugin's credential until its end.

    The credential ends by the wall clock or the monotonic clock, whichever is first: a wall clock that jumps back does
    not prolong it.
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._issued: _Issued | None = None
        self._lock = threading.Lock()

    def resolve(self, identity: Identity) -> Identity:
        """Return the identity with a plugin or a token file replaced by the credential itself.

        Raises:
            AccessError: the token file or the plugin gives no credential.
        """
        if identity.plugin is not None:
            return self._ask(identity)
        if identity.token_file:
            token = read_file(identity.token_file, "token file").decode("ascii", "replace").strip()
            if not token:
                raise AccessError(f"token file {identity.token_file} is empty")
            return identity._replace(token=token)
        return identity

    def refused(self) -> None:
        """Drop the plugin's credential, because the API refuses it."""
        with self._lock:
            self._issued = None

    def _ask(self, identity: Identity) -> Identity:
        plugin = identity.plugin
        if plugin is None:
            return identity
        with self._lock:  # one run of the plugin serves all connections
            issued = self._issued
            if issued is not None and issued.plugin == plugin and self._good(issued):
                return issued.identity
            credential, until = _credential(_run(plugin), plugin)
            left = until - self._wall()
            self._issued = _Issued(plugin, credential, until, self._monotonic() + left)
            return credential

    def _good(self, issued: _Issued) -> bool:
        if not issued.until:
            return True
        return self._wall() < issued.until - _EARLY and self._monotonic() < issued.until_monotonic - _EARLY


def _run(plugin: Plugin) -> bytes:
    """Return the plugin's standard output; its standard error goes to the agent's."""
    import subprocess

    version = plugin.version or _VERSIONS[0]
    spec: dict[str, Any] = {"interactive": False}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    exec_info = json.dumps({"apiVersion": version, "kind": "ExecCredential", "spec": spec})
    try:
        process = subprocess.Popen(
            [plugin.command, *plugin.arguments],
            env={**os.environ, **plugin.environment, "KUBERNETES_EXEC_INFO": exec_info},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        hint = f" ({plugin.hint.strip()})" if plugin.hint else ""
        raise AccessError(f"{plugin.where}: {plugin.command} cannot be run: {error.strerror}{hint}") from None
    with process:
        try:
            printed, _nothing = process.communicate(timeout=_PLUGIN_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with its children: most plugins are scripts
            raise AccessError(f"{plugin.where}: {plugin.command} did not end within {_PLUGIN_SECONDS:g} s") from None
    if process.returncode:
        raise AccessError(f"{plugin.where}: {plugin.command} failed with status {process.returncode}")
    return printed


def _credential(printed: bytes, plugin: Plugin) -> tuple[Identity, float]:
    """Return the identity in an ExecCredential and its end (seconds since the epoch; 0 for never)."""
    try:
        answer = json.loads(printed)
        version, status = answer["apiVersion"], answer["status"]
        token, certificate, key = (
            status.get(name) or "" for name in ("token", "clientCertificateData", "clientKeyData")
        )
        ends = status.get("expirationTimestamp") or ""
        identity = Identity(token=token.strip(), certificate=certificate.encode("ascii"), key=key.encode("ascii"))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise AccessError(f"{plugin.where}: {plugin.command} printed no ExecCredential with a status") from None
    wanted = plugin.version or version
    if version != wanted or version not in _VERSIONS:
        raise AccessError(
            f"{plugin.where}: {plugin.command} printed an ExecCredential of {version!r}, expected {wanted!r}"
        )
    if not identity.token and not (identity.certificate and identity.key):
        raise AccessError(f"{plugin.where}: {plugin.command} printed neither a token nor a certificate with its key")
    return identity, _seconds(ends, plugin) if ends else 0.0


def _seconds(timestamp: str, plugin: Plugin) -> float:
    import calendar

    try:
        head, _point, _fraction = timestamp.rstrip("Z").partition(".")
        return float(calendar.timegm(time.strptime(head, "%Y-%m-%dT%H:%M:%S")))
    except (AttributeError, OverflowError, ValueError, TypeError):
        raise AccessError(f"{plugin.where}: {plugin.command}: expirationTimestamp is not a time in UTC") from None
