# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's command line."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from . import access, host, kernel_kinds, lifecycle, naming, netns, recipe, repository, state, uml_kernel
from .errors import HostError, LabError, UsageError
from .progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType


def _check(arguments: argparse.Namespace) -> None:
    kind = kernel_kinds.kernel_kind(arguments.kernel)
    needs = host.TO_RUN + host.TO_BUILD + kind.to_run + kind.to_build
    host.check(tuple(dict.fromkeys(needs)), disk=host.MIN_FREE_DISK, further=kind.build_problems())
    print(f"this machine can run the lab: {kind.summary()}")


def _kernel(_: argparse.Namespace) -> None:
    uml_kernel.build(Progress())
    print(uml_kernel.DIRECTORY)


def _image(arguments: argparse.Namespace) -> None:
    releases = arguments.release or recipe.RELEASES[:1]
    kind = kernel_kinds.kernel_kind(arguments.kernel)
    for built in lifecycle.build_images(releases, kind, Progress(), rebuild=arguments.rebuild).values():
        print(built.directory)


def _up(arguments: argparse.Namespace) -> None:
    lifecycle.up(arguments.lab, arguments.node, arguments.client, arguments.kernel, arguments.mem, Progress())


def _down(arguments: argparse.Namespace) -> None:
    lifecycle.down(arguments.lab, Progress())


def _clean(arguments: argparse.Namespace) -> None:
    lifecycle.clean(Progress(), everything=arguments.all)


def _ls(_: argparse.Namespace) -> None:
    for name in state.all_names():
        lab = state.load(name)
        if lab is None or not lab.ready:
            print(f"{name}: not whole; an interrupted run left it, or one is at work (lab down {name})")
            continue
        print(f"{name}: {'up' if lab.whole else 'damaged'}, namespace {lab.namespace}")
        for node in lab.nodes:
            addresses = " ".join(node.addresses)
            running = "running" if node.running else "down"
            print(f"  node {node.name} {node.release} {node.kernel} {addresses} {running}")
        for client in lab.clients:
            print(f"  client {client} {' '.join(lab.hosts[client])}")


def _wait(arguments: argparse.Namespace) -> None:
    lab = state.existing(arguments.lab)
    nodes = [lab.node(name) for name in arguments.node] or lab.nodes
    lifecycle.wait(lab, nodes, arguments.timeout, Progress())


def _start(arguments: argparse.Namespace) -> None:
    lifecycle.start(state.existing(arguments.lab), arguments.node, Progress())


def _crash(arguments: argparse.Namespace) -> None:
    lifecycle.crash(state.existing(arguments.lab), arguments.node, Progress())


def _console(arguments: argparse.Namespace) -> None:
    print(state.existing(arguments.lab).node(arguments.node).console.read_text(errors="replace"), end="")


def _inventory(arguments: argparse.Namespace) -> None:
    print(access.as_yaml(access.inventory(state.existing(arguments.lab))), end="")


def _ssh(arguments: argparse.Namespace) -> None:
    lab = state.existing(arguments.lab)
    terminal = [] if arguments.command else ["-t"]
    command = [
        "ssh",
        "-F",
        str(lab.directory / "ssh_config"),
        *terminal,
        lab.node(arguments.node).name,
        *arguments.command,
    ]
    os.execvp(command[0], command)


def _exec(arguments: argparse.Namespace) -> None:
    namespace = state.existing(arguments.lab).client_namespace(arguments.client)
    with netns.inside(namespace):
        try:
            os.execvp(arguments.command[0], arguments.command)
        except FileNotFoundError as error:
            raise UsageError(f"{arguments.command[0]}: no such program") from error


def _serve(arguments: argparse.Namespace) -> None:
    repository.serve(arguments.directory, naming.REPOSITORY_PORT)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lab", description="Linux nodes with a real kernel, as ordinary processes. See docs/how-to/lab.md."
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, action: object, text: str, *positional: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(action=action)
        for argument in positional:
            added.add_argument(argument, metavar=argument.upper())
        return added

    def add_kernel(parser: argparse.ArgumentParser) -> None:
        known = f"{', '.join(kernel_kinds.KERNELS)}; the first if none is given"
        parser.add_argument("--kernel", default=kernel_kinds.DEFAULT, metavar="KIND", help=f"kind of kernel: {known}")

    add_kernel(command("check", _check, "check that this machine can run the lab"))
    command("kernel", _kernel, "build the fast user-mode kernel; until then the packaged one serves")
    one = command("image", _image, "build the disk image of a release, unless it is there")
    one.add_argument(
        "release", nargs="*", metavar="RELEASE", help=f"{', '.join(recipe.RELEASES)}; the first if none is given"
    )
    add_kernel(one)
    one.add_argument("--rebuild", action="store_true", help="build it even if it is there, for newer packages")
    one = command("up", _up, "bring a lab up and wait until all its nodes answer", "lab")
    one.add_argument("--node", action="append", default=[], metavar="NAME[:RELEASE]", help="a node; may be repeated")
    one.add_argument("--client", action="append", default=[], metavar="NAME", help="a client; may be repeated")
    add_kernel(one)
    one.add_argument("--mem", default="512M", metavar="SIZE", help="memory of each node (512M)")
    command("down", _down, "remove a lab, or what an interrupted run left of it", "lab")
    one = command("clean", _clean, "remove all labs of this clone")
    one.add_argument("--all", action="store_true", help="the images too")
    command("ls", _ls, "list the labs of this clone")
    one = command("wait", _wait, "wait until nodes answer", "lab")
    one.add_argument("node", nargs="*", metavar="NODE", help="all if none is given")
    one.add_argument("--timeout", type=float, metavar="SECONDS", help="as long as a boot may take, if not given")
    command("crash", _crash, "end a node as a power cut would", "lab", "node")
    command("start", _start, "boot a node that crashed or powered off, from its own disk", "lab", "node")
    command("console", _console, "print all that a node wrote to its console", "lab", "node")
    command("inventory", _inventory, "print an Ansible inventory of a lab", "lab")
    one = command("ssh", _ssh, "log in to a node or run a command on it", "lab", "node")
    one.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    one = command(
        "exec",
        _exec,
        f"run a command in the namespace of a client, or of the bridge ({naming.BRIDGE})",
        "lab",
        "client",
    )
    one.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    one = commands.add_parser("serve")  # internal: the package server, started by up
    one.add_argument("directory", type=Path)
    one.set_defaults(action=_serve)
    return parser


def _interrupted(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status: 0, 1 if it failed, 2 for wrong usage or a missing prerequisite."""
    # A signal becomes an exception, so that unfinished work is undone.
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _interrupted)
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])  # `su` leaves them out
    parsed = _parser().parse_args(arguments)
    try:
        parsed.action(parsed)
    except (HostError, UsageError) as error:
        print(f"lab: {error}", file=sys.stderr)
        return 2
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    return 0
