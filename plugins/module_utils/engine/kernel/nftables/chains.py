# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables, chains and rules as attributes of the kernel, and back."""

from __future__ import annotations

from ...model.nftables import ChainKey, Hook, Rule, TableKey
from ..netlink import attribute, attributes, string, string_attribute
from .protocol import (
    CHAIN_HOOK,
    CHAIN_NAME,
    CHAIN_POLICY,
    CHAIN_TABLE,
    CHAIN_TYPE,
    HOOK_HOOKNUM,
    HOOK_PRIORITY,
    I32,
    RULE_CHAIN,
    RULE_EXPRESSIONS,
    RULE_TABLE,
    RULE_USERDATA,
    TABLE_FLAGS,
    TABLE_NAME,
    U32,
    nested,
)
from .statements import decode, encode

_HOOKS = {"prerouting": 0, "input": 1, "forward": 2, "output": 3, "postrouting": 4}
_HOOK_NAMES = {number: name for name, number in _HOOKS.items()}
_POLICIES = {"drop": 0, "accept": 1}
_POLICY_NAMES = {number: name for name, number in _POLICIES.items()}
_COMMENT = 0  # NFTNL_UDATA_RULE_COMMENT
_LONGEST_COMMENT = 128


def encode_table(key: TableKey, flags: int | None = None) -> bytes:
    """Return the attributes that name a table, with its flags if it is to be created."""
    name = string_attribute(TABLE_NAME, key.name)
    return name if flags is None else name + attribute(TABLE_FLAGS, U32.pack(flags))


def decode_table(fields: dict[int, bytes]) -> tuple[str, int]:
    """Return the name and the flags of a table."""
    return string(fields[TABLE_NAME]), U32.unpack(fields.get(TABLE_FLAGS, bytes(4)))[0]


def encode_chain(key: ChainKey, hook: Hook | None = None) -> bytes:
    """Return the attributes that name a chain, with its hook if it is to be created as a base chain.

    Raises:
        ValueError: the hook, its priority or its policy is unknown.
    """
    payload = string_attribute(CHAIN_TABLE, key.table.name) + string_attribute(CHAIN_NAME, key.name)
    if hook is None:
        return payload
    if hook.hook not in _HOOKS or hook.policy not in _POLICIES or not -(1 << 31) <= hook.priority < 1 << 31:
        raise ValueError(f"{hook} cannot be written")
    hook_fields = attribute(HOOK_HOOKNUM, U32.pack(_HOOKS[hook.hook])) + attribute(
        HOOK_PRIORITY, I32.pack(hook.priority)
    )
    payload += nested(CHAIN_HOOK, hook_fields) + attribute(CHAIN_POLICY, U32.pack(_POLICIES[hook.policy]))
    return payload + string_attribute(CHAIN_TYPE, hook.type)


def decode_chain(table: TableKey, fields: dict[int, bytes]) -> tuple[ChainKey, Hook | None]:
    """Return a chain's key and hook.

    Raises:
        LookupError, ValueError, struct.error: an attribute is missing or cut off.
    """
    key = ChainKey(table, string(fields[CHAIN_NAME]))
    if CHAIN_HOOK not in fields:
        return key, None
    hook_fields = attributes(fields[CHAIN_HOOK])
    (number,), (priority,) = U32.unpack(hook_fields[HOOK_HOOKNUM]), I32.unpack(hook_fields[HOOK_PRIORITY])
    (policy,) = U32.unpack(fields[CHAIN_POLICY])
    hook = Hook(string(fields[CHAIN_TYPE]), _named(_HOOK_NAMES, number), priority, _named(_POLICY_NAMES, policy))
    return key, hook


def encode_rule(key: ChainKey, rule: Rule) -> bytes:
    """Return the attributes that append a rule to a chain.

    Raises:
        ValueError: a statement cannot be written, or the comment is too long.
    """
    payload = string_attribute(RULE_TABLE, key.table.name) + string_attribute(RULE_CHAIN, key.name)
    payload += nested(RULE_EXPRESSIONS, encode(key.table.family, rule.statements))
    if not rule.comment:
        return payload
    comment = rule.comment.encode("utf-8", "surrogateescape")
    if len(comment) > _LONGEST_COMMENT:
        raise ValueError(f"comment of {len(comment)} bytes, expected {_LONGEST_COMMENT} at most")
    return payload + attribute(RULE_USERDATA, bytes((_COMMENT, len(comment) + 1)) + comment + b"\0")


def decode_rule(table: TableKey, fields: dict[int, bytes]) -> tuple[ChainKey, Rule]:
    """Return the chain of a rule, and the rule.

    Raises:
        LookupError: an attribute is missing.
    """
    key = ChainKey(table, string(fields[RULE_CHAIN]))
    statements = decode(table.family, fields.get(RULE_EXPRESSIONS, b""))
    return key, Rule(statements, _comment(fields.get(RULE_USERDATA, b"")))


def _comment(notes: bytes) -> str:
    """Return the comment among libnftables' notes: entries of one byte type, one byte length, and the value."""
    start = 0
    while start + 2 <= len(notes):
        kind, size = notes[start], notes[start + 1]
        if kind == _COMMENT:
            return string(notes[start + 2 : start + 2 + size])
        start += 2 + size
    return ""


def _named(names: dict[int, str], number: int) -> str:
    return names.get(number) or str(number)
