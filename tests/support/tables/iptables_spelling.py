# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random rules in all spellings that the model supports, for comparison with the output of iptables."""

from __future__ import annotations

import random
from typing import Any

SET = "NETS"
CHAIN = "OTHER"


def _address(draw: random.Random, six: bool, *words: str) -> str:
    some = ["fd00::1", "FD00:0:0::7/64", "fd00::1/128", "fe80::/10"]
    if not six:
        some = ["10.0.0.1", "10.1.2.3/8", "10.0.0.1/32", "10.9.8.7/255.255.0.0", "127.0.0.0/8"]
    sign = _not(draw)
    value = draw.choice(some if sign else [*some, "::/0" if six else "0.0.0.0/0"])
    return f"{sign}{draw.choice(words)} {value}"


def _number(draw: random.Random) -> str:
    return (
        draw.choice(["{}", "{:#x}", "{:#010X}", "0{:o}"])
        .format(draw.choice([0, 1, 0x4000, 0xFF00, 0xFFFFFFFF]))
        .replace("X", "x")
    )


def _mark(draw: random.Random) -> str:
    return draw.choice([_number(draw), f"{_number(draw)}/{_number(draw)}"])


def _not(draw: random.Random) -> str:
    return draw.choice(["", "! "])


def _ports(draw: random.Random) -> list[str]:
    sport, dport = draw.choice(["--sport", "--source-port"]), draw.choice(["--dport", "--destination-port"])
    options = [
        f"{_not(draw)}{sport} {draw.choice(['1', '1024:65535', '5:5'])}",
        f"{_not(draw)}{dport} {draw.choice(['80', '53:60'])}",
    ]
    return draw.sample(options, draw.randrange(3))


def _matches(draw: random.Random, protocol: str) -> list[str]:
    options = [
        f"-m addrtype {_not(draw)}--dst-type LOCAL",
        f"-m addrtype {_not(draw)}--src-type LOCAL --dst-type UNICAST",
        "-m comment --comment "
        + draw.choice(["plain", '"with blanks"', '"it\'s"', '"quoted \\"word\\""', '"-j DROP"', '"a, b+c"']),
        (
            f"-m conntrack {_not(draw)}--ctstate"
            f" {','.join(draw.sample(['NEW', 'RELATED', 'ESTABLISHED', 'INVALID', 'DNAT'], 2))}"
        ),
        f"-m state --state {','.join(draw.sample(['NEW', 'RELATED', 'ESTABLISHED', 'INVALID'], 2))}",
        f"--match mark {_not(draw)}--mark {_mark(draw)}",
        f"-m physdev {_not(draw)}--physdev-is-bridged",
        f"-m set {_not(draw)}--match-set {SET} {draw.choice(['src', 'dst', 'src,dst', 'dst,src'])}",
    ]
    chosen = draw.sample(options, draw.randrange(3))
    if protocol:
        chosen.append(draw.choice([f"-m {protocol} ", ""]) + " ".join(_ports(draw)))
        if protocol == "tcp":
            chosen.append(draw.choice(["", f"{_not(draw)}--syn", "--tcp-flags ALL NONE", "--tcp-flags ACK,SYN SYN"]))
        if draw.random() < 0.3:
            chosen.append(
                f"-m multiport {_not(draw)}{draw.choice(['--dports', '--source-ports', '--ports'])} 80,443,5000:6000"
            )
    return [text for text in chosen if text.strip()]


def _target(draw: random.Random, table: str) -> str:
    jump = draw.choice(["-j", "--jump"])
    forms = ["", f"-g {CHAIN}", *(f"{jump} {name}" for name in ("ACCEPT", "RETURN", CHAIN))]
    if table == "mangle":
        forms += [f"{jump} MARK {option} {_number(draw)}" for option in ("--or-mark", "--and-mark", "--xor-mark")]
        forms += [f"{jump} MARK {option} {_mark(draw)}" for option in ("--set-mark", "--set-xmark")]
    elif table == "nat":
        forms += [f"{jump} MASQUERADE", f"{jump} MASQUERADE --random-fully"]
    else:
        forms += [f"{jump} REJECT", f"{jump} DROP"]
    return draw.choice(forms)


def random_rule(draw: random.Random, family: int, table: str) -> str:
    """Return a rule that iptables accepts in a user-defined chain of this table."""
    six = family == 6
    protocol = draw.choice(["", "", "tcp", "udp"])
    head = [
        _address(draw, six, "-s", "--src", "--source"),
        _address(draw, six, "-d", "--dst", "--destination"),
        f"{_not(draw)}{draw.choice(['-i', '--in-interface'])} {draw.choice(['eth0', 'cali+'])}",
    ]
    if table != "nat":
        head.append(f"{_not(draw)}-o eth0.100")
    parts = draw.sample(head, draw.randrange(len(head)))
    if protocol:
        spelled = draw.choice([protocol, protocol.upper(), {"tcp": "6", "udp": "17"}[protocol]])
        parts.insert(0, f"{draw.choice(['-p', '--proto', '--protocol'])} {spelled}")
    matches = _matches(draw, protocol)
    target = _target(draw, table)
    if draw.random() < 0.2 and protocol == "":
        return " ".join(part for part in [target, *matches, *parts] if part)
    return " ".join(part for part in [*parts, *matches, target] if part)


def examples(family: int, table: str, count: int) -> list[Any]:
    """Return ``count`` rules, the same in every run."""
    draw = random.Random(f"{family} {table}")
    return [random_rule(draw, family, table) for _index in range(count)]
