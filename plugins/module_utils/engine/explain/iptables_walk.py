# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Follow packets through chains of iptables, with every matching rule as a decision.

A rule that cannot be judged is followed both ways: the outcomes then carry a doubt. A rule of chance (``statistic``,
``limit``) is followed both ways without one.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..model.iptables import ChainKey
from .flow import Decision, Outcome, Packet
from .iptables_match import ParsedRule, judge, parsed
from .view import NodeView

_NO_EFFECT = frozenset(
    "LOG NFLOG TRACE AUDIT CHECKSUM TCPMSS SET CLASSIFY TOS DSCP TTL HL RATEEST SECMARK CONNSECMARK".split()
)
_DEEPEST = 32
_MOST = 64  # outcomes


def walk(view: NodeView, chain: ChainKey, start: Outcome) -> list[Outcome]:
    """Follow a packet through a built-in chain.

    The outcomes' verdicts are ``accept``, ``drop``, ``reject`` and ``unknown``. A translation of addresses is in the
    outcome's packet, with the verdict ``accept``.
    """
    stage = f"{chain.table} {chain.chain}"
    policy = view.policies.get(chain, "ACCEPT")
    finished = []
    for outcome in _follow(view, chain, start, ()):
        if outcome.verdict:
            finished.append(outcome)
        elif policy == "DROP":
            text = f"no rule of chain {chain.chain} of table {chain.table} accepts it, and the chain's policy is DROP"
            finished.append(_ended(outcome, "drop", Decision(stage, text, "chain", chain)))
        else:
            finished.append(outcome._replace(verdict="accept"))
    return distinct(finished)


def distinct(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Keep one outcome of each packet and verdict; at most 64."""
    if len(outcomes) < 2:
        return [*outcomes]
    kept: dict[tuple[Packet, str, bool], Outcome] = {}
    for outcome in outcomes:
        kept.setdefault((outcome.packet, outcome.verdict, bool(outcome.doubts)), outcome)
    return list(kept.values())[:_MOST]


def _ended(outcome: Outcome, verdict: str, decision: Decision) -> Outcome:
    return outcome._replace(verdict=verdict, decisions=(*outcome.decisions, decision))


def _follow(view: NodeView, chain: ChainKey, start: Outcome, callers: tuple[ChainKey, ...]) -> list[Outcome]:
    """Return the outcomes at the end of one chain, which ``callers`` have jumped to.

    The verdict "" means that the calling chain goes on.
    """
    live, ended = [start], list[Outcome]()
    for number, text in enumerate(view.rules.get(chain, ()), 1):
        following: list[Outcome] = []
        for outcome in live:
            rule = parsed(text)
            answer = judge(view, outcome.packet, rule)
            if answer.doubt:
                words = f"rule {number} of chain {chain.chain} of table {chain.table} has {answer.doubt}"
                outcome = outcome._replace(doubts=(*outcome.doubts, words))
            if answer.matches is not True:
                following.append(outcome)
            if answer.matches is not False:
                where = _Where(chain, number, text, callers)
                for taken in _target(view, where, rule, outcome):
                    (ended if taken.verdict else following).append(taken)
        live = distinct(following)
        if not live:
            break
    return distinct(
        live + [outcome._replace(verdict="") if outcome.verdict == "return" else outcome for outcome in ended]
    )


class _Where:
    """A rule's place, for decisions about it."""

    def __init__(self, chain: ChainKey, number: int, text: str, callers: tuple[ChainKey, ...]) -> None:
        self.chain = chain
        self.number = number
        self.text = text
        self.callers = callers

    def decision(self, effect: str) -> Decision:
        stage = f"{self.chain.table} {self.chain.chain}"
        text = f"rule {self.number} of chain {self.chain.chain} of table {self.chain.table} {effect}: {self.text}"
        return Decision(stage, text, "rule", (self.chain, self.number, self.text))


def _target(view: NodeView, where: _Where, rule: ParsedRule, outcome: Outcome) -> list[Outcome]:
    """Return the outcomes of a matching rule; the verdict "" means that the next rule is judged."""
    target, options = rule.target, rule.options
    if target in ("", *_NO_EFFECT) or (target == "CONNMARK" and "--restore-mark" not in options):
        return [outcome]
    if target in ("ACCEPT", "DROP", "REJECT"):
        effects = {"ACCEPT": "accepts it", "DROP": "drops it", "REJECT": "refuses it"}
        return [_ended(outcome, target.lower(), where.decision(effects[target]))]
    if target == "RETURN":
        return [_ended(outcome, "return", where.decision("ends the chain"))]
    if target in _CHANGES:
        try:
            changed = _CHANGES[target](view, outcome.packet, options)
        except ValueError:  # not the form that iptables-save prints
            changed = None
        if changed is not None:
            packet, verdict, effect = changed
            decisions = (*outcome.decisions, where.decision(effect))
            return [outcome._replace(packet=packet, verdict=verdict, decisions=decisions)]
    called = where.chain._replace(chain=target)
    is_circle = called in (where.chain, *where.callers)  # the kernel has none
    if called in view.rules and len(where.callers) < _DEEPEST and not is_circle:
        entered = outcome._replace(decisions=(*outcome.decisions, where.decision(f"leads to chain {target}")))
        outcomes = _follow(view, called, entered, (*where.callers, where.chain))
        return [each._replace(verdict=each.verdict or "return") for each in outcomes] if rule.is_goto else outcomes
    doubt = f"rule {where.number} of chain {where.chain.chain} of table {where.chain.table} has the target {target}"
    unsure = outcome._replace(doubts=(*outcome.doubts, doubt))
    return [unsure, _ended(unsure, "unknown", where.decision(f"has the target {target}, which cannot be judged"))]


def _set_mark(_view: NodeView, packet: Packet, options: tuple[str, ...]) -> tuple[Packet, str, str] | None:
    if len(options) != 2 or options[0] != "--set-xmark":
        return None
    value, _slash, mask = options[1].partition("/")
    new = (packet.mark & ~int(mask or "0xffffffff", 16)) ^ int(value, 16)
    return packet._replace(mark=new), "", f"sets the mark to {new:#x}"


def _masquerade(_view: NodeView, packet: Packet, _options: tuple[str, ...]) -> tuple[Packet, str, str] | None:
    return packet._replace(translation="link"), "accept", "masquerades it"


def _option(options: tuple[str, ...], name: str) -> str:
    return next((value for word, value in zip(options, options[1:]) if word == name), "")


def _source_nat(_view: NodeView, packet: Packet, options: tuple[str, ...]) -> tuple[Packet, str, str] | None:
    to = _split(_option(options, "--to-source"), packet.family)[0]
    return (packet._replace(translation=to), "accept", f"gives it the source {to}") if to else None


def _destination_nat(_view: NodeView, packet: Packet, options: tuple[str, ...]) -> tuple[Packet, str, str] | None:
    address, port = _split(_option(options, "--to-destination"), packet.family)
    if not address:
        return None
    changed = packet._replace(destination=address, port=port or packet.port, is_dnat=True)
    return changed, "accept", f"sends it to {address}" + (f":{port}" if port else "")


def _redirect(view: NodeView, packet: Packet, options: tuple[str, ...]) -> tuple[Packet, str, str] | None:
    port = _option(options, "--to-ports")
    local = view.source_on(packet.in_link, packet.family) or ("127.0.0.1" if packet.family == 4 else "::1")
    if port and not port.isdecimal():
        return None
    changed = packet._replace(destination=local, port=int(port or packet.port), is_dnat=True)
    return changed, "accept", f"redirects it to port {changed.port} of the node"


def _untrack(_view: NodeView, packet: Packet, options: tuple[str, ...]) -> tuple[Packet, str, str] | None:
    if options not in ((), ("--notrack",)):
        return None
    return packet._replace(state="UNTRACKED"), "", "excludes it from connection tracking"


def _split(text: str, fam: int) -> tuple[str, int]:
    """Return address and port of a DNAT's destination; "" for ranges."""
    if fam == 6 and text.startswith("["):
        address, _bracket, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    elif fam == 6:
        address, port = text, ""
    else:
        address, _colon, port = text.partition(":")
    if "-" in address or not (port == "" or port.isdecimal()):
        return "", 0
    return address, int(port or 0)


_CHANGES = {
    "MARK": _set_mark,
    "MASQUERADE": _masquerade,
    "SNAT": _source_nat,
    "DNAT": _destination_nat,
    "REDIRECT": _redirect,
    "CT": _untrack,
    "NOTRACK": _untrack,
}
