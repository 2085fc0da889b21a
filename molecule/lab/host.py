# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prerequisites of the lab on this machine, checked before anything is made."""

from __future__ import annotations

import os
import platform
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .errors import HostError
from .paths import CACHE

if TYPE_CHECKING:
    from collections.abc import Iterable

MIN_FREE_DISK = 3 * 1024**3  # one image, its building tree and a few nodes
MAX_MAP_COUNT = Path("/proc/sys/vm/max_map_count")
SHARED_MEMORY = Path("/dev/shm")
_PAGE = 4096  # bytes of a page of x86-64


class Need(NamedTuple):
    """A program that the lab runs."""

    program: str
    package: str  # Debian package that has it


TO_RUN = (
    Need("ip", "iproute2"),
    Need("ssh", "openssh-client"),
    Need("ssh-keygen", "openssh-client"),
)
TO_BUILD = (
    Need("mmdebstrap", "mmdebstrap"),
    Need("mkfs.ext4", "e2fsprogs"),
    Need("unshare", "util-linux"),
    Need("apt-get", "apt"),
)


def _machine_problems() -> list[str]:
    problems = []
    if os.geteuid() != 0:
        problems.append("root: network namespaces and disk images need it; run this as root (sudo)")
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        problems.append(
            f"Linux on x86-64: this is {platform.system()} on {platform.machine()}, the lab's kernels are for that"
        )
    tun = Path("/dev/net/tun")
    if not tun.exists() or not stat.S_ISCHR(tun.stat().st_mode):
        problems.append("/dev/net/tun: modprobe tun; in a container start it with --device /dev/net/tun --privileged")
    if not Path("/proc/sys/net/ipv6").exists():
        problems.append("IPv6: the lab's network has both families; start this machine without ipv6.disable=1")
    return problems


def _free(directory: Path) -> int:
    """Return the bytes that a directory has room for; what is in memory needs free memory, too."""
    while not directory.exists():
        directory = directory.parent
    free = shutil.disk_usage(directory).free
    return min(free, _available()) if directory == SHARED_MEMORY else free


def _available() -> int:
    """Return the bytes of memory that programs can have. Nodes have theirs where ``df`` does not count it."""
    text = Path("/proc/meminfo").read_text()
    return next(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("MemAvailable:"))


def check(needs: tuple[Need, ...], disk: int = 0, further: Iterable[str] = ()) -> None:
    """Check that this machine can run the lab.

    Args:
        needs: required programs.
        disk: bytes that must be free in the lab's directory.
        further: what else is missing, each with its remedy.

    Raises:
        HostError: a prerequisite is missing; the text lists all of them and how to install them.
    """
    problems = _machine_problems()
    missing = [need for need in needs if not shutil.which(need.program)]
    if missing:
        packages = " ".join(sorted({need.package for need in missing}))
        problems.append(
            f"{', '.join(need.program for need in missing)}: apt-get install --no-install-recommends {packages}"
        )
    if disk and _free(CACHE) < disk:
        problems.append(f"disk: {_free(CACHE) >> 20} MiB free in {CACHE}, needed {disk >> 20} MiB")
    problems += further
    if problems:
        raise HostError(
            "this machine cannot run the lab, it lacks\n" + "\n".join(f"  - {problem}" for problem in problems)
        )


def memory_directory(memory: int) -> Path:
    """Return the directory for the nodes' memory, an unnamed file that is removed with its node.

    Args:
        memory: bytes that the nodes to start may use in all.

    Raises:
        HostError: no directory has that much space.
    """
    for directory in (SHARED_MEMORY, CACHE):  # a container's /dev/shm is often 64 MiB only
        if directory.is_dir() and _free(directory) >= memory:
            return directory
    raise HostError(
        f"nodes need {memory >> 20} MiB of memory; free are {_free(SHARED_MEMORY) >> 20} MiB in {SHARED_MEMORY} and "
        f"{_free(CACHE) >> 20} MiB in {CACHE}; start fewer or smaller nodes (--mem)"
    )


def max_map_count() -> int:
    """Return the number of memory mappings that the kernel of this machine allows a process."""
    return int(MAX_MAP_COUNT.read_text())


def mappings_warning(memory: int) -> str | None:
    """Return a warning if large processes of a node of user-mode Linux may hang; else None.

    Such a node's kernel maps the pages of each process into a process of this machine, in the worst case one by one.
    If the machine refuses a mapping (ENOMEM), the node's process repeats the page fault without an end, and the
    node's kernel reports nothing. A process seldom has more than a quarter of its node's memory.

    Args:
        memory: bytes of the node.
    """
    limit = max_map_count()
    if limit >= memory // _PAGE // 4:
        return None
    return (
        f"vm.max_map_count of this machine is {limit}: a node's process may hang when it has more than "
        f"{limit * _PAGE >> 20} MiB; sysctl vm.max_map_count={memory // _PAGE} prevents it"
    )
