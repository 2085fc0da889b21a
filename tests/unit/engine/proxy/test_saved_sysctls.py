# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Original sysctl values that a service proxy restores on removal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kubenode.engine.desired.node_facts import NodeFacts
from kubenode.engine.desired.settings import AGENT, KUBE_PROXY, parse
from kubenode.engine.desired.sysctls import MANAGED
from kubenode.engine.desired.sysctls import sysctls as wanted_sysctls
from kubenode.engine.errors import InputError, KernelError
from kubenode.engine.kernel import sysctls
from kubenode.engine.ledger import Ledger
from kubenode.engine.plan import Step
from kubenode.engine.proxy import saved_sysctls

ME = "proxy"
FORWARD, CONNTRACK = "net.ipv4.ip_forward", "net.ipv4.vs.conntrack"


@pytest.fixture
def lasting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of the ledger that survives a reboot; it does not exist yet."""
    monkeypatch.setattr(saved_sysctls, "LASTING", str(tmp_path / "lasting"))
    return tmp_path / "lasting"


@pytest.fixture
def ledger(tmp_path: Path, lasting: Path) -> Iterator[Ledger]:
    opened = Ledger(str(tmp_path / "run"))
    yield opened
    opened.close()


def back(ledger: Ledger, **live: str) -> dict[str, str]:
    values = {FORWARD: live.get("forward", "1"), CONNTRACK: live.get("conntrack", "1")}
    return dict(saved_sysctls.wanted_back(ledger, ME, {"sysctl": values})["sysctl"])


def change(ledger: Ledger, name: str, before: str | None, after: str) -> None:
    saved_sysctls.note(ledger, ME, [Step("sysctl", name, before, after), Step("set", "S", None, None)])


def test_first_original_value_is_saved(ledger: Ledger) -> None:
    change(ledger, FORWARD, "0", "2")
    change(ledger, FORWARD, "2", "1")
    assert saved_sysctls.names(ledger, ME) == [FORWARD]
    assert back(ledger) == {FORWARD: "0"}
    assert saved_sysctls.names(ledger, "another") == []


def test_sysctl_changed_since_is_not_restored(ledger: Ledger) -> None:
    change(ledger, FORWARD, "0", "1")
    change(ledger, CONNTRACK, "0", "1")
    assert back(ledger, forward="3") == {CONNTRACK: "0"}
    # the kernel module and its sysctls are gone
    assert dict(saved_sysctls.wanted_back(ledger, ME, {"sysctl": {}})["sysctl"]) == {}


def test_sysctl_of_a_task_is_not_restored(ledger: Ledger, lasting: Path) -> None:
    change(ledger, FORWARD, "0", "1")
    change(ledger, CONNTRACK, "0", "1")
    claims = Ledger(str(lasting), lasting=True)
    claims.claim("ansible", [("sysctl", FORWARD), ("file", "/etc/sysctl.d/90-kubenode-ansible.conf")])
    claims.close()
    assert back(ledger) == {CONNTRACK: "0"}


def test_claims_that_cannot_be_looked_up_are_an_error(ledger: Ledger, lasting: Path) -> None:
    """A task may have claimed the sysctl, whose value must not go back then."""
    change(ledger, FORWARD, "0", "1")
    lasting.symlink_to(lasting)
    with pytest.raises(KernelError, match=r"ledger: .*lasting/ledger\.db cannot be looked up: Too many levels"):
        back(ledger)


def test_forgotten_value_is_saved_again(ledger: Ledger) -> None:
    change(ledger, FORWARD, "0", "1")
    saved_sysctls.forget(ledger, ME)
    assert (saved_sysctls.names(ledger, ME), back(ledger)) == ([], {})
    change(ledger, FORWARD, "7", "1")
    assert back(ledger) == {FORWARD: "7"}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (".etc.kn-victim/conf", '["a", "b"]', "names a sysctl that no service proxy sets"),
        ("kernel.core_pattern", '["|/bin/x", "core"]', "names a sysctl that no service proxy sets"),
        ("net.core.somaxconn", '["1", "2"]', "names a sysctl that no service proxy sets"),
        (CONNTRACK, '["1\\n2", "1"]', "expected two numbers"),
        (CONNTRACK, '[1, "1"]', "expected two numbers"),
        (CONNTRACK, '{"0": 1, "1": 2}', "expected two numbers"),
        (CONNTRACK, "[" * 100_000, "expected two numbers"),
    ],
)
def test_forged_notes_are_ignored_and_named(ledger: Ledger, name: str, text: str, words: str) -> None:
    change(ledger, FORWARD, "0", "1")
    ledger.note(ME, "sysctl", [(name, text)])
    assert back(ledger) == {FORWARD: "0"}
    (problem,) = ledger.problems
    assert words in problem
    assert repr(name) in problem
    saved_sysctls.forget(ledger, ME)
    assert ledger.notes(ME, "sysctl") == {name: text}


@pytest.mark.parametrize("name", [".etc.x", "net.//.//.etc.x", "net..x", "net./", "", "net.x\0"])
def test_name_outside_of_proc_sys_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="expected a name below /proc/sys"):
        sysctls.path(name)


def test_all_sysctls_of_a_service_proxy_are_managed() -> None:
    conntrack = {"maxPerCore": 1, "min": 1, "tcpBeLiberal": True}
    times = ("tcpEstablishedTimeout", "tcpCloseWaitTimeout", "udpTimeout", "udpStreamTimeout")
    kube_proxy = {
        "apiVersion": KUBE_PROXY[0],
        "kind": KUBE_PROXY[1],
        "mode": "ipvs",
        "ipvs": {"strictARP": True},
        "conntrack": {**conntrack, **dict.fromkeys(times, "1h")},
    }
    agent = {"apiVersion": AGENT[0], "kind": AGENT[1], "localhostNodePorts": True}
    config, _warnings = parse([kube_proxy, agent])
    facts = NodeFacts(name="n", kernel="5.4.0", cpus=1 << 20, conntrack_buckets=1)
    assert set(wanted_sysctls(config, facts)) == MANAGED
