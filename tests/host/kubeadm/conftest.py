# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the tests of the role kubeadm."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.kubeadm.site import Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture(scope="session")
def first_node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a node on which the role has made a cluster."""
    site = Site(tmp_path_factory.mktemp("first"))
    made = site.run("--limit", "n1")
    assert made.status == 0, made.text
    return site.directory / "n1"


@pytest.fixture
def cluster(site: Site, first_node: Path) -> Site:
    """Return the three nodes after the role has made a cluster on n1."""
    shutil.copytree(first_node, site.directory / "n1", dirs_exist_ok=True)
    return site
