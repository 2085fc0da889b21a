# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand in for the get-pip.py that ansible-test downloads to put pip into its virtual environments.

ansible-test fetches that script from a host of its own. Many build machines reach a package index, but not that host.
Python's own `ensurepip` and an ordinary `pip install` of the requested packages give the same result. That takes seven
seconds of the processor, for each of about 15 environments; so the first environment of each Python keeps its result
for the others.
tests/tools/sanity copies this file to the path where ansible-test expects a cached download.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

# Options of get-pip.py that pip does not know: install no setuptools, no wheel. This script installs neither anyway.
GET_PIP_ONLY = ("--no-setuptools", "--no-wheel")
CACHE = Path.home() / ".ansible/test/cache"  # of ansible-test


def main() -> int:
    """Install pip and the packages named on the command line into the running interpreter's environment."""
    arguments = [argument for argument in sys.argv[1:] if argument not in GET_PIP_ONLY]
    packages = [argument for argument in arguments if not argument.startswith("-")]
    installed = Path(sysconfig.get_path("purelib"))
    kept = CACHE / "-".join([*packages, sys.implementation.cache_tag or ""])
    if kept.is_dir():
        shutil.copytree(kept, installed, dirs_exist_ok=True)
        return 0
    # Each in its own process: ensurepip removes pip's settings from the environment of its process.
    for command in (["ensurepip"], ["pip", "install", *arguments]):
        status = subprocess.run([sys.executable, "-m", *command], check=False).returncode
        if status != 0:
            return status
    part = kept.with_name(f"{kept.name}.{os.getpid()}")
    shutil.copytree(installed, part)
    part.rename(kept)
    return 0


if __name__ == "__main__":
    sys.exit(main())
