# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A container's rights and tables, without a container: the choice of iptables' back end, and the node's sysctls."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubenode import container
from kubenode.configuration import ConfigurationError, load
from kubenode.engine.kernel import sysctls

KUBELET, OTHERS = ":KUBE-KUBELET-CANARY - [0:0]\n", ":KUBE-SERVICES - [0:0]\n"


@pytest.mark.parametrize(
    ("is_legacy_loaded", "saved", "backend"),
    [
        (False, {}, "nft"),
        (True, {}, "nft"),
        (True, {("legacy", "mangle"): KUBELET}, "legacy"),
        (True, {("legacy", "nat"): OTHERS}, "legacy"),
        (True, {("nft", "mangle"): KUBELET, ("legacy", "nat"): OTHERS}, "nft"),
        (True, {("nft", "mangle"): ":MINE - [0:0]\n", ("legacy", "nat"): OTHERS}, "legacy"),
    ],
)
def test_iptables_backend_is_that_of_the_kubelet(
    monkeypatch: pytest.MonkeyPatch, is_legacy_loaded: bool, saved: dict[tuple[str, str], str], backend: str
) -> None:
    monkeypatch.setattr(os.path, "exists", lambda _path: is_legacy_loaded)
    monkeypatch.setattr(container, "_saved", lambda *asked: saved.get(asked, ""))
    assert container.iptables_backend() == backend


@pytest.fixture
def _own_sysctls() -> Iterator[None]:
    yield
    sysctls.use(sysctls.ROOT)


@pytest.mark.usefixtures("_own_sysctls")
def test_only_sysctls_of_the_network_move() -> None:
    sysctls.use("/host/proc/sys")
    assert sysctls.path("net.ipv4.ip_forward") == "/host/proc/sys/net/ipv4/ip_forward"
    assert sysctls.path("kernel.panic") == "/proc/sys/kernel/panic"


def test_configuration_in_two_files_is_read_as_one(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ipvs\n"
    )
    (tmp_path / "b").write_text("apiVersion: kubenode.ipvs/v1alpha1\nkind: AgentConfiguration\nvipPing: true\n")
    config, _warnings = load(f"{tmp_path}/a:{tmp_path}/b", required=True)
    assert config.vip_ping is True
    with pytest.raises(ConfigurationError, match="c: there is no such file"):
        load(f"{tmp_path}/a:{tmp_path}/c", required=True)


def test_configuration_that_cannot_be_looked_up_is_not_missing(tmp_path: Path) -> None:
    loop = tmp_path / "config.yaml"
    assert "does not exist" in load(str(loop), required=False)[1][0]
    loop.symlink_to(loop)
    with pytest.raises(ConfigurationError, match="cannot be read: Too many levels"):
        load(str(loop), required=False)


def test_configuration_file_may_have_a_colon_in_its_name(tmp_path: Path) -> None:
    (tmp_path / "a:b").write_text("apiVersion: kubenode.ipvs/v1alpha1\nkind: AgentConfiguration\nvipPing: true\n")
    assert load(f"{tmp_path}/a:b", required=True)[0].vip_ping is True
