# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module kernel_modules against the kernel."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel.modules import ModuleError, converge, run

LOAD = Path("/etc/modules-load.d/kubenode-ansible.conf")
OPTIONS = Path("/etc/modprobe.d/kubenode-ansible.conf")


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    unload()
    yield
    run("kernel_modules", purge="owned")
    shutil.rmtree("/var/lib/kubenode", ignore_errors=True)
    unload()


def unload() -> None:
    if "ip_vs" in loaded():
        subprocess.run(["ipvsadm", "-C"], check=True)
    schedulers = sorted(name for name in loaded() if name.startswith("ip_vs_"))
    sets = sorted((name for name in loaded() if name.startswith(("xt_set", "ip_set_"))), reverse=True)
    for name in ["xt_ipvs", *schedulers, "ip_vs", *sets, "ip_set"]:
        if name in loaded():
            subprocess.run(["rmmod", name], check=True)


def loaded() -> set[str]:
    return {line.split()[0] for line in Path("/proc/modules").read_text().splitlines()}


def test_loads_keeps_and_unloads() -> None:
    result = converge(
        "kernel_modules",
        modules=["ip_vs", "ip-vs-rr", "nf_conntrack|nf_conntrack_ipv4"],
        optional=["no_such_module"],
        parameters={"ip_vs": {"conn_tab_bits": 9}},
    )
    assert "+ kernel module ip_vs: loaded conn_tab_bits=9" in result["lines"]
    assert {"ip_vs", "ip_vs_rr"} <= loaded()
    assert "size=512" in Path("/proc/net/ip_vs").read_text().splitlines()[0]
    assert LOAD.read_text().splitlines()[1:3] == ["ip_vs", "ip_vs_rr"]
    assert OPTIONS.read_text().splitlines()[1:] == ["options ip_vs conn_tab_bits=9"]
    assert [warning for warning in result["warnings"] if "no_such_module" in warning]
    again = run("kernel_modules", modules=["ip_vs"], parameters={"ip_vs": {"conn_tab_bits": 10}})
    assert "kernel module ip_vs is loaded with conn_tab_bits=9; 10 takes effect at its next load" in again["warnings"]
    assert again["states"] == {"ip_vs": "loaded"}
    converge("kernel_modules", absent=["ip_vs_rr"])
    assert "ip_vs_rr" not in loaded()
    assert "ip_vs_rr" not in LOAD.read_text()
    assert "ip_vs" in loaded()
    converge("kernel_modules", purge="owned")
    assert "ip_vs" not in loaded()
    assert not LOAD.exists()
    assert not OPTIONS.exists()


def test_what_was_loaded_by_others_stays_loaded() -> None:
    subprocess.run(["modprobe", "ip_vs_wrr"], check=True)
    converge("kernel_modules", modules=["ip_vs", "ip_vs_wrr", "ip_vs_rr"])
    converge("kernel_modules", purge="owned")
    assert {"ip_vs", "ip_vs_wrr"} <= loaded()
    assert "ip_vs_rr" not in loaded()


def test_users_are_unloaded_before_what_they_use() -> None:
    names = ["ip_vs", "ip_vs_rr", "ip_vs_wrr", "ip_vs_sh", "ip_set_hash_ip", "ip_set_hash_net", "ip_set", "xt_set"]
    converge("kernel_modules", modules=names)
    result = converge("kernel_modules", purge="owned")
    gone = [step["key"] for step in result["plan"] if step["kind"] == "kernel_module"]
    assert sorted(gone) == sorted(names)
    assert gone.index("ip_vs") > max(gone.index(name) for name in names if name.startswith("ip_vs_"))
    assert not set(names) & loaded()


def test_what_is_in_use_stays_loaded() -> None:
    converge("kernel_modules", modules=["ip_vs", "ip_vs_rr"])
    subprocess.run(["ipvsadm", "-A", "-t", "192.0.2.1:80", "-s", "rr"], check=True)
    try:
        converge("kernel_modules", purge="owned")
        assert {"ip_vs", "ip_vs_rr"} <= loaded()
        assert not LOAD.exists()
    finally:
        subprocess.run(["ipvsadm", "-C"], check=True)


def test_foreign_files_stay_byte_for_byte() -> None:
    foreign = Path("/etc/modprobe.d/foreign.conf")
    text = "options ip_vs conn_tab_bits=8 debug_level=0\n\n\n# x\n"
    foreign.write_text(text)
    try:
        converge("kernel_modules", modules=["ip_vs"])
        assert foreign.read_text() == text
    finally:
        foreign.unlink()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"modules": ["ip_vs", "no_such|nor_this"]},
            f"kernel {platform.release()} has no module no_such or nor_this "
            f"(neither loaded, nor built in, nor under /lib/modules/{platform.release()}); nothing was changed",
        ),
        ({"modules": ["a b"]}, "modules[0]: name is 'a b', expected a kernel module's name, or several joined by '|'"),
        (
            {"modules": ["br-netfilter"], "absent": ["br_netfilter"]},
            "absent[0] and modules[0] are both kernel module br_netfilter; name each thing once",
        ),
        (
            {"modules": ["ip_vs"], "parameters": {"ip_vs": "conn_tab_bits=9"}},
            "parameters: ip_vs is 'conn_tab_bits=9', expected a dictionary of names and values without spaces and quotes",
        ),
    ],
)
def test_wrong_input_is_one_clear_message(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ModuleError) as error:
        run("kernel_modules", **arguments)
    assert str(error.value) == message
    assert "ip_vs" not in loaded()
    assert not LOAD.exists()
