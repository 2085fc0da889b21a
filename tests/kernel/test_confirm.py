# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``confirm_timeout``: what nobody confirms is undone by the node, kernel, files and ledger; what somebody confirms stays."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel.modules import ModuleError, run

PENDING = Path("/run/kubenode/confirm")
FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
KEEPALIVE = Path("/proc/sys/net/ipv4/tcp_keepalive_time")
LEDGERS = (Path("/run/kubenode/ledger.db"), Path("/var/lib/kubenode/ledger.db"))
TASKS: dict[str, dict[str, Any]] = {
    "sysctls": {"sysctls": {"net.ipv4.ip_forward": 1}, "purge": "owned"},
    "iptables_chains": {
        "chains": [
            {"name": "NEW", "rules": ["-p tcp --dport 22 -j DROP"], "jumps": [{"chain": "INPUT"}]},
            {"name": "OLD", "rules": ["-s 192.0.2.2 -j DROP"]},
        ],
        "purge": "owned",
    },
    "virtual_addresses": {"links": [{"name": "vips", "up": True, "addresses": ["192.0.2.81"]}], "purge": "owned"},
}
BEFORE: dict[str, dict[str, Any]] = {
    "sysctls": {"sysctls": {"net.ipv4.tcp_keepalive_time": 600}},
    "iptables_chains": {
        "chains": [
            {"name": "OLD", "rules": ["-s 192.0.2.1 -j DROP", "-s 192.0.2.9 -j DROP"], "jumps": [{"chain": "FORWARD"}]},
            {"name": "GOES", "table": "nat", "jumps": [{"chain": "OUTPUT", "position": "last"}]},
        ]
    },
    "virtual_addresses": {
        "links": [{"name": "vips", "addresses": ["192.0.2.80"]}, {"name": "gone", "up": True, "addresses": ["192.0.2.90"]}]
    },
}
ALL = sorted(TASKS)


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    subprocess.run(["modprobe", "dummy", "numdummies=0"], check=True)
    FORWARD.write_text("0")
    KEEPALIVE.write_text("7200")
    yield
    for path in PENDING.iterdir() if PENDING.exists() else ():
        path.unlink()
    for module in ALL:
        for owner in ("ansible", "other"):
            run(module, purge="owned", owner=owner)
    wait(lambda: guards() == [])


def wait(what: Callable[[], object]) -> None:
    """Wait for something that will come; what does not is an error, not a hanging test."""
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


def guards() -> list[str]:
    """The processes that wait to undo something: copies of this one."""
    mine = Path("/proc/self/cmdline").read_bytes()
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if (directory / "cmdline").read_bytes() == mine and int(directory.name) != os.getpid():
                found.append(directory.name)
        except OSError:
            continue
    return found


def node() -> dict[str, Any]:
    """All that a task can change: kernel, files, ledgers."""
    rows: dict[str, Any] = {}
    for path in LEDGERS:
        if path.exists():
            ledger = sqlite3.connect(path)
            for table in ("claim", "note"):
                rows[f"{path} {table}"] = sorted(ledger.execute(f"SELECT * FROM {table}"))
            ledger.close()
    chains = subprocess.run(["iptables-save"], check=True, capture_output=True, text=True).stdout.splitlines()
    links = subprocess.run(["ip", "-json", "address"], check=True, capture_output=True, text=True).stdout
    return {
        "ledgers": {table: found for table, found in rows.items() if found},
        "sysctls": [FORWARD.read_text(), KEEPALIVE.read_text()],
        "files": {path.name: path.read_text() for path in Path("/etc/sysctl.d").glob("*kubenode*")},
        "chains": [line.split(" [")[0] for line in chains if line[0] != "#"],
        "links": sorted(
            (
                link["ifname"],
                "UP" in link["flags"],
                sorted(each["local"] for each in link["addr_info"] if each["scope"] != "link"),
            )
            for link in json.loads(links)
        ),
    }


def undone(path: str) -> dict[str, Any]:
    """Wait until the node has undone a change, and return what it says about it."""
    record = Path(f"{path}.undone")
    wait(lambda: record.exists() and "undone" in json.loads(record.read_text()))
    found: dict[str, Any] = json.loads(record.read_text())
    return found


@pytest.mark.parametrize("module", ALL)
def test_what_nobody_confirms_is_undone_and_the_ledger_is_as_before(module: str) -> None:
    run(module, **BEFORE[module])
    before = node()
    result = run(module, **TASKS[module], confirm_timeout=1)
    assert result["changed"]
    told = undone(result["confirm"]["path"])
    assert node() == before
    assert (len(told["undone"]), told["problems"]) == (len(result["plan"]), [])
    assert not Path(result["confirm"]["path"]).exists()  # it is too late to confirm
    again = run(module, **TASKS[module])
    assert again["plan"] == result["plan"]


@pytest.mark.parametrize("module", ALL)
def test_what_is_confirmed_stays(module: str) -> None:
    run(module, **BEFORE[module])
    result = run(module, **TASKS[module], confirm_timeout=600)
    after = node()
    assert len(guards()) == 1
    os.unlink(result["confirm"]["path"])
    wait(lambda: guards() == [])
    assert node() == after
    assert list(PENDING.iterdir()) == []
    assert run(module, **TASKS[module])["changed"] is False


@pytest.mark.parametrize("module", ALL)
def test_what_was_adopted_is_nobodys_again(module: str) -> None:
    if module == "iptables_chains":
        subprocess.run(["iptables", "-N", "OLD"], check=True)
    if module == "virtual_addresses":
        subprocess.run(["ip", "link", "add", "vips", "type", "dummy"], check=True)
        subprocess.run(["ip", "address", "add", "192.0.2.81/32", "dev", "vips"], check=True)
    before = node()
    arguments = TASKS[module] if module == "sysctls" else {**TASKS[module], "adopt": True}
    undone(run(module, **arguments, confirm_timeout=1)["confirm"]["path"])
    assert node() == before
    if module == "iptables_chains":
        subprocess.run(["iptables", "-X", "OLD"], check=True)
    if module == "virtual_addresses":
        subprocess.run(["ip", "link", "delete", "vips"], check=True)


def test_a_task_that_dies_in_the_middle_is_undone() -> None:
    before = node()
    child = os.fork()
    if child == 0:
        from ansible_collections.kubenode.ipvs.plugins.module_utils import _files

        def die(*_arguments: object) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        _files.write = die  # after the live value, before the file
        try:
            run("sysctls", **TASKS["sysctls"], confirm_timeout=2)
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    (path,) = PENDING.iterdir()
    told = undone(str(path).partition(".undone")[0])
    assert told["undone"] == ["~ sysctl net.ipv4.ip_forward: 1 -> 0"]
    assert node() == before


def test_what_somebody_changed_since_is_left_alone() -> None:
    result = run("sysctls", sysctls={"net.ipv4.ip_forward": 1, "net.ipv4.tcp_keepalive_time": 600}, confirm_timeout=1)
    KEEPALIVE.write_text("700")
    told = undone(result["confirm"]["path"])
    assert (FORWARD.read_text(), KEEPALIVE.read_text()) == ("0\n", "700\n")
    assert told["problems"] == ["sysctl net.ipv4.tcp_keepalive_time: not as the change left it"]


def test_as_long_as_a_change_waits_its_owner_waits() -> None:
    result = run("sysctls", **TASKS["sysctls"], confirm_timeout=600)
    path = result["confirm"]["path"]
    for module in ("sysctls", "virtual_addresses", "kernel_modules"):
        with pytest.raises(ModuleError, match=rf"waits for its confirmation .* by removing {path}; nothing was changed$"):
            run(module)
        run(module, owner="other")
        run(module, check=True)
    os.unlink(path)
    assert run("sysctls", **TASKS["sysctls"])["changed"] is False


def test_without_a_change_there_is_nothing_to_confirm() -> None:
    run("sysctls", **TASKS["sysctls"])
    assert "confirm" not in run("sysctls", **TASKS["sysctls"], confirm_timeout=1)
    assert "confirm" not in run("sysctls", sysctls={"net.ipv4.ip_forward": 0}, confirm_timeout=1, check=True)
    wait(lambda: guards() == [])
    assert FORWARD.read_text() == "1\n"


def test_a_refused_task_leaves_nothing_to_confirm() -> None:
    with pytest.raises(ModuleError, match="'many'"):
        run("sysctls", sysctls={"net.ipv4.ip_forward": 1, "net.ipv4.tcp_keepalive_time": "many"}, confirm_timeout=600)
    assert list(PENDING.iterdir()) == []
    wait(lambda: guards() == [])


@pytest.mark.parametrize("module", ALL)
@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("seconds", [0, 3601])
def test_a_time_that_is_none(module: str, seconds: int, check: bool) -> None:
    with pytest.raises(ModuleError, match=f"^task: confirm_timeout is {seconds}, expected 1 to 3600 seconds$"):
        run(module, **TASKS[module], confirm_timeout=seconds, check=check)


def test_a_task_that_ends_before_the_change_leaves_no_guard() -> None:
    run("sysctls", sysctls={"net.ipv4.ip_forward": 1}, owner="other")
    with pytest.raises(ModuleError, match="belongs to owner 'other'"):
        run("sysctls", sysctls={"net.ipv4.ip_forward": 0}, confirm_timeout=600)
    wait(lambda: guards() == [])


def test_without_a_place_for_the_decision_nothing_changes() -> None:
    PENDING.parent.mkdir(exist_ok=True)
    if PENDING.exists():
        PENDING.rmdir()
    PENDING.write_text("")
    try:
        with pytest.raises(ModuleError, match=r"cannot be written: .*; nothing was changed$"):
            run("sysctls", **TASKS["sysctls"], confirm_timeout=1)
    finally:
        PENDING.unlink()
    assert FORWARD.read_text() == "0\n"
