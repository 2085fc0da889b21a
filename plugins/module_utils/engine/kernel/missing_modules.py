# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Missing kernel modules: cause and remedy of each, one sentence for the modules with the same cause. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from .machine import Machine
from .module_needs import needed_for
from .module_packages import Remedy, remedy

REBOOT, FILE, PACKAGE = "reboot", "file", "package"


class MissingModule(NamedTuple):
    """Entry without a module on the node: one name, or alternatives joined by ``|``.

    ``cause`` is ``reboot`` (the modules of the running kernel are gone and another kernel is installed), ``file`` (the
    file ``path`` of the module is gone) or ``package`` (no installed package has the module). ``command`` is the
    remedy, "" if none is known.
    """

    entry: str
    needed_for: str
    cause: str
    path: str
    packages: tuple[str, ...]
    command: str


def diagnose(entries: Iterable[str], machine: Machine, lost: Mapping[str, str]) -> list[MissingModule]:
    """Return cause and remedy of missing entries; ``lost`` has the missing file of modules that modules.dep lists."""
    known = remedy(machine)
    missing = []
    for entry in entries:
        names = entry.split("|")
        path = next((lost[name] for name in names if name in lost), "")
        feature = next(filter(None, map(needed_for, names)), "")
        cause = REBOOT if machine.awaits_reboot else FILE if path else PACKAGE
        packages = known.packages if cause == PACKAGE and not machine.image else ()
        missing.append(MissingModule(entry, feature, cause, path, packages, _command(cause, machine, known)))
    return missing


def sentences(missing: Iterable[MissingModule], machine: Machine) -> list[str]:
    """Return one sentence for the modules with the same cause, and the command that brings them."""
    by_cause: dict[str, list[MissingModule]] = {}
    for each in missing:
        by_cause.setdefault(each.cause, []).append(each)
    return [
        f"kernel {machine.release} has no module {', '.join(map(_name, rows))}: {_why(cause, rows, machine)}."
        f" {_advice(cause, rows[0].command, machine)}"
        for cause, rows in by_cause.items()
    ]


def _name(missing: MissingModule) -> str:
    name = missing.entry.replace("|", " or ")
    return f"{name} (for {missing.needed_for})" if missing.needed_for else name


def _why(cause: str, rows: list[MissingModule], machine: Machine) -> str:
    directory = f"/lib/modules/{machine.release}"
    if cause == REBOOT:
        return f"{directory} is gone, and the installed kernel is {', '.join(machine.installed)}"
    if cause == FILE:
        paths = dict.fromkeys(row.path for row in rows)
        return f"{directory}/modules.dep lists it, and the file {', '.join(paths)} is gone"
    return f"neither loaded, nor built in, nor under {directory}"


def _command(cause: str, machine: Machine, known: Remedy) -> str:
    if cause == REBOOT:
        return "systemctl reboot"
    command = known.reinstall if cause == FILE else known.install or known.reinstall
    if machine.image == "rpm-ostree" and known.packages:
        return f"rpm-ostree install {' '.join(known.packages)} && systemctl reboot"
    if machine.image == "transactional-update" and command:
        return command.replace("zypper ", "transactional-update pkg ", 1) + " && systemctl reboot"
    return command


def _advice(cause: str, command: str, machine: Machine) -> str:
    where = " on the container's host" if machine.container else ""
    if cause == REBOOT:
        return f"Boot the installed kernel: run `{command}`"
    if not command:
        return (
            f"No package of {machine.id} is known to bring kernel modules to this kernel. Boot a kernel of the"
            " distribution that has them"
        )
    again = remedy(machine).reinstall
    is_other = again not in ("", command) and not machine.image
    more = f". If the packages are installed already, files of them are gone: run `{again}`" if is_other else ""
    return f"Run `{command}`{where}{more}"
