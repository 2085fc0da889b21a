# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Normalise rules with iptables: write them in any spelling, and read them back as ``iptables-save`` prints them.

Only for a separate network namespace, where no other process sees the rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ...errors import EngineError
from ...model.ipset import IPSet
from ...model.iptables import BUILT_IN, ChainKey, JumpKey, Rules
from ...syntax.common import AskError
from ...syntax.iptables_rule import words as split
from .read import parse
from .tool import Complaint, restore, save

_SET_OPTIONS = frozenset(("--match-set", "--add-set", "--del-set", "--map-set"))
# Options of a set's header that matter to a rule; a big hash table would only cost memory.
_HEADER = ("family", "range")


class Spelled(NamedTuple):
    """Chains and rules of built-in chains in iptables' spelling; ``jumps`` maps each key as given to its new one."""

    chains: dict[ChainKey, Rules]
    jumps: dict[JumpKey, JumpKey]


def mentioned_sets(rules: Iterable[str]) -> set[str]:
    """Return the names of the sets that rules refer to."""
    names: set[str] = set()
    for rule in rules:
        try:
            words = split(rule)
        except AskError:  # iptables refuses it later
            continue
        names.update(after for word, after in zip(words, words[1:]) if word in _SET_OPTIONS)
    return names


def normalise(
    chains: Mapping[ChainKey, Sequence[str]],
    jumps: Collection[JumpKey] = (),
    *,
    sets: Mapping[str, IPSet],
    known: Collection[ChainKey] = (),
) -> Spelled:
    """Return rules in the spelling of ``iptables-save``. Call it in an empty network namespace.

    Args:
        chains: rules in any spelling that iptables understands.
        jumps: rules of built-in chains, likewise.
        sets: the headers of the sets that the rules refer to; those that do not exist are left out.
        known: further chains that the rules may jump to.

    Raises:
        EngineError: iptables refuses a rule, or makes several rules of one in a built-in chain; the text names chain
            and rule.
        MissingError: no iptables, or not root.
    """
    if sets:
        from ..ipset.tool import restore as restore_sets  # late, as in the package

        refused = restore_sets([f"create {name} {_plain(header)}" for name, header in sets.items()])
        if refused is not None:
            raise EngineError(f"set {list(sets)[refused.line]}: {refused.text}")
    spelled = Spelled({}, {})
    tables = {key[:2] for key in chains} | {key[:2] for key in jumps}
    for family in sorted({family for family, _table in tables}):
        lines = []
        for table in sorted({table for where, table in tables if where == family}):
            lines += _compose(family, table, chains, jumps, known)
        _restore(family, lines)
        own, built_in = parse(save(family))
        for key in chains:
            if key.family == family and len(own.get((key.table, key.chain), ())) < len(chains[key]):
                raise EngineError(
                    f"IPv{family} {key.table} {key.chain}: iptables takes one of the rules for something else"
                )
        spelled.chains.update({key: tuple(own[key.table, key.chain]) for key in chains if key.family == family})
        given = [key for key in jumps if key.family == family]
        for chain in {(key.table, key.chain) for key in given}:
            asked = [key for key in given if (key.table, key.chain) == chain]
            if len(asked) != len(built_in[chain]):
                raise EngineError(
                    f"IPv{family} {' '.join(chain)}: {' and '.join(f'`{key.rule}`' for key in asked)} become"
                    f" {len(built_in[chain])} rules, since a source or destination means several addresses; give each"
                    " address a jump of its own"
                )
            spelled.jumps.update({key: key._replace(rule=rule) for key, rule in zip(asked, built_in[chain])})
    return spelled


def _compose(
    family: int,
    table: str,
    chains: Mapping[ChainKey, Sequence[str]],
    jumps: Collection[JumpKey],
    known: Collection[ChainKey],
) -> list[str]:
    here = [key for key in chains if (key.family, key.table) == (family, table)]
    names = {key.chain: None for key in [*here, *known] if (key.family, key.table) == (family, table)}
    lines = [f"*{table}"]
    lines += [f":{chain} - [0:0]" for chain in names if chain not in BUILT_IN[table]]
    lines += [f"-A {key.chain} {rule}".rstrip() for key in here for rule in chains[key]]
    lines += [f"-A {key.chain} {key.rule}" for key in jumps if (key.family, key.table) == (family, table)]
    return [*lines, "COMMIT"]


def _restore(family: int, lines: list[str]) -> None:
    refused = restore(family, lines)
    if refused is None:
        return
    if refused.line and lines[refused.line - 1] == "COMMIT":
        refused = _bisect(family, lines[: refused.line], refused)
    number, words, _cause = refused
    table = ""
    for line in lines[:number]:
        if line.startswith("*"):
            table = line[1:]
    line = lines[number - 1] if number else ""
    chain = line.split(" ")[1] if line.startswith("-A ") else ""
    subject = " ".join(part for part in (f"IPv{family}", table, chain) if part)
    from .words import explain

    raise EngineError(f"{subject}: {explain(family, table, line, words)}")


def _bisect(family: int, lines: list[str], refused: Complaint) -> Complaint:
    """Find the refused rule of the last table in these lines, by bisection.

    The kernel does not say which rule it refuses.
    """
    first = max(index for index, line in enumerate(lines) if line.startswith("*"))
    rules = [index for index, line in enumerate(lines) if index > first and line.startswith("-A ")]
    if not rules:
        return refused
    head = lines[first : rules[0]]
    good, bad, words = 0, len(rules), refused.text
    while bad - good > 1:
        middle = (good + bad) // 2
        complaint = restore(family, [*head, *(lines[index] for index in rules[:middle]), "COMMIT"])
        if complaint is None:
            good = middle
        else:
            bad, words = middle, complaint.text
    return Complaint(rules[good] + 1, words)


def _plain(header: IPSet) -> str:
    kept = [(name, value) for name, value in header.options if name in _HEADER]
    return IPSet(header.type, tuple(kept)).text()
