# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies of this repository as in a clone, with the bundle's wheels beside them, for tests of bundle and artifact."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def copy_source(target: Path, *, backwards: bool = False) -> Path:
    """Copy every tracked file, and every untracked one that git does not ignore; return ``target``.

    ``backwards`` creates the files in the opposite order.
    """
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    names = sorted({name for name in listed if name and (ROOT / name).exists() and name != ".venv"}, reverse=backwards)
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target / name, follow_symlinks=False)
        if not (ROOT / name).is_symlink():
            (target / name).chmod(0o755 if os.access(ROOT / name, os.X_OK) else 0o644)
    if (ROOT / ".cache/bundle").is_dir():
        shutil.copytree(ROOT / ".cache/bundle", target / ".cache/bundle")
    return target


def build(source: Path, umask: int = 0o022, **environment: str) -> tuple[bytes, bytes]:
    """Build bundle and artifact in a copy; return both."""
    variables = {
        **os.environ,
        "ANSIBLE_CONFIG": str(source / "ansible.cfg"),
        "ANSIBLE_HOME": str(source / ".cache/ansible"),
        **environment,
    }
    for words in (["agent/bundle.py"], ["tests/tools/artifact.py", ".cache/dist"]):
        done = subprocess.run(
            [sys.executable, *words],
            cwd=source,
            env=variables,
            umask=umask,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    (artifact,) = (source / ".cache/dist").glob("*.tar.gz")
    return (source / "roles/agent/files/kubenode-agent.tar.gz").read_bytes(), artifact.read_bytes()
