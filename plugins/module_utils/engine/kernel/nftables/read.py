# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read tables of nftables with all that they contain, in one generation of the rules."""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from time import sleep
from typing import NamedTuple

from ...errors import BusyError, KernelError, MissingError
from ...model import State
from ...model.nftables import ChainKey, ElementKey, Hook, NftChain, NftSet, Rule, SetKey, TableKey
from ..decoding import decoding
from ..netlink import NETLINK_NETFILTER, NetlinkSocket, attributes, string, string_attribute
from ..nfnetlink.protocol import HEADER_BYTES
from .chains import decode_chain, decode_rule, decode_table
from .protocol import (
    CHAIN_TABLE,
    FAMILIES,
    GEN_ID,
    GETCHAIN,
    GETGEN,
    GETRULE,
    GETSET,
    GETSETELEM,
    GETTABLE,
    RULE_TABLE,
    SET_ANONYMOUS,
    SET_COUNT,
    SET_ELEM_LIST_ELEMENTS,
    SET_ELEM_LIST_SET,
    SET_ELEM_LIST_TABLE,
    SET_FLAGS,
    SET_NAME,
    SET_TABLE,
    U32,
    request,
)
from .set_elements import decode_elements
from .sets import FOREIGN, decode_set
from .transaction import FORBIDDEN, MISSING

_ATTEMPTS = 10
_PAUSE = 0.01  # seconds; one more after each attempt


class _Header(NamedTuple):
    """A set without its elements, and their number if the kernel tells it (new ones do)."""

    value: NftSet
    size: int | None


def generation() -> int:
    """Return the number of the rules' generation in this network namespace; every transaction increases it.

    Raises:
        MissingError: the kernel lacks nftables, or this process the right.
        KernelError: the conversation failed, or the answer is malformed.
    """
    with connect() as connection:
        return generation_by(connection)


def read(tables: Collection[TableKey] | None = None) -> State:
    """Return tables with their sets, elements and chains; None for all tables of the families ip and ip6.

    Sets without a name belong to a rule, and are not listed. The elements of a foreign set are not listed.

    Raises:
        MissingError: the kernel lacks nftables, or this process the right.
        BusyError: other processes changed the rules during every attempt.
        KernelError: the conversation failed, or an answer is malformed.
    """
    return read_generation(tables)[1]


def read_generation(tables: Collection[TableKey] | None = None) -> tuple[int, State]:
    """Do as :func:`read`; also return the generation, for :func:`.write.apply`."""
    with connect() as connection:
        for _attempt in range(_ATTEMPTS):
            before = generation_by(connection)
            try:
                with decoding("the kernel's nftables"):
                    state = _read(connection, tables)
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.EINTR):
                    raise
                continue  # a table or a set went away
            if generation_by(connection) == before:
                return before, state
    raise BusyError("nftables cannot be read: other processes changed it during each of many attempts")


def read_tables() -> dict[TableKey, int]:
    """Return the flags of all tables of the families ip and ip6, without their content.

    Raises:
        MissingError, KernelError: as :func:`read`.
    """
    with connect() as connection, decoding("the kernel's nftables"):
        return _tables(connection, FAMILIES)


def read_types(tables: Collection[TableKey]) -> dict[SetKey, NftSet]:
    """Return the sets of those tables that are there, without their elements.

    Raises:
        MissingError, KernelError: as :func:`read`.
    """
    types: dict[SetKey, NftSet] = {}
    with connect() as connection, decoding("the kernel's nftables"):
        for table in tables:
            try:
                types |= {key: header.value for key, header in _headers(connection, table).items()}
            except FileNotFoundError:
                continue  # another process has deleted it
    return types


@contextmanager
def connect() -> Iterator[NetlinkSocket]:
    """Open a conversation with nftables; errors within it are those of :func:`read`."""
    with as_errors(), NetlinkSocket(NETLINK_NETFILTER) as connection:
        yield connection


@contextmanager
def as_errors() -> Iterator[None]:
    """Turn errors of a conversation into those of :func:`read`."""
    try:
        yield
    except PermissionError:
        raise MissingError(FORBIDDEN) from None
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP, errno.EPROTONOSUPPORT):
            raise MissingError(MISSING) from None
        raise KernelError(f"the conversation with the kernel's nftables failed: {error.strerror}") from error


def generation_by(connection: NetlinkSocket) -> int:
    """Return the number of the rules' generation by an open conversation."""
    payloads = connection.query(request(GETGEN, "ip"))
    with decoding("the generation of the kernel's nftables"):
        number: int = U32.unpack(attributes(payloads[0], HEADER_BYTES)[GEN_ID])[0]
    return number


def _read(connection: NetlinkSocket, tables: Collection[TableKey] | None) -> State:
    state: State = {"nft_table": {}, "nft_set": {}, "nft_element": {}, "nft_chain": {}}
    families = [family for family in FAMILIES if tables is None or any(table.family == family for table in tables)]
    present = _tables(connection, families)
    state["nft_table"] = {key: flags for key, flags in present.items() if tables is None or key in tables}
    for table in state["nft_table"]:
        _read_sets(connection, table, state)
        _read_chains(connection, table, state)
    return state


def _tables(connection: NetlinkSocket, families: Iterable[str]) -> dict[TableKey, int]:
    tables = {}
    for family in families:
        for fields in _dump(connection, GETTABLE, family):
            name, flags = decode_table(fields)
            tables[TableKey(family, name)] = flags
    return tables


def _dump(connection: NetlinkSocket, command: int, family: str, payload: bytes = b"") -> Iterator[dict[int, bytes]]:
    for entry in connection.dump(request(command, family, payload)):
        yield attributes(entry, HEADER_BYTES)


def _headers(connection: NetlinkSocket, table: TableKey) -> dict[SetKey, _Header]:
    headers = {}
    for fields in _dump(connection, GETSET, table.family, string_attribute(SET_TABLE, table.name)):
        (flags,) = U32.unpack(fields.get(SET_FLAGS, bytes(4)))
        if not flags & SET_ANONYMOUS and string(fields[SET_TABLE]) == table.name:
            size = U32.unpack(fields[SET_COUNT])[0] if SET_COUNT in fields else None
            headers[SetKey(table, string(fields[SET_NAME]))] = _Header(decode_set(fields), size)
    return headers


def _read_sets(connection: NetlinkSocket, table: TableKey, state: State) -> None:
    for key, header in _headers(connection, table).items():
        state["nft_set"][key] = header.value
        if header.value != FOREIGN:
            state["nft_element"].update(_elements(connection, key, header))


def _elements(connection: NetlinkSocket, key: SetKey, header: _Header) -> dict[ElementKey, str]:
    """Return the elements of a set.

    The kernel resizes the table of a set after it has grown or shrunk, and a dump meanwhile lacks elements. So it is
    repeated until it has all; where the kernel does not count them, until two have the same number.
    """
    name = string_attribute(SET_ELEM_LIST_TABLE, key.table.name) + string_attribute(SET_ELEM_LIST_SET, key.name)
    expected = header.size
    for attempt in range(_ATTEMPTS):
        lists = [
            entry[SET_ELEM_LIST_ELEMENTS]
            for entry in _dump(connection, GETSETELEM, key.table.family, name)
            if SET_ELEM_LIST_ELEMENTS in entry
        ]
        elements = decode_elements(key, header.value, lists)
        if header.value.interval or (expected is not None and len(elements) >= expected):
            break
        if header.size is None:
            expected = len(elements)
        sleep(attempt * _PAUSE)
    return elements


def _read_chains(connection: NetlinkSocket, table: TableKey, state: State) -> None:
    hooks: dict[ChainKey, Hook | None] = {}
    for fields in _dump(connection, GETCHAIN, table.family):
        if string(fields[CHAIN_TABLE]) == table.name:
            chain, hook = decode_chain(table, fields)
            hooks[chain] = hook
    rules: dict[ChainKey, list[Rule]] = {chain: [] for chain in hooks}
    for fields in _dump(connection, GETRULE, table.family, string_attribute(RULE_TABLE, table.name)):
        if string(fields[RULE_TABLE]) == table.name:
            chain, rule = decode_rule(table, fields)
            rules.setdefault(chain, []).append(rule)
    for chain, listed in rules.items():
        state["nft_chain"][chain] = NftChain(hooks.get(chain), tuple(listed))
