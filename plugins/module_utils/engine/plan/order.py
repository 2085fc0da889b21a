# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of a plan, in one table.

Dependencies of an item are created before it, and removed after it. The address or local route that attracts the
traffic is created last and removed first: a virtual address without a virtual server would refuse connections that were
served elsewhere until then. A virtual server is created before members and rules, and gets real servers after them: no
process of the node gets a connection that a rule lets pass, and no connection is balanced without its translation
(kubernetes/kubernetes#133773).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ..model.ipset import keeps_members
from ..model.step import Step

ORDER: tuple[tuple[str, str], ...] = (
    ("sync_daemon", "delete"),  # a daemon and real servers of the other family exclude each other
    ("kernel_module", "create"),
    ("sysctl", "create"),
    ("sysctl", "change"),
    ("file", "create"),  # makes the two above permanent: never written for what the kernel refuses
    ("file", "change"),
    ("link", "create"),
    ("link", "change"),
    ("virtual_server", "create"),  # without real servers it refuses: no process of the node gets the connection
    ("virtual_server", "change"),
    ("set", "create"),
    ("set", "change"),
    ("member", "create"),
    ("member", "change"),
    ("chain", "create"),
    ("chain", "change"),
    ("jump", "create"),
    ("jump", "change"),
    ("nft_table", "create"),  # one transaction until "nft_chain", in an order of its own
    ("nft_table", "change"),
    ("nft_set", "create"),
    ("nft_set", "change"),
    ("nft_element", "create"),
    ("nft_element", "change"),
    ("nft_chain", "create"),
    ("nft_chain", "change"),
    ("nft_text", "create"),
    ("nft_text", "change"),
    ("ipvs_timeout", "change"),
    ("real_server", "create"),
    ("real_server", "change"),
    ("address", "create"),
    ("route", "create"),
    # removals from here on
    ("address", "delete"),
    ("route", "delete"),
    ("real_server", "delete"),
    ("nft_text", "delete"),
    ("jump", "delete"),
    ("chain", "delete"),
    ("nft_chain", "delete"),
    ("nft_element", "delete"),
    ("nft_set", "delete"),
    ("nft_table", "delete"),
    ("member", "delete"),
    ("set", "delete"),
    ("virtual_server", "delete"),
    ("link", "delete"),
    ("file", "delete"),
    ("sysctl", "delete"),
    ("kernel_module", "delete"),
    ("sync_daemon", "create"),  # a backup needs the real servers of the connections that it receives
    ("sync_daemon", "change"),
)
RULES = ("chain", "jump", "nft_chain")
_RANK: dict[tuple[str, str], int] = {pair: rank for rank, pair in enumerate(ORDER)}


def place(kind: str, verb: str) -> int:
    """Return the row of the table in which steps of a kind and verb stand."""
    return _RANK[kind, verb]


def ordered(steps: Iterable[Step], moved: Mapping[Step, float] = MappingProxyType({})) -> list[Step]:
    """Sort steps by the table; within one row they keep their order. ``moved`` has other places for some steps.

    A set that is refilled because of its new header loses its members at that step: their deletions move to the
    creations. An IPv6 address with a new prefix length is deleted before it is created, since a link can have it only
    once. Elements of an interval set are deleted before elements that may overlap with them are created.
    """
    steps = list(steps)
    overlapping = _overlapping(steps)
    refilled = {step.key for step in steps if is_refill(step)}
    again = {
        step.key[:2] for step in steps if step.kind == "address" and step.after is not None and ":" in step.key.address
    }
    elements = _RANK["nft_element", "create"] - 0.5
    at_once, before = _RANK["member", "change"], _RANK["address", "create"] - 0.5

    def rank(step: Step) -> float:
        if moved and step in moved:
            return moved[step]
        if refilled and step.kind == "member" and step.key.set in refilled:
            return at_once
        if again and step.kind == "address" and step.after is None and step.key[:2] in again:
            return before
        if overlapping and step.kind == "nft_element" and step.key in overlapping:
            return elements
        return _RANK[step.kind, step.verb]

    return sorted(steps, key=rank)


def _overlapping(steps: Iterable[Step]) -> set[Any]:
    """Return the deleted elements of nftables that may overlap with a created one, in sets with networks.

    Two elements overlap only if they are equal in all fields in which no element has a network.
    """
    elements: dict[Any, list[Step]] = {}
    for step in steps:
        if step.kind == "nft_element":
            elements.setdefault(step.key.set, []).append(step)
    keys: set[Any] = set()
    for listed in elements.values():
        if len({step.after is None for step in listed}) == 1:  # nothing is deleted, or nothing created
            continue
        exact = [
            at for at in range(len(listed[0].key.fields)) if not any("/" in step.key.fields[at] for step in listed)
        ]
        if len(exact) == len(listed[0].key.fields):
            continue
        created = {tuple(step.key.fields[at] for at in exact) for step in listed if step.after is not None}
        keys.update(
            step.key for step in listed if step.after is None and tuple(step.key.fields[at] for at in exact) in created
        )
    return keys


def translations_last(steps: Sequence[Step]) -> list[Step]:
    """Change rules of the table nat last, and create addresses before sets and rules.

    ``steps`` are in the order of :func:`ordered`.

    For a node whose rules balance until then, wherever addresses are: their nat rules keep connections from IPVS, so
    they change once IPVS serves. What they do not balance is refused by virtual servers without real servers, until the
    new rules can filter it.
    """
    end = max((number for number, step in enumerate(steps, 1) if step.after is not None), default=0)
    return [*sorted(steps[:end], key=_turn), *steps[end:]]


def _turn(step: Step) -> int:
    if step.kind in ("chain", "jump") and step.key.table == "nat":
        return 3
    if step.kind in ("address", "route") and step.before is None:
        return 1
    return 2 if _RANK[step.kind, step.verb] >= _RANK["set", "create"] else 0


def is_refill(step: Step) -> bool:
    """Tell whether a step replaces a set by one in which its members have another meaning."""
    return step.kind == "set" and step.verb == "change" and not keeps_members(step.before, step.after)
