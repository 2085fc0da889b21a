# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Confirm changes that can cut the controller off: the node undoes a change that is not confirmed in time.

The name of one file decides. The controller confirms by removing the file. The guard, a process on the node
(``_confirm/guard.py``), renames it to ``….undone`` and then undoes the change. Removal and rename are atomic, so only
one of them finds the file.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ..engine.errors import ConflictError, InputError
from ..engine.node_lock import DIRECTORY
from .pending import pending

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible.module_utils.basic import AnsibleModule

    from ..engine.apply import Tables
    from .guard import Guard, Reread

CONFIRM: dict[str, Any] = {"confirm_timeout": {"type": "int"}}


@contextlib.contextmanager
def begin(module: AnsibleModule, tables: Tables, read: Reread, directory: str = DIRECTORY) -> Iterator[Guard | None]:
    """Yield a guard, or None in check mode and without ``confirm_timeout``; at the end, a guard without orders ends.

    Args:
        module: the AnsibleModule, whose option ``confirm_timeout`` decides.
        tables: the tables' ``apply`` by name.
        read: returns the present items, by kind, of a list of (kind, key).
        directory: the ledger's directory.

    Raises:
        InputError: ``confirm_timeout`` is out of range.
    """
    seconds = module.params.get("confirm_timeout")
    if seconds is not None and not 1 <= seconds <= 3600:
        raise InputError("task", "confirm_timeout", seconds, "1 to 3600 seconds")
    if seconds is None or module.check_mode:
        yield None
        return
    from .guard import Guard

    guard = Guard(seconds, tables, read, directory)
    try:
        yield guard
    finally:
        guard.close()


def refuse_pending(owner: str) -> None:
    """Raise ConflictError while a change of this owner waits for its confirmation.

    The caller holds the node's lock.
    """
    for each in pending():
        if each["owner"] == owner:
            raise ConflictError(
                f"an earlier change of owner {owner!r} waits for its confirmation, and the node undoes it without one; "
                f"wait, or remove {each['path']} to confirm it; nothing was changed"
            )
