# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of single tables by their handles, and the hooks of their chains, in every family of nftables."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import NamedTuple

from ...model.nftables import Rule, TableKey
from ..decoding import decoding
from ..netlink import NetlinkSocket, attributes, string, string_attribute
from ..nfnetlink import protocol as nfnetlink
from .chains import decode_rule
from .protocol import (
    CHAIN_HOOK,
    CHAIN_NAME,
    CHAIN_TABLE,
    FAMILIES,
    FAMILY_NAMES,
    GETCHAIN,
    GETRULE,
    HOOK_HOOKNUM,
    RULE_CHAIN,
    RULE_HANDLE,
    RULE_TABLE,
    U32,
    U64,
)
from .read import connect

_NUMBERS = {name: number for number, name in FAMILY_NAMES.items()}
_HOOKS = ("prerouting", "input", "forward", "output", "postrouting", "ingress")
_NETDEV_HOOKS = ("ingress", "egress")


class Handled(NamedTuple):
    """A rule: its handle, and itself if this codec reads the table's family (``ip``, ``ip6``)."""

    handle: int
    rule: Rule | None


class TableRules(NamedTuple):
    """Rules by chain, in order, and hooks of base chains."""

    rules: dict[str, list[Handled]]
    hooks: dict[str, str]


def read_handles(tables: Iterable[TableKey]) -> dict[TableKey, TableRules]:
    """Return the rules of tables; a table that is gone has none.

    Raises:
        MissingError: the kernel lacks nftables, or this process the right.
        KernelError: the conversation failed, or an answer is malformed.
    """
    tables_read = {}
    with connect() as connection:
        for table in tables:
            tables_read[table] = TableRules({}, {})
            try:
                with decoding("the kernel's nftables"):
                    tables_read[table].hooks.update(_hooks(connection, table))
                    tables_read[table].rules.update(_rules(connection, table))
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.EINTR):
                    raise
    return tables_read


def _hooks(connection: NetlinkSocket, table: TableKey) -> dict[str, str]:
    names = _NETDEV_HOOKS if table.family == "netdev" else _HOOKS
    hooks = {}
    for entry in connection.dump(_request(GETCHAIN, table)):
        fields = attributes(entry, nfnetlink.HEADER_BYTES)
        if string(fields[CHAIN_TABLE]) == table.name and CHAIN_HOOK in fields:
            (number,) = U32.unpack(attributes(fields[CHAIN_HOOK])[HOOK_HOOKNUM])
            hooks[string(fields[CHAIN_NAME])] = names[number] if number < len(names) else str(number)
    return hooks


def _rules(connection: NetlinkSocket, table: TableKey) -> dict[str, list[Handled]]:
    rules: dict[str, list[Handled]] = {}
    for entry in connection.dump(_request(GETRULE, table, string_attribute(RULE_TABLE, table.name))):
        fields = attributes(entry, nfnetlink.HEADER_BYTES)
        if string(fields[RULE_TABLE]) == table.name:
            rule = decode_rule(table, fields)[1] if table.family in FAMILIES else None
            (handle,) = U64.unpack(fields[RULE_HANDLE])
            rules.setdefault(string(fields[RULE_CHAIN]), []).append(Handled(handle, rule))
    return rules


def _request(command: int, table: TableKey, payload: bytes = b"") -> bytes:
    family = _NUMBERS.get(table.family, 0)
    return nfnetlink.request(nfnetlink.NFNL_SUBSYS_NFTABLES, command, family, payload)
