# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kubenode.engine import node_lock as locks
from kubenode.engine.errors import ConflictError, LedgerError
from kubenode.engine.ledger import Ledger
from kubenode.engine.model.ipvs import RealServerKey, VirtualServerKey
from kubenode.engine.node_lock import node_lock

SERVER = VirtualServerKey("tcp", "10.96.0.10", 80, 4)
REAL = RealServerKey(SERVER, "10.244.1.5", 8080)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(str(tmp_path))
    yield opened
    opened.close()


def test_keys_are_read_back_unchanged(ledger: Ledger) -> None:
    ledger.claim("agent", [("virtual_server", SERVER), ("set", "KUBE-CLUSTER-IP")])
    owned = ledger.owned("agent")
    assert owned == {"virtual_server": {SERVER}, "set": {"KUBE-CLUSTER-IP"}}
    assert isinstance(next(iter(owned["virtual_server"])), VirtualServerKey)
    ledger.note("agent", "real_server", [(REAL, "draining")])
    assert ledger.notes("agent", "real_server") == {REAL: "draining"}
    ledger.note("agent", "real_server", [(REAL, "")])
    assert ledger.notes("agent", "real_server") == {}


def test_two_owners_of_one_key_is_an_error_that_names_both(ledger: Ledger) -> None:
    ledger.claim("agent", [("virtual_server", SERVER)])
    with pytest.raises(
        ConflictError,
        match=r"virtual server tcp 10\.96\.0\.10:80 is wanted by owner 'site' but belongs to owner 'agent'",
    ):
        ledger.claim("site", [("set", "MINE"), ("virtual_server", SERVER)])
    assert ledger.owned("site") == {}
    assert ledger.others("site") == {"virtual_server": {SERVER: "agent"}}
    assert ledger.owners() == {"agent": 1}


def test_own_writes_do_not_count_as_foreign_changes(ledger: Ledger, tmp_path: Path) -> None:
    assert ledger.written_by_others()
    ledger.claim("agent", [("set", "ONE")])
    assert not ledger.written_by_others()
    other = Ledger(str(tmp_path))
    ledger.written_by_others()
    other.claim("site", [("set", "TWO")])
    other.close()
    assert ledger.written_by_others()
    assert ledger.others("agent") == {"set": {"TWO": "site"}}
    assert not ledger.written_by_others()


def test_only_the_owner_can_forget_a_claim(ledger: Ledger) -> None:
    ledger.claim("agent", [("set", "ONE")])
    ledger.forget("site", [("set", "ONE")])
    assert ledger.owned("agent") == {"set": {"ONE"}}
    ledger.forget("agent", [("set", "ONE")])
    assert ledger.owned("agent") == {}


def test_an_unreadable_ledger_is_reported(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(b"this is no database" * 100)
    with pytest.raises(LedgerError, match=r"ledger .*ledger\.db cannot be opened: .*nothing was changed"):
        Ledger(str(tmp_path))


def test_lock_that_cannot_be_looked_up_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "run"
    (tmp_path / "real").mkdir()
    directory.symlink_to(tmp_path / "real")
    take = locks._take

    def taken(handle: int, path: str, end: float) -> None:
        take(handle, path, end)
        directory.unlink()
        directory.symlink_to(directory)

    monkeypatch.setattr(locks, "_take", taken)
    with pytest.raises(LedgerError, match="run/lock cannot be taken: Too many levels"), node_lock(str(directory)):
        pytest.fail("the lock is held")


def test_the_lock_needs_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerError, match="cannot be opened"), node_lock(str(tmp_path / "file")):
        pass


def test_ledger_removal_needs_an_empty_ledger(tmp_path: Path) -> None:
    directory = tmp_path / "lib/kubenode"
    ledger = Ledger(str(directory))
    ledger.claim("edge", [("virtual_server", SERVER)])
    ledger.note("edge", "real_server", [(REAL, "12")])
    ledger.remove_if_empty()
    ledger.forget("edge", [("virtual_server", SERVER)])
    ledger.remove_if_empty()
    assert (directory / "ledger.db").exists(), "the note is still there"
    ledger.note("edge", "real_server", [(REAL, "")])
    ledger.remove_if_empty()
    ledger.close()
    assert not directory.exists()


# The schema of the release before user_version (commit d5d05fa), and the statements of that release.
BEFORE = """
CREATE TABLE IF NOT EXISTS claim (
    kind TEXT NOT NULL, key TEXT NOT NULL, owner TEXT NOT NULL, PRIMARY KEY (kind, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS note (
    owner TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (owner, kind, key)
) WITHOUT ROWID;
"""
KEY = '["tcp","10.96.0.10",80,4]'


def test_ledger_of_the_previous_release_is_read(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as database:
        database.executescript(BEFORE)
        database.execute("INSERT INTO claim (kind, key, owner) VALUES (?, ?, ?)", ("virtual_server", KEY, "agent"))
        database.execute(
            "INSERT OR REPLACE INTO note VALUES (?, ?, ?, ?)",
            ("agent", "sysctl", '"net.ipv4.ip_forward"', '["0", "1"]'),
        )
        database.commit()
    with closing(Ledger(str(tmp_path))) as ledger:
        assert ledger.owned("agent") == {"virtual_server": {SERVER}}
        assert ledger.notes("agent", "sysctl") == {"net.ipv4.ip_forward": '["0", "1"]'}
        assert (ledger.problems, ledger.is_fresh) == ([], False)


def test_previous_release_reads_the_current_ledger(tmp_path: Path) -> None:
    with closing(Ledger(str(tmp_path))) as ledger:
        ledger.claim("agent", [("virtual_server", SERVER)])
        ledger.note("agent", "real_server", [(REAL, "1.5")])
        ledger.ask_adoption("agent")
        with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as database:
            database.executescript(BEFORE)
            assert database.execute("SELECT kind, key FROM claim WHERE owner = 'agent'").fetchall() == [
                ("virtual_server", KEY)
            ]
            notes = database.execute(
                "SELECT key, text FROM note WHERE owner = 'agent' AND kind = 'real_server'"
            ).fetchall()
            assert notes == [(f'[{KEY},"10.244.1.5",8080]', "1.5")]
            database.execute(
                "INSERT OR REPLACE INTO note VALUES ('agent', 'sysctl', '\"net.ipv4.ip_forward\"', '[\"0\", \"1\"]')"
            )
            database.execute("DELETE FROM claim WHERE owner = 'agent'")
        assert ledger.owned("agent") == {}
        assert set(ledger.notes("agent", "sysctl")) == {"net.ipv4.ip_forward"}


@pytest.mark.parametrize(("version", "is_used"), [(2, True), (3, False)])
def test_ledger_of_a_later_release_is_refused(tmp_path: Path, version: int, is_used: bool) -> None:
    """The next version adds columns and tables; later versions are unknown."""
    with closing(Ledger(str(tmp_path))):
        pass
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as database:
        database.execute("ALTER TABLE claim ADD COLUMN since TEXT NOT NULL DEFAULT ''")
        database.execute("ALTER TABLE note ADD COLUMN since TEXT NOT NULL DEFAULT ''")
        database.execute("CREATE TABLE history (line TEXT)")
        database.execute(f"PRAGMA user_version={version}")
    if not is_used:
        with pytest.raises(
            LedgerError, match="version 3 of a later release, expected at most 2; install that release again"
        ):
            Ledger(str(tmp_path))
        return
    with closing(Ledger(str(tmp_path))) as ledger:
        ledger.claim("agent", [("virtual_server", SERVER)])
        ledger.note("agent", "real_server", [(REAL, "1.5")])
        assert ledger.owned("agent") == {"virtual_server": {SERVER}}
        assert ledger.notes("agent", "real_server") == {REAL: "1.5"}
