# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The source of objects while the API is unreachable, and when it returns.

Known objects stay, and a restarted agent reads them from disk. The API's return changes only objects that differ.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.agent.watched_source import FAST, NODES, SERVICES, SLICES, WatchedSource, fill, service_names, services
from support.clusters import objects
from support.fakes.apiserver import FakeApiServer
from support.fakes.apiserver_http import Answer

Follow = Callable[..., WatchedSource]


def stored(path: Path, watched: WatchedSource) -> None:
    watched.until(lambda: path.exists() and path.read_bytes().count(b"\n") == len(watched.held) + 1)


def test_source_survives_an_api_outage(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 3)
    watched = follow().complete()
    port, kept = fake.port, fake.objects
    fake.close()
    watched.until(lambda: "cannot be reached: connection refused" in watched.source.problems.get(SERVICES, ""))
    assert "what is known of it stays in place" in watched.source.problems[SERVICES]
    assert services(watched) == service_names(3)
    assert watched.source.waiting == ""
    assert watched.source.unknown == set()
    again = FakeApiServer(version=fake.version, port=port, objects=kept)
    again.put(objects.service("new"))
    try:
        watched.until(lambda: "Service new" in watched.names)
        assert not any(changes.removed for changes in watched.changes)
        watched.until(lambda: not watched.source.problems)
    finally:
        watched.close()
        again.close()


def test_api_restored_from_backup_is_followed(fake: FakeApiServer, follow: Follow) -> None:
    """The source lists the objects again when the API was restored from a backup.

    A watch from the source's version would miss all changes until the API has that version again.
    """
    fill(fake, 3)
    backup, version, port = {kind: dict(items) for kind, items in fake.objects.items()}, fake.version, fake.port
    watched = follow(timing=FAST._replace(silence=60.0, watch=60.0)).complete()
    watched.until(lambda: fake.watching(SERVICES))
    fake.put(objects.service("lost"))
    watched.until(lambda: "Service lost" in watched.names)
    fake.version += 10
    fake.bookmark(SERVICES)
    reflector = watched.source._reflectors[0]
    watched.until(lambda: reflector._version == str(fake.version))
    fake.close()
    watched.until(lambda: "cannot be reached" in watched.source.problems.get(SERVICES, ""))
    again = FakeApiServer(version=version, port=port, objects=backup)
    again.put(objects.service("new"))
    try:
        watched.until(lambda: services(watched) == {*service_names(3), "Service new"})
        watched.until(lambda: again.watching(SERVICES) and not watched.source.problems)
    finally:
        watched.close()
        again.close()


def test_source_ends_promptly_in_every_state(fake: FakeApiServer, follow: Follow) -> None:
    fill(fake, 1)
    watched = follow(timing=FAST._replace(silence=60.0)).complete()
    watched.until(lambda: fake.watching(SERVICES))
    stalled = follow(begin=False)
    fake.stalled.add(SERVICES)
    stalled.source.start()
    time.sleep(0.1)
    watched.close()
    stalled.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(("watch", "snapshot", "events"))]
    fake.stalled.clear()


def test_start_without_the_api_restores_the_snapshot(fake: FakeApiServer, follow: Follow, tmp_path: Path) -> None:
    fill(fake, 3)
    first = follow().complete()
    stored(tmp_path / "objects.snapshot", first)
    first.close()
    fake.stalled.update((SERVICES, SLICES, NODES))
    fake.script = {path: [Answer(503, b"")] * 1000 for path in (SERVICES, SLICES, NODES)}
    second = follow()
    second.until(lambda: not second.source.waiting)
    second.until(lambda: second.names == first.names)
    assert second.held == first.held
    assert second.source.unknown == {SERVICES, SLICES}  # changes since then are unknown: nothing may be removed
    assert "are restored from" in second.source.problems["snapshot"]
    assert any("are restored from" in line for line in second.lines)
    seen = len(second.changes)
    with fake.lock:
        del fake.objects["Service"]["ns1", "web2"]
        fake.put(objects.service("new"))
        fake.stalled.clear()
        fake.script.clear()
    second.complete()
    second.until(lambda: services(second) == {"Service web0", "Service web1", "Service new"})
    changes = second.changes[seen:]
    assert [item["metadata"]["name"] for change in changes for item in change.put] == ["new"]
    assert [str(key) for change in changes for key in change.removed] == ["Service ns1/web2"]
    second.until(lambda: not second.source.problems)


def test_unresponsive_api_counts_as_away(
    fake: FakeApiServer, follow: Follow, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fill(fake, 1)
    first = follow().complete()
    stored(tmp_path / "objects.snapshot", first)
    first.close()
    monkeypatch.setattr("kubenode.sources.kubernetes.source._RESTORE_AFTER", 0.2)
    fake.stalled.update((SERVICES, SLICES, NODES))
    second = follow()
    second.until(lambda: not second.source.waiting)
    assert "are restored from" in second.source.problems["snapshot"]
    fake.stalled.clear()


def test_api_objects_precede_the_snapshot(fake: FakeApiServer, follow: Follow, tmp_path: Path) -> None:
    fill(fake, 2)
    first = follow().complete()
    stored(tmp_path / "objects.snapshot", first)
    first.close()
    fake.put(objects.service("web0", ["10.96.7.7"]))
    del fake.objects["Service"]["ns1", "web1"]
    fake.script[SLICES] = [Answer(503, b"")] * 1000
    second = follow()
    second.until(lambda: not second.source.waiting)
    second.until(lambda: services(second) == {"Service web0"})
    assert {item["spec"]["clusterIP"] for item in second.held.values() if item["kind"] == "Service"} == {"10.96.7.7"}
    assert "EndpointSlice web1-4" in second.names


def test_unusable_snapshot_is_reported_and_nothing_restored(
    fake: FakeApiServer, follow: Follow, tmp_path: Path
) -> None:
    (tmp_path / "objects.snapshot").write_bytes(b"{}\n")
    fake.script = {path: [Answer(503, b"")] * 1000 for path in (SERVICES, SLICES, NODES)}
    watched = follow()
    watched.until(lambda: any("is not a snapshot" in line for line in watched.lines))
    assert "answers 503" in watched.source.waiting


def test_unwritable_snapshot_is_only_a_problem(fake: FakeApiServer, follow: Follow, tmp_path: Path) -> None:
    fill(fake, 1)
    (tmp_path / "objects.snapshot.new").mkdir()
    watched = follow().complete()
    watched.until(lambda: "cannot be written" in watched.source.problems.get(str(tmp_path / "objects.snapshot"), ""))
    assert services(watched) == service_names(1)
    (tmp_path / "objects.snapshot.new").rmdir()
    fake.put(objects.service("new"))
    watched.until(lambda: not watched.source.problems)
