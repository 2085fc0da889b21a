# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machine: distribution, running kernel, installed kernels and kind of container, read from files below a root."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from .foreign_files import foreign_text

# ID and ID_LIKE of os-release, to the family whose package names the distribution uses.
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
}
# Files that container managers leave in a container.
CONTAINER_MARKS = {".dockerenv": "docker", "run/.containerenv": "podman"}
_FIRST_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO, linux/proc_ns.h


class Machine(NamedTuple):
    """Distribution and kernel of a machine.

    ``installed`` are the releases that have a directory of modules; without that of the running kernel, the kernel was
    updated and not rebooted. ``container`` is the kind of container, None for a machine. ``image`` is the command that
    changes packages of a machine whose /usr is an image, "" for a machine with a writable /usr.
    """

    id: str
    version: str
    like: tuple[str, ...]
    family: str
    release: str
    installed: tuple[str, ...] = ()
    container: str | None = None
    image: str = ""

    @property
    def awaits_reboot(self) -> bool:
        """Tell whether other kernels have modules, and the running kernel has none."""
        return bool(self.installed) and self.release not in self.installed and self.container is None


def read_machine(root: str = "/", release: str = "") -> Machine:
    """Return the machine below ``root``, with the running kernel if ``release`` is empty."""
    system = distribution(os.path.join(root, "etc/os-release"))
    image = ""
    if os.path.exists(os.path.join(root, "run/ostree-booted")):
        image = "rpm-ostree"
    elif os.path.exists(os.path.join(root, "usr/sbin/transactional-update")):
        image = "transactional-update"
    return Machine(
        system["id"],
        system["version"],
        tuple(system["like"]),
        system["family"],
        release or os.uname().release,
        installed_kernels(root),
        container_kind(root),
        image,
    )


def installed_kernels(root: str = "/") -> tuple[str, ...]:
    """Return the releases with an index of modules (modules.dep)."""
    directory = os.path.join(root, "lib/modules")
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return ()
    return tuple(name for name in names if os.path.exists(os.path.join(directory, name, "modules.dep")))


def distribution(path: str = "/etc/os-release") -> dict[str, Any]:
    """Return ``id``, ``version``, ``like`` (ID and the names in ID_LIKE) and ``family`` from os-release."""
    pairs = (line.strip().partition("=") for line in foreign_text(path).splitlines())
    fields = {key: value.strip("\"'") for key, _equals, value in pairs}
    names = [fields.get("ID", ""), *fields.get("ID_LIKE", "").split()]
    family = next((FAMILIES[name] for name in names if name in FAMILIES), "unknown")
    like = [name for name in names if name]
    return {"id": fields.get("ID", "unknown"), "version": fields.get("VERSION_ID", ""), "like": like, "family": family}


def container_kind(root: str = "/") -> str | None:
    """Return the kind of container that the node is, or None.

    For example ``docker``, ``podman`` or ``lxc``; ``unknown`` for a container that does not show its kind. Names from
    systemd's container interface come first; a pod of containerd has none.
    """
    environment = dict(
        entry.partition("=")[::2] for entry in foreign_text(os.path.join(root, "proc/1/environ")).split("\0")
    )
    kinds = [
        foreign_text(os.path.join(root, "run", name)).strip()
        for name in ("host/container-manager", "systemd/container")
    ]
    kinds.append(environment.get("container", ""))
    kinds += [kind for mark, kind in CONTAINER_MARKS.items() if os.path.exists(os.path.join(root, mark))]
    kinds += ["kubernetes"] if "KUBERNETES_SERVICE_HOST" in environment else []
    kinds += [] if _first_processes(root) else ["unknown"]
    return next(filter(None, kinds), None)


def _first_processes(root: str) -> bool:
    """Tell whether this process is in the kernel's first PID namespace: a container has one of its own."""
    try:
        return os.stat(os.path.join(root, "proc/self/ns/pid")).st_ino == _FIRST_PID_NAMESPACE
    except OSError:
        return True
