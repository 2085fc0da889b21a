# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of the engine for a user without rights."""

from __future__ import annotations

import os
from collections.abc import Callable

from kubenode.engine.errors import EngineError

_NOBODY = 65534


def said_to_nobody(*asked: Callable[[], object]) -> list[str]:
    """Call each function in a child as the user nobody; return the text of its error or of its result."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setresuid(_NOBODY, _NOBODY, _NOBODY)
            for function in asked:
                try:
                    said = function()
                except EngineError as error:
                    said = error
                os.write(writer, f"{said}\n".encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as pipe:
        lines = pipe.read().splitlines()
    os.waitpid(child, 0)
    return lines
