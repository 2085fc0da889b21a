# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cloud images without kernel-modules-extra: xt_*, ip_set* and nft_compat are really removed from the module tree.

The command check, the modules and the refusals of the role prepare name each module, its feature and the remedy.
Nothing changes.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from kernel.modules import ModuleError, run
from support.examples import ROOT
from support.processes.kernel import IPTABLES

from ansible_collections.kubenode.ipvs.plugins.module_utils._host import facts
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.kernel import machine
from kubenode.cli import main
from kubenode.engine.kernel import machine as agent_machine
from kubenode.engine.kernel import modules

RELEASE = platform.release()
TREE = Path(f"/lib/modules/{RELEASE}")
ROLE = ROOT / "roles/prepare"
DEFAULTS = yaml.safe_load((ROLE / "defaults/main.yml").read_text())
NEEDED = DEFAULTS["prepare_kernel_modules"]
REMOVED = ("xt_*.ko*", "ip_set*.ko*", "ipt_*.ko*", "nft_compat.ko*")  # Debian 13 compresses them
GONE = [entry for entry in NEEDED if entry.startswith(("xt_", "ip_set"))]
LACKED = [*GONE, *(["nft_compat"] if IPTABLES == "nft" else [])]  # iptables-nft needs it for matches of iptables
UBUNTU = ('ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n', "6.8.0-1016-aws")
ROCKY = ('ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="10.0"\n', "6.12.0-55.9.1.el10_0.x86_64")
ARCH = ("ID=arch\n", "6.9.3-arch1-1")
COMMANDS = {
    UBUNTU: "`apt-get install linux-modules-extra-6.8.0-1016-aws`",
    ROCKY: (
        "`dnf install kernel-modules-6.12.0-55.9.1.el10_0.x86_64 kernel-modules-extra-6.12.0-55.9.1.el10_0.x86_64`"
    ),
    ARCH: "`pacman -Syu linux && systemctl reboot`",
}
REINSTALL = {
    UBUNTU: "`apt-get install --reinstall linux-modules-6.8.0-1016-aws`",
    ROCKY: "`dnf reinstall 'kernel-*6.12.0-55.9.1.el10_0.x86_64'`",
    ARCH: "`pacman -Syu linux && systemctl reboot`",
}
each_system = pytest.mark.parametrize("system", COMMANDS, ids=["ubuntu", "rocky", "arch"], indirect=True)


@pytest.fixture(autouse=True)
def no_container(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide that the machine, whose files this kernel shows, may be a container."""
    for where in (facts, machine, agent_machine):
        monkeypatch.setattr(where, "container_kind", lambda *_: None)


@pytest.fixture(params=[True, False], ids=["depmod", "no depmod"])
def pruned(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[bool]:
    """Remove modules from a layer over the module tree; yield whether depmod has made its index anew."""
    loaded = [line.split()[0] for line in Path("/proc/modules").read_text().splitlines()]
    for name in [name for name in loaded if name.startswith(("xt_", "ip_set", "ip_vs"))] * 2:
        subprocess.run(["rmmod", name], check=False, capture_output=True)
    for name in ("upper", "work"):
        (tmp_path / name).mkdir()
    layers = f"lowerdir={TREE},upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, TREE], check=True)
    try:
        files = [file for pattern in REMOVED for file in TREE.rglob(pattern)]
        assert len(files) > 20
        for file in files:
            file.unlink()
        if request.param:
            subprocess.run(["depmod", "-a"], check=True)
        yield request.param
    finally:
        subprocess.run(["umount", TREE], check=True)


@pytest.fixture
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """Have the os-release and the release of a distribution; its module tree is the one of this kernel."""
    text, release = request.param
    os_release, directory = Path("/etc/os-release"), Path("/lib/modules") / release
    before = os.readlink(os_release)
    os_release.unlink()
    os_release.write_text(text)
    directory.symlink_to(TREE)
    real = os.uname()
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((real[0], real[1], release, real[3], real[4])))
    monkeypatch.setattr(platform, "release", lambda: release)
    try:
        yield request.param
    finally:
        directory.unlink()
        os_release.unlink()
        os_release.symlink_to(before)


def state() -> list[str]:
    """Return what the modules could change: loaded modules, boot files and parameters."""
    files = [
        f"{path} {path.read_text()}"
        for directory in ("modules-load.d", "modprobe.d", "sysctl.d")
        for path in sorted(Path("/etc", directory).glob("*"))
    ]
    sysctls = Path("/proc/sys/net/ipv4/ip_forward").read_text()
    return [Path("/proc/modules").read_text(), *files, sysctls]


def refused(name: str, **arguments: Any) -> str:
    """Run a module, which must fail; return its message. Nothing may change."""
    before = state()
    with pytest.raises(ModuleError) as caught:
        run(name, **arguments)
    assert state() == before
    return str(caught.value)


def refusals(node: dict[str, Any]) -> list[str]:
    """Return the refusals of the role prepare for a result of node_check."""
    loader = DataLoader()
    variables: dict[str, Any] = {"prepare_node": node}
    for directory in ("defaults", "vars"):
        variables.update(loader.load_from_file(str(ROLE / directory / "main.yml"), trusted_as_template=True))
    result: list[str] = Templar(loader, variables=variables).template(variables["prepare_refusals"])
    return result


def expected(system: tuple[str, str], is_indexed: bool) -> str:
    return (COMMANDS if is_indexed else REINSTALL)[system]


@each_system
def test_node_check_names_modules_and_command(pruned: bool, system: tuple[str, str]) -> None:
    before = state()
    node = run("node_check", modules=NEEDED, commands=["ipset"])
    assert state() == before
    assert (node["fit"], node["lacks"]["modules"]) == (False, LACKED)
    assert [each["entry"] for each in node["missing_modules"]] == LACKED
    assert {each["cause"] for each in node["missing_modules"]} == {"package" if pruned else "file"}
    assert all(each["needed_for"] for each in node["missing_modules"])
    (problem,) = node["problems"]
    assert problem.startswith(f"kernel {system[1]} has no module ip_set (for sets), ")
    assert f"Run {expected(system, pruned)}" in problem
    assert ("neither loaded, nor built in" in problem) is pruned
    assert ("modules.dep lists it, and the file kernel/net/" in problem) is not pruned


@each_system
def test_prepare_refuses_or_names_packages(pruned: bool, system: tuple[str, str]) -> None:
    """The role installs packages only if they bring the modules to the running kernel; otherwise it refuses first."""
    node = run("node_check", modules=NEEDED, commands=["ipset"])
    installable = pruned and system != ARCH
    assert bool(node["lacks"]["packages"]) is installable
    assert refusals(node) == ([] if installable else node["problems"])
    # with its packages as they are, the task that loads modules fails before any change
    settings = {"owner": "prepare", "purge": "owned", "modules": NEEDED, "sysctls": {"net.ipv4.ip_forward": 1}}
    for check in (True, False):
        message = refused("kernel_settings", check=check, **settings)
        assert expected(system, pruned) in message
        assert message.endswith("; nothing was changed")


@each_system
@pytest.mark.parametrize("check", [True, False], ids=["check mode", "run"])
def test_kernel_modules_names_all_and_loads_none(pruned: bool, system: tuple[str, str], check: bool) -> None:
    message = refused("kernel_modules", check=check, modules=NEEDED)
    for entry in GONE:
        assert entry.replace("|", " or ") in message
    assert message.count(f"Run {expected(system, pruned)}") == 1
    assert "ip_vs_rr" not in message


def with_iptables(directory: Path) -> str:
    """Return the path of a configuration for rules in iptables: by itself, the agent takes nftables on such a node."""
    path = directory / "config.yaml"
    path.write_text("apiVersion: kubenode.ipvs/v1alpha1\nkind: AgentConfiguration\nrules: {backend: iptables}\n")
    return str(path)


@each_system
def test_check_passes_with_the_rules_in_nftables(
    pruned: bool, system: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--run-dir", "/run"]) == 0
    assert "ok    rules back end nftables: the kernel has no ip_set" in capsys.readouterr().out


@each_system
def test_check_fails_with_each_module(
    pruned: bool, system: tuple[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["check", "--run-dir", "/run", "--config", with_iptables(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    for name in ("ip_set", "xt_set", "xt_comment", "xt_addrtype", "xt_mark", "xt_conntrack"):
        (line,) = [line for line in lines if f"has no module {name} (for " in line]
        assert line.startswith("FAIL  ")
        assert expected(system, pruned) in line
    (note,) = [line for line in lines if "xt_ipvs" in line]
    assert note.startswith(f"note  kernel {system[1]} has no module xt_ipvs (for load balancers with source ranges): ")


def test_dependency_without_a_file_is_missing(tmp_path: Path) -> None:
    """xt_set and ip_set_hash_ip cannot be loaded without ip_set, although their own files are there."""
    lost = next(TREE.rglob("ip_set.ko*"))
    for name in ("xt_set", "ip_set_hash_ip", "ip_set"):
        subprocess.run(["rmmod", name], check=False, capture_output=True)
    loaded = [line.split()[0] for line in Path("/proc/modules").read_text().splitlines()]
    assert "ip_set" not in loaded
    for name in ("upper", "work"):
        (tmp_path / name).mkdir()
    layers = f"lowerdir={TREE},upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, TREE], check=True)
    try:
        lost.unlink()
        names = ["ip_set", "xt_set", "ip_set_hash_ip"]
        assert modules.states(names) == dict.fromkeys(names, "absent")
        assert set(modules.lost_files(names).values()) == {str(lost.relative_to(TREE))}
        assert subprocess.run(["modprobe", "xt_set"], check=False, capture_output=True).returncode != 0
    finally:
        subprocess.run(["umount", TREE], check=True)


@pytest.mark.parametrize("check", [True, False], ids=["check mode", "run"])
def test_kernel_updated_without_reboot_is_refused(check: bool, tmp_path: Path) -> None:
    other = Path("/lib/modules/6.1.999")
    subprocess.run(["mount", "-t", "tmpfs", "memory", "/lib/modules"], check=True)
    try:
        other.mkdir()
        (other / "modules.dep").touch()
        reason = f"/lib/modules/{RELEASE} is gone, and the installed kernel is 6.1.999. Boot the installed kernel: run "
        node = run("node_check", modules=["ip_set_hash_mac", "no_such"], commands=["ipset"])
        assert node["missing_modules"][0]["cause"] == "reboot"
        (problem,) = node["problems"]
        assert reason + "`systemctl reboot`" in problem
        assert refusals(node) == [problem]
        assert reason in refused("kernel_modules", check=check, modules=["no_such"])
    finally:
        subprocess.run(["umount", "/lib/modules"], check=True)


@each_system
def test_iptables_nft_needs_nft_compat(
    pruned: bool,
    system: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """iptables-nft prints its version without nf_tables in the kernel."""
    alternative = Path("/etc/alternatives/iptables")
    before = os.readlink(alternative)
    alternative.unlink()
    alternative.symlink_to("/usr/sbin/iptables-nft")
    monkeypatch.setenv("PATH", f"/usr/sbin:{os.environ['PATH']}")
    try:
        node = run("node_check", modules=["xt_set"], commands=[])
        assert node["lacks"]["modules"] == ["xt_set", "nft_compat"]
        assert "nft_compat (for xt_ matches of iptables-nft)" in " ".join(node["problems"])
        main(["check", "--run-dir", "/run", "--config", with_iptables(tmp_path)])
        assert "has no module nft_compat (for xt_ matches of iptables-nft)" in capsys.readouterr().out
    finally:
        alternative.unlink()
        alternative.symlink_to(before)
