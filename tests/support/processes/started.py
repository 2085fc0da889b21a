# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record the started tools: a wrapper of each tool logs the call and executes the tool."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

TOOLS = ("ipset", *(f"{program}{verb}" for program in ("iptables", "ip6tables") for verb in ("", "-save", "-restore")))


class Started:
    """Records calls of tools during a ``with`` block; ``words()`` are their names and first arguments, sorted."""

    def __init__(self, directory: Path) -> None:
        self._log = directory / "started"
        self._wrappers = directory / "wrappers"
        self._wrappers.mkdir()
        for tool in TOOLS:
            path = self._wrappers / tool
            path.write_text(f'#!/bin/sh\necho "{tool}" "$1" >>{self._log}\nexec {shutil.which(tool)} "$@"\n')
            path.chmod(0o755)

    def __enter__(self) -> Started:
        self._log.write_text("")
        self._path = os.environ["PATH"]
        os.environ["PATH"] = f"{self._wrappers}:{self._path}"
        return self

    def __exit__(self, *_: object) -> None:
        os.environ["PATH"] = self._path

    def words(self) -> list[str]:
        """Return the recorded calls, sorted."""
        return sorted(line.strip() for line in self._log.read_text().splitlines())
