# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ledgers of the modules on disk are removed with their last entry."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from kernel.modules import run

LEDGER = Path("/var/lib/kubenode/ledger.db")


@pytest.fixture(autouse=True)
def clean() -> None:
    shutil.rmtree(LEDGER.parent, ignore_errors=True)


def test_last_owner_removes_the_lasting_ledger() -> None:
    run("sysctls", owner="one", sysctls={"net.ipv4.ip_forward": 1})
    run("sysctls", owner="two", sysctls={"net.ipv4.conf.all.arp_ignore": 1})
    run("sysctls", owner="one", purge="owned")
    run("sysctls", owner="two", purge="owned", check=True)
    assert LEDGER.exists()
    run("sysctls", owner="two", purge="owned")
    assert not LEDGER.exists()


def test_run_without_changes_leaves_no_ledger() -> None:
    run("kernel_modules", modules=[], purge="owned")
    assert not LEDGER.exists()
