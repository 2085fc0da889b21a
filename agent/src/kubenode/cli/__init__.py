# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: one module for each command, imported when it is the one.

A command's module has ``arguments(parser)`` and ``run(options) -> exit status``; its docstring is its manual.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

COMMANDS = {
    "run": "be the node's service proxy (what the systemd unit starts)",
    "render": "print what a node would hold, offline: from manifests to the native tools' own text",
    "plan": "print what would be done to this node; changes nothing",
    "apply": "make this node as the manifests say, once",
    "show": "show this node's virtual servers: whose they are, real servers, connections, problems",
    "status": "ask the running agent how it is",
    "check": "tell in words whether this node can do what the agent needs",
    "cleanup": "remove exactly what the agent has made on this node",
    "completion": "print a script for the shell's completion",
}
INTERRUPTED = 130  # as shells say it of a process that SIGINT ended
USAGE_ERROR = 64  # EX_USAGE; 2 is `plan` saying that there is something to do


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["help"]:
        words = [*words[1:2], "--help"]
    command = words[0] if words else "--help"
    name = f"kubenode {command}" if command in COMMANDS else "kubenode"
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what objects hold can be printed, whatever the locale
    try:
        try:
            return _run(command, words)
        finally:
            sys.stdout.flush()  # what cannot be written is known now, also of a manual
    except BrokenPipeError:
        _write_no_more()  # whoever read our output has read enough
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:  # the disk is full that our output goes to
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
        print(f"kubenode: there is no command {command!r}\n\n{_usage()}", file=sys.stderr)
        return USAGE_ERROR
    from .parser import execute

    return execute(command, words[1:])


def _write_no_more() -> None:
    """Forget what is left of the output: it would be tried again at the end."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError:
        pass  # then it is tried again


def _usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            "usage: kubenode COMMAND [OPTION]...",
            "",
            "A Kubernetes service proxy in IPVS mode, and what goes with it.",
            "",
            *lines,
            "",
            "kubenode COMMAND --help is the manual of a command; kubenode --version tells the release.",
        ]
    )
