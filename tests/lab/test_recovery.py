# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab command that is interrupted at any moment, in any way, leaves nothing that the next command does not remove."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Clone

UP = ("up", "test", "--node", "node1", "--client", "client")


@pytest.mark.parametrize("seconds", [0.1, 0.2, 0.3, 0.4, 0.6, 1.5])
def test_killed_while_coming_up_then_down(clone: Clone, seconds: float) -> None:
    with clone.started(*UP):
        time.sleep(seconds)
    clone.lab("down", "test")
    assert clone.left() == []


def test_killed_while_coming_up_then_clean(clone: Clone) -> None:
    with clone.started(*UP):
        clone.wait_for(clone.namespaces)
    assert clone.namespaces()
    clone.lab("clean")
    assert clone.left() == []


def test_killed_while_coming_up_then_up(clone: Clone) -> None:
    with clone.started(*UP):
        clone.wait_for(clone.namespaces)
    assert "not whole" in clone.lab("ls")
    assert "removing what is left" in clone.lab(*UP)
    assert clone.lab("ssh", "test", "node1", "hostname").strip() == "node1"


def test_killed_while_going_down_then_down(clone: Clone) -> None:
    clone.lab(*UP)
    for _ in range(3):
        with clone.started("down", "test"):
            time.sleep(0.15)
    clone.lab("down", "test")
    assert clone.left() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_lab_ended_while_coming_up_cleans_up(clone: Clone, number: signal.Signals) -> None:
    with clone.started(*UP) as process:
        clone.wait_for(clone.namespaces)
        process.send_signal(number)
        assert process.wait(timeout=120) == 128 + number
    assert clone.left() == []


def test_lost_record_is_cleaned_up(clone: Clone) -> None:
    clone.lab(*UP)
    (clone.run_directory / "test/lab.json").unlink()
    assert "not whole" in clone.lab("ls")
    clone.lab("down", "test")
    assert clone.left() == []


def test_lost_namespaces_are_recreated(clone: Clone) -> None:
    clone.lab(*UP)
    from lab import network

    network.remove(clone.namespaces())
    assert "damaged" in clone.lab("ls")
    clone.lab(*UP)
    assert clone.lab("ssh", "test", "node1", "true") == ""


def test_shared_ssh_connection_ends_with_the_lab(clone: Clone) -> None:
    clone.lab(*UP)
    clone.lab("ssh", "test", "node1", "true")
    assert any(line.startswith("ssh:") for line in clone.processes())
    clone.lab("down", "test")
    assert clone.left() == []


def test_killed_image_builder(clone: Clone) -> None:
    with clone.started("image", "--rebuild", "bookworm"):
        clone.wait_for(clone.building)
        time.sleep(3)
    clone.wait_for(lambda: not clone.processes())
    assert clone.mounts() == []
    clone.lab("clean")
    assert clone.left() == []
    assert clone.lab("image", "bookworm").count("image ready") == 0, "the finished image was lost"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ended_image_builder_removes_everything_itself(clone: Clone, number: signal.Signals) -> None:
    with clone.started("image", "--rebuild", "bookworm") as process:
        clone.wait_for(clone.building)
        time.sleep(3)
        process.send_signal(number)
        assert process.wait(timeout=120) == 128 + number
    assert clone.left() == []
