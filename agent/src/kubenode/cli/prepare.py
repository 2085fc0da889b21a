# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prepare this node for an agent in a container, then check it. The DaemonSet's init container runs this as root.

1. Wait until no other service proxy answers: an agent of the role's unit, or kube-proxy. Each is named once.
2. Give the directories of ledger and snapshot, and iptables' lock, to the agent's user.
3. Load missing kernel modules, if this container may.
4. Let the agent take over kube-proxy's items, once: kube-proxy may have served this node since the agent last did.
5. Check the node's prerequisites, as kubenode check does.

Nothing else changes: sysctls of the network are set by the agent itself.

Exit status: 0 ready, 1 the node lacks a prerequisite, 64 wrong usage, 143 ended by SIGTERM.
"""

from __future__ import annotations

import argparse
import os
import signal
import stat
import time
from collections.abc import Collection

from ..container import USER
from ..engine.errors import EngineError

_POLL = 1.0
_ENDED = 128 + signal.SIGTERM  # as shells report it
_LOCK = "/run/xtables.lock"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    from .parser import add_config, add_run_dir, add_state_dir

    add_config(parser)
    add_run_dir(parser)
    add_state_dir(parser)
    parser.add_argument(
        "--user", metavar="UID", type=int, default=USER, help="user and group of the agent (default: %(default)s)"
    )
    parser.add_argument("--xtables-lock", metavar="FILE", default=_LOCK, help="iptables' lock (default: %(default)s)")


def run(options: argparse.Namespace) -> int:
    """Prepare the node, then check it."""
    from . import check
    from .desired import configuration
    from .oneshot import Pass

    signal.signal(signal.SIGTERM, _end)  # without a handler, the first process of a container ignores it
    config = configuration(options, report=lambda _text: None)
    _wait(options.run_dir, config.healthz)
    try:
        _hand_over(options.run_dir, options.user, 0o750)
        _hand_over(options.state_dir, options.user, 0o700)
        _share_lock(options.xtables_lock, options.user)
    except OSError as error:
        raise EngineError(
            f"{error.filename or options.run_dir} cannot be given to user {options.user}: {error.strerror}"
        ) from error
    _load_modules(*check.wanted_modules(config.scheduler, check.rules_backend(config.rules_backend, options.run_dir)))
    with Pass(options.run_dir) as work:
        work.ask_adoption()
    options.beside_kube_proxy = options.beside_daemonset = False
    return check.run(options)


def _end(_number: int, _frame: object) -> None:
    raise SystemExit(_ENDED)


def _wait(directory: str, health: tuple[str, int]) -> None:
    """Wait until no other proxy serves this node."""
    from .others import another_proxy

    printed = ""
    while reason := another_proxy(directory, health):
        if reason != printed:
            print(f"wait  {reason}", flush=True)
        printed = reason
        time.sleep(_POLL)


def _hand_over(directory: str, user: int, mode: int) -> None:
    """Create a directory for a user, and give the files in it to that user.

    The directory first: then a former owner can no longer replace files in it. Links and hard links stay as they are.
    """
    os.makedirs(directory, mode=mode, exist_ok=True)
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchown(handle, user, user)
        os.fchmod(handle, mode)
        for name in os.listdir(handle):
            status = os.stat(name, dir_fd=handle, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
                os.chown(name, user, user, dir_fd=handle, follow_symlinks=False)
            elif stat.S_ISSOCK(status.st_mode):  # of an agent that was killed
                os.unlink(name, dir_fd=handle)
    finally:
        os.close(handle)


def _share_lock(path: str, group: int) -> None:
    """Let a group read iptables' lock file, which is enough to hold the lock."""
    handle = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchown(handle, -1, group)
        os.fchmod(handle, os.fstat(handle).st_mode & 0o777 | 0o040)
    finally:
        os.close(handle)


def _load_modules(needed: Collection[str], optional: Collection[str]) -> None:
    """Load the modules that are not loaded yet. The kernel loads most of them by itself with their first use."""
    from ..engine.kernel import modules

    states = modules.states([*needed, *optional])
    loadable = {name: "" for name, state in states.items() if state == modules.LOADABLE}
    for name, reason in (modules.load(loadable) if loadable else {}).items():
        print(f"note  kernel module {name} cannot be loaded from this container: {reason}", flush=True)
