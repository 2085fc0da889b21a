# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Changes that wait for their confirmation: a file for each, which ``_confirm.py`` explains."""

from __future__ import annotations

import contextlib
import json
import os

PENDING = "/run/kubenode/confirm"
_SHOWN = 50  # lines; /run is memory, and a set can have a hundred thousand members


def pending():
    """Return what is known of each: the ``path`` of its file, its ``owner``, and the first ``lines`` of its plan."""
    try:
        names = os.listdir(PENDING)
    except OSError:
        return []
    found = []
    for name in sorted(name for name in names if not name.endswith((".undone", ".new"))):
        path = os.path.join(PENDING, name)
        with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
            found.append({"path": path, **json.load(file)})
    return found


def write(path, content):
    """Have a file with this content appear at once."""
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(content, file)
    os.rename(f"{path}.new", path)


def few(things, text=str):
    """Return the texts of the first :data:`_SHOWN` of many things, and how many there are beside them."""
    more = len(things) - _SHOWN
    return [text(thing) for thing in things[:_SHOWN]] + ([f"and {more} more"] if more > 0 else [])
