# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Input from tasks about rules and sets: rules in any spelling, headers and members of sets with their options."""

from __future__ import annotations

from fuzz.choices import Choices
from fuzz.target import Target

from kubenode.engine.errors import EngineError
from kubenode.engine.model.ipset import keeps_members
from kubenode.engine.model.member_options import same_options
from kubenode.engine.syntax.ipset_header import PARTS, header
from kubenode.engine.syntax.ipset_member import Speller
from kubenode.engine.syntax.iptables_rule import canonical_rule

_RULES = (
    "-s 10.0.0.1/32 -p tcp -m tcp --dport 80 -j ACCEPT",
    '-m comment --comment "a \\" b" -m set --match-set A dst,dst -j MARK --set-xmark 0x4000/0x4000',
    "--source 10.0.0.0/255.0.0.0 ! -i lo --protocol 6 --syn -j REJECT",
    "-m conntrack --ctstate NEW,RELATED -j KUBE-MARK-MASQ",
    "-p icmp --icmp-type 8 -m addrtype --dst-type LOCAL -g X",
    "-j DNAT --to-destination 10.0.0.1:80 --random-fully",
    "-d fd00::1 -m ipvs --vaddr fd00::1/128 --vport 80 -j SNAT --to-source fd00::2",
)
_OPTIONS = (
    ("family", ("inet", "inet6", "x")),
    ("range", ("1-9", "10.0.0.0/24", "10.0.0.1-10.0.0.9", "0.0.0.0/-999999999999", "9-1", "0x1-070")),
    ("netmask", ("24", "64", "0")),
    ("bitmask", ("255.255.0.255", "ffff::")),
    ("timeout", ("0", "30", "99999999")),
    ("counters", (True, "", False)),
    ("comment", (True,)),
    ("skbinfo", (True,)),
    ("markmask", ("0xff00", "7")),
    ("size", ("1",)),
)
_MEMBERS = (
    "10.0.0.1", "10.0.0.0/24", "fd00::1", "10.0.0.1,tcp:80", "10.0.0.1,80,10.0.0.2", "10.0.0.0/8,eth0", "10.0.0.1,0x7",
    "tcp:0080", "10.0.0.1,aa:bb:cc:dd:ee:ff", "physdev:eth0", "10.0.0.1-10.0.0.9", "a",
    '5 timeout 3 comment "x y" packets 1 bytes 2', "10.0.0.1 skbmark 0x1/0x2 skbprio 1:2 skbqueue 3",
    "10.0.0.0/0 nomatch", "[fd00::1]/64", "10.0.0.1,udp:dns,10.0.0.0/24",
)  # fmt: skip


def _rule(data: bytes) -> None:
    choices = Choices(data)
    family = choices.pick((4, 6))
    rule = choices.rest().decode("utf-8", "surrogateescape")
    canonical = canonical_rule(family, rule)
    if canonical is not None:
        again = canonical_rule(family, canonical)
        assert again in (canonical, None), "what iptables-save would print is spelled otherwise"


def _member(data: bytes) -> None:
    choices = Choices(data)
    options: dict[str, object] = {}
    for _ in range(choices.below(4)):
        name, values = choices.pick(_OPTIONS)
        options[name] = choices.odd() if choices.chance(3) else choices.pick(values)
    made = header(choices.pick(tuple(PARTS)), options, "set a")
    assert keeps_members(made, made)
    speller = Speller(made, "set a")
    # text in JSON and YAML may have a lone surrogate
    half = choices.pick(("", "", "", "\ud800"))
    for text in choices.rest().decode("utf-8", "surrogateescape").replace("\x01", half).split("\n")[:5]:
        try:
            member = speller(text)
        except EngineError:
            continue
        if member is not None:
            assert same_options(member.options, member.options)
            assert speller(f"{member.member} {member.options}".strip()) in (member, None), (
                "a canonical member is spelled otherwise"
            )


def _member_seeds() -> list[bytes]:
    seeds = []
    for number, kind in enumerate(PARTS):
        for text in _MEMBERS:
            seeds.append(bytes((0, number, 0)) + text.encode())
        seeds.append(bytes((1, 4, 0, 1, number, 0)) + b"\n".join(text.encode() for text in _MEMBERS) + kind.encode())
    return seeds


TARGETS = {
    "rules": Target(
        _rule,
        [bytes((family,)) + rule.encode() for rule in _RULES for family in (0, 1)],
        words=tuple(
            sorted({word for rule in _RULES for word in rule.split()} | {"! ", "--sport ", "--mark ", "--comment "})
        ),
        longest=512,
    ),
    "members": Target(
        _member,
        _member_seeds(),
        words=(
            " timeout ",
            " comment ",
            " skbmark 0x",
            " skbprio ",
            " nomatch",
            " packets ",
            ",tcp:",
            "/32",
            "fd00::",
            "9" * 40,
        ),
        longest=512,
    ),
}
