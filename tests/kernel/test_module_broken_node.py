# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every module that changes the kernel, on nodes where a file, a ledger or the kernel cannot be written or read.

The module fails with one message and leaves the node unchanged.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel.modules import ModuleError, run
from kernel.test_module_agent_install import Node
from support.agent.process import dump
from support.clusters import objects
from support.processes import guarded
from support.processes.namespace import fresh

from ansible_collections.kubenode.ipvs.plugins.module_utils.engine import apply

FORWARD = "net.ipv4.ip_forward"
SYSCTLS, LOADED, PARAMETERS = "/etc/sysctl.d", "/etc/modules-load.d", "/etc/modprobe.d"
# nf_nat_tftp needs other modules, which are loaded with it.
LOADING = {"modules": ["nf_nat_tftp", "dummy"], "parameters": {"dummy": {"numdummies": 0}}}
QUIET = {"conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}}
# Arguments of each module, and a different value of another owner for the same item.
RUNNING: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "ipvs_services": (
        {"services": [{"protocol": "tcp", "address": "192.0.2.80", "port": 80}]},
        {"services": [{"protocol": "tcp", "address": "192.0.2.80", "port": 80, "scheduler": "wrr"}]},
    ),
    "ipsets": (
        {"sets": [{"name": "s", "type": "hash:ip", "members": ["192.0.2.1"]}]},
        {"sets": [{"name": "s", "state": "absent"}]},
    ),
    "iptables_chains": (
        {"chains": [{"name": "X", "rules": ["-j DROP"], "jumps": [{"chain": "FORWARD"}]}]},
        {"chains": [{"name": "X", "rules": ["-j ACCEPT"]}]},
    ),
    "virtual_addresses": (
        {"links": [{"name": "vips", "addresses": ["192.0.2.1"]}]},
        {"links": [{"name": "vips", "state": "absent"}]},
    ),
    "service_proxy": (
        {"objects": [objects.service("web", ["10.96.0.10"], [objects.port(80)])], "node_name": "n1", "config": QUIET},
        {"objects": [objects.service("web", ["10.96.0.10"], [objects.port(81)])], "node_name": "n1", "config": QUIET},
    ),
}
LASTING: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "sysctls": ({"sysctls": {FORWARD: 1}}, {"sysctls": {FORWARD: 0}}),
    "kernel_modules": (LOADING, {"absent": ["dummy"]}),
    "kernel_settings": ({**LOADING, "sysctls": {FORWARD: 1}}, {"absent_modules": ["dummy"], "sysctls": {FORWARD: 0}}),
}
LASTING_FILES = {
    SYSCTLS: f"{SYSCTLS}/90-kubenode-ansible.conf",
    LOADED: f"{LOADED}/kubenode-ansible.conf",
    PARAMETERS: f"{PARAMETERS}/kubenode-ansible.conf",
}
WRITERS = [("sysctls", SYSCTLS), ("kernel_modules", LOADED), ("kernel_modules", PARAMETERS)]
WRITERS += [("kernel_settings", directory) for directory in LASTING_FILES]
ALL = {**RUNNING, **LASTING}
WORDS = {
    "read-only": "Read-only file system",
    "full": "No space left on device",
    "a directory": "Is a directory",
    "not to be replaced": "Device or resource busy",
}


@pytest.fixture(autouse=True)
def node() -> Iterator[None]:
    subprocess.run(
        ["modprobe", "-a", "ip_vs", "ip_vs_rr", "ip_vs_wrr", "ip_set", "nf_conntrack", "xt_set", "br_netfilter"],
        check=True,
    )
    fresh()
    subprocess.run(["modprobe", "-r", "nf_nat_tftp", "dummy"], check=True)
    dump()  # the tools create tables when they list them; from here on these tables exist
    yield
    for directory in (*map(Path, (SYSCTLS, LOADED, PARAMETERS)), Path("/run/kubenode"), Path("/var/lib/kubenode")):
        for path in directory.glob("*") if "kubenode" in str(directory) else directory.glob("*kubenode*"):
            path.unlink()


def state() -> dict[str, str]:
    """Return everything that the modules could change."""
    files = [path for directory in (SYSCTLS, LOADED, PARAMETERS) for path in Path(directory).glob("*")]
    loaded = sorted(line.split()[0] for line in Path("/proc/modules").read_text().splitlines())
    tables = {
        **dump(),
        FORWARD: (Path("/proc/sys") / FORWARD.replace(".", "/")).read_text(),
        "modules": " ".join(loaded),
    }
    return {**tables, **{str(path): path.read_text() for path in files if path.is_file()}}


@contextlib.contextmanager
def mounted(directory: str, options: str) -> Iterator[Path]:
    """Mount another file system over a directory."""
    Path(directory).mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", directory], check=True)
    try:
        yield Path(directory)
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)  # with the mounts on its files


@contextlib.contextmanager
def read_only(directory: str) -> Iterator[None]:
    """Make a directory and everything below it read-only."""
    subprocess.run(["mount", "--bind", directory, directory], check=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", directory], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)  # this process has files of /usr open


def fill(directory: Path) -> None:
    with contextlib.suppress(OSError), (directory / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(b"x" * 1024)


def refused(module: str, arguments: dict[str, Any], message: str) -> None:
    """Run a module that must fail and change nothing."""
    before = state()
    with pytest.raises(ModuleError, match=message) as error:
        run(module, **arguments)
    assert "\n" not in str(error.value)
    assert state() == before


def away(module: str) -> dict[str, Any]:
    """Return the arguments that remove everything of an owner."""
    return {"state": "absent"} if module == "service_proxy" else {"purge": "owned"}


def ledger_of(module: str) -> str:
    return "/var/lib/kubenode" if module in LASTING else "/run/kubenode"


@pytest.mark.parametrize("module", ALL)
class TestEvery:
    """Faults that every module can meet."""

    def test_unreadable_ledger_changes_nothing(self, module: str) -> None:
        directory = Path(ledger_of(module))
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "ledger.db").write_bytes(b"not a database" * 100)
        for more in ({}, {"check": True}, {"purge": "owned"} if module != "service_proxy" else {}):
            refused(
                module,
                {**ALL[module][0], **more},
                rf"^ledger {directory}/ledger\.db cannot be opened: .*; nothing was changed$",
            )

    def test_ledger_without_space_changes_nothing(self, module: str) -> None:
        with mounted(ledger_of(module), "size=64k") as directory:
            (directory / "lock").touch()
            fill(directory)
            refused(module, ALL[module][0], rf"^ledger {directory}/ledger\.db cannot be .*; nothing was changed$")

    def test_ledger_without_space_to_forget_is_reported(self, module: str) -> None:
        """The module removes no item whose claim it cannot remove."""
        with mounted(ledger_of(module), "size=256k") as directory:
            run(module, **ALL[module][0])
            fill(directory)
            refused(module, away(module), rf"^ledger {directory}/ledger\.db cannot be .*; nothing was changed$")
            (directory / "filler").unlink()
            assert run(module, **away(module))["changed"]

    def test_ledger_full_after_all_steps_is_reported(self, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """The module restores an item whose claim it could not remove."""
        carry_out = apply._run
        with mounted(ledger_of(module), "size=256k") as directory:
            run(module, **ALL[module][0])
            before = (guarded.node(), state()["modules"])

            def then_full(*arguments: Any, **options: Any) -> Any:
                done = carry_out(*arguments, **options)
                fill(directory)
                return done

            message = rf"^ledger {directory}/ledger\.db cannot be written: .*; \d+ earlier step\(s\) were undone$"
            monkeypatch.setattr(apply, "_run", then_full)
            with pytest.raises(ModuleError, match=message):
                run(module, **away(module))
            monkeypatch.undo()
            assert (guarded.node(), state()["modules"]) == before
            (directory / "filler").unlink()
            assert run(module, **away(module))["changed"]

    def test_missing_lock_directory_changes_nothing(self, module: str) -> None:
        with mounted("/run/kubenode", "ro"):
            refused(
                module,
                ALL[module][0],
                r"^lock /run/kubenode/lock cannot be opened: .*Read-only.*; nothing was changed$",
            )

    def test_two_owners_of_one_item_conflict(self, module: str) -> None:
        wanted, otherwise = ALL[module]
        run(module, owner="one", **wanted)
        before = state()
        if module == "kernel_modules":  # several owners may claim the same kernel module
            assert not run(module, owner="two", **otherwise)["changed"]
        else:
            refused(module, {"owner": "two", **otherwise}, r"owner 'one'; nothing was changed$")
        run(module, owner="one", **away(module))
        assert state() != before


@pytest.mark.parametrize(("module", "path"), WRITERS)
class TestFiles:
    """The files that make settings persistent."""

    @pytest.mark.parametrize("how", ["read-only", "full", "a directory", "not to be replaced"])
    def test_unwritable_file_is_named(self, module: str, path: str, how: str) -> None:
        with mounted(path, "ro" if how == "read-only" else "size=16k") as directory:
            file = Path(LASTING_FILES[path])
            if how == "a directory":
                file.mkdir()
            elif how == "full":
                fill(directory)
            elif how == "not to be replaced":  # such as a mounted or immutable file
                file.write_text("# theirs\n")
                subprocess.run(["mount", "--bind", file, file], check=True)
            message = rf"^file {file} cannot be (written|read): {WORDS[how]}.*(undone|changed)$"
            refused(module, LASTING[module][0], message)
            if how in ("read-only", "a directory"):
                refused(module, {**LASTING[module][0], "check": True}, message)

    def test_unremovable_file_is_named(self, module: str, path: str) -> None:
        run(module, **LASTING[module][0])
        with read_only(path):
            refused(
                module,
                away(module),
                rf"^file {LASTING_FILES[path]} cannot be written: Read-only file system.*(undone|changed)$",
            )
        assert run(module, **away(module))["changed"]


@pytest.mark.parametrize("module", ["sysctls", "kernel_settings"])
def test_read_only_proc_sys_is_named(module: str) -> None:
    with read_only("/proc/sys"):
        for check in (True, False):
            message = rf"^sysctl {FORWARD}: /proc/sys is read-only here \(a container\?\); "
            refused(module, {**LASTING[module][0], "check": check}, message)


def test_kernel_modules_ignore_read_only_proc_sys() -> None:
    with read_only("/proc/sys"):
        assert run("kernel_modules", **LOADING)["changed"]
    run("kernel_modules", purge="owned")


def test_service_proxy_names_read_only_proc_sys() -> None:
    with read_only("/proc/sys"):
        refused("service_proxy", RUNNING["service_proxy"][0], r"/proc/sys is read-only here \(a container\?\)")


def test_agent_command_in_read_only_usr_is_named(tmp_path: Path) -> None:
    node = Node(tmp_path)
    (tmp_path / "bin").mkdir()
    with read_only(str(tmp_path / "bin")):
        for digest in "ab":
            with pytest.raises(ModuleError, match=r"Read-only file system.*; files and release are as they were$"):
                node.install(digest, "one")
            assert not any(map(os.path.lexists, (node.config, node.unit, node.directory / "current")))
    node.install("b", "one")
    assert node.state() == ("b", "one", "unit")
