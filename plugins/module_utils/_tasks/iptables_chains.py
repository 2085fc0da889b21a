# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Options of ``iptables_chains``, converted to model items."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from .._module.argspec import FAMILIES, check_owner, unique
from .._module.task import TaskChange
from ..engine.errors import InputError
from ..engine.kernel import iptables
from ..engine.kernel.scratch import in_scratch
from ..engine.model.ipset import IPSet
from ..engine.model.iptables import BUILT_IN, ChainKey, JumpKey, RulePosition
from ..engine.syntax.iptables_rule import canonical_rule
from .iptables_fields import text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from .._module.task import LedgerView, Prepared
    from ..engine.ledger import Item
    from ..engine.model import ReadState, State
    from ..engine.plan import Plan

    Chains = Mapping[ChainKey, "Wanted"]
    Texts = Mapping[ChainKey, tuple[str, ...]]

_QUOTED = re.compile(r"[\"'\\]")
_COMMAND = re.compile(r"(-[ADIRPNXFZ]|--(append|insert|delete|replace|new-chain|flush))\b")
# iptables ends in the middle of its input as if all were well, or starts another program.
_NO_RULE = re.compile(r"(?:^|\s)(?:-h|--help|-V|--version|-M|--modprobe)(?![\w-])(?=[^\"]*(?:\"[^\"]*\"[^\"]*)*\Z)")
_REPEATED = re.compile(r" # \d+\Z")  # how iptables.read tells rules of a built-in chain apart that are the same
_SET_FAMILIES = {"inet": 4, "inet6": 6, "bitmap:ip": 4, "bitmap:ip,mac": 4}  # the others hold no addresses
_NAME = re.compile(r"[^\s!\-,+\"'\\][^\s\"'\\]{0,27}\Z")


def prepare(params: dict[str, Any]) -> Prepared:
    """Return how to read, what is wanted and how to write, for :func:`._converge.run`."""
    check_owner(params["owner"])
    iptables.choose("" if params["backend"] == "auto" else params["backend"])
    chains: dict[ChainKey, Wanted] = {}
    seen: dict[ChainKey, str] = {}
    for index, chain in enumerate(params["chains"]):
        place = f"chains[{index}]"
        check_name(place, chain["name"])
        given = [text(f"{place}.rules[{number}]", rule).strip() for number, rule in enumerate(chain["rules"] or ())]
        rules = [rule if _QUOTED.search(rule) else " ".join(rule.split()) for rule in given]
        for number, rule in enumerate(rules):
            check_rule(f"{place}.rules[{number}]", "text", rule)
        if chain["state"] == "absent" and (rules or chain["jumps"]):
            raise InputError(place, "state", "absent", "present, with rules or jumps")
        for family in chain["families"]:
            key = ChainKey(FAMILIES[family], chain["table"], chain["name"])
            unique(seen, key, place, f"chain {key}")
            jumps = [(f"{place}.jumps[{number}]", jump) for number, jump in enumerate(chain["jumps"] or ())]
            for here, jump in jumps:
                check_jump(here, key, jump)
            chains[key] = Wanted(
                place,
                chain["state"] == "present",
                None if chain["rules"] is None else tuple(rules),
                None
                if chain["jumps"] is None
                else [(here, jump_into(key, jump), jump["position"]) for here, jump in jumps],
            )

    def read(around: LedgerView) -> State:
        mine = [key for kind in ("chain", "jump") for key in around.owned.get(kind, ())]
        about = [*chains, *mine]
        return iptables.read(sorted({key.family for key in about}), {key.table for key in about})

    expected = Expected({}) if params.get("check_mode") else None
    return read, lambda have, around: wanted(chains, have, around, expected), {"iptables": iptables.apply}


def reread(items: Collection[Item]) -> State:
    """Return what there is of (kind, key) pairs, and what stands beside them."""
    return iptables.read(sorted({key.family for _kind, key in items}), {key.table for _kind, key in items})


class Expected(NamedTuple):
    """Sets that check mode expects from earlier tasks, which it has not carried out.

    ``told`` is a part of the module's result.
    """

    told: dict[str, Any]

    def sets(self, place: str, name: str) -> IPSet:
        """Say that a set is to come, and return what stands for it meanwhile; its type matters to no rule."""
        warnings = self.told.setdefault("warnings", [])
        warnings.append(f"{place}: set {name} does not exist; a run would fail unless a task before this one makes it")
        return IPSet("bitmap:port", (("range", "0-1"),))

    def refine(self, made: Plan) -> Plan:
        return made


class Wanted(NamedTuple):
    """Chain as the task wants it: its position in the task, presence, rules and jumps (place, rule, position)."""

    place: str
    present: bool
    rules: tuple[str, ...] | None
    jumps: list[tuple[str, JumpKey, Any]] | None


def check_name(place: str, name: str) -> None:
    """Raise InputError unless ``name`` can be a chain of one's own."""
    if not _NAME.match(name) or any(name in chains for chains in BUILT_IN.values()):
        raise InputError(
            place,
            "name",
            name,
            "a chain of your own: 1 to 28 characters without spaces and quotes, not a built-in chain",
        )


def check_rule(place: str, field: str, rule: str) -> None:
    """Raise InputError unless ``rule`` can be one rule, or a part of one."""
    if "\n" in rule or rule != rule.strip() or _COMMAND.match(rule):
        raise InputError(place, field, rule, "one rule without '-A CHAIN', in the spelling of iptables-save")
    if _NO_RULE.search(rule):
        raise InputError(place, field, rule, "one rule, without options that make iptables do something else")


def check_jump(place: str, chain: ChainKey, jump: Mapping[str, Any]) -> None:
    """Raise InputError unless there can be such a jump into ``chain``."""
    if jump["chain"] not in BUILT_IN[chain.table]:
        raise InputError(
            place,
            "chain",
            jump["chain"],
            f"a built-in chain of table {chain.table}: {', '.join(BUILT_IN[chain.table])}",
        )
    check_rule(place, "match", jump["match"].strip())


def jump_into(chain: ChainKey, jump: Mapping[str, Any]) -> JumpKey:
    """Return the key of a jump into ``chain``."""
    return JumpKey(chain.family, chain.table, jump["chain"], f"{jump['match'].strip()} -j {chain.chain}".strip())


def wanted(chains: Chains, have: ReadState, around: LedgerView, expected: Expected | None = None) -> TaskChange:
    """Return what the task wants, seeing what is there and whose it is."""
    spelled = respell(chains, have, expected)
    want: State = {"chain": {}, "jump": {}}
    absent: dict[str, set[Any]] = {"chain": set(), "jump": set()}
    seen: dict[JumpKey, str] = {}
    orders: dict[Any, int] = {}
    for key, chain in spelled.items():
        if not chain.present:
            absent["chain"].add(key)
        else:
            want["chain"][key] = have["chain"].get(key, ()) if chain.rules is None else chain.rules
        for place, jump, position in chain.jumps or ():
            unique(seen, jump, place, f"rule in {jump}")
            spot = (jump[:3], position)
            orders[spot] = orders.get(spot, 0) + 1
            want["jump"][jump] = RulePosition(position, orders[spot])
    for key, chain in spelled.items():
        if not chain.present or chain.jumps is not None:
            mine = around.owned.get("jump", ())
            absent["jump"].update(
                jump
                for jump in mine
                if jump[:2] == key[:2] and target(jump.rule) == key.chain and jump not in want["jump"]
            )
    left = {key for key, chain in spelled.items() if chain.present and chain.jumps is None}
    jumps = {jump for jump in have["jump"] if ChainKey(jump.family, jump.table, target(jump.rule)) not in left}
    return TaskChange(want, absent, {}, {"chain": have["chain"], "jump": jumps}, expected)


def target(rule: str) -> str:
    """Return the chain that a rule jumps to."""
    return rule.partition(" # ")[0].rpartition(" ")[2]


def respell(chains: Chains, have: ReadState, expected: Expected | None) -> dict[ChainKey, Wanted]:
    """Return the chains with rules and jumps as iptables-save spells them.

    iptables is asked only if a rule or jump is not in the kernel.
    """
    plain = {key: plainly(chain, key.family, have["chain"].get(key, ())) for key, chain in chains.items()}
    rules = {
        key: asked
        for key, chain in plain.items()
        if (asked := chains[key].rules) and chain.rules != have["chain"].get(key)
    }
    jumps = [
        given
        for key, chain in plain.items()
        for (_place, given, _position), (_same, jump, _there) in zip(chains[key].jumps or (), chain.jumps or ())
        if jump not in have["jump"]
    ]
    if not rules and not jumps:
        return plain
    sets = mentioned_sets(chains, rules, jumps, expected)
    stay = [key for key in {**have["chain"], **chains} if key not in chains or chains[key].present]
    texts, keys = ask(rules, jumps, sets, stay)
    return {
        key: chain._replace(
            rules=texts.get(key, chain.rules),
            jumps=chain.jumps
            and [
                (place, keys.get(given, jump), position)
                for (place, jump, position), (_same, given, _there) in zip(chain.jumps, chains[key].jumps or ())
            ],
        )
        for key, chain in plain.items()
    }


def plainly(chain: Wanted, family: int, there: tuple[str, ...]) -> Wanted:
    """Return a chain with the rules and jumps respelled that need no iptables; ``there`` are its kernel rules."""
    if chain.rules and chain.rules != there:
        known = set(there)
        chain = chain._replace(rules=tuple(rule if rule in known else _plain(family, rule) for rule in chain.rules))
    return chain._replace(
        jumps=chain.jumps
        and [(place, jump._replace(rule=_plain(family, jump.rule)), position) for place, jump, position in chain.jumps],
    )


def _plain(family: int, rule: str) -> str:
    spelled = canonical_rule(family, rule)
    return rule if spelled is None else spelled


def ask(
    rules: Texts, jumps: Collection[JumpKey], sets: Mapping[str, IPSet], known: Collection[ChainKey]
) -> tuple[dict[ChainKey, tuple[str, ...]], dict[JumpKey, JumpKey]]:
    """Return the rules of chains, and the keys of rules in built-in chains, as the node's own iptables spells them.

    Raises:
        EngineError: iptables does not take one; the text names it and says why.
    """

    def asking() -> tuple[list[Any], list[Any]]:
        spelled = iptables.normalise(rules, jumps, sets=sets, known=known)
        return list(spelled.chains.items()), list(spelled.jumps.items())

    found_rules, found_jumps = in_scratch(asking) or ((), ())
    texts = {ChainKey(*key): tuple(found) for key, found in found_rules}
    keys = {
        JumpKey(*key): JumpKey(found[0], found[1], found[2], _REPEATED.sub("", found[3])) for key, found in found_jumps
    }
    return texts, keys


def mentioned_sets(
    chains: Chains, rules: Texts, jumps: Collection[JumpKey], expected: Expected | None
) -> dict[str, IPSet]:
    """Return the headers of the sets that rules name. One that is not there may be ``expected``.

    Raises:
        InputError: there is no such set, or it holds another family: the kernel takes such a rule, and it never
            matches.
    """
    texts: list[tuple[ChainKey | JumpKey, str, str]]
    texts = [
        (key, f"{chains[key].place}.rules[{index}]", rule) for key in rules for index, rule in enumerate(rules[key])
    ]
    given = [
        (place, jump) for chain in chains.values() for place, jump, _position in chain.jumps or () if jump in jumps
    ]
    texts += [(jump, place, jump.rule) for place, jump in given]
    named = [(key, place, name) for key, place, rule in texts for name in iptables.mentioned_sets([rule])]
    if not named:
        return {}
    from ..engine.kernel import ipset

    there = ipset.read({name for _key, _place, name in named}, members=False)["set"]
    for key, place, name in named:
        if name not in there:
            if expected is None:
                raise InputError(place, "set", name, "a set that exists")
            there[name] = expected.sets(place, name)
        kind, options = there[name].type, there[name]
        if _SET_FAMILIES.get(options.option("family", kind), key.family) != key.family:
            raise InputError(place, "set", name, f"a set with IPv{key.family} addresses (it is {options.text()})")
    return there
