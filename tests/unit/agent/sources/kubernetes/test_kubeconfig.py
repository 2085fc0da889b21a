# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubeconfig and service account as access to the API.

Error messages contain no secrets.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from kubenode.sources.kubernetes.access import Identity
from kubenode.sources.kubernetes.errors import AccessError, UnusableError
from kubenode.sources.kubernetes.kubeconfig import Kubeconfig
from kubenode.sources.kubernetes.service_account import ServiceAccount

SECRET = "s3cr3t-t0k3n"
SERVER = "https://192.0.2.10:6443"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def document(user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [
            {"name": "there", "context": {"cluster": "other", "user": "other"}},
            {"name": "here", "context": {"cluster": "c", "user": "u"}},
        ],
        "clusters": [
            {"name": "other", "cluster": {"server": "https://wrong"}},
            {"name": "c", "cluster": {"server": SERVER, **(cluster or {})}},
        ],
        "users": [{"name": "other", "user": {"token": "wrong"}}, {"name": "u", "user": user or {}}],
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kubeconfig"


def kubeconfig(path: Path, content: Any, server: str = "") -> Kubeconfig:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return Kubeconfig(str(path), server)


def problem(path: Path, content: Any) -> str:
    with pytest.raises(AccessError) as caught:
        kubeconfig(path, content).access()
    assert SECRET not in str(caught.value)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_the_current_context_counts(path: Path) -> None:
    access = kubeconfig(
        path, document({"token": SECRET}, {"tls-server-name": "api", "proxy-url": "http://proxy:3128"})
    ).access()
    assert access.server == SERVER
    assert access.identity == Identity(token=SECRET)
    assert (access.server_name, access.proxy, access.insecure, access.authority) == (
        "api",
        "http://proxy:3128",
        False,
        "",
    )
    elsewhere = Kubeconfig(str(path), "https://[2001:db8::1]:6443").access()
    assert elsewhere == access._replace(server="https://[2001:db8::1]:6443")


def test_yaml_as_kubectl_writes_it(path: Path) -> None:
    text = f"""\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: {b64(b"CA")}
    server: {SERVER}
  name: kubernetes
contexts:
- context:
    cluster: kubernetes
    user: system:node:node1
  name: default
current-context: default
kind: Config
preferences: {{}}
users:
- name: system:node:node1
  user:
    client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem
    client-key: /var/lib/kubelet/pki/kubelet-client-current.pem
"""
    access = kubeconfig(path, text).access()
    assert access.authority == "CA"
    pem = "/var/lib/kubelet/pki/kubelet-client-current.pem"
    assert access.identity == Identity(certificate_file=pem, key_file=pem)


def test_configured_server_overrides_the_kubeconfig(path: Path) -> None:
    assert kubeconfig(path, document(), "https://192.0.2.99:6443/").access().server == "https://192.0.2.99:6443"


def test_kubeconfig_data_precedes_files_with_relative_paths(path: Path) -> None:
    user = {"client-certificate-data": b64(b"CERT"), "client-certificate": "c.pem", "client-key": "k.pem"}
    (path.parent / "ca.pem").write_text("CA FILE")
    access = kubeconfig(path, document(user, {"certificate-authority": "ca.pem"})).access()
    assert access.identity == Identity(certificate=b"CERT", key_file=str(path.parent / "k.pem"))
    assert access.authority == "CA FILE"


def test_changes_of_files_are_seen(path: Path) -> None:
    (path.parent / "ca.pem").write_text("one")
    accessor = kubeconfig(path, document({"token": "a"}, {"certificate-authority": "ca.pem"}))
    assert (accessor.access().authority, accessor.access().identity.token) == ("one", "a")
    (path.parent / "ca.pem").write_text("two")
    assert accessor.access().authority == "two"
    path.write_text(json.dumps(document({"token": "another"})))
    assert accessor.access().identity.token == "another"
    path.unlink()
    with pytest.raises(AccessError, match=r"kubeconfig .* cannot be read: No such file"):
        accessor.access()


def test_token_file_precedes_a_token(path: Path) -> None:
    identity = kubeconfig(path, document({"token": SECRET, "tokenFile": "t"})).access().identity
    assert identity == Identity(token_file=str(path.parent / "t"))


def test_credential_plugin_is_read(path: Path) -> None:
    given = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./bin/plugin",
        "args": ["get-token"],
        "env": [{"name": "A", "value": "1"}],
        "provideClusterInfo": True,
        "interactiveMode": "Never",
    }
    plugin = kubeconfig(path, document({"exec": given})).access().identity.plugin
    assert plugin is not None
    assert plugin.command == f"{path.parent}/./bin/plugin"
    assert (plugin.arguments, plugin.environment, plugin.cluster) == (("get-token",), {"A": "1"}, {"server": SERVER})


def test_plugin_gets_the_cluster_in_its_environment(path: Path) -> None:
    (path.parent / "ca.pem").write_text("PEM")
    more = [
        {"name": "other", "extension": 1},
        {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}},
    ]
    content = document(
        {"exec": {"command": "plugin", "provideClusterInfo": True}},
        {"certificate-authority": "ca.pem", "extensions": more},
    )
    plugin = kubeconfig(path, content, "https://[2001:db8::1]:6443").access().identity.plugin
    assert plugin is not None
    assert plugin.cluster == {
        "server": "https://[2001:db8::1]:6443",
        "certificate-authority-data": b64(b"PEM"),
        "config": {"audience": "a"},
    }


def test_kubeconfig_without_user_is_anonymous(path: Path) -> None:
    content = document()
    del content["contexts"][1]["context"]["user"]
    assert kubeconfig(path, content).access().identity == Identity()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "expected one document of kind Config"),
        ("[]", "expected one document of kind Config"),
        ("a: b: c", "kubeconfig:1: not valid YAML"),
        ({"kind": "Pod"}, "expected one document of kind Config"),
        ({"kind": "Config"}, "current-context is not set"),
        ({"kind": "Config", "current-context": "x"}, "contexts has no context 'x'"),
        (document(cluster={"server": ""}), "server is '', expected https://HOST"),
        (document(cluster={"server": "192.0.2.1:6443"}), "server is '192.0.2.1:6443', expected https://HOST"),
        (document(cluster={"server": f"ftp://me:{SECRET}@h"}), "server is 'ftp://h', expected"),
        (document(cluster={"server": "https://h:port"}), "expected https://HOST"),
        (document(cluster={"server": 5}), "server: expected text"),
        (document(cluster={"proxy-url": "socks5://h:1080"}), "proxy-url is 'socks5://h:1080', expected http://HOST"),
        (document(cluster={"insecure-skip-tls-verify": "yes"}), "expected true or false"),
        (document(cluster={"certificate-authority-data": "*"}), "certificate-authority-data: expected base64"),
        (document({"client-certificate": "c.pem"}), "expected a client certificate with its client key"),
        (document({"client-key-data": b64(SECRET.encode())}), "expected a client certificate with its client key"),
        (document({"token": [SECRET]}), "token: expected text"),
        (document({"username": "u", "password": SECRET}), "username is not supported, expected a token"),
        (document({"auth-provider": {"name": "gcp"}}), "auth-provider is not supported"),
        (document({"as": "admin", "token": SECRET}), "as is not supported"),
        (document({"exec": [SECRET]}), "exec: expected a mapping"),
        (document({"exec": {}, "password": SECRET}), "password is not supported"),
        (document({"exec": {"args": ["x"]}}), "command is missing"),
        (document({"exec": {"command": "x", "args": [1]}}), "args: expected a list of texts"),
        (document({"exec": {"command": "x", "env": ["A=1"]}}), "env: expected a list of name and value"),
    ],
)
def test_unusable_kubeconfig_is_named(path: Path, content: Any, words: str) -> None:
    assert words in problem(path, content)


def test_kubeconfig_that_is_not_text_is_named(path: Path) -> None:
    path.write_bytes(b"\xff\xfe" + SECRET.encode())
    with pytest.raises(AccessError, match="not text in UTF-8"):
        Kubeconfig(str(path)).access()


# service account in a pod


def test_service_account_of_a_pod_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text(SECRET)
    (tmp_path / "ca.crt").write_text("CA")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00:10:96::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    access = ServiceAccount(directory=str(tmp_path)).access()
    assert access.server == "https://[fd00:10:96::1]:443"
    assert (access.authority, access.identity) == ("CA", Identity(token_file=str(tmp_path / "token")))
    assert ServiceAccount(SERVER, str(tmp_path)).access().server == SERVER
    monkeypatch.delenv("KUBERNETES_SERVICE_PORT")
    with pytest.raises(AccessError, match=r"no server is known: set source\.kubernetes\.server"):
        ServiceAccount(directory=str(tmp_path)).access()


def test_missing_kubeconfig_outside_of_a_pod_is_named(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="there is no kubeconfig and no service account"):
        ServiceAccount(SERVER, str(tmp_path)).access()


def test_empty_authority_data_is_an_error(path: Path) -> None:
    """The system's authorities must not replace a cluster's own authority."""
    text = problem(path, document(cluster={"certificate-authority-data": ""}))
    assert "certificate-authority-data is empty, expected the cluster's authority in PEM" in text
    assert kubeconfig(path, document()).access().authority == ""  # the system's authorities


def test_empty_authority_file_is_an_error_until_it_is_filled(path: Path, tmp_path: Path) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_text("\n")
    accessor = kubeconfig(path, document(cluster={"certificate-authority": "ca.crt"}))
    with pytest.raises(
        UnusableError, match=r"certificate-authority .*ca\.crt is empty, expected the cluster's authority in PEM"
    ):
        accessor.access()
    authority.write_text("PEM")
    assert accessor.access().authority == "PEM"


@pytest.mark.parametrize(
    "cluster", [{"insecure-skip-tls-verify": True}, {"server": "http://192.0.2.10:8080"}], ids=["insecure", "http"]
)
def test_empty_authority_is_ignored_without_tls(path: Path, cluster: dict[str, Any]) -> None:
    kubeconfig(path, document(cluster={"certificate-authority-data": "", **cluster})).access()


def test_missing_file_is_waited_for_and_a_wrong_one_is_not(path: Path) -> None:
    with pytest.raises(AccessError) as caught:
        Kubeconfig(str(path)).access()
    assert not isinstance(caught.value, UnusableError)
    with pytest.raises(UnusableError, match="current-context is not set"):
        kubeconfig(path, {"kind": "Config"}).access()
