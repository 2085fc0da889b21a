# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module nft_tables against this machine's kernel: what it changes, and what stays.

The user-mode kernel of a distribution has no nf_tables for IPv4.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest
from kernel.modules import run
from support.processes.guarded import PENDING, guards, ledgers, undone, wait
from support.processes.namespace import sh
from support.tables.module_nft_tables import BASE, CONTENT, TEXT, listing, named, separate_node, tables


@pytest.fixture(autouse=True)
def node() -> Iterator[None]:
    with separate_node():
        yield


def test_table_is_created_changed_and_removed() -> None:
    created = tables({"name": "edge", "content": CONTENT})
    assert created["lines"] == ["+ nftables table inet edge: 32 lines"]
    assert created["diff"] == {"before": {}, "after": {"nftables table inet edge": TEXT.splitlines()}}
    assert created["plan"][0]["key"] == {"family": "inet", "name": "edge"}
    changed = tables({"name": "edge", "content": CONTENT.replace("443 : drop", "443 : accept")})
    assert changed["lines"] == ["~ nftables table inet edge: 32 lines -> 32 lines"]
    assert changed["diff"]["before"] == {"nftables table inet edge": TEXT.splitlines()}
    assert "443 : accept" in listing("inet", "edge")
    assert not tables({"name": "edge"})["changed"]
    removed = tables({"name": "edge", "state": "absent"})
    assert removed["lines"] == ["- nftables table inet edge"]
    assert named() == ["inet foreign"]
    assert ledgers() == {}


@pytest.mark.parametrize("family", ["ip", "ip6", "inet", "arp", "bridge", "netdev"])
def test_every_family_without_content_and_with_a_chain(family: str) -> None:
    tables({"family": family, "name": "edge"})
    assert named() == ["inet foreign", f"{family} edge"]
    hook = "ingress device lo" if family == "netdev" else "input"
    tables({"family": family, "name": "edge", "content": f"chain c {{ type filter hook {hook} priority 0\n}}"})
    tables({"family": family, "name": "edge", "content": ""})
    assert "chain" not in listing(family, "edge")


@pytest.mark.parametrize(
    ("spelling", "other"),
    [
        ("tcp dport { 80, 22 } accept", "tcp dport { ssh, http } accept"),
        ("ct state established,related accept", "ct state related,established accept"),
        ("ip saddr 192.0.2.0/24 drop", "ip saddr 192.0.2.7/24 drop; # why"),
        ("counter packets 7 bytes 70 drop", "counter drop"),
        ('ip daddr 192.0.2.1 accept comment "of\nlines"', 'ip daddr 192.0.2.1 accept comment  "of\nlines"'),
    ],
)
def test_spelling_and_order_are_no_difference(spelling: str, other: str) -> None:
    tables({"family": "ip", "name": "t", "content": f"chain b {{ accept; }}\nchain a {{ {spelling}\n}}"})
    again = {"family": "ip", "name": "t", "content": f"chain a {{\n\t{other}\n}}\nchain b {{ accept; }}"}
    assert run("nft_tables", tables=[again])["lines"] == []


def test_counters_and_elements_that_do_not_change_stay() -> None:
    content = (
        "set s { type ipv4_addr; counter; elements = { 192.0.2.1, 192.0.2.2, 192.0.2.3 }\n}\n"
        "chain stays { type filter hook input priority 0\ncounter accept\n}\n"
        "chain changes { ip saddr @s counter drop\n}\n"
    )
    tables({"name": "edge", "content": content})
    sh("ip", "link", "set", "lo", "up")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"counted", ("127.0.0.1", 9))
    sh("nft", "add", "element", "inet", "edge", "s", "{ 192.0.2.9 counter packets 7 bytes 70 }")
    before = listing("inet", "edge")
    counter = re.search(r"counter packets \d+ bytes \d+ accept", before)
    assert counter
    changed = content.replace("192.0.2.1, ", "").replace("192.0.2.3", "192.0.2.4, 192.0.2.9").replace("drop", "accept")
    tables({"name": "edge", "content": changed})
    after = listing("inet", "edge")
    assert counter.group() in after
    assert "192.0.2.9 counter packets 7 bytes 70" in after
    assert ("192.0.2.1 " in after, "192.0.2.4 " in after) == (False, True)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("set s { type ipv4_addr\n}", "set s { type ipv6_addr\n}"),
        ("set s { type ipv4_addr\n}\nchain c { ip saddr @s drop\n}", "map s { type ipv4_addr : verdict\n}"),
        (BASE, BASE.replace("input", "output")),
        (BASE, "chain c { accept\n}"),
        ("chain a { jump b\n}\nchain b { }", "chain b { jump a\n}\nchain a { }"),
        ("chain a { jump b\n}\nchain b { }", "chain a { }"),
        ("map m { type mark : verdict; elements = { 1 : jump b }\n}\nchain b { }", "map m { type mark : verdict\n}"),
        ("map m { type mark : verdict; elements = { 1 : jump b }\n}\nchain b { }", ""),
        ("set s { type inet_service; flags interval; auto-merge; elements = { 1-9, 20 }\n}",
         "set s { type inet_service; flags interval; auto-merge; elements = { 3-9, 15-30 }\n}"),
        ("set s { type ipv4_addr . inet_service; flags interval; elements = { 192.0.2.0/24 . 1-9 }\n}",
         "set s { type ipv4_addr . inet_service; flags interval; elements = { 192.0.2.0/25 . 1-9 }\n}"),
        ("map m { type mark : ipv4_addr; elements = { 1 : 192.0.2.1 }\n}",
         "map m { type mark : ipv4_addr; elements = { 1 : 192.0.2.2 }\n}"),
        ('set s { type mark; elements = { 1 comment "a, b" }\n}', 'set s { type mark; elements = { 1 comment "c" }\n}'),
        ("set s { type ipv4_addr; timeout 1h; elements = { 192.0.2.1 timeout 5m }\n}",
         "set s { type ipv4_addr; timeout 1h; elements = { 192.0.2.1 timeout 6m }\n}"),
        ("counter c { }\nchain a { counter name c\n}", "quota q { over 5 mbytes\n}\nchain a { quota name q\n}"),
        ("counter c { }", 'counter c { comment "x"\n}'),
        ("flags dormant", ""),
        ('limit l { rate 5/second\n}\nct helper h { type "ftp" protocol tcp\n}', "synproxy p { mss 1460; wscale 7\n}"),
        ("chain a { meter m { ip saddr limit rate 3/second } drop\n}", "chain a { accept\n}"),
    ],
)  # fmt: skip
def test_every_change_and_its_undo_converge(before: str, after: str) -> None:
    tables({"name": "edge", "content": before})
    was = listing("inet", "edge", "--stateless")
    result = run("nft_tables", tables=[{"name": "edge", "content": after}], confirm_timeout=1)
    assert result["lines"]
    record = undone(result["confirm"]["path"])
    assert (len(record["undone"]), record["problems"]) == (1, [])
    assert listing("inet", "edge", "--stateless") == was
    tables({"name": "edge", "content": after})


def test_elements_that_packets_add_are_no_difference() -> None:
    content = (
        "set busy { type ipv4_addr; flags dynamic,timeout; timeout 1h; elements = { 192.0.2.7 timeout 5m }\n}\n"
        "chain c { update @busy { ip saddr counter }\n}\n"
    )
    tables({"name": "edge", "content": content})
    sh("nft", "add", "element", "inet", "edge", "busy", "{ 192.0.2.8 timeout 9m }")
    assert not tables({"name": "edge", "content": content})["changed"]
    result = run("nft_tables", tables=[{"name": "edge", "content": content + "chain d { }\n"}], confirm_timeout=1)
    assert undone(result["confirm"]["path"])["problems"] == []
    assert "192.0.2.8 timeout 9m" in listing("inet", "edge")
    assert "chain d" not in listing("inet", "edge")


def test_unconfirmed_change_is_undone_and_ledger_restored() -> None:
    tables({"name": "changes", "content": CONTENT}, {"name": "goes", "content": BASE})
    before, claimed = sh("nft", "--stateless", "list", "ruleset"), ledgers()
    wanted = [{"name": "changes", "content": BASE}, {"name": "new", "content": BASE}]
    result = run("nft_tables", tables=wanted, purge="owned", confirm_timeout=1)
    assert len(result["lines"]) == 3
    record = undone(result["confirm"]["path"])
    assert (len(record["undone"]), record["problems"]) == (3, [])
    assert sorted(sh("nft", "--stateless", "list", "ruleset").split()) == sorted(before.split())
    assert ledgers() == claimed
    result = run("nft_tables", tables=wanted, confirm_timeout=600)
    os.unlink(result["confirm"]["path"])
    wait(lambda: guards() == [])
    assert list(PENDING.iterdir()) == []
    assert not run("nft_tables", tables=wanted)["changed"]


def test_ten_thousand_elements_change_by_one() -> None:
    elements = [f"10.0.{number // 250}.{number % 250 + 1}" for number in range(10_000)]
    content = "set s {{ type ipv4_addr; elements = {{ {} }}\n}}\nchain c {{ ip saddr @s drop\n}}".format
    tables({"name": "big", "content": content(", ".join(elements))})
    result = tables({"name": "big", "content": content(",\n".join(["192.0.2.1", *elements[1:]]))})
    before, after = (set(result["diff"][side]["nftables table inet big"]) for side in ("before", "after"))
    assert (before - after, after - before) == ({"    10.0.0.1,"}, {"    192.0.2.1,"})


def test_info_returns_what_the_module_takes() -> None:
    tables({"name": "edge", "content": CONTENT})
    returned = run("nft_tables_info", objects=True, names=["inet edge", "ip nosuch"])["tables"]
    assert [(each["name"], each["content"], each["owner"], each["flags"]) for each in returned] == [
        ("edge", TEXT, "ansible", [])
    ]
    kinds = [kind for each in returned[0]["objects"] for kind in each]
    assert sorted(set(kinds)) == ["chain", "counter", "map", "rule", "set"]
    wanted = run("nft_tables_info", as_options=True)["tables"]
    assert [set(each) for each in wanted] == [{"family", "name", "content"}] * 2
    assert not run("nft_tables", tables=wanted[1:])["changed"]


def test_no_process_writes_when_nothing_differs() -> None:
    tables({"name": "edge", "content": CONTENT})
    with subprocess.Popen(["nft", "monitor"], stdout=subprocess.PIPE, text=True) as monitor:
        time.sleep(0.3)
        assert not run("nft_tables", tables=[{"name": "edge", "content": CONTENT}])["changed"]
        assert run("nft_tables", check=True, tables=[{"name": "edge", "content": BASE}])["changed"]
        time.sleep(0.3)
        monitor.terminate()
        assert monitor.stdout is not None
        assert monitor.stdout.read() == ""
