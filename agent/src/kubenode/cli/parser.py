# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse a command's options, and map errors to exit statuses."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from ..engine.errors import EngineError
from ..paths import CONFIG, CONFIG_VARIABLE, NODE_VARIABLE, RUN, STATE
from .commands import COMMANDS, USAGE_ERROR


class Parser(argparse.ArgumentParser):
    """Argument parser that exits with USAGE_ERROR."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, and exit."""
        self.print_usage(sys.stderr)
        print(f"{self.prog}: {message}", file=sys.stderr)
        raise SystemExit(USAGE_ERROR)


def parser(command: str) -> tuple[Parser, Any]:
    """Return a command's parser and its module."""
    module = importlib.import_module(f".{command}", __package__)
    command_parser = Parser(
        prog=f"kubenode {command}",
        description=f"{COMMANDS[command]}.",
        epilog=(module.__doc__ or "").partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.arguments(command_parser)
    return command_parser, module


def execute(command: str, words: Sequence[str]) -> int:
    """Run one command; print an expected error as one message, with exit status 1.

    Raises:
        OSError: the output cannot be written.
    """
    command_parser, module = parser(command)
    options = command_parser.parse_args(words)
    try:
        return int(module.run(options))
    except EngineError as error:
        print(f"kubenode {command}: {error}", file=sys.stderr)
        return 1


def seconds(text: str) -> float:
    """Parse a duration; argparse names this function in its error message."""
    duration = float(text)
    if not duration >= 0:
        raise ValueError  # "not a number" is a number of Python's
    return duration


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add the options of all commands that read the configuration."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        default=os.environ.get(CONFIG_VARIABLE) or None,
        help="file with KubeProxyConfiguration, optionally AgentConfiguration; or several files, joined by ':'"
        f" (default: {CONFIG_VARIABLE} in the environment, or {CONFIG})",
    )
    parser.add_argument(
        "--node",
        metavar="NAME",
        default=os.environ.get(NODE_VARIABLE) or None,
        help=f"name of the node (default: {NODE_VARIABLE} in the environment, hostnameOverride, or the host name)",
    )


def add_run_dir(parser: argparse.ArgumentParser) -> None:
    """Add the option for the directory of ledger, lock and socket."""
    parser.add_argument(
        "--run-dir", metavar="DIR", default=RUN, help="directory of ledger, lock and socket (default: %(default)s)"
    )


def add_state_dir(parser: argparse.ArgumentParser) -> None:
    """Add the option for the directory of snapshot and history."""
    parser.add_argument(
        "--state-dir",
        metavar="DIR",
        default=STATE,
        help="directory of the files that outlive a reboot (default: %(default)s)",
    )


def add_objects(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Add the option for the source of the objects."""
    usual = (
        ""
        if required
        else " (default: the configuration's manifests, or the agent's copy of the Kubernetes API's last state)"
    )
    parser.add_argument(
        "--objects",
        metavar="DIR|FILE",
        required=required,
        help=f"manifests, in the format of kubectl get svc,endpointslices,nodes -A -o json{usual}",
    )
