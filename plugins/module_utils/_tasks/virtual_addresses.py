# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Options of ``virtual_addresses``, converted to model items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from .._confirm.protocol import CONFIRM
from .._module.argspec import OWNER, PURGE, STATE, host, unique
from .._module.planning import TaskChange
from .._module.task import ConfirmableTask
from ..engine.errors import ConflictError, InputError
from ..engine.kernel.rtnetlink import addresses
from ..engine.model import net
from ..engine.model.kinds import name
from ..engine.model.link import AddressKey, Link

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ansible.module_utils.basic import AnsibleModule

    from .._module.planning import LedgerView
    from ..engine.ledger import Item
    from ..engine.model import ReadState, State

# Names with another meaning in /proc/sys/net/ipv4/conf.
_NO_NAMES = (".", "..", "all", "default")
LINK: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "up": {"type": "bool"},
    "addresses": {"type": "list", "elements": "str"},
    "purge_addresses": {"type": "bool", "default": True},
    "absent_addresses": {"type": "list", "elements": "str", "default": []},
    **STATE,
}


class Task(ConfirmableTask):
    """Task of ``virtual_addresses``: links, their state and their addresses."""

    spec: ClassVar[dict[str, Any]] = {
        "links": {"type": "list", "elements": "dict", "default": [], "options": LINK},
        **OWNER,
        **PURGE,
        **CONFIRM,
    }

    def __init__(self, module: AnsibleModule, params: dict[str, Any]) -> None:
        super().__init__(module, params)
        self.tables = {"addresses": addresses.apply}
        self._links: dict[str, dict[str, Any]] = {}
        seen: dict[Any, str] = {}
        for index, link in enumerate(params["links"]):
            option_path = f"links[{index}]"
            unique(seen, check_link(option_path, link["name"]), option_path, f"link {link['name']}")
            self._links[link["name"]] = {
                **link,
                "addresses": None
                if link["addresses"] is None
                else keys(f"{option_path}.addresses", link["name"], link["addresses"], seen),
                "absent_addresses": keys(
                    f"{option_path}.absent_addresses", link["name"], link["absent_addresses"], seen
                ),
            }

    def read(self, view: LedgerView) -> State:
        mine = {key.link for key in view.owned.get("address", ())} | view.owned.get("link", set())
        return addresses.read([*self._links, *sorted(mine - set(self._links))])

    def change(self, have: ReadState, view: LedgerView) -> TaskChange:
        want: State = {"link": {}, "address": {}}
        absent: dict[str, set[Any]] = {"link": set(), "address": set()}
        for link, options in self._links.items():
            mine = {key for key in view.owned.get("address", ()) if key.link == link}
            if options["state"] == "absent":
                absent["link"].add(link)
                absent["address"].update(mine)
                for key, owner in view.others.get("address", {}).items():
                    if key.link == link and link in have["link"]:
                        raise ConflictError(
                            f"link {link} carries {name('address', key)} of owner {owner!r}; nothing was changed"
                        )
                continue
            there = have["link"].get(link)
            value = Link("dummy", bool(options["up"])) if there is None else there
            if there is not None and options["up"] is not None:
                value = there._replace(up=options["up"])
            # A link that is not a dummy belongs to another program, claimed or not: the task owns only its addresses.
            foreign = there is not None and (there.type != "dummy" or link in view.others.get("link", ()))
            if value != there or not foreign:
                want["link"][link] = value
            want["address"].update(options["addresses"] or {})
            absent["address"].update(options["absent_addresses"])
            if options["addresses"] is not None and options["purge_addresses"]:
                absent["address"].update(mine - set(want["address"]))
        present = {link: options for link, options in self._links.items() if options["state"] == "present"}
        left = {
            link for link, options in present.items() if options["addresses"] is None or not options["purge_addresses"]
        }
        # The kernel assigns fe80:: addresses: never purge them.
        scope = {
            "address": {key for key in have["address"] if key.link not in left and not key.address.startswith("fe80:")},
            "link": view.owned.get("link", set()) - {key.link for key in view.others.get("address", ())},
        }
        return TaskChange(want, absent, scope)

    def reread(self, items: Collection[Item]) -> State:
        return addresses.read(sorted({key if kind == "link" else key.link for kind, key in items}))


def check_link(option_path: str, link: str) -> str:
    """Return the name of a link.

    Raises:
        InputError: the kernel does not accept the name.
    """
    if not 1 <= len(link.encode()) <= 15 or any(char in "/:%" or char.isspace() for char in link) or link in _NO_NAMES:
        raise InputError(
            option_path, "name", link, "a link's name: 1 to 15 characters without '/', ':', '%' and spaces"
        )
    return link


def keys(option_path: str, link: str, texts: Iterable[str], seen: dict[Any, str]) -> dict[AddressKey, bool]:
    """Return the keys of addresses on a link, in their order."""
    address_keys = {}
    for index, text in enumerate(texts):
        here = f"{option_path}[{index}]"
        plain, slash, length = text.partition("/")
        where = host(here, "address", plain)
        full = net.full_prefix(net.family(where))
        if slash and not (length.isascii() and length.isdigit() and 0 <= int(length) <= full):
            raise InputError(here, "address", text, f"a prefix length between 0 and {full}")
        key = AddressKey(link, where, int(length) if slash else full)
        unique(seen, (link, where), here, f"address {where} of link {link}")
        address_keys[key] = True
    return address_keys
