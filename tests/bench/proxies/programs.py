# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Third-party programs of the comparison. Their paths are the caller's: nothing here ships or downloads them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLES = {"KUBE_PROXY": "kube-proxy", "KUBE_APISERVER": "kube-apiserver", "ETCD": "etcd"}


class Programs(NamedTuple):
    """Paths of the programs; None for one that the caller does not give."""

    kube_proxy: Path | None
    kube_apiserver: Path | None
    etcd: Path | None

    @property
    def has_api(self) -> bool:
        """Presence of an API server with its store."""
        return bool(self.kube_apiserver and self.etcd)


def from_environment(environment: Mapping[str, str] = os.environ) -> Programs:
    """Return the programs of the variables KUBE_PROXY, KUBE_APISERVER and ETCD.

    Raises:
        RuntimeError: a variable names no executable file.
    """
    paths: list[Path | None] = []
    for variable, program in VARIABLES.items():
        text = environment.get(variable, "")
        if text and not os.access(text, os.X_OK):
            raise RuntimeError(f"{variable}={text}: expected the path of an executable {program}")
        paths.append(Path(text) if text else None)
    return Programs(*paths)


def missing(programs: Programs) -> str:
    """Return a sentence about programs that are missing, with the way to give them; "" if there are all."""
    absent = [variable for variable, path in zip(VARIABLES, programs, strict=True) if path is None]
    if not absent:
        return ""
    names = " and ".join(VARIABLES[variable] for variable in absent)
    usage = " ".join(f"{variable}=PATH" for variable in VARIABLES)
    return f"Without {names}, only the agent is measured. Give the programs with `make bench {usage}`"


def version(program: Path) -> str:
    """Return the version that a Kubernetes program prints."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.split()[-1].removeprefix("v")
