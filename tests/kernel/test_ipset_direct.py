# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members written over netlink equal those that ipset(8) writes; members that need the tool are left to it."""

from __future__ import annotations

import subprocess

import pytest
from support.processes.namespace import fresh, sh
from support.tables.sets import KNOWN, UNKNOWN

from kubenode.engine.kernel import ipset
from kubenode.engine.kernel.ipset import direct
from kubenode.engine.model.ipset import MemberKey
from kubenode.engine.plan import Step


@pytest.fixture(autouse=True)
def _namespace() -> None:
    subprocess.run(["modprobe", "-a", "ip_set"], check=True)
    fresh()


def saved() -> list[str]:
    return sorted(sh("ipset", "save").splitlines())


def steps(text: str) -> list[Step]:
    """Return one step for each member that ``ipset save`` shows."""
    lines = (line.split(" ", 3) for line in text.splitlines() if line.startswith("add "))
    return [Step("member", MemberKey(name, member), None, " ".join(rest)) for _add, name, member, *rest in lines]


def test_direct_member_changes_match_ipset() -> None:
    sh("ipset", "restore", text=KNOWN)
    whole, members = saved(), steps(KNOWN)
    assert direct.apply([step.inverse() for step in members])
    assert [line for line in saved() if line.startswith("add ")] == []
    assert direct.apply(members)
    assert saved() == whole


def test_repeated_direct_member_changes_succeed() -> None:
    sh("ipset", "restore", text=KNOWN)
    members = steps(KNOWN)
    whole = saved()
    assert direct.apply(members)
    assert saved() == whole
    gone = [step.inverse() for step in members]
    assert direct.apply(gone)
    assert direct.apply(gone)


@pytest.mark.parametrize("about", [about for about in UNKNOWN if about not in ("a timeout", "counters", "a netmask")])
def test_unsupported_members_are_left_to_ipset(about: str) -> None:
    text = UNKNOWN[about]
    sh("ipset", "restore", text=text)
    whole, members = saved(), steps(text)
    for part in ([step.inverse() for step in members], members):
        result = ipset.apply(part)
        assert (result.done, result.failed) == (part, [])
    assert saved() == whole


@pytest.mark.parametrize(
    ("header", "member"),
    [
        ("hash:ip,port maxelem 1", "10.0.0.2,tcp:80"),
        ("hash:ip,port", "10.0.0.1"),
        ("hash:ip,port", "fd00::1,tcp:80"),
        ("bitmap:port range 0-1023", "1024"),
    ],
)
def test_refusals_have_the_messages_of_ipset(header: str, member: str) -> None:
    sh("ipset", "restore", text=f"create S {header}\n")
    if "maxelem" in header:
        sh("ipset", "add", "S", "10.0.0.1,tcp:80")
    whole = saved()
    step = Step("member", MemberKey("S", member), None, "")
    assert not direct.apply([step])
    ((failed, message),) = ipset.apply([step]).failed
    assert failed == step
    assert message
    assert saved() == whole


def test_members_of_a_missing_set_fail_one_by_one() -> None:
    sh("ipset", "restore", text="create S hash:ip\n")
    good = Step("member", MemberKey("S", "10.0.0.1"), None, "")
    lost = Step("member", MemberKey("none", "10.0.0.1"), None, "")
    result = ipset.apply([good, lost], keep_going=True)
    assert result.done == [good]
    assert [failure.step for failure in result.failed] == [lost]
