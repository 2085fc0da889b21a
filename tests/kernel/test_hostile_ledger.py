# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ledger's directory while root works in it, owned by the agent's user or by any other user."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.processes.hostile import AGENT, NOBODY, act, acting, agents_directory, write_rows

from kubenode.engine import ledger as ledger_module
from kubenode.engine.errors import LedgerError, LockedError
from kubenode.engine.ledger import Ledger
from kubenode.engine.model.ipvs import VirtualServerKey
from kubenode.engine.node_lock import node_lock

SERVER = VirtualServerKey("tcp", "10.96.0.10", 80, 4)


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a directory that every user can read."""
    monkeypatch.setattr(ledger_module, "_ANSWER", 1.0)
    path = Path(tempfile.mkdtemp(prefix="kubenode-test-", dir="/run"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def directory(base: Path) -> Path:
    return agents_directory(base / "run")


@pytest.fixture
def victim(base: Path) -> Path:
    """Make a file that only root can read."""
    path = base / "victim"
    path.write_text("secret\n")
    path.chmod(0o600)
    return path


def is_untouched(path: Path) -> bool:
    status = path.stat()
    return (status.st_uid, status.st_gid, status.st_mode & 0o777, path.read_text()) == (0, 0, 0o600, "secret\n")


def hold(path: Path) -> None:
    fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX)


def read(path: Path) -> None:
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("BEGIN")
    database.execute("SELECT * FROM claim").fetchall()


@pytest.mark.parametrize("name", ["lock", "ledger.db"])
@pytest.mark.parametrize("mine", ["root", "agent"])
def test_ledger_files_are_readable_by_their_owner_only(base: Path, mine: str, name: str) -> None:
    directory = base / "run"
    directory.mkdir(mode=0o755)
    user = 0 if mine == "root" else AGENT
    os.chown(directory, user, user)
    path = directory / name
    for existing in (False, True):  # an earlier release made it world-readable
        if existing:
            path.chmod(0o644)
        with node_lock(str(directory)), closing(Ledger(str(directory))) as ledger:
            ledger.claim("agent", [("set", "ONE")])
        status = path.stat()
        assert (status.st_uid, status.st_mode & 0o777) == (user, 0o600)
        assert act(NOBODY, lambda: hold(path)) == "Permission denied"
    assert act(NOBODY, lambda: read(directory / "ledger.db")) == "unable to open database file"


def test_held_lock_names_its_holder(directory: Path) -> None:
    with node_lock(str(directory)):
        pass
    with acting(AGENT, lambda: hold(directory / "lock")) as holder:
        words = rf"lock .*/lock is held by pid {holder} \(.*\); wait for that process, or end it"
        with pytest.raises(LockedError, match=words), node_lock(str(directory), 0.1):
            pass


def test_held_ledger_names_its_holder(directory: Path) -> None:
    with closing(Ledger(str(directory))):
        pass
    with (
        acting(AGENT, lambda: read(directory / "ledger.db")) as holder,
        closing(Ledger(str(directory), 0.1)) as ledger,
        pytest.raises(
            LedgerError, match=rf"database is locked: it is held by pid {holder} \(.*\); wait for that process"
        ),
    ):
        ledger.claim("agent", [("set", "ONE")])


def test_removed_lock_is_not_held_twice(directory: Path) -> None:
    with node_lock(str(directory)):
        (directory / "lock").unlink()
        with node_lock(str(directory), 0.1) as second:
            assert os.fstat(second).st_ino == (directory / "lock").stat().st_ino


@pytest.mark.parametrize("name", ["lock", "ledger.db", "ledger.db-journal", "ledger.db-wal"])
@pytest.mark.parametrize("way", ["link", "dangling link", "named pipe"])
def test_replaced_file_gains_no_access(directory: Path, victim: Path, way: str, name: str) -> None:
    with node_lock(str(directory)), closing(Ledger(str(directory))) as ledger:
        ledger.claim("agent", [("set", "ONE")])
    made = victim.parent / "made"
    path = directory / name
    path.unlink(missing_ok=True)
    actions: dict[str, Callable[[], object]] = {
        "link": lambda: path.symlink_to(victim),
        "dangling link": lambda: path.symlink_to(made),
        "named pipe": lambda: os.mkfifo(path, 0o400),
    }
    assert act(AGENT, actions[way]) == "done"
    try:
        with node_lock(str(directory), 0.1), closing(Ledger(str(directory), 0.2)) as ledger:
            ledger.claim("agent", [("set", "TWO")])
    except LedgerError as error:
        message = str(error)
    else:
        message = ""
    assert "secret" not in message
    assert is_untouched(victim)
    assert not made.exists()


def test_swapped_link_gains_no_access(directory: Path, victim: Path) -> None:
    """chown by path could give any file of root's to the directory's owner."""
    script = f"""
import os
os.chdir({str(directory)!r})
while True:
    for name in ("ledger.db", "lock"):
        try:
            os.unlink(name)
        except OSError:
            pass
        try:
            os.symlink({str(victim)!r}, name)
            os.unlink(name)
        except OSError:
            pass
"""
    swapper = subprocess.Popen(["python3", "-IS", "-c", script], user=AGENT, group=AGENT, extra_groups=[])
    try:
        for _attempt in range(150):
            try:
                with node_lock(str(directory), 0.01), closing(Ledger(str(directory), 0.1)) as ledger:
                    ledger.claim("agent", [("set", "ONE")])
            except LedgerError:
                pass
            assert is_untouched(victim)
    finally:
        swapper.kill()
        swapper.wait()


FORGED = {
    "view without end": (
        "DROP TABLE claim",
        (
            "CREATE VIEW claim AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS kind, x"
            " AS key, x AS owner FROM c"
        ),
    ),
    "trigger": ("CREATE TRIGGER t AFTER INSERT ON claim BEGIN DELETE FROM claim; END",),
    "later release": ("PRAGMA user_version=99",),
}


@pytest.mark.parametrize("way", FORGED)
def test_forged_schema_is_refused(directory: Path, way: str) -> None:
    with closing(Ledger(str(directory))):
        pass
    write_rows(directory, [(text, ()) for text in FORGED[way]])
    with pytest.raises(LedgerError, match=r"ledger .*ledger\.db cannot be opened: .*; nothing was changed"):
        Ledger(str(directory))


def test_root_shares_a_ledger_with_its_owner(directory: Path) -> None:
    """The owner reads and writes root's rows, and both see each other's changes."""
    with closing(Ledger(str(directory))) as ledger:
        assert ledger.is_fresh
        ledger.claim("ansible", [("virtual_server", SERVER)])
        assert ledger.written_by_others()
        write_rows(directory, [("INSERT INTO claim VALUES ('set', '\"ONE\"', 'agent')", ())])
        assert ledger.written_by_others()
        assert ledger.others("") == {"virtual_server": {SERVER: "ansible"}, "set": {"ONE": "agent"}}
        ledger.note("ansible", "set", [("ONE", "text")])
        assert ledger.notes("ansible", "set") == {"ONE": "text"}
        ledger.rehearse("agent", [("set", "ONE")])
        assert ledger.owners() == {"agent": 1, "ansible": 1}
        ledger.forget("agent", [("set", "ONE")])
        assert ledger.is_current()
        (directory / "ledger.db").unlink()
        assert not ledger.is_current()
    assert {entry.name: entry.stat().st_uid for entry in directory.iterdir()} == {}
