# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of nftables from the iptables rules of :mod:`.rules` and :mod:`.service_vips`.

:mod:`.nft_words` has the vocabulary. An unknown word is an error: no rule becomes weaker by a word that is left out.
"""

from __future__ import annotations

import re
from itertools import product

from ..errors import InputError
from ..model.iptables import ChainKey, JumpKey
from ..model.nftables import Compare, Lookup, Reject, Rule, Statement
from .nft_words import MATCHES, Alternatives, Draft, target

_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)')
_ESCAPED = re.compile(r"\\(.)")
_LONGEST_COMMENT = 128  # bytes
_OF_TRANSPORT = ("th dport", "icmp type", "icmpv6 type")


def translate(chain: ChainKey | JumpKey, rule: str) -> tuple[Rule, ...]:
    """Return the rules that do what one iptables rule does.

    They are several where nftables needs alternatives; these exclude each other.

    Args:
        chain: the chain of the rule, or the jump that it is.
        rule: its text as ``iptables-save`` prints it, without ``-A CHAIN``.

    Raises:
        InputError: a word that is not in the vocabulary.
    """
    draft = Draft(chain.family, chain.table)
    words = [word or _ESCAPED.sub(r"\1", quoted) for quoted, word in _WORD.findall(rule)]
    try:
        matches, rest = _read_matches(draft, words)
        last = target(draft, rest)
        if len(draft.comment.encode()) > _LONGEST_COMMENT or '"' in draft.comment:
            raise ValueError(f"a comment of at most {_LONGEST_COMMENT} bytes without quotation marks")
    except ValueError as error:
        raise InputError(f"IPv{chain.family} {chain.table} {chain.chain}", "rule", rule, str(error)) from None
    rules = []
    for chosen in product(*matches):
        statements = [statement for alternative in chosen for statement in alternative]
        rules.append(Rule((*_in_order(statements, draft.protocol, last), last), draft.comment))
    return tuple(rules)


def _read_matches(draft: Draft, words: list[str]) -> tuple[list[Alternatives], list[str]]:
    """Return the matches, and the words behind ``-j``."""
    matches: list[Alternatives] = []
    module, negated, at = "", False, 0
    while at < len(words) and words[at] != "-j":
        word = words[at]
        at += 1
        if word == "!":
            negated = True
            continue
        if word == "-m":
            module = " ".join(words[at : at + 1])
            at += 1
            continue
        match = MATCHES.get(word) or MATCHES.get(f"{module} {word}")
        if match is None or match.negation == ("never" if negated else "always"):
            raise ValueError(f"words that nftables has a form for, not {'! ' if negated else ''}{module} {word}")
        values = words[at : at + match.values]
        if len(values) < match.values:
            raise ValueError(f"{match.values} values behind {word}")
        matches.append(match.make(draft, values, negated))
        at += match.values
        negated = False
    return matches, words[at + 1 :]


def _in_order(statements: list[Statement], protocol: str, last: Statement) -> list[Statement]:
    """Put the rule's protocol where ``nft`` implies it, so that ``nft`` prints and reads the same rule.

    This is right before the first statement that needs it, or at the start for ``reject with tcp reset``.
    """
    compare = Compare("meta l4proto", protocol)
    if compare not in statements:
        return statements
    others = [statement for statement in statements if statement != compare]
    at = next((at for at, statement in enumerate(others) if _needs_protocol(statement)), statements.index(compare))
    others.insert(0 if last == Reject("tcp reset") else at, compare)
    return others


def _needs_protocol(statement: Statement) -> bool:
    if isinstance(statement, Lookup):
        return "th dport" in statement.fields
    return isinstance(statement, Compare) and statement.field in _OF_TRANSPORT
