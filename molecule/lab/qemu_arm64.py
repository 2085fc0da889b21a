# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stock kernel of arm64, in a machine that QEMU emulates on x86-64."""

from __future__ import annotations

from pathlib import Path

from .host import Need
from .qemu import StockKernel

_INTERPRETER = Path("/proc/sys/fs/binfmt_misc/qemu-aarch64")


class Arm64Kernel(StockKernel):
    """Debian's linux-image-cloud-arm64 of the image's release, in QEMU."""

    name = "arm64"
    architecture = "arm64"
    program = "qemu-system-aarch64"
    machine = "virt"
    console = "ttyAMA0"
    emulated_processor = "cortex-a72"
    to_run = (Need(program, "qemu-system-arm"),)
    to_build = (Need("qemu-aarch64-static", "qemu-user-static"), Need("arch-test", "arch-test"))
    package = "linux-image-cloud-arm64"

    def build_problems(self) -> list[str]:
        """Return the interpreter of arm64 programs if this kernel has it not: packages run some when installed."""
        if _INTERPRETER.exists():
            return []
        return [
            f"{_INTERPRETER}: mount -t binfmt_misc none {_INTERPRETER.parent}, then "
            "apt-get install --reinstall qemu-user-static binfmt-support"
        ]

    def kvm_problem(self) -> str:
        """Return why KVM cannot be used: the lab runs on x86-64 only."""
        return "this machine has another processor"
