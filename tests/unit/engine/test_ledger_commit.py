# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commits that are written but fail at their last step.

SQLite reports an I/O error when the file cannot be unlocked (fcntl(2): EACCES).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.fakes.node import PaperNode

from kubenode.engine.apply import ApplyError, execute
from kubenode.engine.errors import LedgerError
from kubenode.engine.ledger import Ledger
from kubenode.engine.model.ipvs import VirtualServer, VirtualServerKey
from kubenode.engine.plan import plan

SERVER = VirtualServerKey("tcp", "10.96.0.10", 80, 4)
BEFORE = {"virtual_server": {SERVER: VirtualServer()}}


class Unlocking(sqlite3.Connection):
    """A connection whose commits are written and then fail, ``failing`` times."""

    failing = 0  # shared by all connections of this class

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        done = super().execute(sql, *arguments)
        if sql == "COMMIT" and Unlocking.failing:
            Unlocking.failing -= 1
            raise sqlite3.OperationalError("disk I/O error")
        return done


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **options: connect(*given, **options, factory=Unlocking))
    opened = Ledger(str(tmp_path))
    yield opened
    opened.close()


def next_commit_fails() -> None:
    Unlocking.failing = 1


def test_claim_whose_commit_fails_claims_nothing(ledger: Ledger) -> None:
    next_commit_fails()
    with pytest.raises(LedgerError, match="disk I/O error; nothing was changed"):
        ledger.claim("site", [("virtual_server", SERVER)])
    assert ledger.owned("site") == {}


def test_failed_claim_keeps_earlier_claims(ledger: Ledger) -> None:
    ledger.claim("site", [("virtual_server", SERVER)])
    next_commit_fails()
    with pytest.raises(LedgerError):
        ledger.claim("site", [("virtual_server", SERVER), ("set", "MINE")])
    assert ledger.owned("site") == {"virtual_server": {SERVER}}


def test_undone_removal_is_claimed_again(ledger: Ledger) -> None:
    node = PaperNode(BEFORE)
    ledger.claim("site", [("virtual_server", SERVER)])
    next_commit_fails()
    with pytest.raises(ApplyError, match="1 earlier step"):
        execute(plan(BEFORE, {}, ledger.owned("site")), node.tables, ledger, "site")
    assert node.state["virtual_server"] == BEFORE["virtual_server"]
    assert ledger.owned("site") == {"virtual_server": {SERVER}}
