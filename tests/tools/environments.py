# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual environments for tools that need other versions than the clone's own; they cannot reach the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path


class CheckError(Exception):
    """A command failed; the message is what it printed."""


def run(*command: str | Path, within: Path, **variables: str) -> str:
    """Run a command of an environment outside of the checkout, with the installed collection only.

    Raises:
        CheckError: the command failed.
    """
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "PYTHON"))}
    environ.update(variables, ANSIBLE_HOME=str(within / "home"), ANSIBLE_COLLECTIONS_PATH=str(within / "collections"))
    environ["PATH"] = f"{within / 'bin'}:{environ['PATH']}"
    done = subprocess.run(
        [*command], cwd=within, env=environ, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise CheckError(f"{' '.join(map(str, command[:3]))} … exited with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


def environment(directory: Path, python: str, requirements: Path) -> Path:
    """Return the directory of an environment with these requirements; make it if it is missing or has others."""
    done, wanted = directory / "done", requirements.read_text()
    if not done.exists() or done.read_text() != wanted:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        # With the pip of that Python: a pip that is older than a Python may not run in it.
        run(python, "-m", "venv", directory, within=directory)
        pip = (directory / "bin/python", "-m", "pip", "install")
        options = ("--quiet", "--disable-pip-version-check", "--require-hashes", "--requirement", requirements)
        run(*pip, *options, within=directory)
        done.write_text(wanted)
    return directory
