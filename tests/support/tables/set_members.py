# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random members of sets of every type, in the spellings of operators."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kubenode.engine.model.net import unpack
from kubenode.engine.syntax.ipset_header import PARTS

COMMENTS = ('"one"', "bare", '"more words"', '"timeout 5"', '"it\'s"')
_COMMON: dict[str, Any] = {"timeout": 100_000, "counters": True, "comment": True, "skbinfo": True}


def _ip(draw: random.Random, six: bool) -> str:
    if not six:
        return unpack(bytes(draw.randrange(1, 256) for _ in range(4)))
    groups = [draw.choice([0, 0, draw.randrange(1, 65536)]) for _ in range(8)]
    groups[0] = draw.randrange(1, 65536)
    text = draw.choice([":".join(f"{group:x}" for group in groups), ":".join(f"{group:04X}" for group in groups)])
    return text if draw.random() < 0.7 else unpack(b"".join(group.to_bytes(2, "big") for group in groups))


def _net(draw: random.Random, six: bool) -> str:
    address = _ip(draw, six)
    return (
        address
        if draw.random() < 0.2
        else f"{address}/{draw.choice([draw.randrange(1, 129 if six else 33), 128 if six else 32])}"
    )


def _port(draw: random.Random, _six: bool) -> str:
    return draw.choice(["", "tcp:", "TCP:", "6:", "udp:", "17:", "sctp:", "132:", "udplite:", "136:"]) + str(
        draw.randrange(65536)
    )


def _mac(draw: random.Random, _six: bool) -> str:
    return ":".join(
        draw.choice([f"{octet:02x}", f"{octet:02X}", f"{octet:x}"]) for octet in draw.sample(range(1, 256), 6)
    )


def _mark(draw: random.Random, _six: bool) -> str:
    return draw.choice(["{}", "{:#x}", "{:#010x}", "0{:o}"]).format(draw.randrange(1 << 32))


_DRAW = {
    "ip": _ip,
    "net": _net,
    "port": _port,
    "mac": _mac,
    "mark": _mark,
    "number": lambda draw, _six: str(draw.randrange(65536)),
    "iface": lambda draw, _six: draw.choice(["eth0", "eth0.100", "wg+", "physdev:veth1"]),
    "set": lambda draw, _six: draw.choice(["one", "two"]),
}


def _options(draw: random.Random, kind: str) -> str:
    options = {
        "timeout": f"timeout {draw.randrange(50_000, 100_000)}",
        "packets": f"packets {draw.randrange(99)}",
        "bytes": f"bytes {draw.randrange(9999)}",
        "comment": f"comment {draw.choice(COMMENTS)}",
        "skbmark": f"skbmark {draw.choice(['0x7', '0xAB/0xFF', '0x07/0xffffffff', '0x0', '0x0/0x0'])}",
        "skbprio": f"skbprio {draw.choice(['1:10', '0x1:0xA', '0:0', 'ab:cdef'])}",
        "skbqueue": f"skbqueue {draw.randrange(3)}",
    }
    if "net" in kind:
        options["nomatch"] = "nomatch"
    if kind == "hash:net,iface":
        options["wildcard"] = "wildcard"
    chosen = draw.sample(sorted(options), draw.randrange(len(options) + 1))
    return " ".join(options[name] for name in chosen)


def member(draw: random.Random, kind: str, chosen: dict[str, Any]) -> str:
    """Return a member of a set of this type and these options; if the set has all of them, the member has some, too."""
    parts = [_DRAW[part](draw, chosen.get("family") == "inet6") for part in PARTS[kind]]
    if kind.startswith("bitmap:ip"):
        parts[0] = f"10.1.{draw.randrange(256)}.{draw.randrange(256)}"
    return f"{','.join(parts)} {_options(draw, kind) if 'comment' in chosen else ''}".strip()


def cases() -> list[Any]:
    """Return parameters of a test: a type and options for ``header``.

    Each type comes without options, and with all options of members.
    """
    headers = []
    for kind in PARTS:
        method = kind.partition(":")[0]
        base: dict[str, Any] = {}
        if method == "bitmap":
            base["range"] = "0-65535" if kind == "bitmap:port" else "10.1.0.0/16"
        for family in ("inet", "inet6") if method == "hash" and kind != "hash:mac" else ("",):
            chosen = {**base, "family": family} if family else base
            headers += [(kind, chosen), (kind, {**chosen, **_COMMON})]
            if kind == "hash:ip":
                headers.append((kind, {**chosen, "netmask": 20 if family == "inet" else 56}))
    headers += [("hash:ip,mark", {"markmask": "0xff00"}), ("bitmap:ip", {"range": "10.1.0.0/16", "netmask": 24})]
    return [pytest.param(kind, chosen, id=f"{kind} {' '.join(chosen)}") for kind, chosen in headers]
