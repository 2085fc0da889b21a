# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Asking the kernel what it makes of something, where nobody sees it.

How the kernel and its tools spell a rule or a set's member can only be known by giving it to them. A network namespace of its own has
its own rules and sets and is gone with the process that made it, so this changes nothing on the node: check mode may do it.
"""

from __future__ import annotations

import json
import os

from .engine.errors import EngineError

_CLONE_NEWNET = 0x40000000


class ScratchError(EngineError):
    """The function that ran in the scratch namespace raised an error; the text is its text."""


def in_scratch(function):
    """Run ``function`` in a child process with a network namespace of its own and return its result, which must be plain data.

    Returns None where no such namespace can be had (no CAP_SYS_ADMIN, as in some containers).

    Raises:
        ScratchError: ``function`` raised an EngineError.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            with os.fdopen(writing, "w", encoding="utf-8", errors="surrogateescape") as pipe:
                json.dump(_answer(function), pipe)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8", errors="surrogateescape") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    kind, value = json.loads(text) if text else ("unavailable", None)
    if kind == "error":
        raise ScratchError(value)
    return value if kind == "result" else None


def _answer(function):
    import ctypes

    try:
        if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET) != 0:
            return ("unavailable", None)
    except (OSError, AttributeError):
        return ("unavailable", None)
    try:
        return ("result", function())
    except EngineError as error:
        return ("error", str(error))
