# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of iptables' usual matches and targets, in the order and spelling of ``iptables-save``.

See iptables-extensions(8).
"""

from __future__ import annotations

from typing import Callable, NamedTuple

from ..model.net import canonical, network
from .common import AskError, integer


class Option(NamedTuple):
    """An option: the spelling of each argument, and the synonyms of its name."""

    name: str
    arguments: tuple[Callable[[str], str], ...] = ()
    synonyms: tuple[str, ...] = ()


_PLAIN = frozenset("_-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_FLAGS = ("FIN", "SYN", "RST", "PSH", "ACK", "URG")
_STATES = ("INVALID", "NEW", "RELATED", "ESTABLISHED", "UNTRACKED", "SNAT", "DNAT")
_ADDRESS_TYPES = frozenset(
    (
        "UNSPEC",
        "UNICAST",
        "LOCAL",
        "BROADCAST",
        "ANYCAST",
        "MULTICAST",
        "BLACKHOLE",
        "UNREACHABLE",
        "PROHIBIT",
        "THROW",
        "NAT",
    )
)
_REJECT = {
    4: (
        "net-unreachable",
        "host-unreachable",
        "proto-unreachable",
        "port-unreachable",
        "net-prohibited",
        "host-prohibited",
    ),
    6: ("no-route", "adm-prohibited", "addr-unreachable", "port-unreachable"),
}
REJECT_WITH = {family: f"icmp{'6' if family == 6 else ''}-port-unreachable" for family in (4, 6)}
_REJECTIONS = frozenset(
    [f"icmp-{name}" for name in _REJECT[4]]
    + ["icmp-admin-prohibited", "tcp-reset"]
    + [f"icmp6-{name}" for name in _REJECT[6]]
)


def same(text: str) -> str:
    """Return an argument unchanged."""
    return text


def quoted(text: str) -> str:
    """Return text as ``xtables_save_string`` prints it: in quotes unless it is one plain word."""
    if text and _PLAIN.issuperset(text):
        return text
    escaped = "".join("\\" + char if char in "\"\\'" else char for char in text)
    return f'"{escaped}"'


def _number(text: str) -> int:
    number = integer(text)
    if number is None or number >> 32:
        raise AskError
    return number


def _port(text: str) -> str:
    plain = text.isascii() and text.isdigit() and str(int(text)) == text
    if not plain or int(text) > 65535:
        # the name of a service, or a number in C's spelling, which iptables reads as decimal in a range
        raise AskError
    return text


def _port_range(text: str) -> str:
    ends = [_port(end) for end in text.split(":", 1)]
    return ":".join(dict.fromkeys(ends))


def _port_list(text: str) -> str:
    return ",".join(_port_range(part) for part in text.split(","))


def _tcp_flags(text: str) -> str:
    names = text.split(",")
    if names == ["ALL"]:
        return ",".join(_FLAGS)
    if names == ["NONE"]:
        return "NONE"
    return _in_order(text, _FLAGS)


def _states(text: str) -> str:
    return _in_order(text.upper(), _STATES)


def _in_order(text: str, order: tuple[str, ...]) -> str:
    names = set(text.split(","))
    if not names.issubset(order):
        raise AskError
    return ",".join(name for name in order if name in names)


def _address_type(text: str) -> str:
    if text not in _ADDRESS_TYPES:
        raise AskError
    return text


def _directions(text: str) -> str:
    if not set(text.split(",")).issubset(("src", "dst")):
        raise AskError
    return text


def _mark(text: str) -> str:
    value, slash, mask = text.partition("/")
    spelled = f"{_number(value):#x}"
    return spelled if not slash or _number(mask) == 0xFFFFFFFF else f"{spelled}/{_number(mask):#x}"


def _rejection(text: str) -> str:
    if text not in _REJECTIONS:
        raise AskError
    return text


def _decimal(text: str) -> str:
    return str(_number(text))


def _dashed_ports(text: str) -> str:
    low, dash, high = text.partition("-")
    return f"{_port(low)}-{_port(high)}" if dash else _port(low)


_PORTS = (
    Option("--sport", (_port_range,), ("--source-port",)),
    Option("--dport", (_port_range,), ("--destination-port",)),
)
_RANDOM = (Option("--random"), Option("--random-fully"))

MATCHES: dict[str, tuple[Option, ...]] = {
    "addrtype": (
        Option("--src-type", (_address_type,)),
        Option("--dst-type", (_address_type,)),
        Option("--limit-iface-in"),
        Option("--limit-iface-out"),
    ),
    "comment": (Option("--comment", (quoted,)),),
    "conntrack": (Option("--ctstate", (_states,)),),
    "mark": (Option("--mark", (_mark,)),),
    "multiport": (
        Option("--sports", (_port_list,), ("--source-ports",)),
        Option("--dports", (_port_list,), ("--destination-ports",)),
        Option("--ports", (_port_list,)),
    ),
    "physdev": (
        Option("--physdev-is-in"),
        Option("--physdev-in", (same,)),
        Option("--physdev-is-out"),
        Option("--physdev-out", (same,)),
        Option("--physdev-is-bridged"),
    ),
    "set": (Option("--match-set", (same, _directions)),),
    "state": (Option("--state", (_states,)),),
    "tcp": (*_PORTS, Option("--tcp-flags", (_tcp_flags, _tcp_flags))),
    "udp": _PORTS,
}
# The match that a protocol's own options imply, by the protocol.
IMPLIED = {"tcp": "tcp", "udp": "udp"}

TARGETS: dict[str, tuple[Option, ...]] = {
    "ACCEPT": (),
    "DROP": (),
    "RETURN": (),
    "CT": (Option("--notrack"),),
    "DNAT": (Option("--to-destination", (same,)), *_RANDOM, Option("--persistent")),
    "SNAT": (Option("--to-source", (same,)), *_RANDOM, Option("--persistent")),
    "MARK": (Option("--set-xmark", (same,)),),
    "MASQUERADE": (Option("--to-ports", (_dashed_ports,)), *_RANDOM),
    "REDIRECT": (Option("--to-ports", (_dashed_ports,)), Option("--random")),
    "REJECT": (Option("--reject-with", (_rejection,)),),
    "TCPMSS": (Option("--clamp-mss-to-pmtu"), Option("--set-mss", (_decimal,))),
}
# Targets whose options are not in TARGETS; every other word is a chain.
UNKNOWN_TARGETS = frozenset(
    """AUDIT CHECKSUM CLASSIFY CLUSTERIP CONNMARK CONNSECMARK DNPT DSCP ECN HL HMARK IDLETIMER LED LOG NETMAP NFLOG
    NFQUEUE NOTRACK QUEUE RATEEST SECMARK SET SNPT SYNPROXY TCPOPTSTRIP TEE TOS TPROXY TRACE TTL ULOG""".split()
)


def set_xmark(option: str, text: str) -> str:
    """Return the value of ``MARK --set-xmark`` from that or from an older form."""
    value, slash, mask = text.partition("/")
    number = _number(value)
    if slash and option not in ("--set-xmark", "--set-mark"):
        raise AskError
    if option == "--set-xmark":
        bits = _number(mask) if slash else 0xFFFFFFFF
    elif option == "--set-mark":
        bits = number | _number(mask) if slash else 0xFFFFFFFF
    elif option == "--and-mark":
        number, bits = 0, ~number & 0xFFFFFFFF
    else:
        bits = number if option == "--or-mark" else 0
    return f"{number:#x}/{bits:#x}"


MARK_FORMS = ("--set-xmark", "--set-mark", "--and-mark", "--or-mark", "--xor-mark")


def address(family: int, text: str) -> str:
    """Return a source or destination with its prefix length; "" for any address."""
    base, slash, length = text.partition("/")
    if "," in text or (":" in base) != (family == 6):
        raise AskError
    try:
        if "." in length:
            length = _prefix(length)
        spelled = network(f"{base}/{length}" if slash else base)
    except ValueError:
        raise AskError from None  # the name of a host
    return spelled


def _prefix(mask: str) -> str:
    bits = "".join(f"{int(part):08b}" for part in canonical(mask).split("."))
    if "01" in bits:
        raise AskError
    return str(bits.count("1"))
