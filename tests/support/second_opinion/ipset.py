# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets as pyroute2 reads them, in the words of ``ipset save``: all types, without the members' options.

pyroute2 0.9.7 reads a markmask in the other byte order, so :func:`comparable` leaves it out. It takes the header in an
answer to IPSET_CMD_SAVE for a member, so :func:`read` sends IPSET_CMD_LIST.
"""

from __future__ import annotations

import socket
from typing import Any

from pyroute2 import IPSet as PyrouteIPSet
from pyroute2.netlink.nfnetlink.ipset import ipset_msg

from kubenode.engine.kernel.netlink import message as netlink_message
from kubenode.engine.kernel.nfnetlink.protocol import NFNL_SUBSYS_IPSET
from kubenode.engine.model.ipset import IPSet, MemberKey
from kubenode.engine.syntax.ipset_header import PARTS

_FAMILIES = {socket.AF_INET: "inet", socket.AF_INET6: "inet6"}
_PROTOCOLS = {6: "tcp", 17: "udp", 132: "sctp", 136: "udplite"}
_PHYSICAL = 1 << 1  # IPSET_FLAG_PHYSDEV


State = dict[str, dict[Any, Any]]


def read(names: list[str]) -> State:
    """Return these sets and their members."""
    with PyrouteIPSet() as table:
        return state([message for name in names for message in table.list(name=name)])


def decoded(payload: bytes, command: int) -> Any:
    """Return pyroute2's message of a payload that answers ``command``."""
    parsed = ipset_msg(netlink_message(NFNL_SUBSYS_IPSET << 8 | command, 0, payload))
    parsed.decode()
    return parsed


def state(messages: list[Any]) -> State:
    """Return the sets and members in answers to IPSET_CMD_LIST."""
    sets, members = {}, {}
    for message in messages:
        name, kind = (message.get(f"IPSET_ATTR_{field}") for field in ("SETNAME", "TYPENAME"))
        if message.get("IPSET_ATTR_DATA") is not None:
            sets[name] = IPSet(kind, tuple(_options(kind, message)))
        for entry in message.get("IPSET_ATTR_ADT")["attrs"]:
            members[MemberKey(name, _member(kind, entry[1]))] = ""
    return {"set": sets, "member": members}


def comparable(given: State) -> State:
    """Return a state without the option that pyroute2 reads wrong."""
    sets = {
        name: header._replace(options=tuple(pair for pair in header.options if pair[0] != "markmask"))
        for name, header in given["set"].items()
    }
    return {**given, "set": sets}


def _options(kind: str, message: Any) -> list[tuple[str, str]]:
    data = message.get("IPSET_ATTR_DATA")
    if kind == "bitmap:port":
        return [("range", f"{data.get('IPSET_ATTR_PORT_FROM')}-{data.get('IPSET_ATTR_PORT_TO')}")]
    if kind.startswith("bitmap"):
        return [("range", f"{_address(data, 'IP_FROM')}-{_address(data, 'IP_TO')}")]
    if kind == "list:set":
        return [("size", str(data.get("IPSET_ATTR_SIZE")))]
    options = [("hashsize", str(data.get("IPSET_ATTR_HASHSIZE"))), ("maxelem", str(data.get("IPSET_ATTR_MAXELEM")))]
    if kind != "hash:mac":
        options.insert(0, ("family", _FAMILIES[message.get("IPSET_ATTR_FAMILY")]))
    options.append(("bucketsize", str(data.get("IPSET_ATTR_BUCKETSIZE"))))
    options.append(("initval", f"{data.get('IPSET_ATTR_INITVAL'):#010x}"))
    return options


def _member(kind: str, data: Any) -> str:
    texts = []
    seen = 0
    for part in PARTS[kind]:
        if part in ("ip", "net"):
            texts.append(_network(data, second=bool(seen)) if part == "net" else _address(data, _place(seen)))
            seen += 1
        elif part == "port":
            texts.append(f"{_PROTOCOLS[data.get('IPSET_ATTR_PROTO')]}:{data.get('IPSET_ATTR_PORT_FROM')}")
        elif part == "iface":
            physical = (data.get("IPSET_ATTR_CADT_FLAGS") or 0) & _PHYSICAL
            texts.append(("physdev:" if physical else "") + data.get("IPSET_ATTR_IFACE"))
        else:
            texts.append(_plain(part, data))
    return ",".join(texts)


def _plain(part: str, data: Any) -> str:
    if part == "number":
        return str(data.get("IPSET_ATTR_PORT_FROM"))
    if part == "mac":
        return str(data.get("IPSET_ATTR_ETHER")).upper()
    if part == "mark":
        return f"{data.get('IPSET_ATTR_MARK'):#010x}"
    return str(data.get("IPSET_ATTR_NAME"))


def _place(seen: int) -> str:
    return "IP2" if seen else "IP_FROM"


def _network(data: Any, *, second: bool) -> str:
    address = _address(data, _place(second))
    length = data.get("IPSET_ATTR_CIDR2" if second else "IPSET_ATTR_CIDR")
    full = 128 if ":" in address else 32
    return address if length in (None, full) else f"{address}/{length}"


def _address(data: Any, field: str) -> str:
    nested = data.get(f"IPSET_ATTR_{field}")
    return str(nested.get("IPSET_ATTR_IPADDR_IPV4") or nested.get("IPSET_ATTR_IPADDR_IPV6"))
