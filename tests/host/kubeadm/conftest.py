# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the tests of the role kubeadm."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.kubeadm.site import Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)
