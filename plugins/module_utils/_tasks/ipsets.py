# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Options of ``ipsets``, converted to model items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from .._confirm.protocol import CONFIRM
from .._module.argspec import OWNER, PURGE, STATE, unique
from .._module.planning import TaskChange
from .._module.task import ConfirmableTask
from ..engine.errors import InputError
from ..engine.kernel import ipset
from ..engine.model.ipset import MemberKey, same_set
from ..engine.syntax.ipset_header import header
from .ipset_compare import Given, UnclearError, compare, plainly
from .ipset_lines import from_file, inline

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ansible.module_utils.basic import AnsibleModule

    from .._module.planning import LedgerView
    from ..engine.kernel.ipset import Saved
    from ..engine.ledger import Item
    from ..engine.model import State
    from ..engine.plan import Plan
    from .ipset_compare import Change

# Module options that are creation options of a set.
OPTIONS = (
    *("family", "range", "timeout", "counters", "comment", "skbinfo", "forceadd"),
    *("maxelem", "hashsize", "bucketsize", "initval", "netmask", "bitmask", "markmask", "size"),
)

SET: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "type": {"type": "str"},
    "family": {"type": "str", "choices": ["inet", "inet6"], "default": "inet"},
    "timeout": {"type": "int"},
    "counters": {"type": "bool", "default": False},
    "comment": {"type": "bool", "default": False},
    "skbinfo": {"type": "bool", "default": False},
    "forceadd": {"type": "bool", "default": False},
    "maxelem": {"type": "int"},
    "hashsize": {"type": "int"},
    "bucketsize": {"type": "int"},
    "initval": {"type": "str"},
    "netmask": {"type": "int"},
    "bitmask": {"type": "str"},
    "markmask": {"type": "str"},
    "range": {"type": "str"},
    "size": {"type": "int"},
    "members": {"type": "list", "elements": "str"},
    "src": {"type": "path"},
    "remote_src": {"type": "bool", "default": False},
    "purge_members": {"type": "bool", "default": True},
    "absent_members": {"type": "list", "elements": "str", "default": []},
    **STATE,
}
_SPARE = "kubenode-swap-"  # temporary sets while a set is replaced


def check_name(option_path: str, name: str) -> None:
    """Raise InputError unless ``name`` is a valid set name."""
    if (
        not 1 <= len(name.encode()) <= 31
        or any(char.isspace() or char == '"' for char in name)
        or name.startswith(_SPARE)
    ):
        raise InputError(
            option_path, "name", name, f"1 to 31 characters without spaces and double quotes, and no {_SPARE}*"
        )


def given(option_path: str, item: Mapping[str, Any]) -> Given:
    """Return one set as the task gives it.

    Raises:
        InputError: an option is invalid, or options exclude each other.
    """
    name = item["name"]
    subject = f"{option_path} ({name})"
    if item["state"] == "absent":
        for option in ("members", "src", "absent_members"):
            if item[option]:
                raise InputError(subject, option, "given", "nothing for a set with state absent")
        nothing = inline(option_path, "members", ())
        return Given(option_path, name, None, nothing, nothing, True)
    kind = item["type"]
    has_family = str(kind).startswith("hash:") and kind != "hash:mac"
    if item["family"] == "inet6" and not has_family:
        raise InputError(subject, "family", "inet6", f"none for the type {kind}")
    chosen = {option: item[option] for option in OPTIONS if item[option] is not None}
    if not has_family:
        chosen.pop("family")
    members = from_file(subject, item["src"]) if item["src"] else inline(option_path, "members", item["members"] or ())
    exact = item["purge_members"] and bool(item["src"] or item["members"] is not None)
    return Given(
        option_path,
        name,
        header(kind, chosen, subject),
        members,
        inline(option_path, "absent_members", item["absent_members"]),
        exact,
    )


class Task(ConfirmableTask):
    """Task of ``ipsets``: the sets that it names, and their observed and desired state.

    The state holds only the members that differ, and all members of sets that may be removed.
    """

    spec: ClassVar[dict[str, Any]] = {
        "sets": {
            "type": "list",
            "elements": "dict",
            "default": [],
            "options": SET,
            "mutually_exclusive": [("members", "src")],
        },
        **CONFIRM,
        **OWNER,
        **PURGE,
    }

    def __init__(self, module: AnsibleModule, params: dict[str, Any]) -> None:
        super().__init__(module, params)
        self.tables = {"ipset": ipset.apply}
        self._sets: dict[str, Given] = {}
        self._needs_members = self.purge != "none"
        self._want: State = {"set": {}, "member": {}}
        seen: dict[str, str] = {}
        for index, item in enumerate(params["sets"]):
            option_path, name = f"sets[{index}]", item["name"]
            check_name(option_path, name)
            unique(seen, name, option_path, f"set {name}")
            self._sets[name] = given(option_path, item)
            self._needs_members |= (
                item["state"] == "absent" or item["members"] is not None or bool(item["src"] or item["absent_members"])
            )

    def read(self, _view: LedgerView) -> State:
        saved = self._saved()
        have: State = {"set": {name: each.header for name, each in saved.items()}, "member": {}}
        for name, change in self._changes(saved, have["set"]).items():
            there = have["set"].get(name)
            self._want["set"][name] = there if there is not None and same_set(there, change.header) else change.header
            self._want["member"].update((MemberKey(name, member), options) for member, options in change.want.items())
            have["member"].update((MemberKey(name, member), options) for member, options in change.have.items())
        for name, each in saved.items():
            if name not in self._want["set"] and (name in self._sets or self.purge != "none"):
                have["member"].update(
                    (MemberKey(name, live.member), live.options) for live in map(plainly, each.members())
                )
        self._place_those_that_go(have, saved)
        return have

    def change(self, have: State, _view: LedgerView) -> TaskChange:
        absent = {name for name, each in self._sets.items() if each.header is None}
        return TaskChange(self._want, {"set": absent}, {"set": have["set"]})

    def reread(self, items: Collection[Item]) -> State:
        return ipset.read({key if kind == "set" else key.set for kind, key in items})

    def refine(self, made: Plan) -> Plan:
        if self.module.check_mode:
            from .ipset_ask import try_out

            try_out(made)
        return made

    def _place_those_that_go(self, have: Mapping[str, dict[Any, Any]], saved: Mapping[str, Saved]) -> None:
        """Record the position of each removed member of a list, so that an undo restores it.

        A list that is replaced needs no positions: its header holds the order.
        """
        for name, there in have["set"].items():
            if there.type == "list:set" and not there.order:
                from .ipset_order import positioned_options

                placed = {
                    MemberKey(name, member): options for member, options in positioned_options(saved[name]).items()
                }
                have["member"].update(
                    (key, placed[key]) for key in placed if key in have["member"] and key not in self._want["member"]
                )

    def _saved(self) -> dict[str, Saved]:
        """Return the sets in the kernel, with members only if the task needs them."""
        if not self._needs_members:
            there = ipset.read(members=False)["set"]
            if all(name not in there or same_set(there[name], each.wanted_header) for name, each in self._sets.items()):
                return {name: ipset.Saved(name, value) for name, value in there.items()}
        return ipset.read_saved()

    def _changes(self, saved: Mapping[str, Saved], headers: dict[Any, Any]) -> dict[str, Change]:
        """Return the change of each set that the task wants, by name.

        For a list to replace, the header in ``headers`` gets the present order.
        """
        types: dict[str, str | None] = {name: each.header.type for name, each in saved.items()}
        for name, each in self._sets.items():
            types[name] = each.header and each.header.type
        changes: dict[str, Change] = {}
        unclear: list[tuple[Given, InputError | None]] = []
        for name, each in self._sets.items():
            if each.header is None:
                continue
            if each.header.type == "list:set":
                from .ipset_order import arranged

                each, there = arranged(each, saved.get(name), {name: kind for name, kind in types.items() if kind})
                headers.update({name: there} if there is not None else {})
            try:
                changes[name] = compare(each, saved.get(name))
            except UnclearError as error:
                if error.error is not None and each.wanted_header.type == "list:set":
                    raise error.error from None  # a scratch namespace lacks the sets that the list names
                unclear.append((each, error.error))
        return {**changes, **self._asked(unclear, saved)}

    def _asked(
        self, unclear: Collection[tuple[Given, InputError | None]], saved: Mapping[str, Saved]
    ) -> dict[str, Change]:
        """Return the changes of the sets that only ipset can spell."""
        if not unclear:
            return {}
        from .ipset_ask import ask

        asked = ask([each for each, _error in unclear])
        if asked is None:
            for _each, error in unclear:
                if error is not None:
                    raise error
            asked = {each.name: each for each, _error in unclear}
        return {name: compare(each, saved.get(name), plainly) for name, each in asked.items()}
