# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the positions of rules in built-in chains, which other software shares."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ..model.iptables import WHERE, JumpKey, RulePosition, written
from ..model.step import Step

_Chain = tuple[int, str, str]


def move_jumps(
    have: Mapping[Any, int], want: Mapping[Any, RulePosition], removable: Collection[Any], claimed: Collection[Any]
) -> Iterator[Step]:
    """Yield the steps that move each wanted rule to its position and delete the unwanted ``removable`` ones.

    Args:
        have: every rule of the built-in chains, with its position (from 1).
        want: the desired rules, with their positions.
        removable: rules of this owner.
        claimed: rules of any owner, which may stand before a first rule or behind a last one.
    """
    chains: dict[_Chain, list[str]] = {}
    for key in sorted(have, key=lambda item: have[item]):
        chains.setdefault(key[:3], []).append(key.rule)
    wanted: dict[_Chain, dict[str, RulePosition]] = {}
    for key, spot in want.items():
        wanted.setdefault(key[:3], {})[key.rule] = spot
    going: dict[_Chain, dict[str, None]] = {}
    for key in removable:
        if key in have and key not in want:
            # with repetitions: another process may have restored the rule as the agent did, and its chain cannot be
            # deleted before it
            going.setdefault(key[:3], {}).update(
                dict.fromkeys(rule for rule in chains[key[:3]] if key.rule in (rule, written(rule)))
            )
    for chain in sorted(set(wanted) | set(going)):
        others = {key.rule for key in claimed if key[:3] == chain}
        rules = chains.get(chain, [])
        for rule, before, after in _moves(rules, wanted.get(chain, {}), list(going.get(chain, ())), others):
            yield Step("jump", JumpKey(*chain, rule), before, after)


def _moves(
    rules: list[str], want: dict[str, RulePosition], going: list[str], claimed: Collection[str]
) -> Iterator[tuple[str, Any, Any]]:
    position = {rule: index for index, rule in reversed(list(enumerate(rules, 1)))}
    for rule in going:
        yield rule, position[rule], None
    groups = {
        where: [rule for rule, spot in sorted(want.items(), key=lambda pair: pair[1].order) if spot.where == where]
        for where in WHERE
    }
    first, prepended, last = groups["first"], groups["prepended"], groups["last"]
    moves = [
        [] if _leads(rules, first, claimed) else first,
        [] if _in_order(rules, prepended) else prepended,
        [] if _leads(rules[::-1], last[::-1], claimed) else last,
    ]
    stay = len([rule for rule in rules if rule not in going and not any(rule in group for group in moves)])
    for group, before in zip(moves, (0, len(first), stay + len(moves[0]) + len(moves[1]))):
        for target, rule in enumerate(group, before + 1):
            yield rule, position.get(rule), target


def _in_order(rules: list[str], ours: list[str]) -> bool:
    """Tell whether ``rules`` contain all of ``ours`` in this order, with any rules between them."""
    rest = iter(rules)
    return all(rule in rest for rule in ours)


def _leads(rules: list[str], ours: list[str], claimed: Collection[str]) -> bool:
    """Tell whether ``rules`` begin with ``ours`` in this order, with only claimed rules between them."""
    matched = 0
    for rule in rules:
        if matched == len(ours):
            return True
        if rule == ours[matched]:
            matched += 1
        elif rule not in claimed or rule in ours:
            return False
    return matched == len(ours)
