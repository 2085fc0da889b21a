# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""What a node is and has, from files alone."""

from __future__ import annotations

import os
import platform

from . import _swap
from .engine.kernel import modules

PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
# What os-release calls itself, or what it says it is like, to the family whose package names it uses.
FAMILIES = {
    "debian": "debian",
    "ubuntu": "debian",
    "rhel": "redhat",
    "fedora": "redhat",
    "centos": "redhat",
    "suse": "suse",
    "opensuse": "suse",
    "sles": "suse",
    "arch": "arch",
    "flatcar": "flatcar",
}
SERVICES = ("NetworkManager", "firewalld")


def survey(wanted_modules, wanted_commands, fstab):
    """Return the survey of a node, as the module ``node_check`` documents it."""
    commands = {command: which(command) for command in wanted_commands}
    states = modules.states([name for entry in wanted_modules for name in entry.split("|")])
    found = {
        "commands": commands,
        "modules": states,
        "ipvs": ipvs_version(),
        "iptables": iptables_backend(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "distribution": distribution(),
        "container": in_container(),
        "systemd": os.path.isdir("/run/systemd/system"),
        "services": [name for name in SERVICES if _is_running(name)],
        "swap": {"active": _swap.active(), "fstab": _swap.in_fstab(fstab), "units": _swap.units()},
    }
    problems = [f"command {command} is not installed" for command, path in commands.items() if path is None]
    for entry in wanted_modules:
        if all(states[name] == "absent" for name in entry.split("|")):
            names = entry.replace("|", " or ")
            problems.append(
                f"kernel {found['kernel']} has no module {names} (neither loaded, nor built in, nor under /lib/modules)"
            )
    return {"fit": not problems, "problems": problems, **found}


def which(command):
    """Return the path of a command, where root would find it, or None."""
    for directory in PATH:
        path = os.path.join(directory, command)
        if os.access(path, os.X_OK):
            return path
    return None


def ipvs_version():
    """Return the version of the kernel's IPVS, or None."""
    try:
        with open("/proc/net/ip_vs", encoding="ascii") as file:
            return file.readline().split()[4]
    except (OSError, IndexError):
        return None


def iptables_backend():
    """Return ``legacy`` or ``nft`` by the program that ``iptables`` leads to, or None."""
    path = which("iptables")
    program = os.path.basename(os.path.realpath(path)) if path else ""
    return next((backend for backend in ("legacy", "nft") if backend in program), None)


def distribution(path="/etc/os-release"):
    """Return ``id``, ``version`` and ``family`` from os-release."""
    fields = {}
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                key, _equals, value = line.strip().partition("=")
                fields[key] = value.strip("\"'")
    except OSError:
        pass
    names = [fields.get("ID", ""), *fields.get("ID_LIKE", "").split()]
    family = next((FAMILIES[name] for name in names if name in FAMILIES), "unknown")
    return {"id": fields.get("ID", "unknown"), "version": fields.get("VERSION_ID", ""), "family": family}


def in_container():
    """Tell whether the node is a container."""
    return any(os.path.exists(path) for path in ("/run/systemd/container", "/.dockerenv", "/run/.containerenv"))


def _is_running(service):
    groups = ("/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice")
    return any(os.path.isdir(os.path.join(group, f"{service}.service")) for group in groups)
