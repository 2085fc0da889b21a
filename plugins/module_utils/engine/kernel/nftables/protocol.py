# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages of the nfnetlink subsystem nftables: numbers of linux/netfilter/nf_tables.h, with its names.

Integers in attributes are in network order.
"""

from __future__ import annotations

from struct import Struct

from ..netlink import AF_INET, AF_INET6, NLA_F_NESTED, attribute
from ..nfnetlink import protocol as nfnetlink

U8 = Struct("=B")
U16 = Struct(">H")
U32 = Struct(">I")
U64 = Struct(">Q")
I32 = Struct(">i")
HOST32 = Struct("=I")  # content of a register that the kernel treats as a number

FAMILIES = {"ip": AF_INET, "ip6": AF_INET6}  # that this codec writes
FAMILY_NAMES = {1: "inet", AF_INET: "ip", 3: "arp", 5: "netdev", 7: "bridge", AF_INET6: "ip6"}  # NFPROTO_*

# Requests (NFT_MSG_*) and the limits of a transaction (NFNL_MSG_BATCH_*).
NEWTABLE, GETTABLE, DELTABLE, NEWCHAIN, GETCHAIN, DELCHAIN, NEWRULE, GETRULE, DELRULE = range(9)
NEWSET, GETSET, DELSET, NEWSETELEM, GETSETELEM, DELSETELEM = range(9, 15)
GETGEN = 16
TRACE = 17
BATCH_BEGIN, BATCH_END = 16, 17
BATCH_GENID = 1

LIST_ELEM = 1
TABLE_NAME, TABLE_FLAGS = 1, 2
TABLE_F_OWNER = 0x2  # since Linux 5.12: only this socket changes the table, and the kernel removes it with the socket
CHAIN_TABLE, CHAIN_NAME, CHAIN_HOOK, CHAIN_POLICY, CHAIN_TYPE = 1, 3, 4, 5, 7
HOOK_HOOKNUM, HOOK_PRIORITY = 1, 2
RULE_TABLE, RULE_CHAIN, RULE_HANDLE, RULE_EXPRESSIONS, RULE_USERDATA = 1, 2, 3, 4, 7
SET_TABLE, SET_NAME, SET_FLAGS, SET_KEY_TYPE, SET_KEY_LEN, SET_DESC, SET_ID, SET_USERDATA = 1, 2, 3, 4, 5, 9, 10, 13
SET_COUNT = 20
SET_DESC_CONCAT, SET_FIELD_LEN = 2, 1
SET_ELEM_LIST_TABLE, SET_ELEM_LIST_SET, SET_ELEM_LIST_ELEMENTS = 1, 2, 3
SET_ELEM_KEY, SET_ELEM_FLAGS, SET_ELEM_KEY_END = 1, 3, 10
EXPR_NAME, EXPR_DATA = 1, 2
DATA_VALUE, DATA_VERDICT = 1, 2
VERDICT_CODE, VERDICT_CHAIN = 1, 2
GEN_ID = 1
TRACE_TABLE, TRACE_CHAIN, TRACE_RULE_HANDLE, TRACE_TYPE, TRACE_VERDICT, TRACE_ID = range(1, 7)
TRACE_NETWORK_HEADER, TRACE_TRANSPORT_HEADER, TRACE_IIF, TRACE_OIF, TRACE_MARK, TRACE_POLICY = 8, 9, 10, 12, 14, 16

SET_ANONYMOUS, SET_INTERVAL, SET_CONCAT = 0x1, 0x4, 0x80
ELEM_INTERVAL_END, ELEM_CATCHALL = 0x1, 0x2

REGISTER_BYTES = 4
REGISTERS = 16  # of four bytes


def register(word: int) -> int:
    """Return the number of the register that begins at a word: NFT_REG_1 to 4 where one does, else NFT_REG32_00 to 15.

    The kernel reports it so, and libnftables writes it so.
    """
    return 1 + word // 4 if word % 4 == 0 else 8 + word


def nested(kind: int, payload: bytes) -> bytes:
    """Return an attribute that contains attributes."""
    return attribute(kind | NLA_F_NESTED, payload)


def request(command: int, family: str, payload: bytes = b"") -> bytes:
    """Return a message to nftables; ``payload`` is its attributes."""
    return nfnetlink.request(nfnetlink.NFNL_SUBSYS_NFTABLES, command, FAMILIES[family], payload)
