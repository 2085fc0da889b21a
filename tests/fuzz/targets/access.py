# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Access to the API: kubeconfig files, and the output of credential plugins."""

from __future__ import annotations

import json

from fuzz.target import Target
from fuzz.targets.text import SCRATCH, YAML_WORDS

from kubenode.sources.kubernetes.credentials import Plugin, _credential
from kubenode.sources.kubernetes.errors import ApiError
from kubenode.sources.kubernetes.kubeconfig import Kubeconfig

_KUBECONFIG = """apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters:
- name: k
  cluster: {server: "https://192.0.2.1:6443", certificate-authority-data: YQ==, tls-server-name: api, proxy-url: "http://p:1"}
users:
- name: u
  user: {%s}
"""
_USERS = (
    "token: abc",
    "tokenFile: /nowhere",
    "client-certificate-data: YQ==, client-key-data: YQ==",
    "client-certificate: a.crt, client-key: a.key",
    "exec: {command: ./plugin, args: [a], env: [{name: a, value: b}], apiVersion: client.authentication.k8s.io/v1}",
    "exec: {command: plugin, provideClusterInfo: true}",
    "auth-provider: {name: gcp}",
)
_PLUGIN = Plugin("plugin", (), {}, "", "", None, "kubeconfig k: user u: exec")
_WORDS = (
    "certificate-authority: ", "insecure-skip-tls-verify: true", "tokenFile: ",
    "extensions: [{name: a, extension: {}}]", "https://", "http://", "[::1]", ":99999", "provideClusterInfo: true",
    "installHint: a", "client.authentication.k8s.io/v1beta1", "\\0",
)  # fmt: skip
_STATUSES: tuple[dict[str, object], ...] = (
    {"token": "abc", "expirationTimestamp": "2026-01-01T00:00:00Z"},
    {"clientCertificateData": "a", "clientKeyData": "b"},
    {"token": "abc", "expirationTimestamp": 1},
    {"token": 1},
)
_CREDENTIALS = [
    json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}).encode()
    for status in _STATUSES
]


def _kubeconfig(data: bytes) -> None:
    if b"/dev/" in data or b"/proc" in data:
        return  # a device has no end; no attack: a user who may write the kubeconfig may also set its command
    path = f"{SCRATCH}/kubeconfig"
    with open(path, "wb") as file:
        file.write(data)
    access = Kubeconfig(path).access()
    assert access.server.startswith("http")


def _plugin(data: bytes) -> None:
    identity, until = _credential(data, _PLUGIN)
    assert identity.token or (identity.certificate and identity.key)
    assert isinstance(until, float)


TARGETS = {
    "kubeconfig": Target(
        _kubeconfig, [(_KUBECONFIG % user).encode() for user in _USERS], (ApiError,), (*YAML_WORDS, *_WORDS), 2048
    ),
    "credentials": Target(
        _plugin,
        _CREDENTIALS,
        (ApiError,),
        (
            '"token":',
            '"expirationTimestamp":',
            '"clientKeyData":',
            "null",
            "1e999",
            "[",
            "{",
            "\\ud800",
            "0001-01-01T00:00:00Z",
        ),
        2048,
    ),
}
