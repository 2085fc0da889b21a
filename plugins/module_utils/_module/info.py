# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Run an ``*_info`` module: read a table and name the owner of each item.

Items are returned in the form of the converging module's options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule

from ..engine.node_lock import DIRECTORY
from .planning import Owners, open_ledger_view
from .result import failing

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Callable

FAMILY_NAMES = {4: "ipv4", 6: "ipv6"}
AS_OPTIONS = {"as_options": {"type": "bool", "default": False}}


def run(
    spec: dict[str, Any], gather: Callable[[dict[str, Any], Owners], dict[str, Any]], directory: str = DIRECTORY
) -> None:
    """Run an information module from its argument spec; ``gather(params, owners)`` returns the module's result.

    ``owners`` is an :class:`Owners`.
    """
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    # As in check mode: do not create an absent ledger.
    with failing(module), open_ledger_view(True, "", directory) as view:
        result = gather(module.params, Owners(view))
    module.exit_json(changed=False, **result)


def beside(as_options: bool, **fields: Any) -> dict[str, Any]:
    """Return the fields of an item that are not options; none if only options are asked for."""
    return {} if as_options else fields


def services(owners: Owners, as_options: bool) -> list[dict[str, Any]]:
    """Return the virtual servers as ``ipvs_services`` takes them."""
    from ..engine.kernel import ipvs
    from ..engine.model import ipvs as words
    from ..engine.model.ipvs import TUNNEL_CHECKSUMS

    have = ipvs.read(precise=True)
    connections = ipvs.read_connections()
    checksums = {value: name for name, value in TUNNEL_CHECKSUMS.items()}
    by_key = {}
    for key, value in have["virtual_server"].items():
        mark = key.protocol == "fwmark"
        flags = [
            f"flag-{index}"
            for index, bit in enumerate((words.SCHED1, words.SCHED2, words.SCHED3), 1)
            if value.flags & bit
        ]
        by_key[key] = {
            **({"fwmark": key.port} if mark else {"protocol": key.protocol, "address": key.address, "port": key.port}),
            "family": FAMILY_NAMES[key.family],
            "scheduler": value.scheduler,
            "scheduler_flags": flags,
            "persistence_timeout": value.timeout if value.flags & words.PERSISTENT else 0,
            "netmask": str(value.netmask) if value.flags & words.PERSISTENT else None,
            "persistence_engine": value.pe_name,
            "one_packet": bool(value.flags & words.ONE_PACKET),
            **beside(as_options, owner=owners("virtual_server", key)),
            "real_servers": [],
        }
    for key, value in have["real_server"].items():
        active, inactive = connections.get(key, (0, 0))
        by_key[key.server]["real_servers"].append(
            {
                "address": key.address,
                "port": key.port,
                "weight": value.weight,
                "forwarding_method": value.forward,
                "upper_threshold": value.upper_threshold,
                "lower_threshold": value.lower_threshold,
                "tunnel_type": value.tunnel_type,
                "tunnel_port": value.tunnel_port,
                "tunnel_checksum": checksums.get(value.tunnel_flags, "none"),
                **beside(as_options, active_connections=active, inactive_connections=inactive),
            }
        )
    return list(by_key.values())


def ipvs_settings(owners: Owners, as_options: bool) -> tuple[dict[Any, Any], list[dict[str, Any]]]:
    """Return timeouts and synchronisation daemons as ``ipvs_services`` takes them."""
    from ..engine.kernel.ipvs import settings

    have = settings.read(("ipvs_timeout", "sync_daemon"))
    daemons = [
        {
            "role": role,
            "interface": daemon.interface,
            "sync_id": daemon.sync_id,
            "maxlen": daemon.max_length,
            "group": daemon.group,
            "port": daemon.port,
            "ttl": daemon.ttl,
            **beside(as_options, owner=owners("sync_daemon", role)),
        }
        for role, daemon in sorted(have["sync_daemon"].items())
    ]
    return have["ipvs_timeout"], daemons


def sets(owners: Owners, names: Collection[str] | None, members: bool, as_options: bool) -> list[dict[str, Any]]:
    """Return the sets as ``ipsets`` takes them."""
    from ..engine.kernel import ipset

    have = ipset.read(names, members=members)
    by_name = {}
    for name, value in have["set"].items():
        options = {key: True if text == "" else int(text) if text.isdigit() else text for key, text in value.options}
        by_name[name] = {"name": name, "type": value.type, **options, **beside(as_options, owner=owners("set", name))}
        if members:
            by_name[name]["members"] = []
    for key, options in have.get("member", {}).items():
        by_name[key.set]["members"].append(f"{key.member} {options}".rstrip())
    return list(by_name.values())


def chains(
    owners: Owners, families: Collection[int], tables: Collection[str], as_options: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the chains as ``iptables_chains`` takes them, and the rules of built-in chains in their order."""
    from ..engine.kernel import iptables

    have = iptables.read(families, tables)
    own = [
        {
            "name": key.chain,
            "table": key.table,
            "families": [FAMILY_NAMES[key.family]],
            "rules": list(rules),
            **beside(as_options, owner=owners("chain", key)),
        }
        for key, rules in have["chain"].items()
    ]
    built_in = [
        {
            "chain": key.chain,
            "table": key.table,
            "family": FAMILY_NAMES[key.family],
            "position": position,
            "rule": key.rule,
            "owner": owners("jump", key),
        }
        for key, position in sorted(have["jump"].items(), key=lambda pair: (pair[0][:3], pair[1]))
    ]
    return own, built_in


def nft_tables(owners: Owners, names: Collection[str] | None, objects: bool, as_options: bool) -> list[dict[str, Any]]:
    """Return the tables of nftables as ``nft_tables`` takes them; only those that it can write if ``as_options``."""
    from ..engine.kernel import nft_text

    items = []
    for key, each in nft_text.listings().items():
        if names is not None and str(key) not in names:
            continue
        proxy = owners("nft_table", key)  # a service proxy, whose claims are of another kind; nft_tables refuses them
        is_writable = not each.refusal and not proxy
        if as_options and not is_writable:
            continue
        items.append(
            {
                "family": key.family,
                "name": key.name,
                "content": each.table.text(),
                **({"objects": nft_text.structured(key)} if objects and not as_options else {}),
                **beside(
                    as_options,
                    flags=each.table.flags,
                    writable=is_writable,
                    owner=proxy or owners("nft_text", key),
                ),
            }
        )
    return items


def links(owners: Owners, names: list[str] | None, as_options: bool) -> list[dict[str, Any]]:
    """Return the links as ``virtual_addresses`` takes them."""
    from ..engine.kernel.rtnetlink import addresses

    have = (
        addresses.read(names)
        if names is not None
        else addresses.read(sorted({link for link, _a, _p in addresses.node_addresses()}))
    )
    by_name = {
        name: {
            "name": name,
            "up": value.up,
            "addresses": [],
            **beside(as_options, type=value.type, owner=owners("link", name)),
        }
        for name, value in have["link"].items()
    }
    for key in have["address"]:
        text = f"{key.address}/{key.prefix}"
        by_name[key.link]["addresses"].append(
            text if as_options else {"address": text, "owner": owners("address", key)}
        )
    return list(by_name.values())
