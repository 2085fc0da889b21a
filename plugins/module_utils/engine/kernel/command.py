# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a table's native tools: without a shell, with English messages, for a bounded time."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..errors import KernelError, MissingError

if TYPE_CHECKING:
    import subprocess

# Packages of the tools, where the name differs from the tool's.
PACKAGES = {
    **{
        f"{program}{backend}-{verb}": "iptables"
        for program in ("iptables", "ip6tables")
        for backend in ("", "-legacy", "-nft")
        for verb in ("save", "restore")
    },
    "modprobe": "kmod",
    "nft": "nftables",
    "rmmod": "kmod",
}
_SYSTEM_DIRECTORIES = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
_KILL_SECONDS = 2.0  # after that, a killed tool counts as waiting in the kernel


class Limits(NamedTuple):
    """Limits of a tool: the seconds it may take, and a function to call before it starts."""

    seconds: float = 300.0
    starting: Callable[[], None] = lambda: None


_CHOSEN = {"limits": Limits()}


def limit(limits: Limits) -> None:
    """Set the limits of every tool that is started from now on."""
    _CHOSEN["limits"] = limits


class Finished(NamedTuple):
    """Exit status and output of a tool; bytes that are not UTF-8 are kept as surrogates."""

    status: int
    output: str
    errors: str


def is_installed(tool: str) -> bool:
    """Tell whether :func:`run` would find the tool."""
    import shutil

    return shutil.which(tool, path=_search_path()) is not None


def _search_path() -> str:
    return os.environ.get("PATH", "") + ":" + _SYSTEM_DIRECTORIES


def run(arguments: Sequence[str], text: str | None = None) -> Finished:
    """Run a tool with ``text`` on its standard input and wait for it.

    The caller judges a status other than 0. The tool is looked up in PATH and then in the usual system directories,
    which the PATH of a remote login often lacks.

    Raises:
        MissingError: there is no such tool; the text names the package.
        KernelError: the tool did not end in time (:func:`limit`, by default five minutes), could not be started, or its
            pipes failed.
    """
    status, output, errors = _run(arguments, text, None)
    return Finished(status, _text(output), errors)


def run_printing(arguments: Sequence[str]) -> tuple[int, bytes, str]:
    """Run a tool that prints megabytes, and return its status, its output as bytes, and its error messages.

    The output goes to a memory file: through a pipe, Python would get it in many small pieces.

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
    limits = _CHOSEN["limits"]
    limits.starting()
    environment = dict(os.environ, LC_ALL="C", PATH=_search_path())
    try:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL if text is None else subprocess.PIPE,
            stdout=subprocess.PIPE if output is None else output,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # so that its children can be killed with it
        )
    except FileNotFoundError:
        raise MissingError(f"the tool {tool} is missing; install the package {PACKAGES.get(tool, tool)}") from None
    except PermissionError:
        raise MissingError(f"the tool {tool} must not be run by this user; root can") from None
    except OSError as error:  # no memory, no descriptors, no processes left
        raise KernelError(f"the tool {tool} cannot be started: {error.strerror}") from error
    try:
        printed, complaints = process.communicate(
            None if text is None else text.encode("utf-8", "surrogateescape"), timeout=limits.seconds
        )
    except subprocess.TimeoutExpired:
        outcome = "was stopped" if _kill(process) else "cannot be stopped, since it waits in the kernel"
        raise KernelError(f"{' '.join(arguments)} did not end in {limits.seconds:g} seconds and {outcome}") from None
    except OSError as error:  # a pipe to or from the tool failed
        _kill(process)
        raise KernelError(f"the tool {tool} was stopped, since it cannot be talked to: {error.strerror}") from error
    except BaseException:
        _kill(process)
        raise
    errors = _text(complaints)
    if process.returncode < 0 and not errors.strip():
        errors = f"{tool} was ended by signal {-process.returncode}"
    return process.returncode, printed or b"", errors


def _kill(process: subprocess.Popen[bytes]) -> bool:
    """Kill a tool with every process that it has started, and tell whether the tool has ended.

    A tool that hangs in the kernel is given up after a bounded wait.
    """
    import signal
    import subprocess

    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has just ended
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            try:
                stream.close()
            except OSError:
                pass  # the rest of the input has no reader any more
    try:
        process.wait(_KILL_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
