# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real kubectl, which brings a real kustomize: Debian 13's package, unpacked below .cache.

It needs nothing but a C library of Debian 12 or later.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml
from lab import mirror
from lab.command import run_contained
from lab.lock import locked

CACHE = Path(__file__).resolve().parents[3] / ".cache/kubectl"
RELEASE = "trixie"


def program() -> Path:
    """Return the program's path; unpack the package if it is missing, or wait for another process that does."""
    kubectl = CACHE / RELEASE / "usr/bin/kubectl"
    with locked(CACHE / "lock"):
        if not kubectl.is_file():
            _unpack(CACHE / "building")
            (CACHE / "building").rename(CACHE / RELEASE)
    return kubectl


def _unpack(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    sources = mirror.sources_for(RELEASE, mirror.host_sources(), mirror.host_release())
    command = [
        "mmdebstrap",
        "--mode=root",
        "--format=directory",
        "--variant=extract",
        "--include=kubectl",
        *(f"--aptopt={option}" for option in mirror.apt_options()),
        RELEASE,
        str(directory),
        *(mirror.source_line(source) for source in sources),
    ]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", "TMPDIR": str(CACHE)}
    run_contained(command, CACHE / "log", what="mmdebstrap", env=environment)


def kustomize(directory: Path, kubectl: Path) -> list[dict[str, Any]]:
    """Return the objects that ``kubectl kustomize`` builds of a directory with a kustomization."""
    done = subprocess.run([kubectl, "kustomize", directory], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))
