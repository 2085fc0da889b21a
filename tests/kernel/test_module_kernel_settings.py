# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module kernel_settings on the kernel: kernel_modules and sysctls in one run."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel.modules import ModuleError, converge, run

from ansible_collections.kubenode.ipvs.plugins.module_utils._tasks import sysctls as _sysctls_task
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.errors import KernelError
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.ledger import LASTING, Ledger

LOAD = Path("/etc/modules-load.d/kubenode-ansible.conf")
OPTIONS = Path("/etc/modprobe.d/kubenode-ansible.conf")
KEEP = Path("/etc/sysctl.d/90-kubenode-ansible.conf")
FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
CONNTRACK = Path("/proc/sys/net/ipv4/vs/conntrack")
SETTINGS = {"modules": ["ip_vs", "ip_vs_rr"], "sysctls": {"net.ipv4.ip_forward": 1, "net.ipv4.vs.conntrack": 1}}


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """Unload ip_vs and remove the module's files before and after each test."""
    FORWARD.write_text("0")
    yield
    run("kernel_settings", purge="owned")
    subprocess.run(["modprobe", "-r", "ip_vs_rr", "ip_vs"], check=True)
    shutil.rmtree("/var/lib/kubenode", ignore_errors=True)


def loaded() -> set[str]:
    return {line.split()[0] for line in Path("/proc/modules").read_text().splitlines()}


def test_sysctls_of_unloaded_modules_are_set() -> None:
    assert "ip_vs" not in loaded()
    foreseen = run("kernel_settings", check=True, **SETTINGS)
    assert "ip_vs" not in loaded()
    result = run("kernel_settings", **SETTINGS)
    assert {"ip_vs", "ip_vs_rr"} <= loaded()
    assert (FORWARD.read_text(), CONNTRACK.read_text()) == ("1\n", "1\n")
    assert LOAD.read_text().splitlines()[1:] == ["ip_vs", "ip_vs_rr"]
    assert KEEP.read_text().splitlines()[1:] == ["net.ipv4.ip_forward = 1", "net.ipv4.vs.conntrack = 1"]
    # The value before the change is known only once its module is loaded. Everything else is as check mode predicted.
    unknown = "+ sysctl net.ipv4.vs.conntrack: 1"
    known = "~ sysctl net.ipv4.vs.conntrack: 0 -> 1"
    assert unknown in foreseen["lines"]
    assert sorted({*foreseen["lines"]} - {unknown}) == sorted({*result["lines"]} - {known})
    assert result["states"] == {"ip_vs": "loaded", "ip_vs_rr": "loaded"}
    assert set(result["diff"]["after"]) >= {
        "kernel module ip_vs",
        "sysctl net.ipv4.ip_forward",
        f"file {LOAD}",
        f"file {KEEP}",
    }
    again = run("kernel_settings", **SETTINGS)
    assert (again["changed"], again["lines"], again["diff"]) == (False, [], {"before": {}, "after": {}})


def test_modules_or_sysctls_alone_are_set_and_purged() -> None:
    converge("kernel_settings", modules=["ip_vs", "ip_vs_rr"])
    converge("kernel_settings", sysctls=SETTINGS["sysctls"])
    assert run("kernel_settings", **SETTINGS)["changed"] is False
    # All three modules share the owner's claims.
    assert run("sysctls", sysctls=SETTINGS["sysctls"])["changed"] is False
    assert run("kernel_modules", modules=SETTINGS["modules"])["changed"] is False
    converge("kernel_settings", absent_sysctls=["net.ipv4.ip_forward"], absent_modules=["ip_vs_rr"])
    assert FORWARD.read_text() == "0\n"
    assert "ip_vs_rr" not in loaded()
    assert CONNTRACK.read_text() == "1\n"
    run("kernel_settings", purge="owned")
    assert "ip_vs" not in loaded()
    assert not LOAD.exists()
    assert not KEEP.exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sysctls": {"net.ipv4.no_such": 1}}, "sysctl net.ipv4.no_such does not exist in this kernel"),
        (
            {"sysctls": {"net.ipv4.ip_forward": True}},
            "sysctls[net.ipv4.ip_forward]: value is True, expected a number or a text",
        ),
        ({"modules": ["ip_vs", "no_such_module"]}, "has no module no_such_module"),
    ],
)
def test_invalid_options_change_nothing(settings: dict[str, object], message: str) -> None:
    for check in (True, False):
        with pytest.raises(ModuleError, match=message.replace("[", r"\[").replace("]", r"\]")):
            run("kernel_settings", check=check, **{**SETTINGS, **settings})
        assert "ip_vs" not in loaded()
        assert FORWARD.read_text() == "0\n"
        assert not LOAD.exists()
        assert not KEEP.exists()


REFUSED = {**SETTINGS, "sysctls": {**SETTINGS["sysctls"], "net.ipv4.vs.sync_threshold": "9 3"}}


def test_refused_value_unloads_new_modules() -> None:
    """The undo also unloads the dependencies, whatever the order of names, and restores the files."""
    run("kernel_settings", modules=["dummy"], parameters={"dummy": {"numdummies": 0}})
    before = (sorted(loaded()), LOAD.read_text(), OPTIONS.read_text(), ours())
    modules = [*SETTINGS["modules"], "dummy", "ip_set_hash_ip", "ip_set"]
    given = {**REFUSED, "modules": modules, "parameters": {"ip_vs": {"conn_tab_bits": 9}}, "purge": "owned"}
    with pytest.raises(
        ModuleError, match=r"net\.ipv4\.vs\.sync_threshold: the kernel refused the value '9 3'"
    ) as error:
        run("kernel_settings", **given)
    undone = error.value.result["undone"]
    assert {"- kernel module ip_vs", "- kernel module ip_set", "~ sysctl net.ipv4.ip_forward: 1 -> 0"} <= set(undone)
    assert str(error.value).endswith(f"; {len(undone)} earlier step(s) were undone")
    assert FORWARD.read_text() == "0\n"
    assert not KEEP.exists()
    assert (sorted(loaded()), LOAD.read_text(), OPTIONS.read_text(), ours()) == before


def test_refused_value_reloads_unloaded_modules() -> None:
    run("kernel_settings", modules=["ip_vs", "ip_vs_rr"], parameters={"ip_vs": {"conn_tab_bits": 9}})
    before = (ours(), LOAD.read_text(), OPTIONS.read_text())
    with pytest.raises(ModuleError, match="the kernel refused the value"):
        run("kernel_settings", absent_modules=["ip_vs_rr"], sysctls=REFUSED["sysctls"])
    assert {"ip_vs", "ip_vs_rr"} <= loaded()
    assert (ours(), LOAD.read_text(), OPTIONS.read_text()) == before


def test_module_in_use_stays_after_undo_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_arguments: object) -> None:
        subprocess.run(["ipvsadm", "-A", "-t", "192.0.2.1:80", "-s", "rr"], check=True)
        raise KernelError("a table is closed; nothing was changed")

    monkeypatch.setattr(_sysctls_task.Task, "converge", refused)
    try:
        with pytest.raises(ModuleError) as error:
            run("kernel_settings", **SETTINGS)
        message = (
            r"a table is closed; \d+ earlier step\(s\) were undone; could not be undone: - kernel module ip_vs_rr:"
            r" kernel module ip_vs_rr: "
        )
        assert re.match(message, str(error.value))
        assert {"ip_vs", "ip_vs_rr"} <= loaded()
        assert not LOAD.exists()
        assert ours() == {"kernel_module": {"ip_vs", "ip_vs_rr"}}
    finally:
        subprocess.run(["ipvsadm", "-C"], check=True)


def ours() -> dict[str, set[Any]]:
    """Return the ledger's claims; an empty dictionary if there is no ledger."""
    if not Path(LASTING, "ledger.db").exists():
        return {}
    ledger = Ledger(LASTING)
    try:
        return ledger.owned("ansible")
    finally:
        ledger.close()
