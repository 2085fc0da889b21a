# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests on this machine: one that goes into a network namespace does not take the next ones along."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def back_to_the_machine() -> Iterator[None]:
    with open("/proc/thread-self/ns/net", "rb") as home:
        yield
        assert ctypes.CDLL(None).setns(home.fileno(), 0) == 0
