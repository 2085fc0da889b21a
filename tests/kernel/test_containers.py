# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules in containers: how they recognise a container, and what they refuse there.

The containers have namespaces and a root directory of their own, without the right to load modules. The scenario
molecule/prepare has a whole container with systemd, and the role in it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.distributions.foreign_root import MODULE, ForeignRoot

FORWARD = "net.ipv4.ip_forward"
FILES = ("/etc/modules-load.d", "/etc/modprobe.d", "/etc/sysctl.d", "/etc/fstab", "/var/lib/kubenode")
# The first process of the container runs the module. As container managers do by default, it may not load modules,
# and kernel parameters are read-only.
CONTAINER = ("unshare", "--pid", "--mount", "--net", "--fork", "--mount-proc", "sh", "-ec")
SEALED = (
    "mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && exec setpriv --bounding-set=-sys_module"
    ' "$@"'
)
OPEN = 'exec setpriv --bounding-set=-sys_module "$@"'


@pytest.fixture(scope="module")
def root() -> Iterator[ForeignRoot]:
    subprocess.run(["modprobe", "-a", "ip_vs", "dummy"], check=True)
    subprocess.run(["modprobe", "-r", "br_netfilter"], check=True)
    directory = ForeignRoot()
    yield directory
    directory.close()


def module(root: ForeignRoot, name: str, *environment: str, how: str = SEALED, **arguments: Any) -> dict[str, Any]:
    """Run a module in a container within the root directory; ``environment`` is the container manager's."""
    command = ["env", *environment, *CONTAINER, how, "sh", "/usr/bin/python3", "-c", MODULE]
    result: dict[str, Any] = json.loads(root.run(*command, text=json.dumps({"name": name, **arguments})))
    return result


def state(root: ForeignRoot) -> tuple[str, set[str], str]:
    """Return what modules could change in the root directory and in the shared kernel."""
    files = root.attempt("sh", "-c", 'find "$@" -type f -exec sha256sum {} + | sort', "sh", *FILES).stdout
    modules = {line.split()[0] for line in Path("/proc/modules").read_text().splitlines()}
    return files, modules, Path("/proc/sys/net/ipv4/ip_forward").read_text()


@pytest.mark.parametrize(
    ("environment", "mark", "kind"),
    [
        ((), "", "unknown"),
        (("container=systemd-nspawn",), "", "systemd-nspawn"),
        (("container=lxc",), "", "lxc"),
        (("container=oci",), "/run/.containerenv", "oci"),
        (("KUBERNETES_SERVICE_HOST=10.96.0.1",), "", "kubernetes"),
        (("KUBERNETES_SERVICE_HOST=10.96.0.1",), "/.dockerenv", "docker"),
        ((), "/.dockerenv", "docker"),
        ((), "/run/.containerenv", "podman"),
    ],
)
def test_container_is_recognised(root: ForeignRoot, environment: tuple[str, ...], mark: str, kind: str) -> None:
    """The module recognises a container by its manager's marks, or by process numbers alone.

    The mark is a variable in the environment of the first process, or a file.
    """
    if mark:
        root.run("touch", mark)
    try:
        result = module(root, "node_check", *environment, how=OPEN, modules=["ip_vs", "no_such_module"], commands=[])
    finally:
        if mark:
            root.run("rm", mark)
    assert (result["container"], result["virtualization"]) == (True, kind)
    assert (result["problems"], result["lacks"]["modules"]) == ([], [])


@pytest.mark.parametrize("check", [True, False], ids=["check mode", "for real"])
class TestSealed:
    """A container as its manager makes it by default."""

    def test_container_with_read_only_sysctls_is_refused(self, root: ForeignRoot, check: bool) -> None:
        result = module(root, "node_check", "container=lxc", check=check, modules=["ip_vs"], commands=[])
        assert result["refused"] == [
            "/proc/sys/net/ipv4/ip_forward is read-only, expected to be written to (kernel parameters)"
        ]

    def test_loaded_modules_pass_and_none_is_loaded(self, root: ForeignRoot, check: bool) -> None:
        before = state(root)
        given: dict[str, Any] = {"modules": ["ip_vs"], "optional": ["no_such_module"], "persist": False}
        result = module(root, "kernel_modules", check=check, **given)
        assert result["states"] == {"ip_vs": "loaded", "no_such_module": "unknown"}
        assert (result["lines"], result["adopted"]) == ([], [])
        assert "kernel module no_such_module: its state cannot be determined here (a container?)" in result["warnings"]
        module(root, "kernel_modules", purge="owned")
        assert state(root) == before

    def test_read_only_kernel_parameters_are_named(self, root: ForeignRoot, check: bool) -> None:
        before = state(root)
        for name in ("sysctls", "kernel_settings"):
            result = module(root, name, check=check, sysctls={FORWARD: 1})
            assert result["msg"].startswith(f"sysctl {FORWARD}: /proc/sys is read-only here (a container?)"), result
        assert state(root) == before

    def test_missing_parameter_of_the_shared_kernel_is_named(self, root: ForeignRoot, check: bool) -> None:
        before = state(root)
        result = module(
            root, "kernel_settings", how=OPEN, check=check, sysctls={"net.bridge.bridge-nf-call-iptables": 1}
        )
        assert (
            result["msg"]
            == "sysctl net.bridge.bridge-nf-call-iptables does not exist; the kernel module br_netfilter makes it: load"
            " that first"
        )
        assert state(root) == before


def test_own_network_namespace_has_writable_parameters(root: ForeignRoot) -> None:
    before = state(root)[1:]
    result = module(root, "sysctls", how=OPEN, sysctls={FORWARD: 1, "net.ipv4.vs.conntrack": 1})
    assert result["lines"][:2] == [f"~ sysctl {FORWARD}: 0 -> 1", "~ sysctl net.ipv4.vs.conntrack: 0 -> 1"]
    assert state(root)[1:] == before
