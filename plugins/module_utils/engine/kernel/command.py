# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Running the tools that speak for a table: no shell, English messages, a bounded time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from ..errors import KernelError, MissingError

# What distributions call the package of a tool, where it is not the tool's own name.
PACKAGES = {
    **{
        f"{program}{backend}-{verb}": "iptables"
        for program in ("iptables", "ip6tables")
        for backend in ("", "-legacy", "-nft")
        for verb in ("save", "restore")
    },
    "modprobe": "kmod",
    "rmmod": "kmod",
}
_SYSTEM_DIRECTORIES = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
_SECONDS = 300


class Finished(NamedTuple):
    """How a tool ended and what it said; bytes that are not UTF-8 are kept as surrogates."""

    status: int
    output: str
    errors: str


def run(arguments: Sequence[str], text: str | None = None) -> Finished:
    """Run a tool with ``text`` on its standard input and wait for it.

    A status other than 0 is the caller's to judge. The tool is looked for in PATH and then in the usual system directories,
    which the PATH of a remote login often lacks.

    Raises:
        MissingError: there is no such tool; the text names the package.
        KernelError: the tool did not end in five minutes, or could not be started for want of something.
    """
    status, output, errors = _run(arguments, text, None)
    return Finished(status, _text(output), errors)


def run_printing(arguments: Sequence[str]) -> tuple[int, bytes, str]:
    """Run a tool that prints megabytes, and return its status, what it printed, as it is, and what it complained about.

    That is collected in memory of its own instead of through a pipe, of which Python makes many small pieces.

    Raises:
        MissingError, KernelError: as by :func:`run`.
    """
    if not hasattr(os, "memfd_create"):  # a Python for very old systems
        return _run(arguments, None, None)
    with open(os.memfd_create("output"), "rb", buffering=0) as file:
        status, _nothing, errors = _run(arguments, None, file.fileno())
        file.seek(0)
        return status, file.read(), errors


def _run(arguments: Sequence[str], text: str | None, output: int | None) -> tuple[int, bytes, str]:
    import subprocess

    tool = arguments[0]
    environment = dict(os.environ, LC_ALL="C", PATH=os.environ.get("PATH", "") + ":" + _SYSTEM_DIRECTORIES)
    try:
        ended = subprocess.run(
            arguments,
            input=None if text is None else text.encode("utf-8", "surrogateescape"),
            stdin=subprocess.DEVNULL if text is None else None,
            stdout=subprocess.PIPE if output is None else output,
            stderr=subprocess.PIPE,
            env=environment,
            timeout=_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise MissingError(f"the tool {tool} is missing; install the package {PACKAGES.get(tool, tool)}") from None
    except PermissionError:
        raise MissingError(f"the tool {tool} must not be run by this user; root can") from None
    except OSError as error:  # no memory, no descriptors, no processes left
        raise KernelError(f"the tool {tool} cannot be started: {error.strerror}") from error
    except subprocess.TimeoutExpired:
        raise KernelError(f"{' '.join(arguments)} did not end in {_SECONDS} seconds and was stopped") from None
    errors = _text(ended.stderr)
    if ended.returncode < 0 and not errors.strip():
        errors = f"{tool} was ended by signal {-ended.returncode}"
    return ended.returncode, ended.stdout or b"", errors


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
