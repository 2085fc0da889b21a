# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Where swap comes from: ``/proc/swaps``, ``fstab`` and systemd's unit files. Nothing here writes."""

from __future__ import annotations

import os

MARK = "# kubenode: "
UNIT_DIRECTORIES = ("/etc/systemd/system", "/run/systemd/generator", "/usr/lib/systemd/system", "/lib/systemd/system")


def active(path="/proc/swaps"):
    """Return the swap areas in use, as the kernel writes their paths."""
    return [line.split()[0] for line in _text(path).splitlines()[1:] if line.strip()]


def _text(path):
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def is_swap(line):
    """Tell whether a line of fstab turns swap on: decided by its third field, not by a word somewhere in it."""
    fields = line.split()
    return len(fields) >= 3 and not fields[0].startswith("#") and fields[2] == "swap"


def in_fstab(path):
    """Return the swap areas of fstab that are used at boot."""
    return [line.split()[0] for line in _text(path).splitlines() if is_swap(line)]


def without_swap(text):
    """Return fstab's text with the lines that turn swap on commented out; all others stay byte for byte."""
    return "".join(MARK + line if is_swap(line) else line for line in text.splitlines(keepends=True))


def with_swap(text):
    """Return the text that :func:`without_swap` changed as it was."""
    lines = text.splitlines(keepends=True)
    return "".join(line[len(MARK) :] if line.startswith(MARK) and is_swap(line[len(MARK) :]) else line for line in lines)


def units(directories=UNIT_DIRECTORIES):
    """Return the swap units that systemd would start and that do not come from fstab (zram generators make some), by name.

    A unit that is masked, a link to ``/dev/null``, is none.
    """
    found = {}
    for directory in directories:
        try:
            names = sorted(os.listdir(directory))
        except OSError:
            continue
        for name in names:
            if name.endswith(".swap") and name not in found:
                found[name] = os.path.join(directory, name)
    return [name for name, path in found.items() if os.path.realpath(path) != "/dev/null" and "/fstab" not in _text(path)]


def masked(directory=UNIT_DIRECTORIES[0]):
    """Return the swap units that are masked."""
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return []
    return [name for name in names if name.endswith(".swap") and os.path.realpath(os.path.join(directory, name)) == "/dev/null"]
