# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's command as one file, as on a node: the source of this clone with its dependencies."""

from __future__ import annotations

from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]


def program() -> str:
    """Return the text of ``bin/kubenode`` for this clone; a node runs it with ``python -IS``."""
    paths = [str(ROOT / "agent/src"), str(Path(yaml.__file__).parents[1])]
    return f"import sys\nsys.path[1:1] = {paths!r}\nfrom kubenode.cli import main\nsys.exit(main())\n"
