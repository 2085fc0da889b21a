# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which sysctls have their former values again when a service proxy goes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kubenode.engine import former
from kubenode.engine.ledger import Ledger
from kubenode.engine.plan import Step

ME = "proxy"
FORWARD, CONNTRACK = "net.ipv4.ip_forward", "net.ipv4.vs.conntrack"


@pytest.fixture
def lasting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the ledger is that outlives a reboot; there is none yet."""
    monkeypatch.setattr(former, "LASTING", str(tmp_path / "lasting"))
    return tmp_path / "lasting"


@pytest.fixture
def ledger(tmp_path: Path, lasting: Path) -> Iterator[Ledger]:
    found = Ledger(str(tmp_path / "run"))
    yield found
    found.close()


def back(ledger: Ledger, **live: str) -> dict[str, str]:
    values = {FORWARD: live.get("forward", "1"), CONNTRACK: live.get("conntrack", "1")}
    return dict(former.wanted_back(ledger, ME, {"sysctl": values})["sysctl"])


def change(ledger: Ledger, name: str, before: str | None, after: str) -> None:
    former.note(ledger, ME, [Step("sysctl", name, before, after), Step("set", "S", None, None)])


def test_the_first_change_counts(ledger: Ledger) -> None:
    change(ledger, FORWARD, "0", "2")
    change(ledger, FORWARD, "2", "1")
    assert former.names(ledger, ME) == [FORWARD]
    assert back(ledger) == {FORWARD: "0"}
    assert former.names(ledger, "another") == []


def test_what_somebody_changed_since_stays(ledger: Ledger) -> None:
    change(ledger, FORWARD, "0", "1")
    change(ledger, CONNTRACK, "0", "1")
    assert back(ledger, forward="3") == {CONNTRACK: "0"}
    assert dict(former.wanted_back(ledger, ME, {"sysctl": {}})["sysctl"]) == {}  # the kernel module is gone, and its sysctls


def test_what_a_task_wants_for_good_stays(ledger: Ledger, lasting: Path) -> None:
    change(ledger, FORWARD, "0", "1")
    change(ledger, CONNTRACK, "0", "1")
    claims = Ledger(str(lasting))
    claims.claim("ansible", [("sysctl", FORWARD), ("file", "/etc/sysctl.d/90-kubenode-ansible.conf")])
    claims.close()
    assert back(ledger) == {CONNTRACK: "0"}


def test_what_is_forgotten_is_remembered_anew(ledger: Ledger) -> None:
    change(ledger, FORWARD, "0", "1")
    former.forget(ledger, ME)
    assert (former.names(ledger, ME), back(ledger)) == ([], {})
    change(ledger, FORWARD, "7", "1")
    assert back(ledger) == {FORWARD: "7"}
