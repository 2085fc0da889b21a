# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of a plan, in one table.

Dependencies of an item are created before it, and removed after it. The address or local route that attracts the
traffic is created last and removed first: a virtual address without a virtual server would refuse connections that were
served elsewhere until then. Rules change before virtual servers are created, so that no connection is balanced without
its translation (kubernetes/kubernetes#133773).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    ("virtual_server", "create"),
    ("virtual_server", "change"),
    ("real_server", "create"),
    ("real_server", "change"),
    ("address", "create"),
    ("route", "create"),
    # removals from here on
    ("address", "delete"),
    ("route", "delete"),
    ("real_server", "delete"),
    ("virtual_server", "delete"),
    ("nft_text", "delete"),
    ("jump", "delete"),
    ("chain", "delete"),
    ("nft_chain", "delete"),
    ("nft_element", "delete"),
    ("nft_set", "delete"),
    ("nft_table", "delete"),
    ("member", "delete"),
    ("set", "delete"),
    ("link", "delete"),
    ("file", "delete"),
    ("sysctl", "delete"),
    ("kernel_module", "delete"),
    ("sync_daemon", "create"),  # a backup needs the real servers of the connections that it receives
    ("sync_daemon", "change"),
)
RULES = ("chain", "jump", "nft_chain")
_RANK: dict[tuple[str, str], int] = {pair: rank for rank, pair in enumerate(ORDER)}


def ordered(steps: Iterable[Step]) -> list[Step]:
    """Sort steps by the table; within one row they keep their order.

    A set that is refilled because of its new header loses its members at that step: their deletions move to the
    creations. An IPv6 address with a new prefix length is deleted before it is created, since a link can have it only
    once. Elements are deleted from an interval set before others are created in it, since elements must not overlap.
    """
    steps = list(steps)
    intervals = _interval_sets(steps)
    refilled = {step.key for step in steps if is_refill(step)}
    again = {
        step.key[:2] for step in steps if step.kind == "address" and step.after is not None and ":" in step.key.address
    }
    elements = _RANK["nft_element", "create"] - 0.5
    at_once, before = _RANK["member", "change"], _RANK["address", "create"] - 0.5

    def rank(step: Step) -> float:
        if refilled and step.kind == "member" and step.key.set in refilled:
            return at_once
        if again and step.kind == "address" and step.after is None and step.key[:2] in again:
            return before
        if intervals and step.kind == "nft_element" and step.after is None and step.key.set in intervals:
            return elements
        return _RANK[step.kind, step.verb]

    return sorted(steps, key=rank)


def _interval_sets(steps: Iterable[Step]) -> set[Any]:
    """Return the sets of nftables in which elements are created that have a network, or replace one that has."""
    elements = [step for step in steps if step.kind == "nft_element"]
    networks = {step.key.set for step in elements if any("/" in field for field in step.key.fields)}
    return networks.intersection(step.key.set for step in elements if step.after is not None)


def rules_last(steps: Sequence[Step]) -> list[Step]:
    """Move created and changed rules behind the created virtual servers and addresses.

    ``steps`` are in the order of :func:`ordered`.

    For a node whose rules balance until then: they keep connections from IPVS, so they are removed once IPVS serves.
    """
    end = max((number for number, step in enumerate(steps, 1) if step.after is not None), default=0)
    coming = steps[:end]
    others = [step for step in coming if step.kind not in RULES]
    return [*others, *(step for step in coming if step.kind in RULES), *steps[end:]]


def is_refill(step: Step) -> bool:
    """Tell whether a step replaces a set by one in which its members have another meaning."""
    return step.kind == "set" and step.verb == "change" and not keeps_members(step.before, step.after)
