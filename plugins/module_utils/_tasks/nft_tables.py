# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Options of ``nft_tables``, converted to model items."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from .._confirm.protocol import CONFIRM
from .._module.argspec import OWNER, STATE, unique
from .._module.planning import TaskChange
from .._module.task import ConfirmableTask
from ..engine.errors import EngineError, InputError, MissingError, cut
from ..engine.kernel import nft_text
from ..engine.model.nft_text import TextTableKey, listed, parsed, settled

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ansible.module_utils.basic import AnsibleModule

    from .._module.planning import LedgerView
    from ..engine.kernel.nft_text import Complaint, Tried
    from ..engine.ledger import Item
    from ..engine.model import State
    from ..engine.plan import Plan

FAMILIES = ["ip", "ip6", "inet", "arp", "bridge", "netdev"]
TABLE: dict[str, Any] = {
    "family": {"type": "str", "choices": FAMILIES, "default": "inet"},
    "name": {"type": "str", "required": True},
    "content": {"type": "str"},
    **STATE,
}
_NAME = re.compile(r"[A-Za-z_.][A-Za-z0-9_./-]{0,254}\Z")
# Strings and comments first, because a brace in them is none.
_TOKEN = re.compile(r'"[^"]*"|#[^\n]*|[{}]')
_SHOWN = 120  # characters of a refused line


class Task(ConfirmableTask):
    """Task of ``nft_tables``: the tables that it names, and their canonical texts."""

    spec: ClassVar[dict[str, Any]] = {
        "tables": {"type": "list", "elements": "dict", "default": [], "options": TABLE},
        "purge": {"type": "str", "choices": ["none", "owned"], "default": "none"},
        "adopt": {"type": "bool", "default": False},
        **CONFIRM,
        **OWNER,
    }

    def __init__(self, module: AnsibleModule, params: dict[str, Any]) -> None:
        super().__init__(module, params)
        self.tables = {"nft_text": nft_text.apply}
        self._named: dict[TextTableKey, str] = {}  # key to option path
        self._absent: set[TextTableKey] = set()
        contents: dict[TextTableKey, str] = {}
        for index, item in enumerate(params["tables"]):
            option_path, key = f"tables[{index}]", TextTableKey(item["family"], item["name"])
            check_name(option_path, key.name)
            unique(self._named, key, option_path, f"table {key}")
            if item["state"] == "absent":
                if item["content"]:
                    raise InputError(
                        f"{option_path} ({key})", "content", "given", "nothing for a table that shall be absent"
                    )
                self._absent.add(key)
            elif item["content"] is not None:
                check_braces(f"{option_path}.content", key, item["content"])
                contents[key] = item["content"]
        self._texts = canonical(contents, self._named)

    def read(self, view: LedgerView) -> State:
        self._refuse_service_proxies(view)
        have = nft_text.read({*self._named, *view.owned.get("nft_text", ())})
        for key, text in self._texts.items():
            if key in have["nft_text"]:
                have["nft_text"][key] = settled(parsed(have["nft_text"][key]), parsed(text)).text()
        return have

    def _refuse_service_proxies(self, view: LedgerView) -> None:
        """Raise EngineError if a service proxy claims one of the tables; that claim is of another kind."""
        claimed = {**dict.fromkeys(view.owned.get("nft_table", ()), self.owner), **view.others.get("nft_table", {})}
        for key, option_path in self._named.items():
            if key in claimed:
                raise EngineError(f"{option_path} ({key}): it belongs to owner {claimed[key]!r}, a service proxy")

    def change(self, have: State, _view: LedgerView) -> TaskChange:
        there = have["nft_text"]
        want = {key: self._texts.get(key, there.get(key, "")) for key in self._named if key not in self._absent}
        return TaskChange({"nft_text": want}, {"nft_text": self._absent}, {"nft_text": there})

    def reread(self, items: Collection[Item]) -> State:
        return nft_text.read({key for _kind, key in items})

    def refine(self, made: Plan) -> Plan:
        if self.module.check_mode:
            nft_text.foresee(made.steps)
        return made


def check_name(option_path: str, name: str) -> None:
    """Raise InputError unless ``name`` is a word that can name a table."""
    if not _NAME.match(name):
        raise InputError(
            option_path, "name", name, "1 to 255 letters, digits and '_./-', beginning with a letter, '_' or '.'"
        )


def check_braces(option_path: str, key: TextTableKey, content: str) -> None:
    """Raise EngineError if ``content`` closes a brace that it did not open: the rest would be outside of the table."""
    depth = 0
    for token in _TOKEN.finditer(content):
        depth += {"{": 1, "}": -1}.get(token.group(), 0)
        if depth < 0:
            line = content.count("\n", 0, token.start()) + 1
            raise EngineError(
                f"{_line(option_path, key, content, line)}: this brace closes the table; "
                "expected only what stands between the table's braces"
            )


def canonical(contents: Mapping[TextTableKey, str], option_paths: Mapping[Any, str]) -> dict[TextTableKey, str]:
    """Return the canonical text of each content, as the node's nft lists it in a scratch network namespace.

    Raises:
        EngineError: nft or the kernel refuses a content; the text names the option, the table and the line.
    """
    if not contents:
        return {}
    tried = nft_text.try_out(contents)
    if tried is None:
        raise MissingError(
            "the tables cannot be tried out in a network namespace; this needs root (the capability CAP_SYS_ADMIN)"
        )
    return {key: _accepted(f"{option_paths[key]}.content", key, contents[key], tried[key]) for key in contents}


def _accepted(option_path: str, key: TextTableKey, content: str, tried: Tried) -> str:
    if tried.complaint:
        raise EngineError(_refusal(option_path, key, content, tried.complaint))
    table = listed(tried.listing)
    # A table with the flag owner is gone as soon as nft has ended, unless it has the flag persist, too.
    if tried.tables != [str(key)] or {"owner", "persist"}.intersection(table.flags):
        raise EngineError(
            f"{option_path} ({key}): it makes {', '.join(f'table {each}' for each in tried.tables) or 'no table'}, "
            "expected only what stands between the table's braces, without the flags owner and persist"
        )
    return table.text()


def _refusal(option_path: str, key: TextTableKey, content: str, refused: Complaint) -> str:
    number = refused.line - 1
    if number == 0 and "not supported" in refused.text:
        return f"{option_path} ({key}): the kernel has no nftables for the family {key.family}: {refused.text}"
    if refused.file != nft_text.STDIN:
        return f"{option_path} ({key}): {refused.file} line {refused.line}: {refused.text}"
    if not 1 <= number <= content.count("\n") + 1:
        return f"{option_path} ({key}): {refused.text}"
    return f"{_line(option_path, key, content, number)}: {refused.text}"


def _line(option_path: str, key: TextTableKey, content: str, number: int) -> str:
    """Return a line of a content as errors name it: by its option path and number, with its text."""
    return f"{option_path} line {number} ({key}) `{cut(content.split(chr(10))[number - 1].strip(), _SHOWN)}`"
