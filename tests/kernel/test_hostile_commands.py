# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Root's commands and modules, with a ledger that the agent's user has forged.

The commands change nothing outside the network. Those that read the rows name the bad ones.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kernel.modules import run
from kernel.test_module_agent_install import Node
from support.agent.process import NODE, AgentProcess
from support.clusters import objects
from support.processes.hostile import AGENT, agents_directory, write_rows
from support.processes.namespace import fresh, sh

from kubenode.engine.ledger import Ledger

RUN = Path("/run/kubenode")
VICTIM = Path("/run/kubenode-victim.conf")
PATTERN = Path("/proc/sys/kernel/core_pattern")
SERVICES = [
    objects.service("web", ["10.96.0.10"], [objects.port(80, "http")]),
    objects.piece("web", [objects.endpoint("10.244.1.1", NODE)], [objects.port(8080, "http")]),
]
CLAIMS = [
    ("spaceship", '"x"', "agent"),  # a kind that no release knows
    ("set", "no JSON", "agent"),
    ("set", "[" * 50_000, "agent"),
    ("set", '"X\\nsave -f /run/kubenode-victim.conf"', "agent"),
    ("set", '"-f"', "ansible"),
    ("chain", '{"a": 1}', "agent"),
    ("chain", '[4,"nat"]', "agent"),
    ("virtual_server", '["tcp","10.96.0.10","eighty",4]', "ansible"),
    ("virtual_server", '[["tcp"],"10.96.0.10",80,4]', "agent"),
    ("address", "null", "\x1b[31magent"),
    ("file", '"/run/kubenode-victim.conf"', "agent"),
    ("file", '"/run/kubenode-victim.conf"'[::1] + " ", "ansible"),
    ("sysctl", '"kernel.core_pattern"', "agent"),
    ("kernel_module", '"ip_vs"', "ansible"),
    ("set", b"\xff\xfe", "agent"),
]
NOTES = [
    *(
        (owner, "sysctl", json.dumps(name), json.dumps([new, old]))
        for owner in ("agent", "ansible")
        for name, old, new in (
            (".run.kubenode-victim/conf", "root's", "the agent's"),
            ("net.//.//.//.run.kubenode-victim/conf", "root's", "the agent's"),
            ("kernel.core_pattern", "core", "|/bin/false"),
        )
    ),
    *(
        (owner, "sysctl", '"net.ipv4.ip_forward"', text)
        for owner, text in (("agent", "no JSON"), ("ansible", '["1; reboot", "1"]'))
    ),
    ("agent", "real_server", '[["tcp","10.96.0.10",80,4],"10.244.1.1",8080]', "since ever"),
    ("agent", "real_server", '"x"', "1.5"),
    ("agent", "spaceship", "no JSON", "x"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def forged() -> Iterator[None]:
    """Forge the agent's ledger, and make files that root must not touch."""
    sh("modprobe", "-a", "ip_vs", "ip_vs_rr", "nf_conntrack", "ip_set", "xt_set", "dummy", "br_netfilter")
    fresh()
    sh("ip", "link", "set", "lo", "up")
    shutil.rmtree(RUN, ignore_errors=True)
    agents_directory(RUN)
    VICTIM.write_text("root's\n")
    PATTERN.write_text("core")
    with closing(Ledger(str(RUN))):
        pass
    rows: list[tuple[str, tuple[object, ...]]] = [("INSERT INTO claim VALUES (?, ?, ?)", row) for row in CLAIMS]
    rows += [("INSERT INTO note VALUES (?, ?, ?, ?)", row) for row in NOTES]
    write_rows(RUN, rows)
    before = kept()
    yield
    assert VICTIM.read_text() == "root's\n"
    assert PATTERN.read_text() == "core\n"
    assert before <= kept(), "rows are lost"
    shutil.rmtree(RUN)


def kept() -> set[tuple[object, ...]]:
    with closing(sqlite3.connect(RUN / "ledger.db")) as database:
        notes = database.execute("SELECT * FROM note WHERE key != '\"net.ipv4.ip_forward\"'")  # saved again
        return {*database.execute("SELECT * FROM claim"), *notes}


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    process = AgentProcess(tmp_path)
    process.run = RUN
    process.write("web.json", SERVICES)
    yield process
    process.close()


COMMANDS: dict[str, Callable[[AgentProcess], tuple[str, ...]]] = {
    "plan": lambda agent: ("plan", *agent.options(), "--objects", str(agent.manifests)),
    "plan --adopt": lambda agent: ("plan", "--adopt", *agent.options(), "--objects", str(agent.manifests)),
    "apply": lambda agent: ("apply", *agent.options(), "--objects", str(agent.manifests)),
    "show": lambda agent: ("show", *agent.options(), "--objects", str(agent.manifests)),
    "cleanup --check": lambda agent: ("cleanup", "--check", "--run-dir", str(agent.run)),
    "cleanup": lambda agent: ("cleanup", "--run-dir", str(agent.run)),
    "cleanup --forget": lambda agent: ("cleanup", "--forget", "--run-dir", str(agent.run)),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_names_forged_rows_and_does_its_work(agent: AgentProcess, name: str) -> None:
    done = agent.command(*COMMANDS[name](agent), expect=None)
    output = done.stdout + done.stderr
    assert done.returncode in (0, 2), output
    assert "Traceback" not in output
    assert "\x1b" not in output
    for part in ("'spaceship'", "'no JSON'", "kind 'file'", "kind 'sysctl'", "it is kept and ignored"):
        assert part in output, output
    if name.startswith("cleanup"):
        assert "names a sysctl that no service proxy sets" in output
        assert "'no JSON', expected two numbers" in output
    if name == "apply":
        assert "10.96.0.10:80" in sh("ipvsadm", "-Sn")


@pytest.mark.parametrize("name", ["check", "status", "adopt"])
def test_a_command_without_need_of_rows_works(agent: AgentProcess, name: str) -> None:
    words = (name, *agent.options()) if name == "check" else (name, "--run-dir", str(agent.run))
    done = agent.command(*words, expect=None)
    assert done.returncode == (1 if name == "status" else 0), done.stdout + done.stderr  # no agent runs
    assert "Traceback" not in done.stderr


def test_the_agent_serves_and_names_forged_rows(agent: AgentProcess) -> None:
    agent.start(wait=False)
    agent.converged(60)
    texts = [problem["text"] for problem in agent.ask("status")["problems"] if problem["about"] == "ledger"]
    assert any("'spaceship'" in text for text in texts), texts
    assert "since ever" in "".join(texts)
    assert "10.96.0.10:80" in sh("ipvsadm", "-Sn")
    assert agent.stop() == 0


SERVER = {"address": "192.0.2.80", "port": 80, "protocol": "tcp", "scheduler": "rr"}
TASKS: dict[str, list[dict[str, object]]] = {
    "service_proxy": [
        {"objects": SERVICES, "node_name": NODE, "config": {"conntrack": {"maxPerCore": 0}}},
        {"state": "absent"},
    ],
    "ipvs_services": [{"services": [SERVER]}, {"services": [], "purge": "owned"}],
    "ipsets": [{"sets": [{"name": "A", "type": "hash:ip"}]}, {"sets": [], "purge": "owned"}],
    "iptables_chains": [{"chains": [{"name": "A", "rules": []}]}, {"chains": [], "purge": "owned"}],
    "nft_tables": [{"tables": [{"family": "bridge", "name": "A"}]}, {"tables": [], "purge": "owned"}],
    "virtual_addresses": [
        {"links": [{"name": "vip0", "addresses": ["192.0.2.80/32"]}]},
        {"links": [], "purge": "owned"},
    ],
}


@pytest.mark.parametrize("module", TASKS)
def test_a_module_names_forged_rows_and_does_its_work(module: str) -> None:
    for arguments in TASKS[module]:
        result = run(module, **arguments)
        assert result["changed"]
        text = "".join(result["warnings"])
        for part in ("'spaceship'", "'no JSON'", "it is kept and ignored"):
            assert part in text


@pytest.mark.parametrize(
    "module", ["ipvs_services_info", "ipsets_info", "iptables_chains_info", "nft_tables_info", "virtual_addresses_info"]
)
def test_an_info_module_names_forged_rows(module: str) -> None:
    assert "'spaceship'" in "".join(run(module)["warnings"])


@pytest.mark.parametrize("module", ["sysctls", "sysctls_info", "kernel_modules", "node_check"])
def test_a_module_of_the_lasting_ledger_does_not_read_the_agents(module: str) -> None:
    arguments: dict[str, object] = {"sysctls": {"net.ipv4.ip_forward": 1}} if module == "sysctls" else {}
    arguments = {"modules": ["ip_vs"]} if module == "kernel_modules" else arguments
    assert "spaceship" not in json.dumps(run(module, **arguments))


def test_agent_install_does_not_read_the_agents_ledger(tmp_path: Path) -> None:
    """The module uses the release and root's files, and never the rows, to decide which files to write and remove."""
    node = Node(tmp_path)
    files = {str(node.config): None, str(node.unit): None}
    write_rows(RUN, [("INSERT INTO claim VALUES ('file', ?, 'agent')", (json.dumps(str(node.config)),))])
    results = [
        node.install("0001", "config"),
        node.run(state="proven"),
        node.install("0002", "other"),
        node.run(state="former"),
        node.run(state="absent", files=files),
    ]
    assert [result["changed"] for result in results] == [True] * len(results)
    assert [result["release"] for result in results] == ["0001", "0001", "0002", "0001", ""]
    text = json.dumps(results)
    for part in ("spaceship", "no JSON", "ledger"):
        assert part not in text
    assert not node.config.exists()


def test_directories_belong_to_their_users(agent: AgentProcess) -> None:
    """Root leaves no file in the agent's directory that the agent cannot use."""
    agent.command(*COMMANDS["apply"](agent))
    assert {(path.name, path.stat().st_uid, path.stat().st_mode & 0o777) for path in RUN.iterdir()} == {
        ("ledger.db", AGENT, 0o600),
        ("lock", AGENT, 0o600),
    }
