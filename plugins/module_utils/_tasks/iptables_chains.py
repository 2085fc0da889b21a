# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Options of ``iptables_chains``, converted to model items."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from .._confirm.protocol import CONFIRM
from .._module.argspec import FAMILIES, OWNER, PURGE, STATE, unique
from .._module.planning import TaskChange
from .._module.task import ConfirmableTask
from ..engine.errors import InputError
from ..engine.kernel import iptables
from ..engine.kernel.scratch import in_scratch
from ..engine.model.ipset import IPSet
from ..engine.model.iptables import ChainKey, JumpKey, RulePosition
from ..engine.syntax.iptables_rule import canonical_rule
from .iptables_fields import check_jump, check_name, check_rule, jump_into, text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ansible.module_utils.basic import AnsibleModule

    from .._module.planning import LedgerView
    from ..engine.ledger import Item
    from ..engine.model import ReadState, State

    Chains = Mapping[ChainKey, "WantedChain"]
    Texts = Mapping[ChainKey, tuple[str, ...]]

_QUOTED = re.compile(r"[\"'\\]")
_REPEATED = re.compile(r" # \d+\Z")  # iptables.read appends this to identical rules of a built-in chain
_SET_FAMILIES = {"inet": 4, "inet6": 6, "bitmap:ip": 4, "bitmap:ip,mac": 4}  # other types hold no addresses
JUMP: dict[str, Any] = {
    "chain": {"type": "str", "choices": ["INPUT", "FORWARD", "OUTPUT", "PREROUTING", "POSTROUTING"], "required": True},
    "match": {"type": "str", "default": ""},
    "position": {"type": "str", "choices": ["first", "prepended", "last"], "default": "first"},
}
CHAIN: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "table": {"type": "str", "choices": ["filter", "nat", "mangle", "raw", "security"], "default": "filter"},
    "families": {"type": "list", "elements": "str", "choices": ["ipv4", "ipv6"], "default": ["ipv4"]},
    "rules": {"type": "list", "elements": "raw"},
    "jumps": {"type": "list", "elements": "dict", "options": JUMP},
    **STATE,
}


class Task(ConfirmableTask):
    """Task of ``iptables_chains``: chains, their rules, and jumps to them."""

    spec: ClassVar[dict[str, Any]] = {
        "chains": {"type": "list", "elements": "dict", "default": [], "options": CHAIN},
        "backend": {"type": "str", "choices": ["auto", "legacy", "nft"], "default": "auto"},
        **OWNER,
        **PURGE,
        **CONFIRM,
    }

    def __init__(self, module: AnsibleModule, params: dict[str, Any]) -> None:
        super().__init__(module, params)
        self.tables = {"iptables": iptables.apply}
        iptables.choose("" if params["backend"] == "auto" else params["backend"])
        self._chains = given_chains(params["chains"])
        self._expected = Expected([]) if module.check_mode else None

    def read(self, view: LedgerView) -> State:
        mine = [key for kind in ("chain", "jump") for key in view.owned.get(kind, ())]
        about = [*self._chains, *mine]
        return iptables.read(sorted({key.family for key in about}), {key.table for key in about})

    def change(self, have: ReadState, view: LedgerView) -> TaskChange:
        spelled = respell(self._chains, have, self._expected)
        want: State = {"chain": {}, "jump": {}}
        absent: dict[str, set[Any]] = {"chain": set(), "jump": set()}
        seen: dict[JumpKey, str] = {}
        orders: dict[Any, int] = {}
        for key, chain in spelled.items():
            if not chain.present:
                absent["chain"].add(key)
            else:
                want["chain"][key] = have["chain"].get(key, ()) if chain.rules is None else chain.rules
            for option_path, jump, position in chain.jumps or ():
                unique(seen, jump, option_path, f"rule in {jump}")
                spot = (jump[:3], position)
                orders[spot] = orders.get(spot, 0) + 1
                want["jump"][jump] = RulePosition(position, orders[spot])
        for key, chain in spelled.items():
            if not chain.present or chain.jumps is not None:
                mine = view.owned.get("jump", ())
                absent["jump"].update(
                    jump
                    for jump in mine
                    if jump[:2] == key[:2] and target(jump.rule) == key.chain and jump not in want["jump"]
                )
        left = {key for key, chain in spelled.items() if chain.present and chain.jumps is None}
        jumps = {jump for jump in have["jump"] if ChainKey(jump.family, jump.table, target(jump.rule)) not in left}
        return TaskChange(want, absent, {"chain": have["chain"], "jump": jumps})

    def reread(self, items: Collection[Item]) -> State:
        return iptables.read(sorted({key.family for _kind, key in items}), {key.table for _kind, key in items})

    def result(self) -> dict[str, Any]:
        for warning in self._expected.warnings if self._expected else ():
            self.module.warn(warning)
        return {}


def given_chains(given: Iterable[Mapping[str, Any]]) -> dict[ChainKey, WantedChain]:
    """Return the chains that the task names.

    Raises:
        EngineError: an option is invalid, or a chain is listed twice.
    """
    chains: dict[ChainKey, WantedChain] = {}
    seen: dict[ChainKey, str] = {}
    for index, chain in enumerate(given):
        option_path = f"chains[{index}]"
        check_name(option_path, chain["name"])
        texts = [
            text(f"{option_path}.rules[{number}]", rule).strip() for number, rule in enumerate(chain["rules"] or ())
        ]
        rules = [rule if _QUOTED.search(rule) else " ".join(rule.split()) for rule in texts]
        for number, rule in enumerate(rules):
            check_rule(f"{option_path}.rules[{number}]", "text", rule)
        if chain["state"] == "absent" and (rules or chain["jumps"]):
            raise InputError(option_path, "state", "absent", "present, with rules or jumps")
        for family in chain["families"]:
            key = ChainKey(FAMILIES[family], chain["table"], chain["name"])
            unique(seen, key, option_path, f"chain {key}")
            jumps = [(f"{option_path}.jumps[{number}]", jump) for number, jump in enumerate(chain["jumps"] or ())]
            for here, jump in jumps:
                check_jump(here, key, jump)
            chains[key] = WantedChain(
                option_path,
                chain["state"] == "present",
                None if chain["rules"] is None else tuple(rules),
                None
                if chain["jumps"] is None
                else [(here, jump_into(key, jump), jump["position"]) for here, jump in jumps],
            )
    return chains


class Expected(NamedTuple):
    """Sets that check mode expects from earlier tasks, which did not run."""

    warnings: list[str]

    def sets(self, option_path: str, name: str) -> IPSet:
        """Warn that an earlier task must make the set; return any header in its place, as no rule needs its type."""
        self.warnings.append(
            f"{option_path}: set {name} does not exist; a run would fail unless a task before this one makes it"
        )
        return IPSet("bitmap:port", (("range", "0-1"),))


class WantedChain(NamedTuple):
    """Chain as the task wants it: option path, presence, rules and jumps (option path, key, rule position)."""

    option_path: str
    present: bool
    rules: tuple[str, ...] | None
    jumps: list[tuple[str, JumpKey, Any]] | None


def target(rule: str) -> str:
    """Return the chain that a rule jumps to."""
    return rule.partition(" # ")[0].rpartition(" ")[2]


def respell(chains: Chains, have: ReadState, expected: Expected | None) -> dict[ChainKey, WantedChain]:
    """Return the chains with rules and jumps as iptables-save spells them.

    iptables runs only if a rule or a jump is not in the kernel.
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
        for (_path, given, _position), (_same, jump, _there) in zip(chains[key].jumps or (), chain.jumps or ())
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
                (option_path, keys.get(given, jump), position)
                for (option_path, jump, position), (_same, given, _there) in zip(chain.jumps, chains[key].jumps or ())
            ],
        )
        for key, chain in plain.items()
    }


def plainly(chain: WantedChain, family: int, there: tuple[str, ...]) -> WantedChain:
    """Return a chain with rules and jumps respelled as far as possible without iptables.

    ``there`` are its rules in the kernel.
    """
    if chain.rules and chain.rules != there:
        known = set(there)
        chain = chain._replace(rules=tuple(rule if rule in known else _plain(family, rule) for rule in chain.rules))
    return chain._replace(
        jumps=chain.jumps
        and [
            (option_path, jump._replace(rule=_plain(family, jump.rule)), position)
            for option_path, jump, position in chain.jumps
        ],
    )


def _plain(family: int, rule: str) -> str:
    spelled = canonical_rule(family, rule)
    return rule if spelled is None else spelled


def ask(
    rules: Texts, jumps: Collection[JumpKey], sets: Mapping[str, IPSet], known: Collection[ChainKey]
) -> tuple[dict[ChainKey, tuple[str, ...]], dict[JumpKey, JumpKey]]:
    """Return the rules of chains, and the keys of jumps, as the node's iptables spells them.

    Raises:
        EngineError: iptables refuses a rule; the text names the rule and the reason.
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
    """Return the headers of the sets that rules name; ``expected`` supplies those of absent sets.

    Raises:
        InputError: a set is absent, or holds another family: the kernel accepts such a rule, but it never matches.
    """
    texts: list[tuple[ChainKey | JumpKey, str, str]]
    texts = [
        (key, f"{chains[key].option_path}.rules[{index}]", rule)
        for key in rules
        for index, rule in enumerate(rules[key])
    ]
    given = [
        (option_path, jump)
        for chain in chains.values()
        for option_path, jump, _position in chain.jumps or ()
        if jump in jumps
    ]
    texts += [(jump, option_path, jump.rule) for option_path, jump in given]
    named = [(key, option_path, name) for key, option_path, rule in texts for name in iptables.mentioned_sets([rule])]
    if not named:
        return {}
    from ..engine.kernel import ipset

    there = ipset.read({name for _key, _path, name in named}, members=False)["set"]
    for key, option_path, name in named:
        if name not in there:
            if expected is None:
                raise InputError(option_path, "set", name, "a set that exists")
            there[name] = expected.sets(option_path, name)
        kind, options = there[name].type, there[name]
        if _SET_FAMILIES.get(options.option("family", kind), key.family) != key.family:
            raise InputError(option_path, "set", name, f"a set with IPv{key.family} addresses (it is {options.text()})")
    return there
