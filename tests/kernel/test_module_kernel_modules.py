# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module kernel_modules against the kernel."""

from __future__ import annotations

import contextlib
import os
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
# No package has the kernel of user-mode Linux. The other tests' kernel is Debian's, and so is this machine.
_REMEDY = (
    "No package of debian is known to bring kernel modules to this kernel. Boot a kernel of the distribution that"
    " has them"
    if os.environ["KUBENODE_KERNEL"] == "uml"
    else "Run `apt-get install linux-image-amd64 && systemctl reboot`. If the packages are"
    f" installed already, files of them are gone: run `apt-get install --reinstall linux-image-{platform.release()}`"
)


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


def test_modules_are_loaded_kept_and_unloaded() -> None:
    result = converge(
        "kernel_modules",
        modules=["ip_vs", "ip-vs-rr", "nf_conntrack|nf_conntrack_ipv4"],
        optional=["no_such_module"],
        parameters={"ip_vs": {"conn_tab_bits": 9}},
    )
    assert "+ kernel module ip_vs: loaded conn_tab_bits=9" in result["lines"]
    assert {"ip_vs", "ip_vs_rr"} <= loaded()
    assert Path("/sys/module/ip_vs/parameters/conn_tab_bits").read_text() == "9\n"
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


def test_foreign_modules_stay_loaded() -> None:
    subprocess.run(["modprobe", "ip_vs_wrr"], check=True)
    converge("kernel_modules", modules=["ip_vs", "ip_vs_wrr", "ip_vs_rr"])
    converge("kernel_modules", purge="owned")
    assert {"ip_vs", "ip_vs_wrr"} <= loaded()
    assert "ip_vs_rr" not in loaded()


def test_dependent_modules_are_unloaded_first() -> None:
    names = ["ip_vs", "ip_vs_rr", "ip_vs_wrr", "ip_vs_sh", "ip_set_hash_ip", "ip_set_hash_net", "ip_set", "xt_set"]
    converge("kernel_modules", modules=names)
    result = converge("kernel_modules", purge="owned")
    gone = [step["key"] for step in result["plan"] if step["kind"] == "kernel_module"]
    assert sorted(gone) == sorted(names)
    assert gone.index("ip_vs") > max(gone.index(name) for name in names if name.startswith("ip_vs_"))
    assert not set(names) & loaded()


def test_module_in_use_stays_loaded() -> None:
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


def test_overriding_files_are_named() -> None:
    texts = {
        "/etc/modprobe.d/a.conf": "options ip_vs conn_tab_bits=10\n",
        "/etc/modprobe.d/z.conf": "options ip-vs debug_level=0 \\\n  conn_tab_bits=8\nblacklist ip-vs-rr\n",
    }
    for path, text in texts.items():
        Path(path).write_text(text)
    arguments = {"modules": ["ip_vs", "ip_vs_rr"], "parameters": {"ip_vs": {"conn_tab_bits": 9}}}
    parameter = {"name": "ip_vs.conn_tab_bits", "value": "8", "path": "/etc/modprobe.d/z.conf"}
    module = {"name": "ip_vs_rr", "value": "blacklist", "path": "/etc/modprobe.d/z.conf"}
    try:
        result = converge("kernel_modules", **arguments)
        assert result["overridden"] == [parameter, module]
        assert [warning.partition(": ")[2] for warning in result["warnings"]] == [
            "ip_vs.conn_tab_bits has the value 8 at the next boot",
            "ip_vs_rr is not loaded at the next boot",
        ]
        assert Path("/sys/module/ip_vs/parameters/conn_tab_bits").read_text() == "9\n"
        assert run("kernel_modules", **arguments, persist=False)["overridden"] == []
        Path("/etc/modprobe.d/z.conf").write_text("options ip_vs conn_tab_bits=0x9\n")
        assert run("kernel_modules", **arguments)["overridden"] == []
    finally:
        for path in texts:
            Path(path).unlink()


def test_both_spellings_name_one_module() -> None:
    converge("kernel_modules", modules=["ip_vs_rr"], parameters={"ip-vs": {"conn_tab_bits": 9}})
    written = LOAD.read_text()
    LOAD.write_text(written.replace("ip_vs_rr", "ip-vs-rr"))
    result = run("kernel_modules", modules=["ip-vs-rr"], parameters={"ip_vs": {"conn_tab_bits": 9}})
    assert [step["key"] for step in result["plan"]] == [str(LOAD)]
    assert LOAD.read_text() == written
    assert OPTIONS.read_text().count("options") == 1
    builtin = Path(f"/lib/modules/{platform.release()}/modules.builtin").read_text().splitlines()
    name = next(Path(line).stem for line in builtin if "_" in Path(line).stem and "-" not in Path(line).stem)
    states = run("kernel_modules", modules=[name, "nf-conntrack"])["states"]
    assert states[name] == "builtin"
    assert run("kernel_modules", modules=[name.replace("_", "-")])["states"] == {name: "builtin"}


def test_several_parameters_share_one_line() -> None:
    converge("kernel_modules", modules=["ip_vs"], parameters={"ip_vs": {"conn_tab_bits": 9}})
    converge(
        "kernel_modules", modules=["ip_vs"], parameters={"ip_vs": {"conn_tab_bits": "0x9", "no_such_parameter": 1}}
    )
    assert OPTIONS.read_text().splitlines()[1:] == ["options ip_vs conn_tab_bits=0x9 no_such_parameter=1"]


def test_removed_parameters_leave_no_line() -> None:
    converge("kernel_modules", modules=["ip_vs"], parameters={"ip_vs": {"conn_tab_bits": 9}})
    converge("kernel_modules", modules=["ip_vs"], parameters={"ip_vs": {}})
    assert not OPTIONS.exists()


def test_live_parameters_are_compared_as_the_kernel_reads_them() -> None:
    run("kernel_modules", modules=["ip_vs"], parameters={"ip_vs": {"conn_tab_bits": 9}})
    for text, different in (("9", False), ("0x9", False), ("10", True)):
        result = run("kernel_modules", modules=["ip_vs"], parameters={"ip_vs": {"conn_tab_bits": text}}, check=True)
        expected = {"module": "ip_vs", "parameter": "conn_tab_bits", "live": "9", "wanted": text}
        assert result["differing"] == ([expected] if different else [])
        assert bool(result["warnings"]) == different


def test_module_disabled_in_modprobe_fails_and_leaves_nothing() -> None:
    foreign = Path("/etc/modprobe.d/hardened.conf")
    foreign.write_text("install ip_vs_fo /bin/true\n")
    try:
        with pytest.raises(ModuleError, match=r"kernel module ip_vs_fo: modprobe did not load it \(an install line"):
            run("kernel_modules", modules=["ip_vs", "ip_vs_fo"])
    finally:
        foreign.unlink()
    assert "ip_vs" not in loaded()
    assert not LOAD.exists()


@contextlib.contextmanager
def kernel_without(proc_modules: bool, builtin: str | None) -> Iterator[None]:
    """Hide /lib/modules except ``builtin``, as containers do.

    ``proc_modules`` also hides modules and sysctls in /proc.
    """
    mounts = [["mount", "-t", "tmpfs", "tmpfs", "/lib/modules"]]
    mounts += [["mount", "-t", "proc", "-o", "subset=pid", "proc", "/proc"]] if proc_modules else []
    for mount in mounts:
        subprocess.run(mount, check=True)
    try:
        if builtin is not None:
            directory = Path("/lib/modules") / platform.release()
            directory.mkdir()
            (directory / "modules.builtin").write_text(builtin)
            (directory / "modules.dep").write_text("")
        assert Path("/proc/modules").exists() is not proc_modules
        yield
    finally:
        for mount in reversed(mounts):
            subprocess.run(["umount", mount[-1]], check=True)


@pytest.mark.parametrize("proc_modules", [False, True], ids=["modules not shown", "nothing shown"])
def test_container_is_reported(proc_modules: bool) -> None:
    with kernel_without(proc_modules, None):
        result = converge(
            "kernel_modules", modules=["ip_vs", "no_such"], absent=["ip_vs_rr"], parameters={"ip_vs": {"a": 1}}
        )
        assert result["states"] == {"ip_vs": "unknown", "no_such": "unknown", "ip_vs_rr": "unknown"}
        words = "kernel module {}: its state cannot be determined here (a container?)"
        assert [warning for warning in result["warnings"] if "cannot" in warning] == [
            words.format(name) for name in ("ip_vs", "no_such")
        ]
        assert run("kernel_modules", purge="owned")["states"] == {}


def test_loaded_module_of_a_container_passes() -> None:
    subprocess.run(["modprobe", "ip_vs"], check=True)
    with kernel_without(True, None):
        result = converge("kernel_modules", modules=["ip_vs"])
        assert (result["states"], result["warnings"]) == ({"ip_vs": "builtin"}, [])


def test_kernel_without_modules_warns() -> None:
    with kernel_without(True, "kernel/net/netfilter/ipvs/ip_vs.ko\nkernel/net/netfilter/ipvs/ip_vs_rr.ko\n"):
        result = converge("kernel_modules", modules=["ip-vs", "ip_vs_rr"])
        assert result["states"] == {"ip_vs": "builtin", "ip_vs_rr": "builtin"}
        assert not LOAD.exists()  # built-in modules need no file
        with pytest.raises(ModuleError, match="has no module ip_vs_wrr"):
            run("kernel_modules", modules=["ip_vs", "ip_vs_wrr"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"modules": ["ip_vs", "no_such|nor_this"]},
            (
                f"kernel {platform.release()} has no module no_such or nor_this: neither loaded, nor built in, nor"
                f" under /lib/modules/{platform.release()}. {_REMEDY}; nothing was changed"
            ),
        ),
        (
            {"modules": ["ip.vs"]},
            "modules[0]: name is 'ip.vs', expected a kernel module's name, or several joined by '|'",
        ),
        ({"modules": ["a b"]}, "modules[0]: name is 'a b', expected a kernel module's name, or several joined by '|'"),
        (
            {"modules": ["br-netfilter"], "absent": ["br_netfilter"]},
            "absent[0] and modules[0] are both kernel module br_netfilter; name each item once",
        ),
        (
            {"modules": ["ip_vs"], "parameters": {"ip_vs": "conn_tab_bits=9"}},
            (
                "parameters: ip_vs is 'conn_tab_bits=9', expected a dictionary of names and values without spaces and"
                " quotes"
            ),
        ),
        (
            {"modules": ["ip_vs"], "parameters": {"ip_vs": {"conn_tab_bits": None}}},
            (
                "parameters: ip_vs is {'conn_tab_bits': None}, expected a dictionary of names and values without spaces"
                " and quotes"
            ),
        ),
        (
            {"modules": ["ip_vs"], "parameters": {"ip_vs": {"conn_tab_bits": [9]}}},
            (
                "parameters: ip_vs is {'conn_tab_bits': [9]}, expected a dictionary of names and values without spaces"
                " and quotes"
            ),
        ),
        (
            {"modules": ["ip_vs"], "parameters": {"ip_vs\ninstall dummy /bin/false": {"a": 1}}},
            (
                "parameters[ip_vs\ninstall dummy /bin/false]: name is 'ip_vs\\ninstall dummy /bin/false', expected a"
                " kernel module's name"
            ),
        ),
    ],
)
def test_wrong_input_is_one_clear_message(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ModuleError) as error:
        run("kernel_modules", **arguments)
    text = str(error.value)
    if os.environ["KUBENODE_KERNEL"] == "stock":  # which shows the files of this machine, and that may be a container
        text = text.replace(" on the container's host", "")
    assert text == message
    assert "ip_vs" not in loaded()
    assert not LOAD.exists()
