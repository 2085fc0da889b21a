# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module iptables_chains against the kernel."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from kernel.modules import ModuleError, converge, run

FOREIGN = """*filter
:FOREIGN - [0:0]
-A INPUT -p tcp -m tcp --dport 22 -m comment --comment "by  somebody" -j ACCEPT
-A INPUT -j FOREIGN
-A FOREIGN -s 203.0.113.0/24 -j DROP
COMMIT
"""


@pytest.fixture(autouse=True)
def table() -> Iterator[None]:
    subprocess.run(["iptables-restore"], input=FOREIGN, text=True, check=True)
    foreign = rules()
    yield
    run("iptables_chains", purge="owned")
    run("iptables_chains", purge="owned", owner="other")
    assert rules() == foreign, "foreign rules changed"
    subprocess.run(["ipset", "destroy"], check=False)


def rules(program: str = "iptables", name: str = "filter") -> list[str]:
    saved = subprocess.run([f"{program}-save", "-t", name], check=True, capture_output=True, text=True).stdout
    return [line.partition(" [")[0] for line in saved.splitlines() if line[0] in ":-"]


def chains(*items: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    return converge("iptables_chains", chains=list(items), **arguments)


def test_creates_changes_and_removes() -> None:
    before = rules()
    result = chains({"name": "MINE", "rules": ["-s 192.0.2.0/24 -j ACCEPT", "-j DROP"], "jumps": [{"chain": "INPUT"}]})
    assert result["lines"] == ["+ chain IPv4 filter MINE: 2 rules", "+ rule in IPv4 filter INPUT: -j MINE: at position 1"]
    assert result["diff"] == {
        "before": {},
        "after": {
            "chain IPv4 filter MINE": ["-s 192.0.2.0/24 -j ACCEPT", "-j DROP"],
            "rule in IPv4 filter INPUT: -j MINE": "at position 1",
        },
    }
    assert [line for line in rules() if "INPUT" in line][1] == "-A INPUT -j MINE"
    result = chains(
        {"name": "MINE", "rules": ["-j DROP"], "jumps": [{"chain": "INPUT", "position": "last"}, {"chain": "FORWARD"}]}
    )
    assert result["changed"]
    assert [line for line in rules() if line.startswith("-A INPUT")][-1] == "-A INPUT -j MINE"
    assert not chains({"name": "MINE"})["changed"]
    chains({"name": "MINE", "state": "absent"})
    assert rules() == before


@pytest.mark.parametrize(
    ("given", "saved"),
    [
        ("-p tcp --dport 443 -j ACCEPT", "-p tcp -m tcp --dport 443 -j ACCEPT"),
        ("-j ACCEPT -p tcp --destination-port https --source 192.0.2.7", "-s 192.0.2.7/32 -p tcp -m tcp --dport 443 -j ACCEPT"),
        ("! -s 192.0.2.9/24  -j RETURN", "! -s 192.0.2.0/24 -j RETURN"),
        ("-m comment --comment word -j RETURN", "-m comment --comment word -j RETURN"),
        ('-m comment --comment "two  words" -j RETURN', '-m comment --comment "two  words" -j RETURN'),
        ("-m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT", "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"),
        ("-m set --match-set trusted src -j RETURN", "-m set --match-set trusted src -j RETURN"),
        ("-j FOREIGN", "-j FOREIGN"),
        ("-g OTHER", "-g OTHER"),
        ("-j MARK --set-mark 1", "-j MARK --set-xmark 0x1/0xffffffff"),
    ],
)
def test_whatever_spelling_the_second_run_changes_nothing(given: str, saved: str) -> None:
    subprocess.run(["ipset", "create", "trusted", "hash:net"], check=True)
    chains({"name": "MINE", "rules": [given], "jumps": [{"chain": "INPUT", "match": "-p tcp --dport 80"}]}, {"name": "OTHER"})
    assert [line for line in rules() if line.startswith("-A MINE")] == [f"-A MINE {saved}"]


def test_both_families_and_several_tables() -> None:
    chains(
        {"name": "SNAT-IT", "table": "nat", "families": ["ipv4", "ipv6"], "rules": ["-m ipvs --ipvs -j MASQUERADE"],
         "jumps": [{"chain": "POSTROUTING"}]},
        {"name": "MARK-IT", "table": "mangle", "rules": ["-j MARK --or-mark 0x4000"], "jumps": [{"chain": "PREROUTING", "position": "last"}]},
    )  # fmt: skip
    for program in ("iptables", "ip6tables"):
        assert rules(program, "nat")[-2:] == ["-A POSTROUTING -j SNAT-IT", "-A SNAT-IT -m ipvs --ipvs -j MASQUERADE"]


def test_jumps_keep_their_place() -> None:
    chains(
        {"name": "A", "jumps": [{"chain": "INPUT"}]},
        {"name": "B", "jumps": [{"chain": "INPUT"}, {"chain": "INPUT", "match": "-p udp", "position": "last"}]},
    )
    chains({"name": "C", "jumps": [{"chain": "INPUT"}]}, owner="other")
    assert [line[9:] for line in rules() if line.startswith("-A INPUT")][:3] == ["-j C", "-j A", "-j B"]
    # Somebody pushes in before them: ours go back to the head.
    subprocess.run(["iptables", "-I", "INPUT", "-j", "FOREIGN"], check=True)
    chains({"name": "A", "jumps": [{"chain": "INPUT"}]}, {"name": "B", "jumps": [{"chain": "INPUT"}]})
    assert [line[9:] for line in rules() if line.startswith("-A INPUT")][:2] == ["-j A", "-j B"]
    subprocess.run(["iptables", "-D", "INPUT", "-j", "FOREIGN"], check=True)


def test_foreign_chains_are_left_alone() -> None:
    before = rules()
    with pytest.raises(ModuleError, match="chain IPv4 filter FOREIGN exists already and was not made by us"):
        run("iptables_chains", chains=[{"name": "FOREIGN", "rules": ["-j DROP"]}])
    with pytest.raises(ModuleError, match="chain IPv4 filter FOREIGN was not made by us and is not removed"):
        run("iptables_chains", chains=[{"name": "FOREIGN", "state": "absent"}])
    run("iptables_chains", chains=[{"name": "THEIRS"}], owner="other")
    with pytest.raises(ModuleError, match="chain IPv4 filter THEIRS belongs to owner 'other'"):
        run("iptables_chains", chains=[{"name": "THEIRS", "rules": ["-j DROP"]}], adopt=True)
    run("iptables_chains", purge="owned", owner="other")
    assert rules() == before


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([{"name": "INPUT"}], "chains[0]: name is 'INPUT', expected a chain of your own"),
        ([{"name": "X", "rules": ["-A INPUT -j DROP"]}], "chains[0].rules[0]: text is '-A INPUT -j DROP', expected one rule without"),
        ([{"name": "X"}, {"name": "Y"}, {"name": "X"}], "chains[2] and chains[0] are both chain IPv4 filter X; name each thing once"),
        (
            [{"name": "X", "jumps": [{"chain": "PREROUTING"}]}],
            "chains[0].jumps[0]: chain is 'PREROUTING', expected a built-in chain of table filter: INPUT, FORWARD, OUTPUT",
        ),
        (
            [{"name": "X", "jumps": [{"chain": "INPUT"}, {"chain": "INPUT", "position": "last"}]}],
            "chains[0].jumps[1] and chains[0].jumps[0] are both rule in IPv4 filter INPUT: -j X; name each thing once",
        ),
        ([{"name": "X", "rules": ["-j ACCEPT", "-p tcp --dport 70000 -j DROP"]}], "IPv4 filter X: rule `-p tcp --dport 70000"),
        ([{"name": "X", "rules": ["-m set --match-set nosuch src -j DROP"]}], "IPv4 filter X: rule `-m set --match-set nosuch"),
        ([{"name": "X", "rules": ["-s 2001:db8::1 -j DROP"]}], "IPv4 filter X: rule `-s 2001:db8::1 -j DROP`: "),
        ([{"name": "X", "rules": ["-j NOSUCH"]}], "IPv4 filter X: rule `-j NOSUCH`: "),
    ],
)  # fmt: skip
def test_wrong_input_is_one_clear_message(wrong: list[dict[str, Any]], message: str) -> None:
    before = rules()
    with pytest.raises(ModuleError) as error:
        run("iptables_chains", chains=wrong)
    assert str(error.value).startswith(message)
    assert rules() == before
