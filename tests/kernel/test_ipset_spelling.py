# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ipset itself spells headers and members of every type as the model says: many random ones, each in a set of its own."""

from __future__ import annotations

import random
from typing import Any

import pytest
from support.namespace import fresh, sh

from kubenode.engine.errors import InputError
from kubenode.engine.kernel import ipset
from kubenode.engine.model.ipset import same_set
from kubenode.engine.model.ipset_header import PARTS, header
from kubenode.engine.model.ipset_member import canonical_member, pairs
from kubenode.engine.model.net import unpack

EXAMPLES = 60
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
    return ":".join(draw.choice([f"{octet:02x}", f"{octet:02X}", f"{octet:x}"]) for octet in draw.sample(range(1, 256), 6))


def _mark(draw: random.Random, _six: bool) -> str:
    return draw.choice(["{}", "{:#x}", "{:#010x}", "0{:o}"]).format(draw.randrange(1 << 32))


DRAW = {
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


def _cases() -> list[Any]:
    cases = []
    for kind in PARTS:
        method = kind.partition(":")[0]
        base: dict[str, Any] = {}
        if method == "bitmap":
            base["range"] = "0-65535" if kind == "bitmap:port" else "10.1.0.0/16"
        for family in ("inet", "inet6") if method == "hash" and kind != "hash:mac" else ("",):
            chosen = {**base, "family": family} if family else base
            cases += [(kind, chosen), (kind, {**chosen, **_COMMON})]
            if kind == "hash:ip":
                cases.append((kind, {**chosen, "netmask": 20 if family == "inet" else 56}))
    cases += [("hash:ip,mark", {"markmask": "0xff00"}), ("bitmap:ip", {"range": "10.1.0.0/16", "netmask": 24})]
    return [pytest.param(kind, chosen, id=f"{kind} {' '.join(chosen)}") for kind, chosen in cases]


@pytest.mark.parametrize(("kind", "chosen"), _cases())
def test_ipset_agrees(kind: str, chosen: dict[str, Any]) -> None:
    fresh()
    draw = random.Random(f"{kind} {chosen}")
    want = header(kind, chosen)
    sh("ipset", "restore", text="create one hash:ip\ncreate two hash:net\n")
    asked = {}
    for index in range(EXAMPLES):
        six = want.option("family") == "inet6"
        parts = [DRAW[part](draw, six) for part in PARTS[kind]]
        if kind.startswith("bitmap:ip"):
            parts[0] = f"10.1.{draw.randrange(256)}.{draw.randrange(256)}"
        asked[f"t{index}"] = f"{','.join(parts)} {_options(draw, kind) if 'comment' in chosen else ''}".strip()
    lines = [f"create {name} {want.text()}\nadd {name} {text}\n" for name, text in asked.items()]
    sh("ipset", "restore", text="".join(lines))
    have = ipset.read()
    assert same_set(have["set"]["t0"], want)
    told = {key.set: (key.member, pairs(options)) for key, options in have["member"].items() if key.set in asked}
    for name, text in asked.items():
        spelled = canonical_member(want, text)
        assert spelled is not None, text
        member, options = told[name]
        assert member == spelled.member, text
        for (option, value), (other, guess) in zip(options, pairs(spelled.options), strict=False):
            assert option == other, text
            assert value == guess or (option == "timeout" and 0 <= int(guess) - int(value) < 60), text
        assert len(options) == len(pairs(spelled.options)), text
    # and what is canonical stays as it is
    again = [canonical_member(have["set"][key.set], f"{key.member} {options}") for key, options in have["member"].items()]
    assert [tuple(each) for each in again if each] == [(key.member, options) for key, options in have["member"].items()]


@pytest.mark.parametrize(
    ("kind", "chosen", "text"),
    [
        ("hash:ip", {}, "0.0.0.0"),
        ("hash:ip", {"family": "inet6", "netmask": 64}, "::7"),
        ("hash:mac", {}, "0:0:0:0:0:0"),
        ("hash:net", {}, "10.0.0.0/0"),
        ("hash:net,net", {"family": "inet6"}, "fd00::/8,::/0"),
        ("hash:net,port", {}, "0.0.0.0/0,80"),
        ("hash:ip,port,net", {}, "10.0.0.1,80,0.0.0.0/0"),
        ("bitmap:port", {"range": "0-99"}, "100"),
        ("bitmap:ip", {"range": "10.0.0.0/24"}, "10.0.1.0"),
    ],
)
def test_ipset_refuses_what_the_model_refuses(kind: str, chosen: dict[str, Any], text: str) -> None:
    fresh()
    want = header(kind, chosen)
    sh("ipset", "create", "S", *want.text().split())
    with pytest.raises(InputError):
        canonical_member(want, text)
    with pytest.raises(AssertionError, match="ipset add S"):
        sh("ipset", "add", "S", text)
