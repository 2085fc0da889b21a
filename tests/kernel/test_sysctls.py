# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kubenode.engine.errors import MissingError
from kubenode.engine.kernel import sysctls
from kubenode.engine.plan import Step


def test_sysctl_names_are_canonical() -> None:
    assert sysctls.canonical("net/ipv4/vs/conntrack") == "net.ipv4.vs.conntrack"
    assert sysctls.canonical("net/ipv4/conf/eth0.100/rp_filter") == "net.ipv4.conf.eth0/100.rp_filter"
    assert sysctls.canonical("net.ipv4.conf.eth0/100.rp_filter") == "net.ipv4.conf.eth0/100.rp_filter"
    assert sysctls.path("net.ipv4.conf.eth0/100.rp_filter") == "/proc/sys/net/ipv4/conf/eth0.100/rp_filter"


def test_values_are_written_and_read() -> None:
    before = sysctls.read(["net.ipv4.ip_forward", "net.ipv4.tcp_rmem", "net.nosuch"])["sysctl"]
    assert set(before) == {"net.ipv4.ip_forward", "net.ipv4.tcp_rmem"}
    assert before["net.ipv4.tcp_rmem"].count(" ") == 2
    other = "0" if before["net.ipv4.ip_forward"] == "1" else "1"
    step = Step("sysctl", "net.ipv4.ip_forward", before["net.ipv4.ip_forward"], other)
    assert sysctls.apply([step]).failed == []
    assert Path("/proc/sys/net/ipv4/ip_forward").read_text(encoding="ascii") == f"{other}\n"
    assert sysctls.apply([step.inverse()]).failed == []
    assert sysctls.read(before)["sysctl"] == before


def test_name_may_contain_a_dot() -> None:
    subprocess.run(["ip", "link", "add", "dum.7", "type", "dummy"], check=True)
    name = sysctls.canonical("net/ipv4/conf/dum.7/rp_filter")
    assert sysctls.apply([Step("sysctl", name, "0", "2")]).failed == []
    assert sysctls.read([name])["sysctl"] == {name: "2"}
    subprocess.run(["ip", "link", "del", "dum.7"], check=True)


def test_errors_name_the_sysctl() -> None:
    (failure,) = sysctls.apply([Step("sysctl", "net.bridge.nosuch", None, "1")]).failed
    assert (
        failure.message
        == "sysctl net.bridge.nosuch does not exist; the kernel module br_netfilter makes it: load that first"
    )
    (failure,) = sysctls.apply([Step("sysctl", "net.ipv4.ip_forward", "0", "often")]).failed
    assert failure.message == "sysctl net.ipv4.ip_forward: the kernel refused the value 'often'"
    with pytest.raises(MissingError, match=r"sysctl net\.nosuch does not exist in this kernel"):
        sysctls.require(["net.ipv4.ip_forward", "net.nosuch"])


def test_value_may_have_any_bytes() -> None:
    name, file = "kernel.domainname", Path("/proc/sys/kernel/domainname")
    before = file.read_bytes()
    try:
        file.write_bytes(b"caf\xe9\n")
        live = sysctls.read([name])["sysctl"][name]
        assert sysctls.apply([Step("sysctl", name, live, "tea")]).failed == []
        assert sysctls.apply([Step("sysctl", name, "tea", live)]).failed == []
        assert file.read_bytes() == b"caf\xe9\n"
    finally:
        file.write_bytes(before)
