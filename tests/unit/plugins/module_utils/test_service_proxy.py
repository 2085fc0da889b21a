# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sources of objects of service_proxy.

tests/kernel tests everything else.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.clusters import objects as make

from ansible_collections.kubenode.ipvs.plugins.module_utils._tasks.service_proxy import given_objects
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.errors import EngineError


def test_objects_come_from_the_task_and_from_files(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(make.service("a")))
    listed = [{"kind": "List", "apiVersion": "v1", "items": [make.service("b")]}, make.service("c")]
    assert [item["metadata"]["name"] for item in given_objects(listed, str(tmp_path))] == ["b", "c", "a"]


def test_duplicate_objects_are_refused(tmp_path: Path) -> None:
    both = [make.service("a"), make.piece("a", [], [])]
    (tmp_path / "a.json").write_text(json.dumps(both))
    with pytest.raises(
        EngineError, match=r"^in objects and in .*: Service ns1/a, EndpointSlice ns1/a-4; name each object once"
    ):
        given_objects(both, str(tmp_path))
