# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Check chains, rules and jumps, and convert rules from fields to text, by one table.

Options of iptables without a field of their own go into ``match`` and ``target_options`` as text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ..engine.errors import InputError
from ..engine.model.iptables import BUILT_IN, ChainKey, JumpKey
from ..engine.syntax.iptables_options import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

_COMMAND = re.compile(r"(-[ADIRPNXFZ]|--(append|insert|delete|replace|new-chain|flush))\b")
# With these options iptables ends before the end of its input, with status 0, or starts another program.
_NO_RULE = re.compile(r"(?:^|\s)(?:-h|--help|-V|--version|-M|--modprobe)(?![\w-])(?=[^\"]*(?:\"[^\"]*\"[^\"]*)*\Z)")
_NAME = re.compile(r"[^\s!\-,+\"'\\][^\s\"'\\]{0,27}\Z")


class Field(NamedTuple):
    """Field of a rule: its match, its option, whether it takes a list, and its number of words (0: any)."""

    match: str
    option: str
    many: bool = False
    words: int = 1


FIELDS = {
    "protocol": Field("", "-p"),
    "source": Field("", "-s"),
    "destination": Field("", "-d"),
    "in_interface": Field("", "-i"),
    "out_interface": Field("", "-o"),
    "source_port": Field("multiport", "--sports", many=True),
    "destination_port": Field("multiport", "--dports", many=True),
    "ctstate": Field("conntrack", "--ctstate", many=True),
    "match_set": Field("set", "--match-set", words=2),
    "mark": Field("mark", "--mark"),
    "limit": Field("limit", "--limit"),
    "match": Field("", "", words=0),
    "comment": Field("comment", "--comment", words=0),
    "jump": Field("", "-j"),
    "goto": Field("", "-g"),
    "target_options": Field("", "", words=0),
}
_ONE_PORT = {"--sports": "--sport", "--dports": "--dport"}
_WITH_PORTS = ("tcp", "udp", "udplite", "sctp", "dccp")


def text(option_path: str, given: object) -> str:
    """Return a rule as text, in the order of the table.

    Args:
        option_path: the rule's option path.
        given: text, which is returned as it is, or fields by name.

    Raises:
        InputError: a field is unknown, a value is invalid, or fields exclude each other.
    """
    if isinstance(given, str):
        return given
    if not isinstance(given, dict):
        raise InputError(option_path, "rule", given, "text or fields")
    for name in given:
        if name not in FIELDS:
            raise InputError(option_path, "field", name, f"one of {', '.join(FIELDS)}")
    given = {name: value for name, value in given.items() if value is not None}
    if "jump" in given and "goto" in given:
        raise InputError(option_path, "goto", given["goto"], "nothing beside jump")
    if "target_options" in given and "jump" not in given:
        raise InputError(option_path, "target_options", given["target_options"], "the jump that they belong to")
    return " ".join(_spelled(option_path, name, field, given) for name, field in FIELDS.items() if name in given)


def _spelled(option_path: str, name: str, field: Field, given: dict[str, Any]) -> str:
    value = _value(option_path, name, field, given[name])
    if name == "comment":
        return f"-m comment --comment {quoted(value)}"
    if not field.option:
        return value
    inverted = value.startswith("!")
    value = value[1:].strip() if inverted else value
    match, option = field.match, field.option
    if option in _ONE_PORT:
        protocol = str(given.get("protocol", "")).lower()
        if protocol not in _WITH_PORTS:
            raise InputError(
                option_path, name, given[name], f"a protocol with ports beside it ({', '.join(_WITH_PORTS)})"
            )
        if "," not in value:
            match, option = protocol, _ONE_PORT[option]
    return " ".join(part for part in (f"-m {match}" if match else "", "!" if inverted else "", option, value) if part)


def _value(option_path: str, name: str, field: Field, value: Any) -> str:
    """Return a value as text."""
    parts = value if field.many and isinstance(value, list) else [value]
    if not parts or any(
        isinstance(part, (bool, dict, list)) or not str(part).strip() or "\n" in str(part) for part in parts
    ):
        raise InputError(option_path, name, value, "text or a number" + (", or a list of them" if field.many else ""))
    if len(parts) > 1 and any(str(part).strip().startswith("!") for part in parts):
        raise InputError(
            option_path, name, value, "'!' before one value or one text ('!80,443'), since it is about all of them"
        )
    joined = ",".join(str(part).strip() for part in parts)
    count = len(joined.lstrip("! ").split())
    if field.words and count != field.words:
        raise InputError(option_path, name, value, "one word" if field.words == 1 else f"{field.words} words")
    return joined


def check_name(option_path: str, name: str) -> None:
    """Raise InputError unless ``name`` is valid for a chain that is not built in."""
    if not _NAME.match(name) or any(name in chains for chains in BUILT_IN.values()):
        raise InputError(
            option_path,
            "name",
            name,
            "a chain that is not built in: 1 to 28 characters without spaces and quotes",
        )


def check_rule(option_path: str, field: str, rule: str) -> None:
    """Raise InputError unless ``rule`` is one rule, or a part of one."""
    if "\n" in rule or rule != rule.strip() or _COMMAND.match(rule):
        raise InputError(option_path, field, rule, "one rule without '-A CHAIN', in the spelling of iptables-save")
    if _NO_RULE.search(rule):
        raise InputError(option_path, field, rule, "one rule, without options that make iptables do something else")


def check_jump(option_path: str, chain: ChainKey, jump: Mapping[str, Any]) -> None:
    """Raise InputError unless ``jump`` is a valid jump into ``chain``."""
    if jump["chain"] not in BUILT_IN[chain.table]:
        raise InputError(
            option_path,
            "chain",
            jump["chain"],
            f"a built-in chain of table {chain.table}: {', '.join(BUILT_IN[chain.table])}",
        )
    check_rule(option_path, "match", jump["match"].strip())


def jump_into(chain: ChainKey, jump: Mapping[str, Any]) -> JumpKey:
    """Return the key of a jump into ``chain``."""
    return JumpKey(chain.family, chain.table, jump["chain"], f"{jump['match'].strip()} -j {chain.chain}".strip())
