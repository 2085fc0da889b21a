# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node with releases of the agent, as agent_install manages them."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

from kernel.modules import run
from support.agent.bundles import bundle

GOOD = "import sys\n"
UNFIT = "import sys\nprint('ok    here')\nprint('FAIL  no such thing: ' + sys.argv[-1])\nsys.exit(1)\n"


class Node:
    """A directory for releases, with one configuration and one unit."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "opt"
        self.config = directory / "etc/config.yaml"
        self.unit = directory / "units/agent.service"
        self.bundles = directory

    def install(
        self, digest: str, config: str, unit: str = "unit", program: str = GOOD, cut: int | None = None, **options: Any
    ) -> dict[str, Any]:
        """Install a release whose command is ``program``, from the first ``cut`` bytes of its bundle."""
        return self.install_bundle(digest, bundle(program)[:cut], config, unit, **options)

    def install_bundle(
        self, digest: str, data: bytes, config: str, unit: str = "unit", **options: Any
    ) -> dict[str, Any]:
        """Install the bundle unchanged."""
        path = self.bundles / f"{digest}.tar.gz"
        path.write_bytes(data)
        files = {str(self.config): config, str(self.unit): unit}
        options = {"sha256": hashlib.sha256(data).hexdigest(), **options}
        return self.run(state="present", digest=digest, bundle=str(path), files=files, **options)

    def run(self, **arguments: Any) -> dict[str, Any]:
        places = {"directory": str(self.directory), "command": str(self.directory.parent / "bin/kubenode")}
        return run("agent_install", **places, python=sys.executable, config=str(self.config), **arguments)

    def state(self) -> tuple[str, str, str]:
        """Return the current release and the content of both files."""
        return (
            os.readlink(self.directory / "current").rpartition("/")[2],
            self.config.read_text(),
            self.unit.read_text(),
        )

    def releases(self) -> set[str]:
        return set(os.listdir(self.directory / "releases"))
