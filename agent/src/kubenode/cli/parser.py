# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From words to a command's options, and from errors to exit statuses."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from ..engine.errors import EngineError
from ..paths import CONFIG, RUN
from . import COMMANDS, USAGE_ERROR


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors have an exit status of their own."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and how it is done."""
        self.print_usage(sys.stderr)
        print(f"{self.prog}: {message}", file=sys.stderr)
        raise SystemExit(USAGE_ERROR)


def parser(command: str) -> tuple[Parser, Any]:
    """Return a command's parser and its module."""
    module = importlib.import_module(f".{command}", __package__)
    found = Parser(
        prog=f"kubenode {command}",
        description=f"{COMMANDS[command]}.",
        epilog=(module.__doc__ or "").partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.arguments(found)
    return found, module


def execute(command: str, words: Sequence[str]) -> int:
    """Run one command; errors that are meant for people are printed as such, with exit status 1.

    Raises:
        OSError: the output cannot be written.
    """
    found, module = parser(command)
    options = found.parse_args(words)
    try:
        return int(module.run(options))
    except EngineError as error:
        print(f"kubenode {command}: {error}", file=sys.stderr)
        return 1


def add_config(found: argparse.ArgumentParser) -> None:
    """Add what every command takes that needs the configuration."""
    found.add_argument(
        "--config", metavar="FILE", help=f"KubeProxyConfiguration, perhaps with AgentConfiguration (default: {CONFIG})"
    )
    found.add_argument("--node", metavar="NAME", help="the node's name (default: hostnameOverride, or the host name)")


def add_run_dir(found: argparse.ArgumentParser) -> None:
    """Add where ledger, lock and socket are."""
    found.add_argument("--run-dir", metavar="DIR", default=RUN, help="where ledger, lock and socket are (default: %(default)s)")


def add_objects(found: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Add where the objects come from."""
    usual = (
        "" if required else " (default: the configuration's manifests, or the agent's copy of what the Kubernetes API said last)"
    )
    found.add_argument(
        "--objects",
        metavar="DIR|FILE",
        required=required,
        help=f"manifests, as kubectl get svc,endpointslices,nodes -A -o json prints them{usual}",
    )
