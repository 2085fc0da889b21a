# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a function in a scratch network namespace, to test how the kernel treats its input.

Only a trial shows the spelling of a rule or of a set's member, and whether a virtual server can be created. The
namespace has its own tables, and ends with the process that created it. So a trial changes nothing on the node, and
check mode may run it.
"""

from __future__ import annotations

import json
import os
from typing import Any, Callable

from ..errors import EngineError, KernelError

_CLONE_NEWNET = 0x40000000


class ScratchError(EngineError):
    """The function that ran in the scratch namespace raised an error; the text is its text."""


def in_scratch(function: Callable[[], Any]) -> Any:
    """Run ``function`` in a child process with its own network namespace and return its result.

    The result must be plain data.

    Returns None if no such namespace can be created (no CAP_SYS_ADMIN, as in some containers).

    Raises:
        ScratchError: ``function`` raised an EngineError.
        KernelError: the process cannot be started, or it ended without an answer.
    """
    ends: list[int] = []
    try:
        ends += os.pipe()
        child = os.fork()
    except OSError as error:  # no descriptors, no memory, no processes left
        for end in ends:
            os.close(end)
        raise KernelError(
            f"no process could be started that tries it out: {error.strerror}; nothing was changed"
        ) from error
    reading, writing = ends
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
    try:
        kind, value = json.loads(text)
    except ValueError:
        raise KernelError("the process that tried it out ended without an answer; nothing was changed") from None
    if kind == "error":
        raise ScratchError(value)
    return value if kind == "result" else None


def _answer(function: Callable[[], Any]) -> tuple[str, Any]:
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
