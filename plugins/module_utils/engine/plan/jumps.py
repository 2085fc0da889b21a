# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where our rules stand in chains that are not ours."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ..model.iptables import JumpKey, Place
from .step import Step

_Chain = tuple[int, str, str]


def place(
    have: Mapping[Any, int], want: Mapping[Any, Place], removable: Collection[Any], claimed: Collection[Any]
) -> Iterator[Step]:
    """Yield the steps that put every wanted rule in its place and take the ``removable`` ones that are not wanted out.

    Args:
        have: every rule of the built-in chains, with its position (from 1).
        want: our rules, with their place.
        removable: rules that are ours.
        claimed: rules of any owner: those do not count as being in the way.
    """
    chains: dict[_Chain, list[str]] = {}
    for key in sorted(have, key=lambda item: have[item]):
        chains.setdefault(key[:3], []).append(key.rule)
    wanted: dict[_Chain, dict[str, Place]] = {}
    for key, spot in want.items():
        wanted.setdefault(key[:3], {})[key.rule] = spot
    going: dict[_Chain, list[str]] = {}
    for key in removable:
        if key in have and key not in want:
            going.setdefault(key[:3], []).append(key.rule)
    for chain in sorted(set(wanted) | set(going)):
        others = {key.rule for key in claimed if key[:3] == chain}
        rules = chains.get(chain, [])
        for rule, before, after in _moves(rules, wanted.get(chain, {}), going.get(chain, []), others):
            yield Step("jump", JumpKey(*chain, rule), before, after)


def _moves(
    rules: list[str], want: dict[str, Place], going: list[str], claimed: Collection[str]
) -> Iterator[tuple[str, Any, Any]]:
    position = {rule: index for index, rule in reversed(list(enumerate(rules, 1)))}
    for rule in going:
        yield rule, position[rule], None
    top = [rule for rule, spot in sorted(want.items(), key=lambda pair: pair[1].order) if spot.where == "first"]
    bottom = [rule for rule, spot in sorted(want.items(), key=lambda pair: pair[1].order) if spot.where == "last"]
    top_moves = not _leads(rules, top, claimed)
    bottom_moves = not _leads(rules[::-1], bottom[::-1], claimed)
    stay = [rule for rule in rules if rule not in going]
    if top_moves:
        stay = [rule for rule in stay if rule not in top]
    if bottom_moves:
        stay = [rule for rule in stay if rule not in bottom]
    if top_moves:
        for target, rule in enumerate(top, 1):
            yield rule, position.get(rule), target
        stay = top + stay
    if bottom_moves:
        for target, rule in enumerate(bottom, len(stay) + 1):
            yield rule, position.get(rule), target


def _leads(rules: list[str], ours: list[str], claimed: Collection[str]) -> bool:
    """Tell whether ``ours`` stand in this order at the head of ``rules``, with nothing but claimed rules between them."""
    found = 0
    for rule in rules:
        if found == len(ours):
            return True
        if rule == ours[found]:
            found += 1
        elif rule not in claimed or rule in ours:
            return False
    return found == len(ours)
