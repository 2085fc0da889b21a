# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stock kernel: the release's own cloud kernel in a machine that QEMU emulates, with virtio disks and network.

The emulation is in software unless this machine has KVM. A guest then takes six to sixteen times the processor time of
user-mode Linux, but the kernel is the one that users run.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from . import naming
from .command import run
from .errors import LabError
from .host import SHARED_MEMORY, Need
from .kernel_kind import KernelKind
from .paths import DISK

if TYPE_CHECKING:
    from .state import Node

OVERRIDE = "LAB_KERNEL"  # package of another kernel than the newest, which a mirror may lack
_KVM = Path("/dev/kvm")
# In the image's directory, and as links in the node's: a comma in a clone's path would end an option's value.
KERNEL, INITRD = "vmlinuz", "initrd.img"
_DISK = "disk.raw"
_COMMAND_LINE = (
    "root=/dev/vda",
    "rootfstype=ext4",
    "rw",
    "init=/sbin/lab-init",
    "net.ifnames=0",  # one name for the interface on all releases: eth0
    "panic=-1",  # reboot at once, so that the console shows it, instead of a node that hangs
    "mitigations=off",  # of faults that an emulated processor has not
)


class StockKernel(KernelKind):
    """Debian's linux-image-cloud-amd64 of the image's release, in QEMU."""

    name = "stock"
    program = "qemu-system-x86_64"
    machine = "q35"
    console = "ttyS0"
    # Its instructions are emulated quickly: a kernel needs a tenth less of the machine's processor than with ``max``,
    # all that QEMU can emulate.
    emulated_processor = "Nehalem"
    to_run = (Need(program, "qemu-system-x86"),)
    to_build: ClassVar[tuple[Need, ...]] = ()
    package = "linux-image-cloud-amd64"
    # A small initial file system: the drivers of the disk and what it holds.
    files = (
        ("/etc/initramfs-tools/conf.d/lab", "MODULES=list\nCOMPRESS=gzip\nCOMPRESSLEVEL=1\n"),
        ("/usr/share/initramfs-tools/modules.d/lab", "virtio_pci\nvirtio_blk\nvirtio_net\nvirtio_rng\next4\n"),
    )
    alternatives = ()
    patience = 120
    boot_timeout = 300.0

    @property
    def packages(self) -> tuple[str, ...]:
        """Package of the kernel, and what makes its initial file system."""
        return (self.version() or self.package, "initramfs-tools")

    def version(self) -> str:
        """Return the package that the environment names; empty if the release's archive decides."""
        return os.environ.get(OVERRIDE, "")

    def summary(self) -> str:
        """Return by what means the kernel runs, with the reason if it is software."""
        problem = self.kvm_problem()
        return "the release's own kernel in QEMU, " + (f"emulated in software: {problem}" if problem else "by KVM")

    def kvm_problem(self) -> str:
        """Return why KVM cannot be used; empty if it can.

        A machine that is itself virtual may have the device without a processor that can run a stock kernel in it.
        """
        if not os.access(_KVM, os.R_OK | os.W_OK):
            return f"{_KVM} is not there or not writable"
        with open("/proc/cpuinfo") as lines:
            flags = next((line.split(":", 1)[1].split() for line in lines if line.startswith("flags")), [])
        return "" if {"vmx", "svm"} & set(flags) else f"{_KVM} is there, but the processor has neither vmx nor svm"

    def accelerators(self) -> tuple[str, ...]:
        """Return QEMU's accelerators; it takes the first that starts: only an attempt shows that KVM is refused."""
        return ("tcg",) if self.kvm_problem() else ("kvm", "tcg")

    def processor(self) -> str:
        """Return QEMU's processor: the machine's own with KVM, else the one that is emulated."""
        return "max" if "kvm" in self.accelerators() else self.emulated_processor

    def install(self, root: Path, image: Path) -> None:
        """Copy kernel and initial file system from the tree, where packages put them, beside the image's disk."""
        for pattern, name in (("vmlinuz-*", KERNEL), ("initrd.img-*", INITRD)):
            newest = max((root / "boot").glob(pattern), key=_numbers, default=None)
            if newest is None:
                raise LabError(f"/boot/{pattern}: not in the image; {', '.join(self.packages)} did not install it")
            shutil.copyfile(newest, image / name)

    def make_disk(self, image: Path, directory: Path) -> None:
        """Copy the image's disk, which takes the room of its used blocks, and link kernel and initial file system."""
        if not (directory / _DISK).exists():
            run(["cp", "--sparse=always", "--reflink=auto", str(image / DISK), str(directory / _DISK)])
        for name in (KERNEL, INITRD):
            if not (directory / name).is_symlink():
                (directory / name).symlink_to(image / name)

    def command(self, node: Node, memory: str, memory_directory: Path) -> list[str]:
        """Return the command of QEMU."""
        return [
            self.program,
            *("-name", node.name),
            *("-machine", f"{self.machine},memory-backend=ram"),
            *(word for name in self.accelerators() for word in ("-accel", name)),
            *("-cpu", self.processor()),
            *("-object", f"{_backend(memory_directory)},id=ram,size={memory}"),
            *("-m", memory),
            *("-nodefaults", "-no-user-config", "-display", "none"),
            *("-serial", "stdio"),
            *("-kernel", KERNEL, "-initrd", INITRD),
            *("-append", " ".join((*_COMMAND_LINE, f"console={self.console}"))),
            *("-drive", f"file={_DISK},format=raw,if=virtio,cache=writeback"),
            *("-drive", "file=settings.tar,format=raw,if=virtio,readonly=on"),
            *("-netdev", f"tap,id=lab,ifname={naming.tap(node.index)},script=no,downscript=no"),
            *("-device", f"virtio-net-pci,netdev=lab,mac={naming.node_mac(node.index)},romfile="),
            *("-device", "virtio-rng-pci"),
        ]


def _backend(directory: Path) -> str:
    """Return QEMU's object for a node's memory: without a file if that would be in memory, too.

    A file there has small pages. With huge ones, an emulated node needs a fifth less of the processor.
    """
    if directory == SHARED_MEMORY:
        return "memory-backend-ram"
    value = str(directory).replace(",", ",,")  # a comma ends an option's value, two do not
    return f"memory-backend-file,mem-path={value},share=on"


def _numbers(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path.name)]
