# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps that restore the state before a change.

tests/kernel executes them.
"""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.kubenode.ipvs.plugins.module_utils._confirm.guard import back
from ansible_collections.kubenode.ipvs.plugins.module_utils._confirm.pending import few
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.model.ipset import IPSet, MemberKey
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.model.ipvs import (
    RealServer,
    RealServerKey,
    VirtualServerKey,
)
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.plan import Step

WEB = VirtualServerKey("tcp", "192.0.2.80", 80, 4)
REAL = RealServerKey(WEB, "198.51.100.1", 80)
DRAINED = [Step("real_server", REAL, RealServer(3), RealServer(0)), Step("real_server", REAL, RealServer(0), None)]
ALONE = [f"real server {REAL}: another process has changed it since"]


@pytest.mark.parametrize(
    ("steps", "live", "after", "problems"),
    [
        (DRAINED, None, RealServer(3), []),
        (DRAINED, RealServer(0), RealServer(3), []),  # the task died while the real server drained
        (DRAINED, RealServer(3), "nothing to do", []),
        (DRAINED, RealServer(5), "nothing to do", ALONE),
        # the task created it: the undo removes it, whatever its value is now
        ([Step("real_server", REAL, None, RealServer(1))], RealServer(7), None, []),
        ([Step("real_server", REAL, None, RealServer(1))], None, "nothing to do", []),
        ([Step("real_server", REAL, RealServer(1), RealServer(2))], RealServer(2), RealServer(1), []),
        ([Step("real_server", REAL, RealServer(1), RealServer(2))], RealServer(4), "nothing to do", ALONE),
        ([Step("real_server", REAL, RealServer(1), RealServer(2))], None, "nothing to do", ALONE),
    ],
)  # fmt: skip
def test_undo_is_planned_from_the_current_state(steps: list[Step], live: Any, after: Any, problems: list[str]) -> None:
    inverse = [] if after == "nothing to do" else [Step("real_server", REAL, live, after)]
    assert back(steps, {"real_server": {} if live is None else {REAL: live}}) == (inverse, problems)


def test_exchanged_set_has_all_members_in_its_file() -> None:
    """The set had them before and after, but with different meanings."""
    one, other = IPSet("hash:ip"), IPSet("hash:net")
    key = MemberKey("s", "192.0.2.1")
    steps = [Step("set", "s", one, other), Step("member", key, "", "")]
    inverse, problems = back(steps, {"set": {"s": other}, "member": {key: ""}})
    assert sorted(inverse) == [Step("member", key, "", ""), Step("set", "s", other, one)]
    assert problems == []


def test_order_of_a_list_is_restored() -> None:
    """The order in the kernel is not read."""
    old, new = (IPSet("list:set", (("size", "8"),), order) for order in (("a", "b"), ("b", "a")))
    (step,), problems = back([Step("set", "l", old, new)], {"set": {"l": IPSet("list:set", (("size", "8"),))}})
    assert (step.after, problems) == (old, [])


def test_few_of_many_members_are_recorded() -> None:
    assert few(list(range(50))) == [str(number) for number in range(50)]
    assert few(list(range(60)), hex)[-2:] == ["0x31", "and 10 more"]
