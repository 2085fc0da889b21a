# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps as the messages of one transaction, in the one order that the kernel accepts.

Chains are flushed before anything is removed: rules refer to sets and to other chains. All chains are created before
the first rule. A table, set or chain that is removed takes its content with it, so no message names that.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import Any, NamedTuple

from ...model.nftables import ChainKey, NftSet, SetKey, TableKey
from ...model.step import Step
from ..netlink import NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL, message, string_attribute
from ..nfnetlink.protocol import NFNL_SUBSYS_NFTABLES
from .chains import encode_chain, encode_rule, encode_table
from .protocol import (
    DELCHAIN,
    DELRULE,
    DELSET,
    DELSETELEM,
    DELTABLE,
    FAMILIES,
    NEWCHAIN,
    NEWRULE,
    NEWSET,
    NEWSETELEM,
    NEWTABLE,
    RULE_CHAIN,
    RULE_TABLE,
    SET_ELEM_LIST_ELEMENTS,
    SET_ELEM_LIST_SET,
    SET_ELEM_LIST_TABLE,
    nested,
)
from .set_elements import element_encoder
from .sets import encode_set

_MOST_BYTES = 48 * 1024  # of elements in a message; an attribute has 64 KiB at most
_HEADER_BYTES = 16 + 4  # of netlink and nfnetlink
_REMEMBERED = 64  # names of sets; the agent has 34


class Message(NamedTuple):
    """A message, and the steps that it executes, with the offsets at which their parts begin."""

    raw: bytes
    steps: Sequence[Step]
    offsets: Sequence[int] = (0,)

    def origin(self, offset: int) -> Step:
        """Return the step of the part that contains an offset; of the first part if that is unknown (0)."""
        return self.steps[max(bisect_right(self.offsets, offset) - 1, 0)]


class InvalidStepError(ValueError):
    """A step has no message: its value does not fit into what nftables can do here."""

    def __init__(self, step: Step, reason: str) -> None:
        super().__init__(reason)
        self.step = step


def compose(steps: Sequence[Step], types: Mapping[SetKey, NftSet]) -> list[Message]:
    """Return the messages of all steps.

    A changed set or hook is removed and created again. All elements of such a set, and the rules that look it up, must
    be among the steps.

    Args:
        steps: steps of the kinds of nftables, in any order.
        types: the sets that exist, for the elements among the steps.

    Raises:
        InvalidStepError: a step cannot be written.
    """
    by_kind: dict[str, list[Step]] = {"nft_table": [], "nft_set": [], "nft_element": [], "nft_chain": []}
    for step in steps:
        by_kind[step.kind].append(step)
    tables, sets, elements, chains = by_kind.values()
    filled = [step for step in elements if step.after is not None]
    emptied = [step for step in elements if step.after is None]
    if len(elements) == len(steps):  # as for a changed endpoint, which must be fast
        return [
            *_element_messages(DELSETELEM, 0, emptied, types),
            *_element_messages(NEWSETELEM, NLM_F_CREATE, filled, types),
        ]
    gone = {step.key for step in tables if step.after is None}
    sets = [step for step in sets if step.after is not None or step.key.table not in gone]
    chains = [step for step in chains if step.after is not None or step.key.table not in gone]
    renewed = {step.key for step in sets if step.before is not None}
    rehung = [step for step in chains if step.before is not None and _hook(step.before) != _hook(step.after)]
    emptied = [step for step in emptied if step.key.set not in renewed and step.key.set.table not in gone]
    types = {**types, **{step.key: step.after for step in sets if step.after is not None}}
    return [
        *_each(NEWTABLE, NLM_F_CREATE, [step for step in tables if step.after is not None], _table),
        *_each(DELRULE, 0, [step for step in chains if step.before is not None], _flush),
        *_element_messages(DELSETELEM, 0, emptied, types),
        *_each(DELCHAIN, 0, rehung, lambda step: encode_chain(step.key)),
        *_each(DELSET, 0, [step for step in sets if step.before is not None], lambda step: _set_name(step.key)),
        *_set_messages([step for step in sets if step.after is not None]),
        *_each(
            NEWCHAIN,
            NLM_F_CREATE | NLM_F_EXCL,
            [step for step in chains if step.after is not None and (step.before is None or step in rehung)],
            lambda step: encode_chain(step.key, step.after.hook),
        ),
        *_element_messages(NEWSETELEM, NLM_F_CREATE, filled, types),
        *_rule_messages([step for step in chains if step.after is not None]),
        *_each(DELTABLE, 0, [step for step in tables if step.after is None], lambda step: encode_table(step.key)),
    ]


def _hook(chain: Any) -> Any:
    """Return the hook of a chain; a removed chain differs from each."""
    return False if chain is None else chain.hook


def _each(command: int, flags: int, steps: Iterable[Step], payload: Any) -> Iterator[Message]:
    """Yield one message for each step."""
    for step in steps:
        with _Reporting(step):
            yield _message(command, flags, _table_of(step).family, payload(step), (step,))


def _message(
    command: int, flags: int, family: str, payload: bytes, steps: Sequence[Step], offsets: Sequence[int] = (0,)
) -> Message:
    header = bytes((FAMILIES[family], 0, 0, 0))
    return Message(message(NFNL_SUBSYS_NFTABLES << 8 | command, flags, header + payload), steps, offsets)


def _table_of(step: Step) -> TableKey:
    key = step.key
    if step.kind == "nft_element":
        key = key.set
    table: TableKey = key if step.kind == "nft_table" else key.table
    return table


def _table(step: Step) -> bytes:
    return encode_table(step.key, step.after)


@lru_cache(_REMEMBERED)
def _set_name(key: SetKey) -> bytes:
    return string_attribute(SET_ELEM_LIST_TABLE, key.table.name) + string_attribute(SET_ELEM_LIST_SET, key.name)


def _flush(step: Step) -> bytes:
    key: ChainKey = step.key
    return string_attribute(RULE_TABLE, key.table.name) + string_attribute(RULE_CHAIN, key.name)


def _set_messages(steps: Iterable[Step]) -> Iterator[Message]:
    numbers = count(1)
    yield from _each(NEWSET, NLM_F_CREATE, steps, lambda step: encode_set(step.key, step.after, next(numbers)))


def _rule_messages(steps: Iterable[Step]) -> Iterator[Message]:
    for step in steps:
        for rule in step.after.rules:
            yield from _each(
                NEWRULE, NLM_F_CREATE | NLM_F_APPEND, [step], lambda step, rule=rule: encode_rule(step.key, rule)
            )


def _element_messages(
    command: int, flags: int, steps: Iterable[Step], types: Mapping[SetKey, NftSet]
) -> Iterator[Message]:
    """Yield messages with the elements of one set each, as many as fit."""
    by_set: dict[SetKey, list[Step]] = {}
    for step in steps:
        by_set.setdefault(step.key.set, []).append(step)
    for key, members in by_set.items():
        name = _set_name(key)
        begin = _HEADER_BYTES + len(name) + 4
        done = 0
        for packed, offsets in _parts(members, types.get(key), begin):
            whole = name + nested(SET_ELEM_LIST_ELEMENTS, packed)
            yield _message(command, flags, key.table.family, whole, members[done : done + len(offsets)], offsets)
            done += len(offsets)


def _parts(members: Sequence[Step], value: NftSet | None, begin: int) -> Iterator[tuple[bytes, Sequence[int]]]:
    """Yield packed elements of one set, as many as fit into a message, and their offsets (of the first: ``begin``)."""
    if value is None:
        raise InvalidStepError(members[0], f"set {members[0].key.set} does not exist")
    encode = element_encoder(value)
    packed = bytearray()
    offsets = array("I")
    for step in members:
        try:
            one = encode(step.key.fields)
        except ValueError as error:
            raise InvalidStepError(step, str(error)) from error
        if offsets and len(packed) + len(one) > _MOST_BYTES:
            yield bytes(packed), offsets
            packed, offsets = bytearray(), array("I")
        offsets.append(begin + len(packed))
        packed += one
    yield bytes(packed), offsets


class _Reporting:
    """Name the step of which a value cannot be written."""

    def __init__(self, step: Step) -> None:
        self.step = step

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, value: BaseException | None, _traceback: object) -> None:
        if isinstance(value, (LookupError, TypeError, ValueError)) and not isinstance(value, InvalidStepError):
            raise InvalidStepError(self.step, str(value)) from value
