# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return to this machine's network namespace after each test, so that the next test does not run in another one."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def back_to_the_machine() -> Iterator[None]:
    with open("/proc/thread-self/ns/net", "rb") as home:
        yield
        assert ctypes.CDLL(None).setns(home.fileno(), 0) == 0
