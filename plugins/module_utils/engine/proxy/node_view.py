# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read this node's state as far as it decides about one flow. Changes and sends nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

from ..desired.nft_sets import TABLES
from ..errors import EngineError, KernelError
from ..explain.flow import Flow
from ..explain.foreign_nft import foreign_tables
from ..explain.routes import PolicyRule, RouteEntry
from ..explain.view import Host, LinkView, NodeView, RuleTable, Template
from ..kernel import sysctls
from ..kernel.command import is_installed, run
from ..model import State
from ..model.iptables import ChainKey
from ..model.ipvs import PERSISTENT, VirtualServerKey
from ..model.net import family
from ..model.nftables import KINDS, TableKey

BALANCERS = ("kube-proxy", "kube-router", "cilium-agent", "keepalived")
_CONNECTIONS = "/proc/thread-self/net/ip_vs_conn"
_IPTABLES = ("filter", "nat", "mangle", "raw", "security")
_SYSCTLS = (
    "net.ipv4.ip_forward",
    "net.ipv6.conf.all.forwarding",
    "net.ipv4.vs.conntrack",
    "net.ipv4.vs.expire_nodest_conn",
    "net.ipv4.vs.expire_quiescent_template",
    "net.ipv4.vs.conn_reuse_mode",
    "net.bridge.bridge-nf-call-iptables",
    "net.bridge.bridge-nf-call-ip6tables",
    "net.ipv4.conf.all.arp_ignore",
    "net.ipv4.conf.all.arp_announce",
)
_PER_LINK = ("rp_filter", "route_localnet", "accept_local", "forwarding")


def read_view(flow: Flow, wanted_sysctls: Collection[str] = ()) -> NodeView:
    """Return the node's state for one flow.

    What this kernel lacks or this process may not read is named in ``host.lacking``.

    Raises:
        MissingError: IPVS cannot be read at all.
    """
    from ..kernel import ipvs

    lacking: list[str] = []
    items: State = dict(ipvs.read_address(flow.key))
    rules, policies = _iptables(flow.family, items, lacking)
    _nftables(flow.family, items, lacking)
    host = read_host(flow, items, wanted_sysctls)
    return NodeView(items, rules, policies, host._replace(lacking=(*lacking, *host.lacking)))


def read_host(flow: Flow, items: State, wanted_sysctls: Collection[str] = ()) -> Host:
    """Return links, addresses, routes, sysctls, connections and other programs; adds links' items to ``items``."""
    from ..desired.node_addresses import DUMMY, LOOPBACK
    from ..kernel import ipvs
    from ..kernel.rtnetlink import addresses, topology

    found = topology.read()
    items.update(addresses.read([DUMMY]))
    items["route"] = addresses.read_routes([LOOPBACK])
    names = [*_SYSCTLS, *wanted_sysctls]
    for link in ("all", *(link.name for link in found.links)):
        names.extend(f"net.ipv4.conf.{link.replace('.', '/')}.{key}" for key in _PER_LINK)
    values = {name.replace("/", "."): value for name, value in sysctls.read(names)["sysctl"].items()}
    items["sysctl"] = {name: values[name] for name in wanted_sysctls if name in values}
    server = items["virtual_server"].get(flow.key)
    is_persistent = server is not None and bool(server.flags & PERSISTENT)
    has_limits = any(value.upper_threshold for key, value in items["real_server"].items() if key.server == flow.key)
    return Host(
        {link.name: LinkView(*link) for link in found.links},
        tuple(addresses.node_addresses()),
        tuple(RouteEntry(*row) for row in found.routes),
        tuple(PolicyRule(*row) for row in found.rules),
        values,
        found.neighbours,
        tuple(templates(flow.key)) if is_persistent else (),
        _limits(),
        ipvs.read_connections([flow.key]) if has_limits else {},
        tuple(other_balancers()),
    )


def _iptables(fam: int, items: State, lacking: list[str]) -> tuple[RuleTable, dict[ChainKey, str]]:
    """Return rules and policies of one family; adds the sets that the rules name to ``items``."""
    from ..kernel import ipset
    from ..kernel.iptables import mentioned_sets
    from ..kernel.iptables.read import parse
    from ..kernel.iptables.tool import save

    items["set"], items["member"] = {}, {}
    try:
        saved = save(fam)
    except EngineError as error:
        if is_installed("iptables"):
            lacking.append(f"rules of iptables: {error}")
        return {}, {}
    rules: RuleTable = {}
    policies = {}
    for part in parse(saved):
        rules.update({ChainKey(fam, table, chain): tuple(texts) for (table, chain), texts in part.items()})
    table = ""
    for line in saved.split("\n"):
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith(":") and line.split(" ")[1] not in ("-", "ACCEPT"):
            policies[ChainKey(fam, table, line[1:].split(" ")[0])] = line.split(" ")[1]
    for name in sorted(mentioned_sets(text for texts in rules.values() for text in texts)):
        try:
            for kind, found in ipset.read([name]).items():
                items[kind].update(found)
        except EngineError as error:
            lacking.append(f"set {name}: {error}")
    return rules, policies


def _nftables(fam: int, items: State, lacking: list[str]) -> None:
    from ..kernel import nftables

    ours = TABLES[fam]
    for kind in KINDS:
        items[kind] = {}
    try:
        items.update(nftables.read([ours]))
    except EngineError:
        return  # a kernel without nftables has no rules in it
    if not is_installed("nft"):
        with suppress(EngineError):
            names = {str(table) for table in nftables.read()["nft_table"]} - {str(ours), *_of_iptables()}
            if names:
                lacking.append(f"tables {', '.join(sorted(names))} of nftables: the command nft is not installed")
        return
    ended = run(["nft", "--json", "list", "ruleset"])
    try:
        ruleset = json.loads(ended.output)["nftables"] if not ended.status else None
        if ruleset is None:
            raise KernelError(ended.errors.strip())
        for kind, found in foreign_tables(ruleset, [*TABLES.values(), *map(_table, _of_iptables())]).items():
            items[kind].update(found)
    except (EngineError, ValueError, LookupError, TypeError, AttributeError) as error:
        lacking.append(f"tables of other programs in nftables: {error}")


def _of_iptables() -> list[str]:
    """Return the tables of iptables-nft, whose rules iptables-save shows."""
    from ..kernel import iptables

    with suppress(EngineError):
        if iptables.version().backend == "nft":
            return [f"{fam} {name}" for fam in ("ip", "ip6") for name in _IPTABLES]
    return []


def _table(text: str) -> TableKey:
    fam, _space, name = text.partition(" ")
    return TableKey(fam, name)


def _limits() -> dict[str, int]:
    found = {}
    for name, key in (("conntrack", "nf_conntrack_count"), ("conntrack_max", "nf_conntrack_max")):
        with suppress(OSError, ValueError), open(f"/proc/sys/net/netfilter/{key}", encoding="ascii") as file:
            found[name] = int(file.read())
    return found


def other_balancers() -> Iterator[str]:
    """Yield the names of running programs that may balance on this node, each once."""
    names = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError), open(f"/proc/{entry}/comm", encoding="utf-8", errors="replace") as file:
                names.add(file.read().strip())
    yield from (name for name in BALANCERS if name in names)


def connection_lines(key: VirtualServerKey) -> Iterator[list[str]]:
    """Yield the words of each line of ``/proc/net/ip_vs_conn`` about a virtual server; none without the file."""
    try:
        with open(_CONNECTIONS, encoding="ascii", errors="replace") as file:
            for line in file:
                words = line.split()
                if len(words) < 8 or words[0].lower() != key.protocol or int(words[4], 16) != key.port:
                    continue
                if address(words[3]) == key.address:
                    yield words
    except (OSError, ValueError):
        return


def templates(key: VirtualServerKey) -> Iterable[Template]:
    """Yield the persistence templates of a virtual server: entries without a client port."""
    for words in connection_lines(key):
        if words[2] == "0000":
            yield Template(key, address(words[1]), address(words[5]), int(words[6], 16))


def address(raw: str) -> str:
    """Return an address of ``ip_vs_conn``: eight hexadecimal digits for IPv4, a usual one for IPv6."""
    from ..model.net import canonical, unpack

    if len(raw) == 8 and ":" not in raw:
        return unpack(bytes.fromhex(raw))
    return canonical(raw.strip("[]"))


def arrival_link(view_host: Host, flow: Flow) -> str:
    """Return the link by which a client's packets arrive: that of its neighbour entry, else of the route to it."""
    from ..explain.routes import Routes

    known = view_host.neighbours.get(flow.source)
    if known is not None and known[0] and known[1] not in ("FAILED", "INCOMPLETE"):
        return known[0]
    route = Routes(view_host.routes, view_host.rules).lookup(flow.source)
    if route is not None and route.is_local and family(flow.source) == flow.family:
        return ""
    return route.link if route is not None else ""
