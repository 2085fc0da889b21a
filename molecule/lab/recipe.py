# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes of node images, one per release, as data. The digest of a recipe names its image.

A node is a small Debian as a cloud provider would hand it out: reachable by ssh, Python installed. Of ours, it has only
what makes it start and run tasks quicker.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .errors import UsageError

if TYPE_CHECKING:
    from .kernel_kind import KernelKind

BYTECODE = "bytecode/sitecustomize.py"
BUILT_BY = ("recipe.py", "build.py", "repository.py", BYTECODE)

RELEASES = ("bookworm", "bullseye", "trixie", "sid")  # sid has the newest kernel
DISK_SIZE = "3G"  # sparse; what a node writes goes to its own copy-on-write file

# In the image: what a machine has before Ansible first sees it.
PACKAGES = (
    "systemd",
    "systemd-sysv",
    "dbus",
    "udev",
    "python3",
    "python3-apt",
    "openssh-server",
    "iproute2",
    "iputils-ping",
    "iptables",
    "kmod",
    "procps",
    "netbase",
    "nftables",
)

# Served to the nodes by the lab's own package repository, with what they depend on.
SERVED = ("ipset", "ipvsadm", "iptables", "conntrack", "kmod", "procps", "iproute2")

ENABLED = ("systemd-networkd.service", "ssh.service")

# Start time on a node counts ten times: nothing runs that no test needs.
MASKED = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "console-getty.service",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty.target",
    "kmod-static-nodes.service",
    "ldconfig.service",
    "logrotate.timer",
    "modprobe@configfs.service",
    "modprobe@dm_mod.service",
    "modprobe@drm.service",
    "modprobe@efi_pstore.service",
    "modprobe@fuse.service",
    "modprobe@loop.service",
    "proc-sys-fs-binfmt_misc.automount",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "systemd-ask-password-console.path",
    "systemd-ask-password-wall.path",
    "systemd-binfmt.service",
    "systemd-firstboot.service",
    "systemd-hwdb-update.service",
    "systemd-initctl.socket",
    "systemd-journal-catalog-update.service",
    "systemd-journal-flush.service",
    "systemd-journald-audit.socket",
    "systemd-network-generator.service",
    "systemd-networkd-wait-online.service",
    "systemd-pcrphase-sysinit.service",
    "systemd-pcrphase.service",
    "systemd-pstore.service",
    "systemd-random-seed.service",
    "systemd-remount-fs.service",
    "systemd-sysusers.service",
    "systemd-timesyncd.service",
    "systemd-udev-settle.service",
    "systemd-update-done.service",
    "systemd-update-utmp-runlevel.service",
    "systemd-update-utmp.service",
    "systemd-user-sessions.service",
)

# Started when something asks for it (a reboot does), not at boot.
UNWANTED = ("systemd-logind.service",)

# Generators run before any unit; only these make units out of something that a node has.
KEPT_GENERATORS = ("systemd-fstab-generator", "systemd-sysv-generator")

# The first program of a node: unpacks the lab's settings for this node (an archive on the second disk) once, then
# becomes systemd, which so finds host name, addresses, keys and machine id as if they had always been there.
_INIT = """\
#!/bin/sh
if [ ! -e /etc/lab-node ]; then
    [ -b /dev/ubdb ] || [ -b /dev/vdb ] || mount -t devtmpfs dev /dev
    [ -b /dev/vdb ] && disk=/dev/vdb || disk=/dev/ubdb
    tar -xf $disk -C / || echo 'lab: no settings for this node on the second disk' > /dev/console
    sync  # a power cut that follows at once must not take the host key with it
fi
exec /lib/systemd/systemd "$@"
"""

_SSHD = """\
# Key only, no name lookups and no PAM session: a login is quick.
HostKey /etc/ssh/ssh_host_ed25519_key
PasswordAuthentication no
PermitRootLogin prohibit-password
UseDNS no
UsePAM no
PrintMotd no
MaxStartups 100
MaxSessions 100
AcceptEnv LANG LC_*
Subsystem sftp /usr/lib/openssh/sftp-server
"""

# path: (mode, text)
FILES = {
    "/sbin/lab-init": (0o755, _INIT),
    "/etc/ssh/sshd_config": (0o644, _SSHD),
    "/etc/fstab": (0o644, ""),
    # Of 600 devices, most of them terminals, the network waits for its own only.
    "/etc/systemd/system/systemd-udev-trigger.service.d/lab.conf": (
        0o644,
        "[Service]\nExecStart=\nExecStart=udevadm trigger --type=devices --action=add"
        " --subsystem-match=net --subsystem-match=block\n",
    ),
    "/etc/systemd/system/ssh.service.d/lab.conf": (0o644, "[Service]\nExecStartPre=\n"),
    "/etc/default/locale": (0o644, "LANG=C.UTF-8\n"),
    "/etc/systemd/journald.conf.d/lab.conf": (0o644, "[Journal]\nStorage=volatile\nRuntimeMaxUse=16M\n"),
    "/etc/systemd/system.conf.d/lab.conf": (0o644, "[Manager]\nDefaultTimeoutStopSec=10s\n"),
    "/etc/dpkg/dpkg.cfg.d/lab": (
        0o644,
        "force-unsafe-io\npath-exclude=/usr/share/man/*\npath-exclude=/usr/share/doc/*\n",
    ),
    "/etc/apt/apt.conf.d/lab": (0o644, 'Acquire::Languages "none";\nAPT::Install-Recommends "false";\n'),
    "/etc/resolv.conf": (0o644, ""),
    # By a name of its own: Debian's Python has a sitecustomize.
    "/usr/lib/python3/dist-packages/lab_bytecode.py": (0o644, Path(__file__).parent.joinpath(BYTECODE).read_text()),
    "/usr/lib/python3/dist-packages/lab_bytecode.pth": (0o644, "import lab_bytecode\n"),
}

# In the finished tree, and made anew for each node or not at all.
REMOVED = (
    "/etc/hostname",
    "/etc/machine-id",
    "/var/lib/dbus/machine-id",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_rsa_key.pub",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ecdsa_key.pub",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_ed25519_key.pub",
)


class Recipe(NamedTuple):
    """Inputs that decide the content of an image, besides the build files."""

    release: str  # Debian's code name
    kernel: KernelKind
    version: str  # of the kernel, or its package; empty if the release's archive decides it

    @property
    def digest(self) -> str:
        """Names the image, 12 hexadecimal digits: equal as long as release, kernel and all that builds it are."""
        directory = Path(__file__).parent
        texts = [(directory / name).read_text() for name in BUILT_BY]
        parts = [self.release, self.kernel.name, self.version, self.kernel.source, *texts]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]

    @property
    def name(self) -> str:
        """Directory name of the image, such as ``bookworm-uml-0123456789ab``."""
        return f"{self.release}-{self.kernel.name}-{self.digest}"


def recipe(release: str, kernel: KernelKind) -> Recipe:
    """Return the recipe of a release with a kind of kernel.

    Raises:
        HostError: this machine must have the kernel, and has it not.
        UsageError: there is no such release.
    """
    if release not in RELEASES:
        raise UsageError(f"release {release!r}: expected one of {', '.join(RELEASES)}")
    return Recipe(release, kernel, kernel.version())
