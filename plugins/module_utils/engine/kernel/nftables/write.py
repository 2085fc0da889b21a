# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Execute steps on tables of nftables: all of them in one transaction."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from socket import socket

from ...model.kinds import name
from ...model.nftables import Lookup, NftChain, NftSet, SetKey, TableKey
from ...model.step import Step
from .. import Failure, Result
from .messages import InvalidStepError, Message, compose
from .read import read, read_types
from .transaction import transact

_ATTEMPTS = 8  # without refused elements; each attempt finds one in a message of some thousand

_OVERLAP = "it overlaps another element"
_HINTS = {
    ("nft_element", errno.EEXIST): _OVERLAP,
    ("nft_element", errno.ENOTEMPTY): _OVERLAP,
    ("nft_set", errno.EBUSY): "a rule still refers to it",
    ("nft_chain", errno.EBUSY): "a rule still refers to it",
    ("nft_chain", errno.EOPNOTSUPP): "a statement is not possible at its hook, or the kernel lacks it",
    ("nft_chain", errno.ENOENT): "a rule refers to a chain or set that does not exist, or to a missing kernel module",
}


def apply(
    steps: Sequence[Step],
    keep_going: bool = False,
    *,
    generation: int | None = None,
    types: Mapping[SetKey, NftSet] | None = None,
    channel: socket | None = None,
) -> Result:
    """Execute steps of the kinds ``nft_table``, ``nft_set``, ``nft_element`` and ``nft_chain`` in one transaction.

    They succeed or fail together. A changed chain is flushed and filled again; a changed set is created again, with its
    elements and the rules that look it up.

    Args:
        steps: the steps, in any order.
        keep_going: try again without the elements that the kernel refused. Any other refusal fails all steps. Without
            ``keep_going``, the result has only the failed step that caused it.
        generation: the generation that the plan is based on (:func:`.read.read_generation`); None for any.
        types: the present sets of the tables; None if they must be read.
        channel: as for :func:`.transaction.transact`.

    Raises:
        BusyError: the rules are of another generation.
        MissingError: the kernel lacks nftables, or this process the right.
        KernelError: the conversation failed.

    Nothing was done then.
    """
    failed: list[Failure] = []
    left = list(steps)
    for attempt in range(_ATTEMPTS):
        if not left:
            break
        refused = _try(left, generation, types, channel)
        if not refused:
            return Result(left, failed)
        if not keep_going:
            return Result([], refused[:1])
        failed += refused
        known = {(failure.step.kind, failure.step.key) for failure in failed}
        left = [step for step in left if (step.kind, step.key) not in known]
        if attempt == _ATTEMPTS - 1 or any(failure.step.kind != "nft_element" for failure in refused):
            cause = next((each for each in refused if each.step.kind != "nft_element"), refused[0]).step
            blame = f"not done together with {name(cause.kind, cause.key)}, which failed"
            return Result([], [*failed, *(Failure(step, blame) for step in left)])
    return Result([], failed)


def rehearse(steps: Sequence[Step]) -> list[Failure]:
    """Let the kernel check steps, and drop them; return those that it would refuse.

    The kernel checks them as in ``nft --check``. It may load modules that the steps need.

    Raises:
        MissingError, KernelError: as :func:`apply`.
    """
    return _try(steps, None, None, None, rehearsal=True)


def _try(
    steps: Sequence[Step],
    generation: int | None,
    types: Mapping[SetKey, NftSet] | None,
    channel: socket | None,
    rehearsal: bool = False,
) -> list[Failure]:
    """Send one transaction; return the refused steps, at most one for each message."""
    try:
        batch = compose([*steps, *_dependents(steps)], _types(steps) if types is None else types)
    except InvalidStepError as error:
        return [Failure(error.step, str(error))]
    refusals = transact([message.raw for message in batch], generation, rehearsal, channel)
    failures: dict[tuple[str, object], Failure] = {}
    for refusal in refusals:
        message = batch[refusal.number]
        step = message.origin(refusal.offset)
        reason = refusal.reason()
        hint = _HINTS.get((step.kind, refusal.code), "")
        if hint and not refusal.text:
            reason = f"{reason} ({hint})"
        failures.setdefault((step.kind, step.key), Failure(step, _located(message, refusal.offset, reason)))
    return list(failures.values())


def _located(message: Message, offset: int, reason: str) -> str:
    """Return the reason; say so if the kernel did not tell which element of a message it refused."""
    if offset or len(message.steps) == 1:
        return reason
    return f"{reason}; it is one of {len(message.steps)} elements of this set, and the kernel did not name it"


def _types(steps: Sequence[Step]) -> dict[SetKey, NftSet]:
    """Return the present sets of which the steps change elements."""
    tables: set[TableKey] = {step.key.set.table for step in steps if step.kind == "nft_element"}
    created: set[TableKey] = {step.key for step in steps if step.kind == "nft_table" and step.before is None}
    tables -= created
    return read_types(tables) if tables else {}


def _dependents(steps: Sequence[Step]) -> list[Step]:
    """Return steps that restore what goes with a changed set: its other elements, and rules of other chains."""
    changed: set[SetKey] = {step.key for step in steps if step.kind == "nft_set" and step.verb == "change"}
    if not changed:
        return []
    state = read({key.table for key in changed})
    named = {(step.kind, step.key) for step in steps}
    elements = [
        Step("nft_element", key, None, "")
        for key in state["nft_element"]
        if key.set in changed and ("nft_element", key) not in named
    ]
    chains = [
        Step("nft_chain", key, value, value)
        for key, value in state["nft_chain"].items()
        if ("nft_chain", key) not in named
        and _looks_up(value, {each.name for each in changed if each.table == key.table})
    ]
    return [*elements, *chains]


def _looks_up(chain: NftChain, sets: set[str]) -> bool:
    statements = (statement for rule in chain.rules for statement in rule.statements)
    return any(isinstance(statement, Lookup) and statement.set in sets for statement in statements)
