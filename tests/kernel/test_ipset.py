# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets and members in a real kernel: written items are read back, foreign items stay, an error names its member."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.processes.namespace import fresh, sh

from kubenode.engine.apply import ApplyError, execute
from kubenode.engine.kernel import Failure, Result, ipset
from kubenode.engine.ledger import Ledger
from kubenode.engine.model.ipset import IPSet, MemberKey, same_set
from kubenode.engine.model.link import Link
from kubenode.engine.plan import Step, plan

HASH = IPSet("hash:ip,port", (("family", "inet"), ("hashsize", "1024"), ("maxelem", "65536")))
HASH6 = IPSet("hash:ip,port,net", (("family", "inet6"), ("hashsize", "1024"), ("maxelem", "65536")))
NETS = IPSet(
    "hash:net", (("family", "inet"), ("hashsize", "1024"), ("maxelem", "65536"), ("timeout", "600"), ("comment", ""))
)
PORTS = IPSet("bitmap:port", (("range", "0-65535"),))
LIST = IPSet("list:set", (("size", "8"),))
IPS = IPSet("hash:ip", (("family", "inet"), ("hashsize", "1024"), ("maxelem", "65536")))
WANT = {
    "set": {"SERVICES": HASH, "SOURCES": HASH6, "NETS": NETS, "PORTS": PORTS, "ALL": LIST},
    "member": {
        MemberKey("SERVICES", "10.96.0.10,udp:53"): "",
        MemberKey("SERVICES", "10.96.0.1,tcp:443"): "",
        MemberKey("SOURCES", "fd00::1,sctp:7,fd01::/64"): "",
        MemberKey("NETS", "10.0.0.0/8"): 'timeout 0 comment "the pods\' own"',
        MemberKey("NETS", "10.1.0.0/16"): "timeout 0 nomatch",
        MemberKey("PORTS", "30080"): "",
        MemberKey("ALL", "NETS"): "",
        MemberKey("ALL", "SERVICES"): "",
    },
}


@pytest.fixture(autouse=True)
def namespace() -> None:
    fresh()


def make(want, have=None, owned=None):
    steps = plan(have or {}, want, owned or {}).steps
    result = ipset.apply(steps)
    assert result.failed == []
    assert sorted(map(str, result.done)) == sorted(map(str, steps))
    return steps


def members(name):
    return {key.member: options for key, options in ipset.read([name])["member"].items()}


def test_written_sets_are_read_back() -> None:
    make(WANT)
    have = ipset.read()
    assert plan(have, WANT, {"set": set(WANT["set"])}).steps == []
    assert have["member"] == WANT["member"]
    assert all(same_set(have["set"][name], value) for name, value in WANT["set"].items())
    assert set(ipset.read(members=False)["set"]) == set(WANT["set"])
    assert ipset.read(members=False)["set"] == have["set"]


def test_removal_leaves_only_foreign_sets() -> None:
    sh(
        "ipset",
        "restore",
        text=(
            'create foreign hash:net comment\nadd foreign 10.7.0.0/16 comment "not yours"\ncreate other bitmap:port'
            " range 1-9\n"
        ),
    )
    before = sh("ipset", "save")
    steps = make(WANT)
    assert before in sh("ipset", "save") or sh("ipset", "save", "foreign") in sh("ipset", "save")
    result = ipset.apply([step.inverse() for step in reversed(steps)])
    assert result.failed == []
    assert len(result.done) == len(steps)
    assert sh("ipset", "save") == before


def test_members_are_added_changed_and_removed() -> None:
    make(WANT)
    have = ipset.read()
    want = {
        "set": WANT["set"],
        "member": {
            MemberKey("SERVICES", "10.96.0.10,udp:53"): "",
            MemberKey("SERVICES", "10.96.0.11,tcp:80"): "",
            MemberKey("NETS", "10.0.0.0/8"): "timeout 0",  # without its comment
            MemberKey("NETS", "10.1.0.0/16"): "timeout 0",  # without nomatch
            MemberKey("NETS", "10.2.0.0/16"): "timeout 0 nomatch",
            MemberKey("ALL", "SERVICES"): "",
        },
    }
    make(want, have, {"set": set(WANT["set"])})
    assert ipset.read()["member"] == want["member"]


def test_repeated_set_steps_succeed() -> None:
    make(WANT)
    make(WANT)
    gone = [step.inverse() for step in reversed(plan({}, WANT, {}).steps)]
    assert ipset.apply(gone).failed == []
    dangling = [step for step in gone if step.kind == "set"]
    assert ipset.apply(dangling).failed == []
    assert sh("ipset", "save") == ""


def test_failed_member_is_named_and_others_are_applied() -> None:
    make(WANT)
    good = [Step("member", MemberKey("PORTS", str(port)), None, "") for port in range(100, 110)]
    unparsable = Step("member", MemberKey("SERVICES", "10.300.0.1,tcp:80"), None, "")
    outside = Step("member", MemberKey("PORTS", "65536"), None, "")
    lost = Step("member", MemberKey("nosuch", "1"), None, "")
    lost_too = Step("member", MemberKey("nosuch", "2"), None, "")
    steps = [good[0], unparsable, *good[1:5], lost, lost_too, good[5], outside, *good[6:]]
    result = ipset.apply(steps, keep_going=True)
    assert result.done == good
    assert {failure.step: failure.message for failure in result.failed} == {
        unparsable: "Syntax error: cannot parse 10.300.0.1: resolving to IPv4 address failed",
        lost: "The set with the given name does not exist",
        lost_too: "The set with the given name does not exist",
        outside: "Syntax error: '65536' is out of range 0-65535",
    }
    assert set(members("PORTS")) == {"30080", *(str(port) for port in range(100, 110))}


def test_apply_without_keep_going_stops_at_failure() -> None:
    make(WANT)
    first = [Step("member", MemberKey("PORTS", str(port)), None, "") for port in range(100, 105)]
    bad = Step("member", MemberKey("SERVICES", "10.300.0.1,tcp:80"), None, "")
    after = Step("member", MemberKey("PORTS", "200"), None, "")
    result = ipset.apply([*first, bad, after])
    assert result.done == first
    assert [failure.step for failure in result.failed] == [bad]
    assert set(members("PORTS")) == {"30080", "100", "101", "102", "103", "104"}


def test_failed_set_fails_only_its_own_members() -> None:
    sh("ipset", "create", "SERVICES", "hash:mac")
    steps = plan({}, WANT, {}).steps
    result = ipset.apply(steps, keep_going=True)
    broken = [failure for failure in result.failed if failure.step.kind == "set"]
    assert [failure.step.key for failure in broken] == ["SERVICES"]
    assert broken[0].message.startswith("a set SERVICES of another kind exists: hash:mac hashsize 1024 maxelem 65536")
    assert {failure.step.key.set for failure in result.failed if failure.step.kind == "member"} == {"SERVICES"}
    assert len(result.done) + len(result.failed) == len(steps)
    assert set(members("PORTS")) == {"30080"}
    assert set(members("ALL")) == {"NETS", "SERVICES"}


def test_full_set_is_named_in_the_error() -> None:
    small = IPSet("hash:ip", (("family", "inet"), ("hashsize", "64"), ("maxelem", "3")))
    want = {"set": {"S": small}, "member": {MemberKey("S", f"10.0.0.{index}"): "" for index in range(9)}}
    result = ipset.apply(plan({}, want, {}).steps, keep_going=True)
    assert len(result.done) == 1 + len(members("S"))
    assert len(result.done) + len(result.failed) == 10
    assert {failure.message for failure in result.failed} == {
        "set S is full: it holds as many members as its maxelem allows (3); raise maxelem"
    }


def test_full_set_removes_members_before_it_adds() -> None:
    small = IPSet("hash:ip", (("family", "inet"), ("hashsize", "64"), ("maxelem", "3")))
    make({"set": {"S": small}, "member": {MemberKey("S", f"10.0.0.{index}"): "" for index in range(3)}})
    want = {"set": {"S": small}, "member": {MemberKey("S", f"10.0.0.{index}"): "" for index in range(1, 4)}}
    assert make(want, ipset.read(), {"set": {"S"}})[0].key.member == "10.0.0.3"
    assert set(members("S")) == {"10.0.0.1", "10.0.0.2", "10.0.0.3"}


def test_set_in_use_is_named_in_the_error() -> None:
    make(WANT)
    sh("iptables", "-A", "INPUT", "-m", "set", "--match-set", "PORTS", "dst", "-j", "ACCEPT")
    going = [Step("member", MemberKey("PORTS", "30080"), "", None), Step("set", "PORTS", PORTS, None)]
    result = ipset.apply(going, keep_going=True)
    assert result.done == going[:1]
    assert [failure.message for failure in result.failed] == [
        "set PORTS is in use: rules of iptables or sets of type list:set refer to it; remove those first"
    ]


class TestAnotherHeader:
    def test_exchange_keeps_members_and_counters(self) -> None:
        small = IPSet(
            "hash:ip", (("family", "inet"), ("hashsize", "64"), ("maxelem", "8"), ("counters", ""), ("comment", ""))
        )
        large = IPSet(
            "hash:ip", (("family", "inet"), ("hashsize", "64"), ("maxelem", "999"), ("timeout", "0"), ("counters", ""))
        )
        sh(
            "ipset",
            "restore",
            text=f'create S {small.text()}\nadd S 1.1.1.1 packets 7 bytes 70 comment "a b"\nadd S 1.1.1.2\n',
        )
        have = ipset.read()
        want = {
            "set": {"S": large},
            "member": {**dict.fromkeys(have["member"], ""), MemberKey("S", "1.1.1.3"): "timeout 0"},
        }
        change = Step("set", "S", have["set"]["S"], large)
        result = ipset.apply([change, Step("member", MemberKey("S", "1.1.1.3"), None, "timeout 0")])
        assert result.failed == []
        assert same_set(ipset.read()["set"]["S"], large)
        assert members("S") == {
            "1.1.1.1": "timeout 0 packets 7 bytes 70",
            "1.1.1.2": "timeout 0 packets 0 bytes 0",
            "1.1.1.3": "timeout 0 packets 0 bytes 0",
        }
        assert list(ipset.read(members=False)["set"]) == ["S"]
        assert want["set"]["S"] == large

    def test_type_change_of_a_set_in_rules_is_swapped(self) -> None:
        """A bitmap becomes a hash of the same data type while a rule uses it."""
        bitmap = IPSet("bitmap:ip", (("range", "10.0.0.0-10.0.0.255"),))
        want = {"set": {"S": bitmap}, "member": {MemberKey("S", "10.0.0.7"): "", MemberKey("S", "10.0.0.8"): ""}}
        make(want)
        sh("iptables", "-A", "INPUT", "-m", "set", "--match-set", "S", "src", "-j", "ACCEPT")
        rules = sh("iptables", "-S")
        wider = {"set": {"S": IPS}, "member": {MemberKey("S", "10.0.0.8"): "", MemberKey("S", "192.168.0.1"): ""}}
        make(wider, ipset.read(), {"set": {"S"}})
        assert members("S") == {"10.0.0.8": "", "192.168.0.1": ""}
        assert sh("iptables", "-S") == rules
        assert ipset.read()["set"]["S"].type == "hash:ip"

    def test_unswappable_type_is_refused(self) -> None:
        make({"set": {"S": IPS}, "member": {MemberKey("S", "10.0.0.7"): ""}})
        want = {"set": {"S": NETS}, "member": {MemberKey("S", "10.0.0.0/8"): "timeout 0"}}
        make(want, ipset.read(), {"set": {"S"}})
        assert ipset.read()["member"] == want["member"]
        assert list(ipset.read(members=False)["set"]) == ["S"]

    def test_type_change_of_set_in_use_is_refused_and_set_stays(self) -> None:
        make({"set": {"S": IPS}, "member": {MemberKey("S", "10.0.0.7"): ""}})
        sh("iptables", "-A", "INPUT", "-m", "set", "--match-set", "S", "src", "-j", "ACCEPT")
        before = sh("ipset", "save")
        want = {"set": {"S": NETS}, "member": {MemberKey("S", "10.0.0.0/8"): "timeout 0"}}
        result = ipset.apply(plan(ipset.read(), want, {"set": {"S"}}).steps, keep_going=True)
        assert result.done == [] or all(step.after is None for step in result.done)
        assert "rules of iptables or other sets refer to it" in result.failed[0].message
        assert sh("ipset", "save") == before

    def test_unfit_member_leaves_the_set_unchanged(self) -> None:
        make({"set": {"S": IPS}, "member": {MemberKey("S", f"10.0.0.{index}"): "" for index in range(20)}})
        before = sh("ipset", "save")
        tiny = IPSet("hash:ip", (("family", "inet"), ("hashsize", "64"), ("maxelem", "3")))
        result = ipset.apply([Step("set", "S", ipset.read()["set"]["S"], tiny)], keep_going=True)
        assert "has no room for all 20 members (maxelem 3)" in result.failed[0].message
        assert sh("ipset", "save") == before

    def test_undone_exchange_restores_the_set(self) -> None:
        make({"set": {"S": IPS}, "member": {MemberKey("S", "10.0.0.7"): "", MemberKey("S", "10.0.0.8"): ""}})
        have = ipset.read()
        want = {
            "set": {"S": NETS},
            "member": {MemberKey("S", "10.0.0.0/8"): "timeout 0", MemberKey("S", "10.0.0.7"): "timeout 0"},
        }
        steps = make(want, have, {"set": {"S"}})
        assert ipset.read()["member"] == want["member"]
        result = ipset.apply([step.inverse() for step in reversed(steps)])
        assert result.failed == []
        assert ipset.read()["member"] == have["member"]
        assert same_set(ipset.read()["set"]["S"], IPS)

    def test_failure_in_another_table_restores_sets(self, tmp_path: Path) -> None:
        make({"set": {"S": IPS}, "member": {MemberKey("S", f"10.0.0.{index}"): "" for index in range(7)}})
        before = sh("ipset", "save", "-sorted")
        have = ipset.read()
        want = {
            "set": {"S": NETS},
            "member": {MemberKey("S", "10.0.0.0/8"): "timeout 0", MemberKey("S", "10.0.0.6"): "timeout 0"},
        }
        broken = Step("link", "kube-ipvs0", None, Link())

        def refuse(steps: list[Step], keep_going: bool) -> Result:
            return Result([], [Failure(step, "not today") for step in steps])

        made = plan(have, want, {"set": {"S"}})
        ledger = Ledger(str(tmp_path))
        with pytest.raises(ApplyError, match=r"not today; .* earlier step"):
            execute(
                made._replace(steps=[*made.steps, broken]), {"ipset": ipset.apply, "addresses": refuse}, ledger, "test"
            )
        ledger.close()
        after = sh("ipset", "save", "-sorted")
        assert [line for line in after.splitlines() if line.startswith("add")] == [
            line for line in before.splitlines() if line.startswith("add")
        ]
        assert same_set(ipset.read()["set"]["S"], IPS)

    def test_leftovers_of_a_crashed_run_are_removed(self) -> None:
        make({"set": {"S": PORTS}, "member": {}})
        sh("ipset", "create", "kubenode-swap-new", "hash:mac")
        sh("ipset", "create", "kubenode-swap-old", "hash:mac")
        narrow = IPSet("bitmap:port", (("range", "0-1023"),))
        make({"set": {"S": narrow}}, ipset.read(["S"]), {"set": {"S"}})
        assert ipset.read()["set"] == {"S": narrow}

    def test_exchanged_set_is_never_missing(self, tmp_path: Path) -> None:
        """Another process asks for the set again and again while its header changes."""
        make({"set": {"S": IPS}, "member": {MemberKey("S", "10.0.0.7"): ""}})
        watcher = subprocess.Popen(
            [
                "sh",
                "-c",
                "while [ ! -e $0 ]; do ipset -q test S 10.0.0.7 || echo missed; done",
                str(tmp_path / "enough"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for changes in range(20):
            limit = str(1000 + changes)
            header = IPSet("hash:ip", (("family", "inet"), ("hashsize", "64"), ("maxelem", limit)))
            assert ipset.apply([Step("set", "S", ipset.read(["S"])["set"]["S"], header)]).failed == []
        (tmp_path / "enough").touch()
        assert watcher.communicate()[0] == ""


def test_kernel_counters_are_no_difference() -> None:
    header = IPSet(
        "hash:ip", (("family", "inet"), ("hashsize", "64"), ("maxelem", "9"), ("timeout", "600"), ("counters", ""))
    )
    want = {
        "set": {"S": header},
        "member": {MemberKey("S", "10.0.0.1"): "timeout 500", MemberKey("S", "10.0.0.2"): "timeout 0"},
    }
    make(want)
    sh("ipset", "-exist", "add", "S", "10.0.0.1", "timeout", "400", "packets", "7", "bytes", "70")
    assert "packets 7" in members("S")["10.0.0.1"]
    assert plan(ipset.read(), want, {"set": {"S"}}).steps == []
