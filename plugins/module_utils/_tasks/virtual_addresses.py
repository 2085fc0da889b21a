# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Options of ``virtual_addresses``, converted to model items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._module.argspec import check_owner, host, unique
from .._module.task import TaskChange
from ..engine.errors import ConflictError, InputError
from ..engine.kernel.rtnetlink import addresses
from ..engine.model import net
from ..engine.model.kinds import name
from ..engine.model.link import AddressKey, Link

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .._module.task import LedgerView, Prepared
    from ..engine.ledger import Item
    from ..engine.model import ReadState, State

# What the kernel has other uses for under /proc/sys/net/ipv4/conf.
_NO_NAMES = (".", "..", "all", "default")


def prepare(params: dict[str, Any]) -> Prepared:
    """Return how to read, what is wanted and how to write, for :func:`._converge.run`."""
    check_owner(params["owner"])
    links: dict[str, dict[str, Any]] = {}
    seen: dict[Any, str] = {}
    for index, link in enumerate(params["links"]):
        place = f"links[{index}]"
        unique(seen, check_link(place, link["name"]), place, f"link {link['name']}")
        links[link["name"]] = {
            **link,
            "addresses": None
            if link["addresses"] is None
            else keys(f"{place}.addresses", link["name"], link["addresses"], seen),
            "absent_addresses": keys(f"{place}.absent_addresses", link["name"], link["absent_addresses"], seen),
        }

    def read(around: LedgerView) -> State:
        mine = {key.link for key in around.owned.get("address", ())} | around.owned.get("link", set())
        return addresses.read([*links, *sorted(mine - set(links))])

    return read, lambda have, around: wanted(links, have, around), {"addresses": addresses.apply}


def reread(items: Iterable[Item]) -> State:
    """Return what there is of (kind, key) pairs, and what stands beside them."""
    return addresses.read(sorted({key if kind == "link" else key.link for kind, key in items}))


def check_link(place: str, link: str) -> str:
    """Return the name of a link.

    Raises:
        InputError: the kernel has no such names.
    """
    if not 1 <= len(link.encode()) <= 15 or any(char in "/:%" or char.isspace() for char in link) or link in _NO_NAMES:
        raise InputError(place, "name", link, "a link's name: 1 to 15 characters without '/', ':', '%' and spaces")
    return link


def keys(place: str, link: str, texts: Iterable[str], seen: dict[Any, str]) -> dict[AddressKey, bool]:
    """Return the keys of addresses on a link, in their order."""
    found = {}
    for index, text in enumerate(texts):
        here = f"{place}[{index}]"
        plain, slash, length = text.partition("/")
        where = host(here, "address", plain)
        full = net.full_prefix(net.family(where))
        if slash and not (length.isascii() and length.isdigit() and 0 <= int(length) <= full):
            raise InputError(here, "address", text, f"a prefix length between 0 and {full}")
        key = AddressKey(link, where, int(length) if slash else full)
        unique(seen, (link, where), here, f"address {where} of link {link}")
        found[key] = True
    return found


def wanted(links: Mapping[str, Mapping[str, Any]], have: ReadState, around: LedgerView) -> TaskChange:
    """Return what the task wants, seeing what is there and whose it is."""
    want: State = {"link": {}, "address": {}}
    absent: dict[str, set[Any]] = {"link": set(), "address": set()}
    for link, wish in links.items():
        mine = {key for key in around.owned.get("address", ()) if key.link == link}
        if wish["state"] == "absent":
            absent["link"].add(link)
            absent["address"].update(mine)
            for key, owner in around.others.get("address", {}).items():
                if key.link == link and link in have["link"]:
                    raise ConflictError(
                        f"link {link} carries {name('address', key)} of owner {owner!r}; nothing was changed"
                    )
            continue
        there = have["link"].get(link)
        value = Link("dummy", bool(wish["up"])) if there is None else there
        if there is not None and wish["up"] is not None:
            value = there._replace(up=wish["up"])
        # A link that is not a dummy is somebody else's, even if nobody says so: only its addresses are our business.
        foreign = there is not None and (there.type != "dummy" or link in around.others.get("link", ()))
        if value != there or not foreign:
            want["link"][link] = value
        want["address"].update(wish["addresses"] or {})
        absent["address"].update(wish["absent_addresses"])
        if wish["addresses"] is not None and wish["purge_addresses"]:
            absent["address"].update(mine - set(want["address"]))
    present = {link: wish for link, wish in links.items() if wish["state"] == "present"}
    left = {link for link, wish in present.items() if wish["addresses"] is None or not wish["purge_addresses"]}
    # The kernel gives a link its fe80:: address by itself.
    scope = {
        "address": {key for key in have["address"] if key.link not in left and not key.address.startswith("fe80:")},
        "link": around.owned.get("link", set()) - {key.link for key in around.others.get("address", ())},
    }
    return TaskChange(want, absent, {}, scope)
