# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""User-mode Linux: a complete kernel as an ordinary process, on a copy-on-write disk.

It is the built kernel (``uml_kernel.py``) if this clone has one, else Debian's package.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from . import naming, uml_kernel
from .command import run
from .errors import HostError
from .host import Need
from .kernel_kind import KernelKind
from .paths import DISK

if TYPE_CHECKING:
    from .state import Node

_PROGRAM = "linux.uml"
_MODULES = Path("/usr/lib/uml/modules")
_LAUNCHER = Path(__file__).resolve().parent / "kernel"
# Relative to the node's directory: a clone's path may have spaces, the kernel's command line may not.
_BASE = "base.ext4"


class UserModeLinux(KernelKind):
    """Debian's user-mode Linux: boots in seconds on any x86-64 machine, with iptables-legacy only."""

    name = "uml"
    to_run = (Need(_PROGRAM, "user-mode-linux"), Need("cc", "gcc libc6-dev"))
    to_build = (Need(_PROGRAM, "user-mode-linux"), Need("depmod", "kmod"))
    files = ()
    # Kernel has no nf_tables for IPv4, so both commands must be the legacy ones.
    alternatives = (("iptables", "/usr/sbin/iptables-legacy"), ("ip6tables", "/usr/sbin/ip6tables-legacy"))
    patience = 20
    boot_timeout = 90.0
    maps_each_page = True

    def version(self) -> str:
        """Return the version of the user-mode kernel, such as ``6.1.176``."""
        if built := uml_kernel.version():
            return built
        version = run([_PROGRAM, "--version"]).strip()
        if not (_MODULES / version).is_dir():
            raise HostError(f"{_MODULES / version}: not there; apt-get install --reinstall user-mode-linux")
        return version

    def summary(self) -> str:
        """Return the version, and that it is user-mode Linux."""
        return f"user-mode Linux {self.version()}"

    def install(self, root: Path, image: Path) -> None:
        """Copy the modules of the user-mode kernel into the tree."""
        version = self.version()
        modules = uml_kernel.MODULES if uml_kernel.version() else _MODULES
        shutil.copytree(modules / version, root / "lib/modules" / version, symlinks=True)
        run(["depmod", "--basedir", str(root), version])

    def make_disk(self, image: Path, directory: Path) -> None:
        """Link the image's disk, the base of the node's copy-on-write disk."""
        base = directory / _BASE
        if not base.is_symlink():
            base.symlink_to(image / DISK)

    def command(self, node: Node, memory: str, memory_directory: Path) -> list[str]:
        """Return the command of the launcher, which executes the kernel; TMPDIR says where its memory is."""
        return [
            str(_LAUNCHER),
            f"mem={memory}",
            "root=/dev/ubda",
            "rootfstype=ext4",
            "rw",
            "init=/sbin/lab-init",
            f"ubd0=disk.cow,{_BASE}",
            "ubd1r=settings.tar",
            f"vec0:transport=tap,ifname={naming.tap(node.index)},mac={naming.node_mac(node.index)},depth=128,gro=1",
            "con=null",
            "con0=null,fd:1",
            "console=tty0",
            f"umid={node.name}",
            "uml_dir=.",  # relative, so that a clone with a long path does not make its socket's address too long
        ]
