# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages with kernel modules, by distribution and kernel: the remedies for missing modules, as a table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .machine import Machine

    Version = tuple[int, ...]


class Remedy(NamedTuple):
    """Remedy for modules that the running kernel's directory does not have.

    ``packages`` can be installed beside the running kernel, which then has the modules. Without them, the operator has
    to run a command. ``install`` brings modules that no installed package has; ``reinstall`` restores deleted files.
    """

    packages: tuple[str, ...] = ()
    install: str = ""
    reinstall: str = ""


class Row(NamedTuple):
    """Row of the table: a kernel of a distribution, and its remedy.

    ``distribution`` is ID or a name in ID_LIKE of os-release, or a family. ``kernel`` matches the kernel's release.
    ``since`` is the first version of the distribution itself; derivatives have other numbers. ``kernel_since`` is the
    first version of the kernel. The remedy may contain ``{release}``, ``{rpm}`` (the version of RPM packages),
    ``{kernel}`` (the name of RPM packages) and ``{flavour}`` (the last word of the release).
    """

    title: str
    distribution: str
    kernel: str
    remedy: Remedy
    since: Version = ()
    kernel_since: Version = ()

    def matches(self, machine: Machine) -> bool:
        """Tell whether this row is about the machine's distribution and kernel."""
        if self.distribution not in (machine.family, *machine.like) or not re.search(self.kernel, machine.release):
            return False
        if self.since and (machine.id != self.distribution or _numbers(machine.version) < self.since):
            return False
        return _numbers(machine.release) >= self.kernel_since


_DEBIAN = r"-(0\.deb\d+\.)?\d+-[a-z0-9-]+$|\+(deb|bpo)\d+"
_UBUNTU = r"^\d+\.\d+\.\d+-\d+-[a-z]"
_UBUNTU_WHOLE = Remedy(reinstall="apt-get install --reinstall linux-modules-{release}")
_RPM = r"\.(el|fc)\d+"
_RPM_REINSTALL = "dnf reinstall '{kernel}-*{rpm}'"
_REBOOT = " && systemctl reboot"

# The first row that matches counts.
ROWS = (
    Row(
        "Ubuntu, kernel -kvm",
        "ubuntu",
        r"-kvm$",
        Remedy(install="apt-get install linux-image-virtual" + _REBOOT),
    ),
    # From 25.10 on, and in every kernel from 7.0 on, linux-modules has all modules.
    Row("Ubuntu 25.10 and later", "ubuntu", _UBUNTU, _UBUNTU_WHOLE, since=(25, 10)),
    Row("Ubuntu, kernel 7.0 and later", "ubuntu", _UBUNTU, _UBUNTU_WHOLE, kernel_since=(7, 0)),
    Row(
        "Ubuntu",
        "ubuntu",
        _UBUNTU,
        Remedy(
            ("linux-modules-extra-{release}",),
            "apt-get install linux-modules-extra-{release}",
            "apt-get install --reinstall linux-modules-{release}",
        ),
    ),
    Row(
        "Debian, cloud kernel",
        "debian",
        r"-cloud-[a-z0-9]+$",
        Remedy(
            install="apt-get install linux-image-{flavour}" + _REBOOT,
            reinstall="apt-get install --reinstall linux-image-{release}",
        ),
    ),
    Row("Debian", "debian", _DEBIAN, Remedy(reinstall="apt-get install --reinstall linux-image-{release}")),
    Row(
        "Oracle Linux, UEK 8",
        "redhat",
        r"uek",
        Remedy(
            (
                "kernel-uek-modules-{release}",
                "kernel-uek-modules-extra-{release}",
                "kernel-uek-modules-extra-netfilter-{release}",
            ),
            "dnf install kernel-uek-modules-{release} kernel-uek-modules-extra-{release}"
            " kernel-uek-modules-extra-netfilter-{release}",
            "dnf reinstall 'kernel-uek-*{release}'",
        ),
        kernel_since=(6, 12),
    ),
    Row(
        "Oracle Linux, UEK 7",
        "redhat",
        r"uek",
        Remedy(
            ("kernel-uek-modules-{release}", "kernel-uek-modules-extra-{release}"),
            "dnf install kernel-uek-modules-{release} kernel-uek-modules-extra-{release}",
            "dnf reinstall 'kernel-uek-*{release}'",
        ),
        kernel_since=(5, 15),
    ),
    Row(
        "Oracle Linux, UEK 6 and older",
        "redhat",
        r"uek",
        Remedy(reinstall="dnf reinstall kernel-uek-{release}"),
    ),
    # The packages of newer kernels have names of their own, such as kernel6.12-modules-extra.
    Row(
        "Amazon Linux 2023",
        "amzn",
        r"\.amzn2023\.",
        Remedy(
            install="dnf install $(rpm --query --file --queryformat '%{{NAME}}' /boot/vmlinuz-{release})"
            "-modules-extra-{release}",
            reinstall="dnf reinstall $(rpm --query --file /boot/vmlinuz-{release})",
        ),
    ),
    Row(
        "Amazon Linux 2",
        "amzn",
        r"\.amzn2\.",
        Remedy(reinstall="yum reinstall kernel-{release}"),
    ),
    # kernel-modules requires kernel-modules-core where that exists.
    Row(
        "RHEL, its rebuilds and Fedora",
        "redhat",
        _RPM,
        Remedy(
            ("{kernel}-modules-{rpm}", "{kernel}-modules-extra-{rpm}"),
            "dnf install {kernel}-modules-{rpm} {kernel}-modules-extra-{rpm}",
            _RPM_REINSTALL,
        ),
    ),
    # kernel-default conflicts with kernel-default-base: the operator decides.
    Row(
        "SUSE, kernel-default-base",
        "suse",
        r"-default$",
        Remedy(
            install="zypper install kernel-default -kernel-default-base",
            reinstall="zypper install --force kernel-default",
        ),
    ),
    Row("SUSE", "suse", r"-[a-z0-9]+$", Remedy(reinstall="zypper install --force kernel-{flavour}")),
    Row("Arch", "arch", r"-(lts|zen|hardened|rt)$", Remedy(reinstall="pacman -Syu linux-{flavour}" + _REBOOT)),
    Row("Arch", "arch", r"-arch\d", Remedy(reinstall="pacman -Syu linux" + _REBOOT)),
)


def remedy(machine: Machine) -> Remedy:
    """Return the remedy for modules that this machine's kernel lacks; empty if none is known."""
    for row in ROWS:
        if row.matches(machine):
            words = _words(machine.release)
            template = row.remedy
            packages = tuple(package.format(**words) for package in template.packages)
            return Remedy(packages, template.install.format(**words), template.reinstall.format(**words))
    return Remedy()


def _words(release: str) -> dict[str, str]:
    """Return the words that remedies contain; RHEL's kernels append their variant (``…el9.aarch64+64k``)."""
    rpm, _plus, variant = release.partition("+")
    if not variant and re.search(r"\.rt\d", release):
        variant = "rt"
    kernel = f"kernel-{variant}" if variant else "kernel"
    return {"release": release, "rpm": rpm, "kernel": kernel, "flavour": release.rpartition("-")[2]}


def _numbers(text: str) -> Version:
    """Return the first two numbers of a version."""
    return tuple(int(number) for number in re.findall(r"\d+", text)[:2])
