# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The thread that answers HTTP, while the process has no free descriptor."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from support.processes.descriptors import no_free_descriptor

from kubenode.daemon import outputs
from kubenode.daemon.loop import Loop
from kubenode.daemon.outputs import http_thread

LATE = "kubenode.daemon.outputs.http_connection"


@pytest.fixture
def thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[http_thread.HttpThread]:
    monkeypatch.setattr(http_thread, "_LOAD_SECONDS", 3600.0)
    monkeypatch.delitem(sys.modules, LATE, raising=False)
    monkeypatch.delattr(outputs, "http_connection", raising=False)
    started = http_thread.HttpThread(Loop(), lambda: None, lambda _text: None)
    started.call(lambda: None)
    yield started
    started.close()


def test_load_without_descriptors_ends_no_thread(thread: http_thread.HttpThread) -> None:
    with no_free_descriptor():
        thread.call(http_thread._load)
        assert LATE not in sys.modules
    thread.call(http_thread._load)
    assert LATE in sys.modules
