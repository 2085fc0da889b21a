# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module iptables_chains against the kernel."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel.modules import ModuleError, converge, run
from support.processes.started import Started
from support.tables.iptables_saved import FIELDS_AND_SAVED, GIVEN_AND_SAVED
from support.tables.iptables_spelling import CHAIN, SET
from support.tables.iptables_usual import USUAL

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
    return [line.partition(" [")[0] for line in saved.split("\n") if line[:1] in (":", "-")]


def chains(*items: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    return converge("iptables_chains", chains=list(items), **arguments)


def test_creates_changes_and_removes() -> None:
    before = rules()
    result = chains({"name": "MINE", "rules": ["-s 192.0.2.0/24 -j ACCEPT", "-j DROP"], "jumps": [{"chain": "INPUT"}]})
    assert result["lines"] == [
        "+ chain IPv4 filter MINE: 2 rules",
        "+ rule in IPv4 filter INPUT: -j MINE: at position 1",
    ]
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
    GIVEN_AND_SAVED,
)
def test_second_run_of_any_spelling_changes_nothing(given: str, saved: str) -> None:
    subprocess.run(["ipset", "create", "trusted", "hash:net"], check=True)
    chains(
        {"name": "MINE", "rules": [given], "jumps": [{"chain": "INPUT", "match": "-p tcp --dport 80\n"}]},
        {"name": "OTHER"},
    )
    assert [line for line in rules() if line.startswith("-A MINE")] == [f"-A MINE {saved}"]


def test_rules_in_common_spellings_are_accepted() -> None:
    """Usual spellings pass check mode, are created, and need no change in a second run."""
    subprocess.run(["ipset", "create", SET, "hash:net,port"], check=True)
    subprocess.run(["ipset", "create", f"{SET}6", "hash:net,port", "family", "inet6"], check=True)
    given = {
        key: [rule.replace(SET, f"{SET}6") if key[0] == 6 else rule for rule in rules] for key, rules in USUAL.items()
    }
    mine = [
        {"name": "MINE", "table": table, "families": [f"ipv{family}"], "rules": rules}
        for (family, table), rules in given.items()
    ]
    others = [{"name": CHAIN, "table": table, "families": [f"ipv{family}"]} for family, table in given]
    result = chains(*mine, *others)
    assert len(result["plan"]) == 2 * len(given)


def test_one_task_converges_both_families_and_many_tables() -> None:
    chains(
        {"name": "SNAT-IT", "table": "nat", "families": ["ipv4", "ipv6"], "rules": ["-m ipvs --ipvs -j MASQUERADE"],
         "jumps": [{"chain": "POSTROUTING"}]},
        {"name": "MARK-IT", "table": "mangle", "rules": ["-j MARK --or-mark 0x4000"],
         "jumps": [{"chain": "PREROUTING", "position": "last"}]},
    )  # fmt: skip
    for program in ("iptables", "ip6tables"):
        assert rules(program, "nat")[-2:] == ["-A POSTROUTING -j SNAT-IT", "-A SNAT-IT -m ipvs --ipvs -j MASQUERADE"]


def test_jumps_keep_their_position() -> None:
    chains(
        {"name": "A", "jumps": [{"chain": "INPUT"}]},
        {"name": "B", "jumps": [{"chain": "INPUT"}, {"chain": "INPUT", "match": "-p udp", "position": "last"}]},
    )
    chains({"name": "C", "jumps": [{"chain": "INPUT"}]}, owner="other")
    assert [line[9:] for line in rules() if line.startswith("-A INPUT")][:3] == ["-j C", "-j A", "-j B"]
    # Another process inserts a rule before them; the module moves its jumps back to the head.
    subprocess.run(["iptables", "-I", "INPUT", "-j", "FOREIGN"], check=True)
    chains({"name": "A", "jumps": [{"chain": "INPUT"}]}, {"name": "B", "jumps": [{"chain": "INPUT"}]})
    assert [line[9:] for line in rules() if line.startswith("-A INPUT")][:2] == ["-j A", "-j B"]
    subprocess.run(["iptables", "-D", "INPUT", "-j", "FOREIGN"], check=True)


def test_prepended_jump_stays_where_other_rules_push_it() -> None:
    mine = [{"name": name, "jumps": [{"chain": "INPUT", "position": "prepended"}]} for name in ("A", "B")]
    chains(*mine)
    assert [line[9:] for line in rules() if line.startswith("-A INPUT")][:2] == ["-j A", "-j B"]
    subprocess.run(["iptables", "-I", "INPUT", "-j", "FOREIGN"], check=True)
    subprocess.run(["iptables", "-I", "INPUT", "3", "-j", "FOREIGN"], check=True)
    pushed = rules()
    assert not run("iptables_chains", chains=mine)["changed"]
    assert rules() == pushed
    for _time in range(2):
        subprocess.run(["iptables", "-D", "INPUT", "-j", "FOREIGN"], check=True)


def test_jumps_stay_if_the_option_is_omitted() -> None:
    chains(
        {"name": "MINE", "rules": ["-j DROP"], "jumps": [{"chain": "INPUT"}]},
        {"name": "GOES", "jumps": [{"chain": "INPUT"}]},
    )
    run("iptables_chains", chains=[{"name": "MINE", "rules": ["-j RETURN"]}], purge="owned")
    assert [line for line in rules() if line.startswith("-A") and ("MINE" in line or "GOES" in line)] == [
        "-A INPUT -j MINE",
        "-A MINE -j RETURN",
    ]


def test_foreign_chains_are_left_alone() -> None:
    before = rules()
    with pytest.raises(ModuleError, match="chain IPv4 filter FOREIGN exists already and has no owner"):
        run("iptables_chains", chains=[{"name": "FOREIGN", "rules": ["-j DROP"]}])
    with pytest.raises(ModuleError, match="chain IPv4 filter FOREIGN has no owner and is not removed"):
        run("iptables_chains", chains=[{"name": "FOREIGN", "state": "absent"}])
    run("iptables_chains", chains=[{"name": "THEIRS"}], owner="other")
    with pytest.raises(ModuleError, match="chain IPv4 filter THEIRS belongs to owner 'other'"):
        run("iptables_chains", chains=[{"name": "THEIRS", "rules": ["-j DROP"]}], adopt=True)
    run("iptables_chains", purge="owned", owner="other")
    assert rules() == before


@pytest.mark.parametrize(
    ("chain", "option_path"),
    [
        (
            {"families": ["ipv4", "ipv6"], "rules": ["-j ACCEPT", "-m set --match-set nosuch src -j DROP"]},
            "chains[0].rules[1]",
        ),
        ({"jumps": [{"chain": "INPUT", "match": "-m set --match-set nosuch src,dst"}]}, "chains[0].jumps[0]"),
    ],
)
def test_check_mode_warns_of_a_missing_set(chain: dict[str, Any], option_path: str) -> None:
    """In check mode the set does not exist yet."""
    chains = [{"name": "X", **chain}]
    foreseen = run("iptables_chains", check=True, chains=chains)
    assert set(foreseen["warnings"]) == {
        f"{option_path}: set nosuch does not exist; a run would fail unless a task before this one makes it"
    }
    with pytest.raises(ModuleError, match=f"^{re.escape(option_path)}: set is 'nosuch', expected a set that exists$"):
        run("iptables_chains", chains=chains)
    subprocess.run(["ipset", "create", "nosuch", "bitmap:port", "range", "0-9"], check=True)
    done = run("iptables_chains", chains=chains)
    assert (done["plan"], done["diff"], done["warnings"]) == (foreseen["plan"], foreseen["diff"], [])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([{"name": "INPUT"}], "chains[0]: name is 'INPUT', expected a chain that is not built in"),
        (
            [{"name": "X", "rules": ["-A INPUT -j DROP"]}],
            "chains[0].rules[0]: text is '-A INPUT -j DROP', expected one rule without",
        ),
        (
            [{"name": "X"}, {"name": "Y"}, {"name": "X"}],
            "chains[2] and chains[0] are both chain IPv4 filter X; name each item once",
        ),
        (
            [{"name": "X", "jumps": [{"chain": "PREROUTING"}]}],
            "chains[0].jumps[0]: chain is 'PREROUTING', "
            "expected a built-in chain of table filter: INPUT, FORWARD, OUTPUT",
        ),
        (
            [{"name": "X", "jumps": [{"chain": "INPUT"}, {"chain": "INPUT", "position": "last"}]}],
            "chains[0].jumps[1] and chains[0].jumps[0] are both rule in IPv4 filter INPUT: -j X; name each item once",
        ),
        (
            [{"name": "X", "rules": ["-j ACCEPT", "-p tcp --dport 70000 -j DROP"]}],
            "IPv4 filter X: rule `-p tcp --dport 70000",
        ),
        (
            [{"name": "X", "families": ["ipv4", "ipv6"], "rules": ["-m set --match-set four src -j DROP"]}],
            "chains[0].rules[0]: set is 'four', expected a set with IPv6 addresses (it is hash:ip family inet",
        ),
        ([{"name": "X", "state": "absent"}, {"name": "Y", "rules": ["-j X"]}], "IPv4 filter Y: rule `-j X`: "),
        (
            [{"name": "X", "state": "absent", "rules": ["-j DROP"]}],
            "chains[0]: state is 'absent', expected present, with rules or",
        ),
        ([{"name": "X", "rules": [7]}], "chains[0].rules[0]: rule is 7, expected text or fields"),
        (
            [{"name": "X", "rules": [{"port": 7}]}],
            "chains[0].rules[0]: field is 'port', expected one of protocol, source, ",
        ),
        (
            [{"name": "X", "rules": [{"jump": "DROP", "goto": "Y"}]}],
            "chains[0].rules[0]: goto is 'Y', expected nothing beside jump",
        ),
        (
            [{"name": "X", "rules": [{"destination_port": 80}]}],
            "chains[0].rules[0]: destination_port is 80, expected a protocol with ports beside it (tcp, ",
        ),
        (
            [{"name": "X", "rules": [{"source": "192.0.2.1 -j ACCEPT"}]}],
            "chains[0].rules[0]: source is '192.0.2.1 -j ACCEPT', expected one word",
        ),
        (
            [{"name": "X", "rules": [{"protocol": "tcp", "destination_port": ["!80", 443]}]}],
            "chains[0].rules[0]: destination_port is ['!80', 443], expected '!' before one value or one text",
        ),
        (
            [{"name": "X", "rules": ["-j DROP", "-p tcp --help"]}],
            "chains[0].rules[1]: text is '-p tcp --help', expected one rule, without options",
        ),
        (
            [{"name": "X", "rules": ["-j DROP --modprobe=/bin/true"]}],
            "chains[0].rules[0]: text is '-j DROP --modprobe=/bin/true', expected one",
        ),
        ([{"name": "X", "rules": ["-j DROP # why"]}], "IPv4 filter X: rule `-j DROP # why`: Bad argument `#'"),
        ([{"name": "X", "rules": [{"source": True}]}], "chains[0].rules[0]: source is True, expected text or a number"),
        (
            [{"name": "X", "rules": [{"match_set": "four"}]}],
            "chains[0].rules[0]: match_set is 'four', expected 2 words",
        ),
        (
            [{"name": "X", "rules": [{"target_options": "--to-ports 7"}]}],
            "chains[0].rules[0]: target_options is '--to-ports 7', expected the jump",
        ),
        (
            [{"name": "X", "jumps": [{"chain": "INPUT", "match": "-s 192.0.2.1,192.0.2.2"}]}],
            "IPv4 filter INPUT: `-s 192.0.2.1,192.0.2.2 -j X` become 2 rules, "
            "since a source or destination means several addresses;",
        ),
        ([{"name": "X", "rules": ["-s 2001:db8::1 -j DROP"]}], "IPv4 filter X: rule `-s 2001:db8::1 -j DROP`: "),
        ([{"name": "X", "rules": ["-j NOSUCH"]}], "IPv4 filter X: rule `-j NOSUCH`: "),
    ],
)  # fmt: skip
def test_wrong_input_is_one_clear_message(wrong: list[dict[str, Any]], message: str) -> None:
    subprocess.run(["ipset", "create", "four", "hash:ip"], check=True)
    before = rules()
    for check in (True, False):
        with pytest.raises(ModuleError) as error:
            run("iptables_chains", check=check, chains=wrong)
        assert str(error.value).startswith(message)
        assert rules() == before


@pytest.mark.parametrize(
    ("fields", "saved"),
    FIELDS_AND_SAVED,
)
def test_rules_as_fields_are_rendered(fields: dict[str, Any], saved: str) -> None:
    subprocess.run(["ipset", "create", "trusted", "hash:net"], check=True)
    chains({"name": "MINE", "rules": [fields, "-j RETURN"]})
    assert [line for line in rules() if line.startswith("-A MINE")] == [f"-A MINE {saved}", "-A MINE -j RETURN"]
    assert not chains({"name": "MINE", "rules": [saved, {"jump": "RETURN"}]})["changed"]


def test_rules_follow_task_order_and_unlisted_rules_go() -> None:
    three = ["-s 192.0.2.1/32 -j ACCEPT", "-s 192.0.2.2/32 -j ACCEPT", "-j DROP"]
    chains({"name": "MINE", "rules": three})
    subprocess.run(["iptables", "-A", "MINE", "-j", "LOG"], check=True)
    result = chains({"name": "MINE", "rules": [three[1], three[0], three[2]]})
    assert result["diff"]["before"] == {"chain IPv4 filter MINE": [*three, "-j LOG"]}
    assert [line for line in rules() if line.startswith("-A MINE")] == [f"-A MINE {three[at]}" for at in (1, 0, 2)]


def test_counters_of_foreign_rules_stay() -> None:
    subprocess.run(
        ["iptables-restore", "--counters"],
        input=FOREIGN.replace("-A FOREIGN", "[7:700] -A FOREIGN"),
        text=True,
        check=True,
    )
    chains({"name": "MINE", "rules": ["-j DROP"], "jumps": [{"chain": "INPUT"}]})
    saved = subprocess.run(["iptables-save", "-c"], check=True, capture_output=True, text=True).stdout
    assert "[7:700] -A FOREIGN -s 203.0.113.0/24 -j DROP" in saved


def test_unchanged_run_starts_one_process_a_family(started: Started) -> None:
    both = {
        "name": "MINE",
        "families": ["ipv4", "ipv6"],
        "rules": [f"-p tcp --dport {port} -j ACCEPT" for port in range(1, 200)],
    }
    chains(both)
    with started:
        assert not run("iptables_chains", chains=[both])["changed"]
    assert started.words() == ["ip6tables-save", "iptables-save"]


def test_shell_syntax_in_options_is_literal(tmp_path: Path) -> None:
    text = f"$(touch {tmp_path}/made) `touch {tmp_path}/made`; touch {tmp_path}/made"
    chains({"name": "MINE", "rules": [{"comment": text, "jump": "RETURN"}]})
    assert not (tmp_path / "made").exists()
    assert text in rules()[-1].replace("\\", "")


def test_chosen_back_end_is_used() -> None:
    chains({"name": "MINE", "rules": ["-j DROP"]}, backend="legacy")
    saved = subprocess.run(["iptables-legacy-save"], check=True, capture_output=True, text=True).stdout
    assert "-A MINE -j DROP" in saved


def test_chain_used_by_foreign_rules_stays() -> None:
    chains({"name": "MINE", "rules": ["-j DROP"]})
    subprocess.run(["iptables", "-A", "FOREIGN", "-j", "MINE"], check=True)
    before = rules()
    with pytest.raises(ModuleError, match="chain MINE is still used by: -A FOREIGN -j MINE"):
        run("iptables_chains", chains=[{"name": "MINE", "state": "absent"}])
    assert rules() == before
    subprocess.run(["iptables", "-D", "FOREIGN", "-j", "MINE"], check=True)
