# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guard that cannot be started: the module changes nothing, and reports it once."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.processes.faults import Fault, later_in_child

from ansible_collections.kubenode.ipvs.plugins.module_utils._confirm.guard import Guard
from ansible_collections.kubenode.ipvs.plugins.module_utils._module.planning import LedgerView
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.errors import KernelError
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.ledger import Ledger
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.plan import Plan, Step


@pytest.mark.parametrize("which", ["first", "second"])
def test_guard_without_free_process_prevents_the_change(tmp_path: Path, which: str) -> None:
    """The guard needs two forks, the second within the first; the fault strikes the first call of each process."""
    made = Plan([Step("sysctl", "net.ipv4.ip_forward", "0", "1")], [], {})

    def tried(begin: Callable[[], None]) -> int:
        begin()
        if which == "second":
            with contextlib.suppress(OSError):
                os.fork()
        try:
            view = LedgerView(Ledger(str(tmp_path)), {}, {})
            with Guard(60, {}, None).armed(made, {}, view, "ansible"):
                print("changed")
        except KernelError as error:
            print(error)
        return 0

    outcome = later_in_child(Fault("clone,clone3", "EAGAIN", "1"), tmp_path, tried)
    assert (outcome.status, outcome.errors) == (0, "")
    assert outcome.output == "the process that would undo the change cannot be started; nothing was changed\n"
