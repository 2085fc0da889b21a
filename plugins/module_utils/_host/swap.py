# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Sources of swap: ``/proc/swaps``, ``fstab``, systemd's swap units and services that create swap.

The functions only read.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ACTIVE = "/proc/swaps"
MARK = "# kubenode: "
# In the order in which systemd looks for a unit (systemd.unit(5)).
UNIT_DIRECTORIES = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/run/systemd/generator.late",
)
# Services that turn swap on by themselves: zram-tools, zram-config, zram-init, zramd, dphys-swapfile, swapspace.
SERVICES = (
    "zramswap.service",
    "zram-config.service",
    "zram-swap.service",
    "zramd.service",
    "dphys-swapfile.service",
    "swapspace.service",
)
# A drop-in whose condition never holds keeps a unit from starting. A mask is no choice: it fails for a unit that an
# administrator wrote into /etc/systemd/system, and it does not show its owner.
DROP_IN = "90-kubenode.conf"
DROP_IN_TEXT = """\
# Written by kubenode.ipvs.swap: no swap on this node. The same module with state=restored removes this file.
[Unit]
ConditionPathExists=!/
"""


def active(swaps: str = ACTIVE) -> list[str]:
    """Return the swap areas in use, as the kernel writes their paths."""
    return [area for area, _kind in _areas(swaps)]


def _areas(swaps: str) -> list[tuple[str, str]]:
    fields = [line.split() for line in _text(swaps).splitlines()[1:] if line.strip()]
    return [(words[0], words[1]) for words in fields]


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def is_swap(line: str) -> bool:
    """Tell whether a line of fstab turns swap on: decided by its third field, not by a word somewhere in it."""
    fields = line.split()
    return len(fields) >= 3 and not fields[0].startswith("#") and fields[2] == "swap"


def in_fstab(path: str) -> list[str]:
    """Return the swap areas of fstab that are used at boot."""
    return [line.split()[0] for line in _text(path).splitlines() if is_swap(line)]


def without_swap(text: str) -> str:
    """Return fstab's text with the lines that turn swap on commented out; all others stay byte for byte."""
    return "".join(MARK + line if is_swap(line) else line for line in text.splitlines(keepends=True))


def with_swap(text: str) -> str:
    """Return the text from before :func:`without_swap` changed it."""
    lines = text.splitlines(keepends=True)
    return "".join(
        line[len(MARK) :] if line.startswith(MARK) and is_swap(line[len(MARK) :]) else line for line in lines
    )


def units(directories: Sequence[str] = UNIT_DIRECTORIES) -> list[str]:
    """Return the units that turn swap on at boot, except for fstab's, by name: swap units and :data:`SERVICES`.

    Swap units come from administrators, zram-generator and systemd-gpt-auto-generator. Units that no other unit wants,
    masked units (a link to ``/dev/null``) and units with the drop-in are left out.
    """
    paths: dict[str, str] = {}
    for directory in directories:
        for name in _names(directory):
            if name.endswith(".swap") or name in SERVICES:
                paths.setdefault(name, os.path.join(directory, name))
    kept = set(blocked(directories[0]))
    enabled = _enabled(directories)
    return [
        name
        for name, path in paths.items()
        if name in enabled
        and name not in kept
        and os.path.realpath(path) != "/dev/null"
        and "/fstab" not in _text(path)
    ]


def _enabled(directories: Sequence[str]) -> set[str]:
    """Return the names that another unit wants or requires."""
    return {
        name
        for directory in directories
        for wants in _names(directory)
        if wants.endswith((".wants", ".requires"))
        for name in _names(os.path.join(directory, wants))
    }


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def device_units(swaps: str = ACTIVE) -> list[str]:
    """Return the units of the swap partitions in use.

    systemd-gpt-auto-generator makes these units at a boot at which fstab no longer names the partitions.
    """
    return [unit_name(area) for area, kind in _areas(swaps) if kind == "partition"]


def path(area: str) -> str:
    r"""Return the path of an area as ``/proc/swaps`` writes it (``\040`` for a space)."""
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), area)


def unit_name(area: str) -> str:
    """Return the name of an area's swap unit, escaped as in systemd.unit(5)."""
    escaped = re.sub(r"[^A-Za-z0-9:_./]|^\.", lambda match: _escape(match[0]), path(area).strip("/"))
    return f"{escaped.replace('/', '-')}.swap"


def _escape(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def drop_in(unit: str, directory: str = UNIT_DIRECTORIES[0]) -> str:
    """Return the path of a unit's drop-in."""
    return os.path.join(directory, f"{unit}.d", DROP_IN)


def blocked(directory: str = UNIT_DIRECTORIES[0]) -> list[str]:
    """Return the units that the drop-in keeps from starting."""
    return [
        name[: -len(".d")]
        for name in _names(directory)
        if name.endswith(".d") and os.path.exists(drop_in(name[:-2], directory))
    ]
