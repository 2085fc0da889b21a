# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The overlays of deploy/daemonset as a real kustomize builds them, beside the merge that other tests use."""

from __future__ import annotations

import pytest
from support.containers import kubectl
from support.containers.kustomize import DAEMONSET, OVERLAYS, overlay


@pytest.mark.parametrize("name", OVERLAYS)
def test_overlay_is_what_kustomize_builds(name: str) -> None:
    items = kubectl.kustomize(DAEMONSET / "overlays" / name, kubectl.program())
    built = {(item["kind"], item["metadata"]["name"]): item for item in items}
    assert {(item["kind"], item["metadata"]["name"]): item for item in overlay(name)} == built
