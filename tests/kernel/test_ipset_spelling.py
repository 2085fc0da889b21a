# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Spelling of headers and members of every type: ipset and the model agree.

The members are random, each in a set of its own.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from support.processes.namespace import fresh, sh
from support.tables.set_members import cases, member

from kubenode.engine.errors import InputError
from kubenode.engine.kernel import ipset
from kubenode.engine.model.ipset import same_set
from kubenode.engine.model.member_options import pairs
from kubenode.engine.syntax.ipset_header import header
from kubenode.engine.syntax.ipset_member import Speller

EXAMPLES = 60


@pytest.mark.parametrize(("kind", "chosen"), cases())
def test_canonical_members_match_ipset(kind: str, chosen: dict[str, Any]) -> None:
    fresh()
    draw = random.Random(f"{kind} {chosen}")
    want = header(kind, chosen)
    sh("ipset", "restore", text="create one hash:ip\ncreate two hash:net\n")
    asked = {}
    for index in range(EXAMPLES):
        asked[f"t{index}"] = member(draw, kind, chosen)
    lines = [f"create {name} {want.text()}\nadd {name} {text}\n" for name, text in asked.items()]
    sh("ipset", "restore", text="".join(lines))
    have = ipset.read()
    assert same_set(have["set"]["t0"], want)
    printed = {key.set: (key.member, pairs(options)) for key, options in have["member"].items() if key.set in asked}
    for name, text in asked.items():
        spelled = Speller(want)(text)
        assert spelled is not None, text
        live, options = printed[name]
        assert live == spelled.member, text
        for (option, value), (other, guess) in zip(options, pairs(spelled.options), strict=False):
            assert option == other, text
            assert value == guess or (option == "timeout" and 0 <= int(guess) - int(value) < 60), text
        assert len(options) == len(pairs(spelled.options)), text
    # and a canonical spelling stays the same
    again = [Speller(have["set"][key.set])(f"{key.member} {options}") for key, options in have["member"].items()]
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
def test_ipset_refuses_members_that_the_model_refuses(kind: str, chosen: dict[str, Any], text: str) -> None:
    fresh()
    want = header(kind, chosen)
    sh("ipset", "create", "S", *want.text().split())
    with pytest.raises(InputError):
        Speller(want)(text)
    with pytest.raises(AssertionError, match="ipset add S"):
        sh("ipset", "add", "S", text)
