# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Facts about a node (system, kernel, container, tools), read from files alone."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from typing import TYPE_CHECKING, Any

from ..engine.kernel import modules
from ..engine.kernel.foreign_files import foreign_text
from ..engine.kernel.machine import Machine, container_kind, distribution, read_machine
from ..engine.kernel.missing_modules import MissingModule, diagnose, sentences
from . import swap as _swap

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
SERVICES = ("NetworkManager", "systemd-networkd", "firewalld")
# IPVS of older kernels does not work with conntrack, ipset and the agent.
OLDEST_KERNEL = (4, 18)
OLDEST_PYTHON = (3, 9)
# Directories that modules write to, and the purpose of each.
WRITTEN = {"/etc": "files", "/var/lib": "the ledger", "/proc/sys/net/ipv4/ip_forward": "kernel parameters"}
# Maker or model of a machine in its firmware, to systemd-detect-virt's word for it.
HYPERVISORS = (
    ("KVM", "kvm"),
    ("Amazon EC2", "amazon"),
    ("QEMU", "qemu"),
    ("VMware", "vmware"),
    ("VirtualBox", "oracle"),
    ("Xen", "xen"),
    ("Microsoft Corporation", "microsoft"),
    ("Google Compute Engine", "google"),
    ("Parallels", "parallels"),
    ("OpenStack", "kvm"),
)


def survey(wanted_modules: Collection[str], wanted_commands: Iterable[str], fstab: str) -> dict[str, Any]:
    """Return the facts about a node, as the module ``node_check`` documents them."""
    commands = {command: which(command) for command in wanted_commands}
    system, container, backend = distribution(), container_kind(), iptables_backend()
    wanted_modules = with_nft_compat(wanted_modules, backend, system["family"])
    states = modules.states([name for entry in wanted_modules for name in entry.split("|")])
    lacking_modules = absent(wanted_modules, states, container is not None)
    machine = read_machine()
    missing = diagnose(lacking_modules, machine, modules.lost_files(lacking_modules))
    facts: dict[str, Any] = {
        "commands": commands,
        "modules": states,
        "lacks": {
            "commands": [command for command, path in commands.items() if path is None],
            "modules": lacking_modules,
            "packages": list(dict.fromkeys(package for each in missing for package in each.packages)),
        },
        "missing_modules": [each._asdict() for each in missing],
        "ipvs": ipvs_version(),
        "iptables": backend,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "distribution": system,
        "image_based": os.path.exists("/run/ostree-booted") or bool(os.statvfs("/usr").f_flag & os.ST_RDONLY),
        "container": container is not None,
        "virtualization": container or hypervisor(),
        "systemd": os.path.isdir("/run/systemd/system"),
        "services": [name for name in SERVICES if _is_running(name)],
        "firewalld_backend": firewalld_backend(),
        "swap": {"active": _swap.active(), "fstab": _swap.in_fstab(fstab), "units": _swap.units()},
    }
    unwritable = [path for path in WRITTEN if not os.access(path, os.W_OK)]
    refused = refusals(facts, os.geteuid(), sys.version_info, unwritable, [path for path in WRITTEN if is_full(path)])
    problems = refused + lacking(facts["lacks"]["commands"], missing, machine)
    return {"fit": not problems, "problems": problems, "refused": refused, **facts}


def absent(wanted_modules: Iterable[str], states: Mapping[str, str], container: bool) -> list[str]:
    """Return the entries without a kernel module on the node, none in a container.

    A container cannot see the modules: the kernel loads those that rules need from outside the container.
    """
    return [
        entry
        for entry in wanted_modules
        if not container and all(states[name] == "absent" for name in entry.split("|"))
    ]


def with_nft_compat(wanted_modules: Collection[str], backend: str | None, family: str) -> Collection[str]:
    """Return the entries, with ``nft_compat`` if one of them is a match or target (``xt_``) for iptables-nft.

    Without ``nft_compat``, iptables-nft refuses rules with such matches. On the RHEL family, iptables is iptables-nft:
    there this holds before iptables is installed.
    """
    is_nft = backend == "nft" or (backend is None and family == "redhat")
    needs_compat = is_nft and any(entry.startswith("xt_") for entry in wanted_modules)
    return [*wanted_modules, "nft_compat"] if needs_compat and "nft_compat" not in wanted_modules else wanted_modules


def lacking(commands: Iterable[str], missing: Iterable[MissingModule], machine: Machine) -> list[str]:
    """Return the missing commands and kernel modules, one sentence for each command and each cause."""
    return [f"command {command} is not installed" for command in commands] + sentences(missing, machine)


def refusals(
    facts: Mapping[str, Any], user: int, python: tuple[Any, ...], unwritable: Iterable[str], full: Iterable[str]
) -> list[str]:
    """Return the reasons why a node cannot be prepared that no package removes, one sentence each.

    Args:
        facts: the facts that :func:`survey` has so far.
        user: the effective user id.
        python: the version of Python, as a tuple.
        unwritable: the paths of ``WRITTEN`` that cannot be written to.
        full: the paths of ``WRITTEN`` with no space left.
    """
    sentences = []
    if user != 0:
        sentences.append(f"tasks run as user {user}, expected root (become: true)")
    if tuple(python[:2]) < OLDEST_PYTHON:
        sentences.append(f"Python is {facts['python']}, expected 3.9 or newer (ansible_python_interpreter)")
    if _release(facts["kernel"]) < OLDEST_KERNEL:
        sentences.append(f"kernel is {facts['kernel']}, expected 4.18 or newer")
    if user == 0:
        sentences += [f"{path} is read-only, expected to be written to ({WRITTEN[path]})" for path in unwritable]
        sentences += [f"{path} has no space left, expected some ({WRITTEN[path]})" for path in full]
    if facts["container"] and facts["ipvs"] is None:
        sentences.append(
            f"the node is a container ({facts['virtualization']}), which cannot load kernel modules, and the kernel"
            " that it shares has not loaded ip_vs: load it on the machine below"
        )
    return sentences


def _release(text: str) -> tuple[int, ...]:
    """Return the first two numbers of a kernel's release."""
    numbers = text.replace("-", ".").split(".")[:2]
    return tuple(int(number) for number in numbers if number.isdigit())


def is_full(path: str) -> bool:
    """Tell whether a file system has no space or no inode left; the kernel's own file systems count neither."""
    status = os.statvfs(path)
    return status.f_blocks > 0 and (not status.f_bfree or (status.f_files > 0 and not status.f_ffree))


def digest(path: str) -> str | None:
    """Return the SHA-256 of a file in hexadecimal, or None if it is absent or cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return None


def which(command: str) -> str | None:
    """Return the path of a command in root's search path, or None."""
    for directory in PATH:
        path = os.path.join(directory, command)
        if os.access(path, os.X_OK):
            return path
    return None


def ipvs_version() -> str | None:
    """Return the version of the kernel's IPVS, or None."""
    try:
        with open("/proc/net/ip_vs", encoding="ascii") as file:
            return file.readline().split()[4]
    except (OSError, IndexError):
        return None


def iptables_backend() -> str | None:
    """Return ``legacy`` or ``nft`` by the program that ``iptables`` links to, or None."""
    path = which("iptables")
    program = os.path.basename(os.path.realpath(path)) if path else ""
    return next((backend for backend in ("legacy", "nft") if backend in program), None)


def hypervisor(root: str = "/") -> str:
    """Return the hypervisor of the node, ``unknown`` for an unnamed one, ``none`` for a physical machine."""
    processor = foreign_text(os.path.join(root, "proc/cpuinfo"))
    if "User Mode Linux" in processor:
        return "uml"
    firmware = os.path.join(root, "sys/class/dmi/id")
    firmware_names = " ".join(
        foreign_text(os.path.join(firmware, name)) for name in ("product_name", "sys_vendor", "bios_vendor")
    )
    named = next((word for mark, word in HYPERVISORS if mark in firmware_names), None)
    return named or ("unknown" if " hypervisor" in processor else "none")


def firewalld_backend(path: str = "/etc/firewalld/firewalld.conf") -> str | None:
    """Return the back end of firewalld, ``nftables`` or ``iptables``, or None if firewalld is not installed."""
    if which("firewalld") is None:
        return None
    values = [
        line.partition("=")[2].strip()
        for line in foreign_text(path).splitlines()
        if line.startswith("FirewallBackend=")
    ]
    return values[-1] if values else "nftables"


def _is_running(service: str) -> bool:
    groups = ("/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice")
    return any(os.path.isdir(os.path.join(group, f"{service}.service")) for group in groups)
