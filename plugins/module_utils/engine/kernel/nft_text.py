# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of nftables as text: read and written with nft(8), and tried out in a scratch network namespace.

nft is the only program that knows all of its language, so it makes the canonical text of a table: the text is loaded
in the scratch namespace and listed there.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import ConflictError, EngineError, KernelError, MissingError
from ..model.kinds import name
from ..model.link import Link
from ..model.nft_text import Table, TextTableKey, listed, same_text
from ..model.step import Step
from ..syntax.nft_changes import body, changes, creation, removal, replacement
from . import Failure, Result
from .command import Finished, run
from .scratch import in_scratch

_ERROR = re.compile(r"^(?:(?P<file>[^\n:]+):(?P<line>\d+):\d+-\d+: )?Error: (?P<text>.+)$", re.MULTILINE)
STDIN = "/dev/stdin"
_KIND = "nft_text"


class Complaint(NamedTuple):
    """Error message of nft: the file and line (``/dev/stdin`` for the input, 0 if none is named) and the text."""

    file: str
    line: int
    text: str


class Listing(NamedTuple):
    """A table, and the reason why it cannot be written ("" if it can)."""

    table: Table
    refusal: str


class Tried(NamedTuple):
    """Outcome of a trial: the names of all tables that were there after it, the listing, and nft's message if any."""

    tables: list[str]
    listing: str
    complaint: Complaint | None


def read(keys: Collection[TextTableKey]) -> dict[str, dict[TextTableKey, str]]:
    """Return the tables that exist among ``keys``, with their canonical texts.

    Raises:
        ConflictError: a table belongs to a process that keeps it open, or to iptables.
        MissingError: no nft, no kernel support, no right.
        KernelError: nft refused.
    """
    tables = {}
    for key, each in listings(keys).items():
        if each.refusal:
            raise ConflictError(f"{name(_KIND, key)} {each.refusal}; nothing was changed")
        tables[key] = each.table.text()
    return {_KIND: tables}


def listings(keys: Collection[TextTableKey] | None = None) -> dict[TextTableKey, Listing]:
    """Return the tables that exist among ``keys``; without keys, all that nft can list.

    Raises:
        MissingError, KernelError: as by :func:`read`.
    """
    names = table_names()
    every = [TextTableKey(*words) for words in map(str.split, names) if len(words) == len(TextTableKey._fields)]
    tables = {}
    for key in every if keys is None else keys:
        if str(key) in names:
            ended = _nft(["--stateless", "list", "table", *key])
            if not ended.status:
                table = listed(ended.output)
                tables[key] = Listing(table, _refusal(table, ended))
            elif keys is not None:
                raise KernelError(f"{name(_KIND, key)} cannot be listed: {complaint(ended.errors).text}")
    return tables


def structured(key: TextTableKey) -> list[dict[str, Any]]:
    """Return the chains, rules, sets and objects of a table as nft's JSON has them, without handles.

    Raises:
        KernelError: nft refused, for example because it is built without JSON.
    """
    ended = _nft(["--json", "--stateless", "list", "table", *key])
    if ended.status:
        raise KernelError(f"{name(_KIND, key)} cannot be listed as JSON: {complaint(ended.errors).text}")
    objects = []
    for each in json.loads(ended.output)["nftables"]:
        ((kind, fields),) = each.items()
        if kind not in ("metainfo", "table"):
            objects.append({kind: {field: value for field, value in fields.items() if field != "handle"}})
    return objects


def table_names() -> list[str]:
    """Return family and name of each table, in the form of nft's commands.

    Raises:
        MissingError, KernelError: as by :func:`read`.
    """
    ended = _nft(["list", "tables"])
    if ended.status:
        raise KernelError(f"the tables of nftables cannot be listed: {complaint(ended.errors).text}")
    return [line[len("table ") :] for line in ended.output.splitlines() if line.startswith("table ")]


def try_out(bodies: Mapping[TextTableKey, str]) -> dict[TextTableKey, Tried] | None:
    """Load each body alone in a scratch network namespace, and list it; None if there can be no such namespace.

    The namespace has links with the names of this namespace's links, because chains, flowtables and rules refer to
    links by name.

    Raises:
        EngineError: no nft, or it did not end.
    """
    return _each_alone({key: [body(key, text)] for key, text in bodies.items()})


def apply(steps: Sequence[Step], keep_going: bool = False) -> Result:
    """Execute steps of the kind ``nft_text`` in one transaction, which succeeds or fails as a whole.

    With ``keep_going``, a transaction that fails is repeated table by table.

    Raises:
        MissingError: no nft, no kernel support, no right.
    """
    texts = _composed(steps)
    refused = _write(texts)
    if refused is None:
        return Result(list(steps), [])
    number, reason = refused
    if not keep_going or len(steps) == 1:
        return Result([], [Failure(steps[number], reason)])
    result = Result([], [])
    for step in steps:
        alone = apply([step])
        result.done.extend(alone.done)
        result.failed.extend(alone.failed)
    return result


def foresee(steps: Sequence[Step]) -> None:
    """Let the kernel check the transaction without executing it.

    Raises:
        KernelError: the kernel refuses it; the text names the table.
    """
    refused = _write(_composed(steps), ["--check"]) if steps else None
    if refused is not None:
        number, reason = refused
        raise KernelError(f"{steps[number].describe()} would fail: {reason}; nothing was changed")


def complaint(errors: str) -> Complaint:
    """Parse ``/dev/stdin:3:5-9: Error: syntax error, unexpected string``; the first error counts."""
    match = _ERROR.search(errors)
    if match is None:
        return Complaint(STDIN, 0, errors.strip() or "nft failed without a message")
    return Complaint(match["file"] or STDIN, int(match["line"] or 0), match["text"])


def _refusal(table: Table, ended: Finished) -> str:
    if "managed by iptables-nft" in ended.output + ended.errors:
        return "belongs to iptables, whose rules nft cannot write; use iptables_chains"
    if "owner" in table.flags:
        program = re.match(r"table .* \{ # progname (\S+)", ended.output)
        by = f" ({program.group(1)})" if program else ""
        return f"has the flag owner: only the process that made it{by} can change it"
    return ""


def _composed(steps: Sequence[Step]) -> list[str]:
    """Return the input of each step; a table is changed in part if a trial shows that this leads to its new text."""
    partial = {}
    for step in steps:
        if step.before is not None and step.after is not None:
            text = changes(step.key, step.before, step.after)
            partial.update({step.key: text} if text is not None else {})
    befores = {step.key: step.before for step in steps}
    tried = _each_alone({key: [body(key, befores[key]), text] for key, text in partial.items()}) if partial else None
    texts = []
    for step in steps:
        outcome = (tried or {}).get(step.key)
        if step.after is None:
            texts.append(removal(step.key))
        elif step.before is None:
            texts.append(creation(step.key, step.after))
        elif outcome and outcome.complaint is None and same_text(listed(outcome.listing).text(), step.after):
            texts.append(partial[step.key])
        else:
            texts.append(replacement(step.key, step.after))
    return texts


def _write(texts: Sequence[str], options: Sequence[str] = ()) -> tuple[int, str] | None:
    """Feed inputs to one nft; return the index of the refused one with the reason, or None."""
    ended = _nft([*options, "-f", "-"], "".join(texts))
    if not ended.status:
        return None
    refused = complaint(ended.errors)
    end = 0
    for index, text in enumerate(texts):
        end += text.count("\n")
        if refused.line <= end:
            return index, refused.text
    return len(texts) - 1, refused.text


def _each_alone(inputs: Mapping[TextTableKey, Sequence[str]]) -> dict[TextTableKey, Tried] | None:
    """Feed each table's inputs to nft in an empty scratch namespace, one after the other."""
    links = [link for _index, link in socket.if_nameindex() if _is_named(link, inputs.values())]
    keys = list(inputs)

    def trial() -> list[list[object]]:
        _make_links(links)
        return [_alone(inputs[key]) for key in keys]

    results = in_scratch(trial)
    if results is None:
        return None
    return {
        key: Tried(tables, listing, Complaint(*refused) if refused else None)
        for key, (tables, listing, refused) in zip(keys, results)
    }


def _alone(texts: Sequence[str]) -> list[object]:
    """Feed inputs to nft; return the fields of :class:`Tried`, and leave no table."""
    refused = None
    for text in texts:
        ended = _nft(["-f", "-"], text)
        if ended.status:
            refused = complaint(ended.errors)
            break
    tables, listing = table_names(), ""
    if len(tables) == 1 and refused is None:
        for command in (
            ["--stateless", "list"],
            ["delete"],
        ):  # some words of the language can name a table in a file only
            ended = _nft([*command, "table", *tables[0].split()])
            listing = listing or ended.output
            if ended.status and refused is None:
                refused = Complaint(STDIN, 0, f"nft has no command for this name: {complaint(ended.errors).text}")
    if len(tables) != 1 or refused is not None:
        _nft(["flush", "ruleset"])
    return [tables, listing, refused]


def _is_named(link: str, inputs: Iterable[Sequence[str]]) -> bool:
    return any(link in text for texts in inputs for text in texts)


def _make_links(links: Iterable[str]) -> None:
    """Create links; those that every namespace has are there already."""
    from .rtnetlink import addresses

    steps = [Step("link", link, None, Link()) for link in links if link != "lo"]
    if steps:
        try:
            addresses.apply(steps, keep_going=True)
        except EngineError:
            pass  # nft names the link that is missing


def _nft(arguments: Sequence[str], text: str | None = None) -> Finished:
    ended = run(["nft", *arguments], text)
    if ended.status:
        if "you must be root" in ended.errors or "cache initialization failed: Operation not permitted" in ended.errors:
            raise MissingError("nftables needs root (the capability CAP_NET_ADMIN in this network namespace)")
        if "cache initialization failed" in ended.errors and "not supported" in ended.errors:
            raise MissingError("the kernel has no nftables; load the kernel module nf_tables")
    return ended
