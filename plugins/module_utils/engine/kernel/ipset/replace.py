# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give a set another header: a complete new set beside it, exchanged in one go, with no moment without the set.

The kernel swaps two sets only if they hold the same sorts of things (``hash:ip,port`` and ``hash:net,port`` do not) for
the same family (``ip_set_swap`` in ``net/netfilter/ipset/ip_set_core.c``). Otherwise the sets are renamed, which the
kernel allows only while no rule and no other set refers to them: then nobody can see the moment in between either.
"""

from __future__ import annotations

from ...model.ipset import IPSet, keeps_members
from ...model.member_options import OPTIONS, pairs
from ...model.step import Step
from .. import Failure, Result
from .read import read
from .tool import ipset, restore
from .words import IN_USE, TYPE_MISMATCH, explain

# Ours alone; what a crashed run left behind under these names is removed before they are used again.
NEW = "kubenode-swap-new"
OLD = "kubenode-swap-old"


def replace(change: Step, members: list[Step]) -> Result:
    """Make one step of kind ``set`` with before and after true, together with the steps for its members."""
    _remove(NEW)
    _remove(OLD)
    held = contents(change, members)
    lines = [f"create {NEW} {change.after.text()}"]
    lines += [f"add {NEW} {member} {options}".rstrip() for member, options in held.items()]
    refused = restore(lines)
    if refused is not None:
        _remove(NEW)
        if refused.line < 1:
            return _failed(change, members, explain(change, refused.text))
        member = list(held)[refused.line - 1]
        reason = refused.text
        if "is full" in reason:
            reason = f"the new set has no room for all {len(held)} members (maxelem {change.after.option('maxelem')})"
        return _failed(change, members, f"the set stays as it was, because of member {member}: {reason}")
    reason = _exchange(change.key)
    if reason:
        _remove(NEW)
        return _failed(change, members, f"the set stays as it was: {reason}")
    return Result([change, *members], [])


def contents(change: Step, members: list[Step]) -> dict[str, str]:
    """Return what a set holds when its header and its members have changed: member to options."""
    found: dict[str, str] = {}
    if keeps_members(change.before, change.after):
        dropped = _dropped(change.after)
        for key, options in read([change.key])["member"].items():
            found[key.member] = without(options, dropped) if dropped else options
    for step in members:
        if step.after is None:
            found.pop(step.key.member, None)
        else:
            found[step.key.member] = step.after
    first = [member for member in change.after.order if member in found]
    return {member: found[member] for member in dict.fromkeys([*first, *found])}


def _exchange(name: str) -> str:
    """Put the new set in the place of the old one; return why it could not be, or ""."""
    refused = restore([f"swap {NEW} {name}"])
    if refused is not None and TYPE_MISMATCH in refused.text:
        refused = restore([f"rename {name} {OLD}"])
        if refused is None:
            refused = restore([f"rename {NEW} {name}"])
            if refused is not None:
                restore([f"rename {OLD} {name}"])
        elif IN_USE in refused.text:
            return (
                "rules of iptables or other sets refer to it, and the kernel does not exchange sets in use for sets"
                " that hold other sorts of things; remove those first, or use another name"
            )
    if refused is not None:
        return refused.text
    _remove(NEW)
    _remove(OLD)
    return ""


def _remove(name: str) -> None:
    ipset(["destroy", name])  # usually there is none


def _dropped(header: IPSet) -> frozenset[str]:
    """Return the member options that a set with this header cannot have."""
    has = {name for name, _value in header.options}
    return frozenset(option for option, need in OPTIONS.items() if need and need not in has)


def without(options: str, dropped: frozenset[str]) -> str:
    """Return member options without some of them."""
    kept = [
        (name, f'"{value}"' if name == "comment" else value) for name, value in pairs(options) if name not in dropped
    ]
    return " ".join(f"{name} {value}".rstrip() for name, value in kept)


def _failed(change: Step, members: list[Step], reason: str) -> Result:
    return Result(
        [], [Failure(change, reason)] + [Failure(step, f"set {change.key} could not be changed") for step in members]
    )
