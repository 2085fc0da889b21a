# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replace a set by one with another header: fill a new set, then swap both, so that the set always exists.

The kernel swaps two sets only if their members have the same parts (``hash:ip,port`` and ``hash:net,port`` do not) and
the same family (``ip_set_swap`` in ``net/netfilter/ipset/ip_set_core.c``). Otherwise the sets are renamed. The kernel
allows that only while no rule and no other set refers to them, so no packet meets the moment in between.
"""

from __future__ import annotations

from ...model.ipset import IPSet, keeps_members
from ...model.member_options import OPTIONS, pairs
from ...model.step import Step
from .. import Failure, Result
from .read import read
from .tool import ipset, restore
from .words import IN_USE, TYPE_MISMATCH, explain

# Reserved names: sets that a crashed run left under them are destroyed before the next use.
NEW = "kubenode-swap-new"
OLD = "kubenode-swap-old"


def replace(change: Step, members: list[Step]) -> Result:
    """Execute one change of a set's header, together with the steps for its members."""
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
    """Return the members of the changed set, with their options."""
    options_of: dict[str, str] = {}
    if keeps_members(change.before, change.after):
        dropped = _dropped(change.after)
        for key, options in read([change.key])["member"].items():
            options_of[key.member] = without(options, dropped) if dropped else options
    for step in members:
        if step.after is None:
            options_of.pop(step.key.member, None)
        else:
            options_of[step.key.member] = step.after
    first = [member for member in change.after.order if member in options_of]
    return {member: options_of[member] for member in dict.fromkeys([*first, *options_of])}


def _exchange(name: str) -> str:
    """Swap the new set with the old one; return the reason of a failure, or ""."""
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
    ipset(["destroy", name])  # usually absent


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
