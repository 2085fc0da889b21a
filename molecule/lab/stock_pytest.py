# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run pytest inside a Debian release's own kernel: QEMU, with this machine's file system (virtio-fs).

    molecule/lab/stock-pytest [pytest arguments, by default tests/kernel]

As uml-pytest, with the kernel that users run. KUBENODE_RELEASE names the release (bookworm), KUBENODE_IPTABLES the
variant of iptables (nft, legacy, or none: the programs and modules of iptables, ipset and nft are away), STOCK_MEMORY
the memory (1G). Without KVM, QEMU emulates the processor: a boot takes 15 seconds, and a test six to sixteen times the
processor time of user-mode Linux.

The kernel boots the lab's image of that release read-only, for its modules, and then takes this machine's root.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from . import host, image
from .command import last_lines
from .errors import HostError, LabError
from .host import Need
from .lifecycle import parse_memory
from .paths import CACHE, DISK, ROOT
from .progress import Progress
from .qemu import INITRD, KERNEL, StockKernel
from .recipe import RELEASES

if TYPE_CHECKING:
    from collections.abc import Sequence

_QEMU = StockKernel()
VARIANTS = ("nft", "legacy", "none")
_TOOLS = (Need("ipset", "ipset"), Need("ipvsadm", "ipvsadm"), Need("iptables-nft", "iptables"))
# Debian 12 has it in a package of QEMU, later releases in one of its own.
_VIRTIOFSD = ("/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd")
# In the kernel's command line, quotes have no quotes in them; with this IFS, a clone's path may have spaces.
# It moves the file systems as switch_root does, which a small system of sid does not have.
_BEGIN = " && ".join(
    (
        "modprobe virtiofs",
        "mount -t virtiofs machine /mnt",
        "for at in dev proc sys run; do mount -n --move /$at /mnt/$at; done",
        "cd /mnt",
        "mount -n --move . /",
        "IFS=",
        "exec chroot . $KUBENODE_INIT",
    )
)
_ENDING = ("setpriv", "--pdeathsig", "KILL", "--")  # with this process, even if it is killed
_COMMAND_LINE = (
    "root=/dev/vda rootfstype=ext4 rootflags=noload ro console=ttyS0 quiet panic=-1 mitigations=off",
    "init=/bin/sh",
)


def main(arguments: Sequence[str]) -> int:
    """Run pytest; return its exit status, 2 if it cannot be tried, 3 if the kernel ended without a result."""
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    release = os.environ.get("KUBENODE_RELEASE", RELEASES[0])
    variant = os.environ.get("KUBENODE_IPTABLES", VARIANTS[0])
    memory = os.environ.get("STOCK_MEMORY", "1G")
    try:
        virtiofsd = _check(release, variant)
        parse_memory(memory)
        directory = image.find_or_build(release, _QEMU, Progress()).directory
        with tempfile.TemporaryDirectory(prefix="stock-pytest.", dir=CACHE.parent) as work:
            return _run(Path(work), directory, (virtiofsd, variant, memory), arguments or ["tests/kernel"])
    except LabError as error:
        print(f"stock-pytest: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _check(release: str, variant: str) -> str:
    """Return the path of virtiofsd; raise HostError if something is missing or unknown."""
    if release not in RELEASES:
        raise HostError(f"KUBENODE_RELEASE={release!r}: expected one of {', '.join(RELEASES)}")
    if variant not in VARIANTS:
        raise HostError(f"KUBENODE_IPTABLES={variant!r}: expected one of {', '.join(VARIANTS)}")
    if not (ROOT / ".venv/bin/python").exists():
        raise HostError("the virtual environment is missing; run: make venv")
    host.check(_QEMU.to_run + _TOOLS)
    program = next((path for path in _VIRTIOFSD if os.access(path, os.X_OK)), None)
    if not program:
        raise HostError("virtiofsd: apt-get install qemu-system-common (Debian 12) or virtiofsd (later)")
    return program


def _run(work: Path, directory: Path, settings: tuple[str, str, str], arguments: Sequence[str]) -> int:
    virtiofsd, variant, memory = settings
    (work / "arguments").write_text("".join(f"{argument}\0" for argument in arguments), errors="surrogateescape")
    output, status = work / "output", work / "status"
    output.touch()
    file_system = [*_ENDING, virtiofsd, f"--socket-path={work}/fs"]
    file_system += ["-o", "source=/", "-o", "cache=always", "-o", "sandbox=chroot"]
    started: list[subprocess.Popen[bytes]] = []
    try:
        with (work / "virtiofsd").open("wb") as log:
            started.append(subprocess.Popen(file_system, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        while not (work / "fs").exists():
            if started[0].poll() is not None:
                raise LabError(f"virtiofsd ended: {last_lines((work / 'virtiofsd').read_text(errors='replace'))}")
            time.sleep(0.05)
        with (work / "console").open("wb") as console:
            kernel = subprocess.Popen(
                [*_ENDING, *_qemu(work, directory, variant, memory)],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
            )
        started.append(kernel)
        with subprocess.Popen(["tail", "-n", "+1", "-f", f"--pid={kernel.pid}", str(output)]):
            kernel.wait()  # while it is not waited for, its process number stays, and tail runs
    finally:
        for process in reversed(started):
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()
    if not status.exists():
        end = last_lines((work / "console").read_text(errors="replace"), 30)
        print(f"stock-pytest: the kernel ended without a result; its last words:\n{end}", file=sys.stderr)
        return 3
    return int(status.read_text())


def _qemu(work: Path, directory: Path, variant: str, memory: str) -> list[str]:
    """Return the command of QEMU. Variables of the command line are in the environment of the first process."""
    variables = {
        "KUBENODE_INIT": str(ROOT / "molecule/lab/pytest-init"),
        "KUBENODE_WORK": str(work),
        "KUBENODE_IPTABLES": variant,
    }
    words = [*_COMMAND_LINE, *(f'"{name}={value}"' for name, value in variables.items())]
    command_line = f'{" ".join(words)} -- -c "{_BEGIN}"'
    return [
        _QEMU.program,
        *("-machine", f"{_QEMU.machine},memory-backend=ram"),
        *(word for name in _QEMU.accelerators() for word in ("-accel", name)),
        *("-cpu", _QEMU.processor(), "-m", memory),
        *("-object", f"memory-backend-memfd,id=ram,size={memory},share=on"),  # virtiofsd maps it, too
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio"),
        *("-kernel", str(directory / KERNEL), "-initrd", str(directory / INITRD), "-append", command_line),
        *("-drive", f"file={_value(directory / DISK)},format=raw,if=virtio,readonly=on"),
        *("-chardev", f"socket,id=machine,path={_value(work / 'fs')}"),
        *("-device", "vhost-user-fs-pci,chardev=machine,tag=machine,queue-size=1024"),
        *("-device", "virtio-rng-pci"),
    ]


def _value(path: Path) -> str:
    """Return a path as the value of QEMU's options, where a comma ends a value and two do not."""
    return str(path).replace(",", ",,")
