# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that the caller brings: those of a cluster, and the tests."""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path
from typing import NamedTuple

from .errors import E2eError


class Program(NamedTuple):
    """Program in the caller's directory."""

    name: str
    source: str  # directory in the sources of Kubernetes from which it is built
    archive: str = ""  # an OCI archive of its image, which replaces it
    is_static: bool = False  # it must run without a C library


PROGRAMS = (
    Program("etcd", "a release of etcd"),
    Program("kube-apiserver", "cmd/kube-apiserver"),
    Program("kube-controller-manager", "cmd/kube-controller-manager"),
    Program("kube-scheduler", "cmd/kube-scheduler"),
    Program("kubelet", "cmd/kubelet"),
    Program("kubectl", "cmd/kubectl"),
    Program("e2e.test", "test/e2e, by go test -c"),
    Program("agnhost", "test/images/agnhost", archive="agnhost.tar"),
    Program("pause", "build/pause", archive="pause.tar", is_static=True),
    Program(
        "regression-issue-74839",
        "test/images/regression-issue-74839",
        archive="regression-issue-74839.tar",
        is_static=True,
    ),
)
_PT_INTERP = 3
_VERSION = re.compile(r"v\d+\.\d+\.\d+[^\s\"]*")


def problems(directory: Path) -> list[str]:
    """Return one sentence for each program that is missing or unusable."""
    if not directory.is_dir():
        return [f"KUBERNETES={directory} is not a directory; expected one with the programs of Kubernetes."]
    return [text for program in PROGRAMS if (text := _problem(directory, program))]


def _problem(directory: Path, program: Program) -> str:
    path = directory / program.name
    if program.archive and (directory / program.archive).is_file():
        return ""
    if not path.is_file():
        instead = f", or add an OCI archive {program.archive}" if program.archive else ""
        return f"{path} is missing; build it from {program.source}{instead}."
    if not path.stat().st_mode & 0o111:
        return f"{path} is not executable; run chmod +x on it."
    if program.is_static and interpreter(path):
        return f"{path} needs {interpreter(path)}, which its image does not have; link it statically."
    return ""


def interpreter(path: Path) -> str:
    """Return the loader that an ELF program for 64 bits needs, empty if it is static or another kind of file."""
    content = path.read_bytes()
    if content[:5] != b"\x7fELF\x02":
        return ""
    offset, size, count = (
        *struct.unpack_from("<Q", content, 32),
        *struct.unpack_from("<HH", content, 54),
    )
    for number in range(count):
        kind, _flags, start, _virtual, _physical, length = struct.unpack_from(
            "<IIQQQQ", content, offset + number * size
        )
        if kind == _PT_INTERP:
            return content[start : start + length].rstrip(b"\0").decode()
    return ""


def version(program: Path) -> str:
    """Return the version that a program of Kubernetes prints, such as ``v1.36.2``.

    Raises:
        E2eError: it prints none.
    """
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise E2eError(f"{program} --version: {error}") from error
    match = _VERSION.search(done.stdout + done.stderr)
    if done.returncode or match is None:
        raise E2eError(f"{program} --version: status {done.returncode}: {(done.stderr or done.stdout)[-300:]}")
    return match[0]


def image_names(tests: Path) -> list[str]:
    """Return the names of the images that the tests use.

    Raises:
        E2eError: the program does not list them.
    """
    done = subprocess.run([tests, "--list-images"], capture_output=True, text=True, timeout=120, check=False)
    names = [line.strip() for line in done.stdout.splitlines() if re.fullmatch(r"\S+/\S+:\S+", line.strip())]
    if done.returncode or not names:
        raise E2eError(f"{tests} --list-images: status {done.returncode}: {done.stderr[-300:]}")
    return names
