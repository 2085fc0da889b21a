# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command line: one module for each command, imported when the command is run.

A command's module has ``arguments(parser)`` and ``run(options) -> exit status``; its docstring is its manual.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from .commands import COMMANDS, USAGE_ERROR

INTERRUPTED = 130  # the status that shells report for a process ended by SIGINT


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["help"]:
        words = [*words[1:2], "--help"]
    command = words[0] if words else "--help"
    name = f"kubenode {command}" if command in COMMANDS else "kubenode"
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # the text of objects can be printed in any locale
    try:
        try:
            return _run(command, words)
        finally:
            sys.stdout.flush()  # a write error shows now, also for a manual
    except BrokenPipeError:
        _write_no_more()  # the reader of the output has closed it
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:  # the output's disk is full
        print(f"{name}: {error.filename or 'its output'}: {error.strerror}", file=sys.stderr)
        _write_no_more()
    return 1


def _run(command: str, words: list[str]) -> int:
    if command in ("--help", "-h"):
        print(_usage())
        return 0 if words else USAGE_ERROR
    if command == "--version":
        from .._version import VERSION

        print(f"kubenode {VERSION}")
        return 0
    if command not in COMMANDS:
        print(f"kubenode: unknown command {command!r}\n\n{_usage()}", file=sys.stderr)
        return USAGE_ERROR
    from .parser import execute

    return execute(command, words[1:])


def _write_no_more() -> None:
    """Discard the rest of the output: the interpreter would try to write it at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError:
        pass  # the interpreter writes it again at exit


def _usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            "usage: kubenode COMMAND [OPTION]...",
            "",
            "A Kubernetes service proxy in IPVS mode, with its tools.",
            "",
            *lines,
            "",
            "kubenode COMMAND --help prints a command's manual; kubenode --version prints the release.",
        ]
    )
