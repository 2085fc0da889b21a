# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module nft_tables against this machine's kernel: what it refuses, and whose tables it leaves alone."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel.modules import ModuleError, run
from support.processes.guarded import wait
from support.processes.namespace import sh
from support.tables.module_nft_tables import BASE, listing, named, ruleset, separate_node, tables

from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.kernel import command
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.ledger import Ledger
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.model.nftables import TableKey


@pytest.fixture(autouse=True)
def node() -> Iterator[None]:
    with separate_node():
        yield


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("chain c {\n  tcp dprt 22 accept\n}",
         "tables[1].content line 2 (ip bad) `tcp dprt 22 accept`: syntax error, unexpected string"),
        ("chain c {\n  jump nowhere\n}", "tables[1].content line 2 (ip bad) `jump nowhere`: Could not process rule: "),
        ("chain c { ip saddr @nosuch drop\n}", "tables[1].content line 1 (ip bad) `chain c { ip saddr @nosuch drop`: "),
        ("chain c {", "tables[1].content (ip bad): syntax error, unexpected end of file"),
        ("}\ntable ip evil {", "tables[1].content line 1 (ip bad) `}`: this brace closes the table; expected only"),
        ("chain c { }\n}; flush ruleset; table ip bad {", "tables[1].content line 2 (ip bad) `}; flush ruleset; table"),
        ('include "/etc/hosts"', "tables[1].content (ip bad): /etc/hosts line 1: syntax error"),
        ("flags owner", "tables[1].content (ip bad): it makes no table, expected only what stands between the table's"),
        ("chain c { type filter hook input priority 0; device \"nosuch\"\n}", "tables[1].content line 1 (ip bad) `"),
        ("\0", "tables[1].content line 1 (ip bad) `"),
    ],
)  # fmt: skip
def test_refused_content_names_option_and_line(content: str, message: str) -> None:
    tables({"name": "edge", "content": "chain c { accept\n}"})
    before = ruleset()
    wanted = [{"name": "edge", "content": "chain c { drop\n}"}, {"family": "ip", "name": "bad", "content": content}]
    for check in (True, False):
        with pytest.raises(ModuleError) as error:
            run("nft_tables", check=check, tables=wanted)
        assert str(error.value).startswith(message)
        assert ruleset() == before


def test_include_that_closes_the_table_is_refused(tmp_path: Path) -> None:
    """A file can hold what the content itself must not, so the tables in the scratch namespace are counted."""
    path = tmp_path / "evil.nft"
    path.write_text("}\ntable ip evil {\n")
    with pytest.raises(ModuleError, match=r"it makes table (ip evil, table ip t|ip t, table ip evil), expected only"):
        run("nft_tables", tables=[{"family": "ip", "name": "t", "content": f'include "{path}"'}])
    assert named() == ["inet foreign"]


@pytest.mark.parametrize(
    "name",
    ["", "a b", "a;b", "a{", 'a"', "a\nflush ruleset", "-a", "$a", "a" * 256, "ä", "a}", "@a", "#a", "1", "a\\"],
)
def test_names_that_are_no_word_are_refused(name: str) -> None:
    with pytest.raises(ModuleError, match=r"^tables\[0\]: name is .*, expected 1 to 255 letters, digits and"):
        run("nft_tables", tables=[{"name": name}])


@pytest.mark.parametrize("name", ["a", "_", ".a", "a/b-c.d_e", "a" * 255, "T1"])
def test_names_that_nft_takes_are_taken(name: str) -> None:
    tables({"name": name, "content": BASE})
    tables({"name": name, "state": "absent"})


@pytest.mark.parametrize(
    ("name", "message"),
    [("chain", "syntax error"), ("limits", "nft has no command for this name: syntax error"), ("last", "")],
)
def test_word_of_the_language_is_no_name(name: str, message: str) -> None:
    """Some words can name a table in a file, but not in a command that lists or removes it."""
    wanted = {"tables": [{"name": name, "content": BASE}]}
    if message:
        with pytest.raises(ModuleError, match=rf"^tables\[0\]\.content \(inet {name}\): {message}"):
            run("nft_tables", **wanted)
    else:
        assert run("nft_tables", **wanted)["changed"]
        assert run("nft_tables", purge="owned")["changed"]
    assert named() == ["inet foreign"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([{"name": "x"}, {"family": "ip", "name": "x"}, {"name": "x"}],
         "tables[2] and tables[0] are both table inet x; name each item once"),
        ([{"name": "x", "state": "absent", "content": BASE}],
         "tables[0] (inet x): content is 'given', expected nothing for a table that shall be absent"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_message(wrong: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ModuleError) as error:
        run("nft_tables", tables=wrong)
    assert str(error.value) == message


def test_purge_removes_only_tables_of_the_owner() -> None:
    for owner in ("ansible", "other"):
        tables(*({"family": family, "name": owner, "content": BASE} for family in ("ip", "ip6")), owner=owner)
    result = tables({"family": "ip", "name": "ansible"}, purge="owned")
    assert result["lines"] == ["- nftables table ip6 ansible"]
    assert named() == ["inet foreign", "ip ansible", "ip other", "ip6 other"]
    tables(purge="owned", owner="other")
    assert named() == ["inet foreign", "ip ansible"]


def test_table_of_a_service_proxy_is_refused() -> None:
    sh("nft", "add table ip kubenode")
    ledger = Ledger("/run/kubenode")
    ledger.claim("agent", [("nft_table", TableKey("ip", "kubenode"))])
    ledger.close()
    for wanted in ({"content": BASE}, {"state": "absent"}):
        with pytest.raises(ModuleError, match=r"tables\[0\] \(ip kubenode\): it belongs to owner 'agent'"):
            run("nft_tables", tables=[{"family": "ip", "name": "kubenode", **wanted}], adopt=True)
    assert listing("ip", "kubenode") == "table ip kubenode {\n}\n"
    (shown,) = run("nft_tables_info", names=["ip kubenode"])["tables"]
    assert (shown["owner"], shown["writable"]) == ("agent", False)
    assert run("nft_tables_info", names=["ip kubenode"], as_options=True)["tables"] == []


def test_foreign_tables_are_refused_unless_adopted() -> None:
    sh("nft", "add", "table", "ip", "t", '{ comment "by hand"; chain c { accept; }; }')
    with pytest.raises(
        ModuleError, match=r"^nftables table ip t exists already and has no owner; it is left unchanged"
    ):
        run("nft_tables", tables=[{"family": "ip", "name": "t", "content": BASE}])
    with pytest.raises(ModuleError, match=r"^nftables table ip t has no owner and is not removed"):
        run("nft_tables", tables=[{"family": "ip", "name": "t", "state": "absent"}])
    adopted = run("nft_tables", tables=[{"family": "ip", "name": "t"}], adopt=True)
    assert (adopted["lines"], adopted["adopted"]) == ([], ["nftables table ip t"])
    with pytest.raises(ModuleError, match="nftables table ip t belongs to owner 'ansible'"):
        run("nft_tables", tables=[{"family": "ip", "name": "t", "content": BASE}], adopt=True, owner="other")
    tables({"family": "ip", "name": "t", "content": BASE})
    tables({"family": "ip", "name": "t", "state": "absent"})


def test_tables_that_nft_cannot_write_are_named() -> None:
    sh("iptables-nft", "-A", "INPUT", "-m", "comment", "--comment", "by iptables", "-j", "ACCEPT")
    before = ruleset()
    with pytest.raises(ModuleError, match=r"^nftables table ip filter belongs to iptables, whose rules nft cannot"):
        run("nft_tables", tables=[{"family": "ip", "name": "filter"}], adopt=True)
    keeper = subprocess.Popen(["nft", "-i"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert keeper.stdin is not None
    keeper.stdin.write("add table ip kept { flags owner; }\n")
    keeper.stdin.flush()
    try:
        wait(lambda: "ip kept" in named())
        with pytest.raises(ModuleError, match=r"^nftables table ip kept has the flag owner: only the process"):
            run("nft_tables", tables=[{"family": "ip", "name": "kept", "content": BASE}], adopt=True)
        writable = {each["name"]: each["writable"] for each in run("nft_tables_info")["tables"]}
        assert writable == {"foreign": True, "filter": False, "kept": False}
    finally:
        keeper.stdin.close()
        keeper.wait(10)
    assert ruleset() == before


def test_missing_tool_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(command, "_SYSTEM_DIRECTORIES", "/nowhere")
    with pytest.raises(ModuleError, match=r"^the tool nft is missing; install the package nftables$"):
        run("nft_tables", tables=[{"name": "edge", "content": BASE}])
    monkeypatch.undo()


def test_table_that_nft_cannot_list_is_left_out() -> None:
    sh("nft", "-f", "-", text="table ip limits {\n}\n")
    assert [each["name"] for each in run("nft_tables_info")["tables"]] == ["foreign"]
    with pytest.raises(ModuleError, match=r"^nftables table ip limits cannot be listed: syntax error"):
        run("nft_tables", tables=[{"family": "ip", "name": "limits"}], adopt=True)
