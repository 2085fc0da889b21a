# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``confirm_timeout``: the node undoes a change that is not confirmed, and keeps a confirmed one.

The undo covers the kernel, files and the ledger.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel.modules import ModuleError, run
from support.processes.guarded import PENDING, claims, die, guards, killed, node, undone, wait
from support.processes.kernel import use_tables
from support.processes.namespace import sh
from support.tables.confirmed_tasks import BEFORE, TASKS

from ansible_collections.kubenode.ipvs.plugins.module_utils.engine import apply

FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
KEEPALIVE = Path("/proc/sys/net/ipv4/tcp_keepalive_time")
MODULES = (
    "dummy",
    "ip_vs",
    "ip_vs_rr",
    "ip_vs_wrr",
    "ip_vs_sh",
    "nf_conntrack",
    "ip_set",
    "xt_set",
    "xt_ipvs",
    "br_netfilter",
)
ALL = sorted(TASKS)
# Items that exist before an owner adopts them.
FOREIGN = {
    "iptables_chains": [["iptables", "-N", "OLD"], ["iptables", "-X", "OLD"]],
    "virtual_addresses": [["ip", "link", "add", "vips", "type", "dummy"], ["ip", "link", "delete", "vips"]],
    "ipvs_services": [["ipvsadm", "-A", "-t", "192.0.2.80:80", "-s", "wrr"], ["ipvsadm", "-D", "-t", "192.0.2.80:80"]],
    "ipsets": [["ipset", "create", "changes", "hash:ip", "maxelem", "600"], ["ipset", "destroy", "changes"]],
    "nft_tables": [["nft", "add", "table", "bridge", "changes"], ["nft", "delete", "table", "bridge", "changes"]],
    "service_proxy": [["ip", "link", "add", "kube-ipvs0", "type", "dummy"], ["ip", "link", "delete", "kube-ipvs0"]],
}


@pytest.fixture(scope="module", autouse=True)
def kernel() -> None:
    sh("modprobe", "-a", *MODULES)
    use_tables()


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    subprocess.run(["modprobe", "dummy", "numdummies=0"], check=True)
    FORWARD.write_text("0")
    KEEPALIVE.write_text("7200")
    yield
    for path in PENDING.iterdir() if PENDING.exists() else ():
        path.unlink()
    for owner in {owner for owner, _kind in claims()}:
        run("service_proxy", state="absent", owner=owner)
        run("sysctls", purge="owned", owner=owner)
        run("nft_tables", purge="owned", owner=owner)
    sh("ipvsadm", "--set", "900", "120", "300")
    wait(lambda: guards() == [])


@pytest.mark.parametrize("module", ALL)
def test_unconfirmed_change_is_undone_and_ledger_restored(module: str) -> None:
    run(module, **BEFORE[module])
    before = node()
    result = run(module, **TASKS[module], confirm_timeout=1)
    assert result["changed"]
    record = undone(result["confirm"]["path"])
    assert node() == before
    assert (len(record["undone"]), record["problems"]) == (len(result["plan"]), [])
    assert not Path(result["confirm"]["path"]).exists()  # too late to confirm
    again = run(module, **TASKS[module])
    assert again["lines"] == result["lines"]


@pytest.mark.parametrize("module", ALL)
def test_confirmed_change_stays(module: str) -> None:
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
def test_undone_adoption_leaves_items_unowned(module: str) -> None:
    foreign = FOREIGN.get(module, [])
    for command in foreign[:1]:
        sh(*command)
    before = node()
    arguments = TASKS[module] if module == "sysctls" else {**TASKS[module], "adopt": True}
    undone(run(module, **arguments, confirm_timeout=1)["confirm"]["path"])
    assert node() == before
    for command in foreign[1:]:
        sh(*command)


@pytest.mark.parametrize("module", ["ipsets", "service_proxy"])  # these two change all tables
def test_task_killed_after_its_changes_is_undone(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run(module, **BEFORE[module])
    before = node()
    carried_out = apply._run

    def dies(*arguments: Any, **options: Any) -> Any:
        result = carried_out(*arguments, **options)
        die()
        return result

    monkeypatch.setattr(apply, "_run", dies)
    path = killed(lambda: run(module, **TASKS[module], confirm_timeout=1))
    monkeypatch.undo()
    assert undone(path)["problems"] == []
    assert node() == before


def test_task_killed_between_its_changes_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible_collections.kubenode.ipvs.plugins.module_utils._module import files as _files

    before = node()
    monkeypatch.setattr(_files, "write", die)  # after the live value is set, before the file is written
    record = undone(killed(lambda: run("sysctls", **TASKS["sysctls"], confirm_timeout=1)))
    assert (record["undone"], record["problems"]) == (["~ sysctl net.ipv4.ip_forward: 1 -> 0"], [])
    assert node() == before


def test_task_killed_while_draining_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible_collections.kubenode.ipvs.plugins.module_utils._tasks import ipvs_drain as _ipvs_drain

    run("ipvs_services", **BEFORE["ipvs_services"])
    before = node()
    monkeypatch.setattr(_ipvs_drain.Drain, "_wait", die)  # weights are 0, nothing is removed yet
    record = undone(killed(lambda: run("ipvs_services", **TASKS["ipvs_services"], drain=True, confirm_timeout=1)))
    assert (
        "~ real server 198.51.100.1:80 of tcp 192.0.2.80:80: weight 0 masquerade -> weight 1 masquerade"
        in record["undone"]
    )
    assert record["problems"] == []
    assert node() == before


def test_items_changed_since_are_not_undone() -> None:
    result = run("sysctls", sysctls={"net.ipv4.ip_forward": 1, "net.ipv4.tcp_keepalive_time": 600}, confirm_timeout=1)
    KEEPALIVE.write_text("700")
    record = undone(result["confirm"]["path"])
    assert (FORWARD.read_text(), KEEPALIVE.read_text()) == ("0\n", "700\n")
    assert record["problems"] == ["sysctl net.ipv4.tcp_keepalive_time: another process has changed it since"]


def test_waiting_change_blocks_tasks_of_its_owner() -> None:
    result = run("sysctls", **TASKS["sysctls"], confirm_timeout=600)
    path = result["confirm"]["path"]
    waits = {"owner": "ansible", "path": path, "lines": result["lines"]}
    assert run("node_check")["unconfirmed"] == [waits]
    before = node()
    for module, arguments in {**TASKS, "kernel_modules": {}}.items():
        guard = {} if module == "kernel_modules" else {"confirm_timeout": 600}
        with pytest.raises(
            ModuleError, match=rf"waits for its confirmation, .* remove {path} to confirm it; nothing was changed$"
        ):
            run(module, **arguments, **guard)
    assert node() == before
    run("virtual_addresses", owner="other")
    run("sysctls", check=True)
    wait(lambda: len(guards()) == 1)
    assert run("node_check")["unconfirmed"] == [waits]
    os.unlink(path)
    assert run("sysctls", **TASKS["sysctls"])["changed"] is False
    assert run("node_check")["unconfirmed"] == []


def test_waiting_change_before_a_reboot_blocks_no_task() -> None:
    """Settings in files survive a reboot; /run is empty, and the guard is gone."""
    run("sysctls", **TASKS["sysctls"], confirm_timeout=600)
    (guard,) = guards()
    os.kill(guard, signal.SIGKILL)
    shutil.rmtree("/run/kubenode")
    shutil.rmtree("/run/kubenode-confirm")
    FORWARD.write_text("0")
    sh("sysctl", "--load", "/etc/sysctl.d/90-kubenode-ansible.conf")
    assert run("node_check")["unconfirmed"] == []
    assert run("sysctls", **TASKS["sysctls"], confirm_timeout=600)["changed"] is False


@pytest.mark.parametrize("module", ALL)
def test_unchanged_task_waits_for_no_confirmation(module: str) -> None:
    assert "confirm" not in run(module, **TASKS[module], confirm_timeout=1, check=True)
    run(module, **TASKS[module])
    before = node()
    assert "confirm" not in run(module, **TASKS[module], confirm_timeout=1)
    assert "confirm" not in run(module, **BEFORE[module], confirm_timeout=1, check=True)
    wait(lambda: guards() == [])
    assert node() == before


def test_pending_file_names_few_of_many_members(tmp_path: Path) -> None:
    path = tmp_path / "members"
    path.write_text("\n".join(f"10.0.{number >> 8}.{number & 255}" for number in range(5000)))
    wanted = {"name": "many", "type": "hash:ip", "src": str(path), "remote_src": True}
    result = run("ipsets", sets=[wanted], confirm_timeout=600)
    (waits,) = run("node_check")["unconfirmed"]
    assert waits["lines"] == [*result["lines"][:50], "and 4951 more"]
    os.unlink(result["confirm"]["path"])
    before = node()
    record = undone(run("ipsets", sets=[{"name": "many", "state": "absent"}], confirm_timeout=1)["confirm"]["path"])
    assert record["problems"] == []
    assert (len(record["undone"]), record["undone"][-1]) == (51, "and 4951 more")
    assert node() == before


def test_a_refused_task_leaves_nothing_to_confirm() -> None:
    with pytest.raises(ModuleError, match="'many'"):
        run("sysctls", sysctls={"net.ipv4.ip_forward": 1, "net.ipv4.tcp_keepalive_time": "many"}, confirm_timeout=600)
    assert list(PENDING.iterdir()) == []
    wait(lambda: guards() == [])


@pytest.mark.parametrize("module", ALL)
@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("seconds", [0, 3601])
def test_invalid_confirm_timeout_is_refused(module: str, seconds: int, check: bool) -> None:
    with pytest.raises(ModuleError, match=f"^task: confirm_timeout is {seconds}, expected 1 to 3600 seconds$"):
        run(module, **TASKS[module], confirm_timeout=seconds, check=check)


def test_task_ended_before_its_change_leaves_no_guard() -> None:
    run("sysctls", sysctls={"net.ipv4.ip_forward": 1}, owner="other")
    with pytest.raises(ModuleError, match="belongs to owner 'other'"):
        run("sysctls", sysctls={"net.ipv4.ip_forward": 0}, confirm_timeout=600)
    wait(lambda: guards() == [])


def test_unwritable_confirm_directory_prevents_the_change() -> None:
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
