# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""API server of a kubeconfig: fields that are kept, and errors that show no credential."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.kubenode.ipvs.plugins.filter.kubeconfig_cluster import FilterModule

kubeconfig_cluster = FilterModule().filters()["kubeconfig_cluster"]
SERVER = "https://127.0.0.1:6443"


def kubeconfig(**cluster: Any) -> str:
    return json.dumps(
        {
            "kind": "Config",
            "current-context": "x",
            "contexts": [
                {"name": "other", "context": {"cluster": "other", "user": "u"}},
                {"name": "x", "context": {"cluster": "k", "user": "u"}},
            ],
            "clusters": [
                {"name": "other", "cluster": {"server": "https://192.0.2.9"}},
                {"name": "k", "cluster": {"server": SERVER, **cluster}},
            ],
            "users": [{"name": "u", "user": {"token": "secret-word"}}],
        }
    )


def test_authority_in_the_kubeconfig_is_kept() -> None:
    text = kubeconfig(**{"certificate-authority-data": "QQ==", "certificate-authority": "/x", "tls-server-name": "api"})
    expected = {"server": SERVER, "certificate-authority-data": "QQ==", "tls-server-name": "api"}
    assert kubeconfig_cluster(text) == {"cluster": expected, "authority_file": ""}


@pytest.mark.parametrize(
    ("file", "expected"),
    [("/etc/kubernetes/ssl/ca.crt", "/etc/kubernetes/ssl/ca.crt"), ("pki/ca.crt", "/etc/kubernetes/pki/ca.crt")],
)
def test_authority_in_a_file_is_named(file: str, expected: str) -> None:
    text = kubeconfig(**{"certificate-authority": file})
    assert kubeconfig_cluster(text, path="/etc/kubernetes/kubelet.conf") == {
        "cluster": {"server": SERVER},
        "authority_file": expected,
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("token: [secret-word", "it is not YAML"),
        ("", "names no API server"),
        ("secret-word", "names no API server"),
        ("{current-context: x, contexts: [], token: secret-word}", "names no API server"),
        (kubeconfig(server="http://192.0.2.1"), "expected https://"),
    ],
)
def test_error_names_the_path_and_no_credential(text: str, reason: str) -> None:
    with pytest.raises(AnsibleFilterError, match=reason) as raised:
        kubeconfig_cluster(text, path="/etc/kubernetes/kubelet.conf")
    assert "/etc/kubernetes/kubelet.conf: " in str(raised.value)
    assert "secret-word" not in str(raised.value)
