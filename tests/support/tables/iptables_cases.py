# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Test cases for both back ends of iptables.

tests/kernel runs them on the variant of its kernel, legacy by default; tests/host on nft.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kubenode.engine.errors import EngineError, KernelError
from kubenode.engine.kernel import iptables
from kubenode.engine.model.ipset import IPSet
from kubenode.engine.model.iptables import ChainKey, JumpKey, RulePosition
from kubenode.engine.plan import Step, plan
from kubenode.engine.syntax.iptables_rule import canonical_rule

from ..processes.namespace import fresh, sh
from .iptables_spelling import CHAIN, SET, examples
from .iptables_usual import USUAL

FOREIGN = """\
*nat
:FOREIGN - [0:0]
[3:180] -A POSTROUTING -s 10.9.0.0/16 -j MASQUERADE
[0:0] -A FOREIGN -p tcp -m tcp --dport 22 -j RETURN
[5:300] -A OUTPUT -j FOREIGN
COMMIT
*filter
:INPUT ACCEPT [17:1700]
[1:60] -A INPUT -m comment --comment "not \\"yours\\"" -j ACCEPT
[1:60] -A INPUT -m comment --comment "not \\"yours\\"" -j ACCEPT
COMMIT
"""


def _chains(family: int) -> dict:
    net = "10.244.0.0/16" if family == 4 else "fd00:244::/56"
    return {
        ChainKey(family, "nat", "OURS-SERVICES"): (
            f'! -s {net} -m comment --comment "service portals" -m set --match-set PORTS dst -j OURS-MARK',
            "-m addrtype --dst-type LOCAL -j OURS-NODE",
        ),
        ChainKey(family, "nat", "OURS-MARK"): ("-j MARK --set-xmark 0x4000/0x4000",),
        ChainKey(family, "nat", "OURS-NODE"): (),
        ChainKey(family, "filter", "OURS-FORWARD"): (
            "-m conntrack --ctstate INVALID -j DROP",
            f"-d {net} -p tcp -m multiport --dports 80,443 -j ACCEPT",
        ),
    }


def _jumps(family: int) -> dict:
    portals = '-m comment --comment "service portals" -j OURS-SERVICES'
    return {
        JumpKey(family, "nat", "PREROUTING", portals): RulePosition("first", 1),
        JumpKey(family, "nat", "OUTPUT", portals): RulePosition("first", 1),
        JumpKey(family, "filter", "FORWARD", "-j OURS-FORWARD"): RulePosition("first", 1),
        JumpKey(family, "filter", "INPUT", "-j OURS-FORWARD"): RulePosition("last", 1),
    }


WANT = {"chain": {**_chains(4), **_chains(6)}, "jump": {**_jumps(4), **_jumps(6)}}
OWNED = {kind: set(items) for kind, items in WANT.items()}


def dump() -> str:
    """Return all tables of iptables with counters, without comments, which have the time of day."""
    return "\n".join(table for program in ("iptables", "ip6tables") for table in tables(program).values())


def tables(program: str) -> dict[str, str]:
    """Return a program's tables by name, without policy counters of the legacy back end: any change resets them."""
    saved = [line for line in sh(f"{program}-save", "-c").splitlines() if not line.startswith("#")]
    if iptables.version().backend == "legacy":
        saved = [line.partition(" [")[0] if line.startswith(":") else line for line in saved]
    return {table.partition("\n")[0]: table for table in "\n".join(saved).split("*")[1:]}


class IptablesCases:
    """Every case starts in a network namespace of its own, with foreign rules in it."""

    backend = ""

    @pytest.fixture(autouse=True)
    def namespace(self) -> None:
        fresh()
        sh("ipset", "create", "PORTS", "bitmap:port", "range", "0-65535")
        for program in ("iptables", "ip6tables"):
            foreign = FOREIGN if program == "iptables" else FOREIGN.replace("10.9.0.0/16", "fd09::/16")
            sh(f"{program}-restore", "--counters", text=foreign)

    @pytest.fixture
    def strike(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
        """Have a system call of one program of iptables fail, as strace(1) says."""
        directory = tmp_path / "struck"
        directory.mkdir()

        def struck(program: str, fault: str) -> None:
            name, dash, verb = program.partition("-")
            real = f"/usr/sbin/{name}-{self.backend}{dash}{verb}"
            call = fault.partition(":")[0]
            path = directory / program
            path.write_text(f'#!/bin/sh\nexec strace -qq -o /dev/null -e trace={call} -e inject={fault} {real} "$@"\n')
            path.chmod(0o755)
            monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")

        return struck

    def test_output_that_iptables_save_could_not_write_is_refused(self, strike) -> None:
        """iptables-save ends with status 0 then; the chains would count as gone."""
        assert iptables.read([4])["chain"]
        strike("iptables-save", "write:error=ENOMEM:when=1")
        with pytest.raises(KernelError, match=r"^iptables-save printed nothing, expected the tables in "):
            iptables.read([4])

    def test_version_that_iptables_could_not_write_is_refused(self, strike) -> None:
        assert iptables.version().backend == self.backend
        strike("iptables", "write:error=ENOMEM:when=1")
        with pytest.raises(KernelError, match=r"^iptables --version printed nothing, expected its version"):
            iptables.version()

    def make(self, want, owned=None):
        steps = plan(iptables.read(), want, owned or {}).steps
        result = iptables.apply(steps)
        assert result.failed == []
        assert sorted(map(str, result.done)) == sorted(map(str, steps))
        return steps

    def test_which_back_end(self) -> None:
        version = iptables.version()
        assert version.backend == self.backend
        assert iptables.version(6) == version
        assert version.random_fully == ("--random-fully" in sh("iptables", "-j", "MASQUERADE", "--help"))

    def test_what_is_written_is_read_back(self) -> None:
        self.make(WANT)
        have = iptables.read()
        assert plan(have, WANT, OWNED).steps == []
        assert {key: have["chain"][key] for key in WANT["chain"]} == WANT["chain"]
        rules = [key.rule for key in have["jump"] if key[:3] == (4, "filter", "INPUT")]
        foreign = '-m comment --comment "not \\"yours\\"" -j ACCEPT'
        assert rules == [foreign, f"{foreign} # 2", "-j OURS-FORWARD"]

    def test_everything_goes_again_and_nothing_else(self) -> None:
        before = dump()
        assert "[5:300] -A OUTPUT -j FOREIGN" in before
        steps = self.make(WANT)
        foreign = [line for line in before.splitlines() if line.startswith("[")]
        assert [line for line in dump().splitlines() if line in foreign] == foreign
        result = iptables.apply([step.inverse() for step in reversed(steps)])
        assert result.failed == []
        assert dump() == before

    def test_a_purge_leaves_what_was_there(self) -> None:
        before = dump()
        self.make(WANT)
        self.make({"chain": {}, "jump": {}}, OWNED)
        assert dump() == before

    def test_chains_change_and_refer_to_each_other(self) -> None:
        self.make(WANT)
        mark, node = ChainKey(4, "nat", "OURS-MARK"), ChainKey(4, "nat", "OURS-NODE")
        want = {
            "chain": {**WANT["chain"], mark: ("-j OURS-NODE",), node: ("-p udp -j RETURN", "-j ACCEPT")},
            "jump": WANT["jump"],
        }
        steps = self.make(want, OWNED)
        assert [step.key for step in steps] == [mark, node]
        assert plan(iptables.read(), want, OWNED).steps == []

    def test_jumps_move_back_to_their_place(self) -> None:
        self.make(WANT)
        sh("iptables", "-t", "nat", "-I", "PREROUTING", "-j", "FOREIGN")
        sh("iptables", "-A", "INPUT", "-p", "udp", "-j", "ACCEPT")
        assert {step.key.chain for step in self.make(WANT, OWNED)} == {"PREROUTING", "INPUT"}
        rules = [key.rule for key in iptables.read()["jump"] if key[:3] == (4, "nat", "PREROUTING")]
        assert rules[0].endswith("-j OURS-SERVICES")
        assert rules[1] == "-j FOREIGN"
        assert sh("iptables", "-S", "INPUT").splitlines()[-1] == "-A INPUT -j OURS-FORWARD"

    def test_chain_used_by_foreign_rule_stays_and_rule_is_named(self) -> None:
        self.make(WANT)
        sh("iptables", "-A", "FORWARD", "-p", "icmp", "-j", "OURS-FORWARD")
        before = tables("iptables")
        result = iptables.apply(plan(iptables.read(), {"chain": {}, "jump": {}}, OWNED).steps)
        (failure,) = result.failed
        assert failure.step.key == ChainKey(4, "filter", "OURS-FORWARD")
        assert failure.message == "chain OURS-FORWARD is still used by: -A FORWARD -p icmp -j OURS-FORWARD"
        # the kernel replaces a table as a whole: this one is unchanged
        assert tables("iptables")["filter"] == before["filter"]

    def test_a_rule_that_cannot_be_fails_its_table_and_no_other(self) -> None:
        bad = ChainKey(4, "nat", "OURS-MARK")
        want = {
            "chain": {**WANT["chain"], bad: ("-j ACCEPT", "-p tcp -m tcp --dport 80 -m nosuch -j ACCEPT")},
            "jump": WANT["jump"],
        }
        before = tables("iptables")
        steps = plan(iptables.read(), want, {}).steps
        result = iptables.apply(steps, keep_going=True)
        assert {step.key.table for step in result.done if step.key.family == 4} == {"filter"}
        assert {step.key.table for step in result.done if step.key.family == 6} == {"filter", "nat"}
        assert {(failure.step.key.family, failure.step.key.table) for failure in result.failed} == {(4, "nat")}
        assert len(result.done) + len(result.failed) == len(steps)
        messages = {failure.step.key: failure.message for failure in result.failed}
        assert messages.pop(bad).startswith(
            "rule `-p tcp -m tcp --dport 80 -m nosuch -j ACCEPT`: Couldn't load match `nosuch'"
        )
        assert set(messages.values()) == {"not done together with chain IPv4 nat OURS-MARK, which failed"}
        assert tables("iptables")["nat"] == before["nat"]

    def test_a_missing_set_is_named(self) -> None:
        key = ChainKey(4, "nat", "OURS-MARK")
        result = iptables.apply([Step("chain", key, None, ("-m set --match-set NOSUCH dst -j ACCEPT",))])
        assert [failure.message for failure in result.failed] == [
            "rule `-m set --match-set NOSUCH dst -j ACCEPT`: Set NOSUCH doesn't exist"
        ]

    def test_a_rule_that_the_kernel_does_not_want_in_this_table(self) -> None:
        before = dump()
        key = ChainKey(4, "filter", "OURS-MARK")
        result = iptables.apply([Step("chain", key, None, ("-j MASQUERADE",))])
        (failure,) = result.failed
        assert failure.step.key == key
        assert (
            "RULE_APPEND failed" in failure.message
            or "the kernel refused the changes of table filter" in failure.message
        )
        assert dump() == before

    def test_any_spelling_becomes_that_of_iptables_save(self) -> None:
        fresh()
        key, six = ChainKey(4, "nat", "OURS"), ChainKey(6, "filter", "OURS")
        jump = JumpKey(4, "nat", "PREROUTING", "--jump OURS --in-interface eth0")
        asked = {
            key: (
                "--proto tcp --destination-port 80 --src 10.0.0.1 -m comment --comment plain -j FOREIGN",
                "-m set ! --match-set NETS src,dst -j MARK --or-mark 0x4000",
            ),
            six: ("-s fd00:0::1 -j REJECT",),
        }
        sets = {"NETS": IPSet("hash:net,port", (("family", "inet"), ("hashsize", "9999999"), ("maxelem", "65536")))}
        assert iptables.mentioned_sets(asked[key]) == {"NETS"}
        spelled = iptables.normalise(asked, [jump], sets=sets, known=[ChainKey(4, "nat", "FOREIGN")])
        assert spelled.chains == {
            key: (
                "-s 10.0.0.1/32 -p tcp -m tcp --dport 80 -m comment --comment plain -j FOREIGN",
                "-m set ! --match-set NETS src,dst -j MARK --set-xmark 0x4000/0x4000",
            ),
            six: ("-s fd00::1/128 -j REJECT --reject-with icmp6-port-unreachable",),
        }
        assert spelled.jumps == {jump: jump._replace(rule="-i eth0 -j OURS")}
        fresh()
        with pytest.raises(EngineError, match=r"^IPv4 nat OURS: rule `-p tcp --nosuch`: unknown option"):
            iptables.normalise({key: ("-j RETURN", "-p tcp --nosuch")}, sets={})

    def test_what_is_no_rule_is_refused(self) -> None:
        fresh()
        key = ChainKey(4, "filter", "OURS")
        with pytest.raises(
            EngineError, match=r"^IPv4 filter OURS: iptables takes one of the rules for something else$"
        ):
            iptables.normalise({key: ["-j DROP", "-p tcp --help", "-j RETURN"]}, sets={})

    def test_a_rule_with_several_addresses_is_several_rules(self) -> None:
        fresh()
        key, rule = ChainKey(4, "filter", "OURS"), "-s 10.0.0.1,10.0.0.2 -j DROP"
        assert iptables.normalise({key: [rule, "-j RETURN"]}, sets={}).chains[key] == (
            "-s 10.0.0.1/32 -j DROP",
            "-s 10.0.0.2/32 -j DROP",
            "-j RETURN",
        )
        fresh()
        jumps = [JumpKey(4, "filter", "INPUT", rule) for rule in ("-i lo -j OURS", "-s 10.0.0.1,10.0.0.2 -j OURS")]
        with pytest.raises(
            EngineError, match=r"^IPv4 filter INPUT: `-i lo -j OURS` and `-s .*` become 3 rules, since a source"
        ):
            iptables.normalise({}, jumps, sets={}, known=[key])

    @pytest.mark.parametrize("bad", [0, 3, 7])
    def test_a_rule_that_only_the_kernel_refuses_is_found(self, bad: int) -> None:
        fresh()
        rules = [f"-s 10.0.0.{index} -j ACCEPT" for index in range(8)]
        rules[bad] = "-j MASQUERADE"  # not in this table
        chains = {ChainKey(4, "nat", "GOOD"): ("-j RETURN",), ChainKey(4, "filter", "BAD"): rules}
        with pytest.raises(EngineError, match=r"^IPv4 filter BAD: rule `-j MASQUERADE`: "):
            iptables.normalise(chains, sets={})

    @pytest.mark.parametrize("table", ["filter", "nat", "mangle"])
    @pytest.mark.parametrize("family", [4, 6])
    def test_iptables_spells_rules_as_the_model_does(self, family: int, table: str) -> None:
        fresh()
        rules = examples(family, table, 300)
        key = ChainKey(family, table, "OURS")
        sets = {SET: IPSet("hash:net,port", (("family", "inet" if family == 4 else "inet6"),))}
        printed = iptables.normalise({key: rules}, sets=sets, known=[ChainKey(family, table, CHAIN)]).chains[key]
        for rule, spelled in zip(rules, printed, strict=True):
            assert canonical_rule(family, rule) == spelled, rule
            assert canonical_rule(family, spelled) == spelled

    @pytest.mark.parametrize(("family", "table"), USUAL)
    def test_rules_as_people_write_them(self, family: int, table: str) -> None:
        rules, key, other = USUAL[family, table], ChainKey(family, table, "OURS"), ChainKey(family, table, CHAIN)
        header = IPSet("hash:net,port", (("family", "inet" if family == 4 else "inet6"),))
        fresh()
        printed = iptables.normalise({key: rules}, sets={SET: header}, known=[other]).chains[key]
        assert len(printed) >= len(rules)
        fresh()
        sh("ipset", "create", SET, *header.text().split())
        self.make({"chain": {key: printed, other: ()}, "jump": {}})
        assert iptables.read([family])["chain"][key] == printed
        fresh()
        assert iptables.normalise({key: printed}, sets={SET: header}, known=[other]).chains[key] == printed
        for rule in printed:
            assert canonical_rule(family, rule) in (rule, None)

    def test_two_thousand_rules(self) -> None:
        key = ChainKey(4, "filter", "OURS-MANY")
        rules = tuple(f"-s 10.{n >> 8}.{n & 255}.0/24 -p tcp -m tcp --dport {1000 + n} -j ACCEPT" for n in range(2000))
        want = {"chain": {key: rules}, "jump": {}}
        self.make(want)
        assert plan(iptables.read((4,)), want, {"chain": {key}}).steps == []
