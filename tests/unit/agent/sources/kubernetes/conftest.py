# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fake API server, and a source with short timeouts that follows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.agent.watched_source import FAST, WatchedSource
from support.fakes.apiserver import FakeApiServer


@pytest.fixture
def fake() -> Iterator[FakeApiServer]:
    server = FakeApiServer()
    yield server
    server.close()


@pytest.fixture
def follow(fake: FakeApiServer, tmp_path: Path) -> Iterator[Callable[..., WatchedSource]]:
    """Start sources; stop all of them after the test."""
    started: list[WatchedSource] = []

    def start(url: str = "", *, begin: bool = True, timing: object = FAST, accessor: object = None) -> WatchedSource:
        source = WatchedSource(url or fake.url, tmp_path / "objects.snapshot", timing, accessor)
        started.append(source)
        if begin:
            source.source.start()
        return source

    yield start
    for watched in started:
        watched.close()
