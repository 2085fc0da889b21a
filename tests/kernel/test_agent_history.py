# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""History of a real agent: the desired state of each moment, across kill -9, damage and foreign files."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agent.process import NODE, AgentProcess, eventually
from support.clusters import objects
from support.processes.namespace import fresh, sh

from kubenode.engine.render import render
from kubenode.history.reading import Reader
from kubenode.history.replay import state_at

MODULES = ("ip_vs", "ip_vs_rr", "nf_conntrack", "ip_set", "xt_set", "dummy", "br_netfilter")
CHANGES = 6


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    subprocess.run(["modprobe", "-a", *MODULES], check=True)
    fresh()
    sh("ip", "link", "set", "lo", "up")
    process = AgentProcess(tmp_path)
    yield process
    process.close()


def cluster(chance: random.Random) -> list[objects.Object]:
    """Return some Services with endpoints, other ones each time."""
    items = []
    for number in sorted(chance.sample(range(1, 9), 5)):
        items.append(objects.service(f"s{number}", [f"10.96.1.{number}"], [objects.port(80, "p")]))
        pods = [objects.endpoint(f"10.244.{number}.{host}", NODE) for host in chance.sample(range(1, 6), 3)]
        items.append(objects.piece(f"s{number}", pods, [objects.port(8080, "p")]))
    return items


def history(agent: AgentProcess, *words: str, expect: int = 0) -> str:
    done = agent.command("history", "--state-dir", str(agent.state), *words, expect=expect)
    assert done.stderr == "" or expect
    return done.stdout if expect in (0, 2) else done.stderr


def state(agent: AgentProcess, moment: float, form: str) -> str:
    """Return the state of a moment as ``kubenode history`` prints it, without a process of its own."""
    with Reader(str(agent.state / "history")) as reader:
        return render(state_at(reader, round(moment * 1000)).state, form)


def in_kernel() -> dict[str, str]:
    """Return virtual servers and bound addresses as the kernel has them."""
    shown = sh("ip", "-o", "-4", "addr", "show", "dev", "kube-ipvs0")
    bound = sorted(line.split()[3] for line in shown.splitlines())
    return {"ipvsadm": "".join(sorted(sh("ipvsadm", "-Sn").splitlines(keepends=True))), "addresses": "\n".join(bound)}


def wanted(agent: AgentProcess, moment: float) -> dict[str, str]:
    """Return the same from the history."""
    servers = "".join(sorted(state(agent, moment, "ipvsadm").splitlines(keepends=True)))
    return {"ipvsadm": servers, "addresses": "\n".join(sorted(state(agent, moment, "addresses").split()))}


def change(agent: AgentProcess, chance: random.Random) -> None:
    """Change the Services, and wait until the agent has applied that."""
    items = cluster(chance)
    reals = sum(len(item.get("endpoints", ())) for item in items)
    names = {item["spec"]["clusterIP"] for item in items if item["kind"] == "Service"}
    agent.write("all.json", items)

    def is_applied() -> bool:
        """the kernel has these Services"""
        lines = sh("ipvsadm", "-Sn").splitlines()
        servers = {line.split()[2].partition(":")[0] for line in lines if line.startswith("-A")}
        return servers == names and sum(line.startswith("-a") for line in lines) == reals

    eventually(is_applied)
    agent.ask("sync")  # endpoints may have changed with their number the same


def test_state_of_each_moment_survives_kill_9(agent: AgentProcess) -> None:
    seed = 20261124
    chance = random.Random(seed)
    agent.write("all.json", cluster(chance))
    agent.start()
    moments = {time.time(): in_kernel()}
    for number in range(CHANGES):
        change(agent, chance)
        moments[time.time()] = in_kernel()
        if number % 3 == 2:
            agent.stop(signal.SIGKILL)
            agent.start()
    agent.write("all.json", cluster(chance))
    time.sleep(chance.uniform(0, 0.1))
    agent.stop(signal.SIGKILL)
    assert len({values["ipvsadm"] for values in moments.values()}) > CHANGES // 2
    for moment, values in moments.items():
        assert wanted(agent, moment) == values, f"seed {seed}, {moment}"
    at = ("--state", "--at", f"@{moment:.3f}", "--format", "ipvsadm")
    assert history(agent, *at) == state(agent, moment, "ipvsadm")
    text = history(agent)
    assert text.count("  started  agent") == CHANGES // 3 + 1
    assert text.count("  ended    without notice") == CHANGES // 3
    records = [json.loads(line) for line in history(agent, "--format", "json").splitlines()]
    assert [record["number"] for record in records] == list(range(1, len(records) + 1))


def test_history_shows_reasons_drift_and_refusals(agent: AgentProcess) -> None:
    agent.configure({"ipvs": {"syncPeriod": "1s"}})
    agent.write("a.json", cluster(random.Random(1)))
    agent.start()
    server = sh("ipvsadm", "-Sn").split()[2]
    sh("ipvsadm", "-D", "-t", server)
    eventually(lambda: f"drift: + virtual server tcp {server}" in history(agent))
    name = f"s{server.partition(':')[0].rpartition('.')[2]}"
    broken = objects.service("broken", ["10.96.2.1"], [objects.port(80, "p")])
    broken["metadata"]["annotations"] = {"kubenode.ipvs/scheduler": "no-such"}
    agent.write("b.json", [broken])
    eventually(lambda: "Service ns1/broken" in history(agent, "--service", "ns1/broken"))
    mine = history(agent, "--service", f"ns1/{name}")
    assert f"drift: + virtual server tcp {server}: scheduler rr   ns1/{name}:p" in mine
    assert "broken" not in mine
    other = next(
        line.split()[2] for line in sh("ipvsadm", "-Sn").splitlines() if line.startswith("-A") and server not in line
    )
    assert other not in mine
    agent.stop()
    assert "  ended    agent with pid" in history(agent)


def test_agent_goes_on_beside_damaged_and_foreign_files(agent: AgentProcess) -> None:
    agent.write("all.json", cluster(random.Random(2)))
    agent.start()
    whole = eventually(lambda: next((text for text in [history(agent)] if "  start " in text), None))
    agent.stop(signal.SIGKILL)
    directory = agent.state / "history"
    log = max(directory.glob("*.log"))
    data = log.read_bytes()
    log.write_bytes(data[:-10])
    assert history(agent).splitlines()[1:] == [line for line in whole.splitlines() if "  started  " in line]
    foreign = directory / "0000000000000009.sealed"
    foreign.write_bytes(b"SQLite format 3\0")
    assert "started" in history(agent, expect=2)
    agent.start()
    aside = directory / "0000000000000009.sealed.foreign"
    eventually(aside.exists)
    assert aside.read_bytes() == b"SQLite format 3\0"
    assert "it is renamed to" in eventually(lambda: agent.log.read_text() if "renamed" in agent.log.read_text() else "")
    eventually(lambda: "started  agent" in history(agent, expect=2))
    agent.stop()
    aside.unlink()
    assert "10.96.1." in history(agent, "--state", "--format", "ipvsadm")
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()
    assert "there is no history" in history(agent, expect=1)
    directory.write_text("a file")
    assert "it is no directory" in history(agent, expect=1)
    agent.start()
    eventually(lambda: directory.is_dir() and list(directory.glob("*.log")))
    assert (agent.state / "history.foreign").read_text() == "a file"


def test_root_reads_history_with_rights_of_its_owner(agent: AgentProcess) -> None:
    agent.write("all.json", cluster(random.Random(3)))
    agent.start()
    agent.stop()
    whole = history(agent)
    open_to_all = Path(tempfile.mkdtemp(dir="/tmp"))  # the owner's rights lead to it
    open_to_all.chmod(0o755)
    agent.state = agent.state.rename(open_to_all / "state")
    directory = agent.state / "history"
    for path in (directory, *directory.iterdir()):
        os.chown(path, 65534, 65534)
    assert history(agent) == whole
    log = next(directory.glob("*.log"))
    secret = open_to_all / "secret"
    secret.write_bytes(log.read_bytes())
    secret.chmod(0o600)
    log.unlink()
    log.symlink_to(secret)
    done = agent.command("history", "--state-dir", str(agent.state), expect=2)
    assert "started" not in done.stdout
    assert "cannot be read" in done.stderr
    log.unlink()
    os.mkfifo(log)
    os.chown(log, 65534, 65534)
    assert "it is no regular file" in agent.command("history", "--state-dir", str(agent.state), expect=2).stderr
