# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bundle: the same content gives the same bytes, and it runs without other packages on the oldest Python."""

from __future__ import annotations

import importlib.util
import io
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def bundle() -> ModuleType:
    sys.path.insert(0, str(ROOT / "agent"))  # as when bundle.py runs as a script and imports sbom.py
    specification = importlib.util.spec_from_file_location("bundle", ROOT / "agent/bundle.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_bundle_bytes_depend_on_content_only(bundle: ModuleType) -> None:
    files = {"b": b"2", "a": b"1", "bin/x": b"3"}
    one = bundle.archive(files)
    assert one == bundle.archive(dict(reversed(files.items())))
    with tarfile.open(fileobj=io.BytesIO(one)) as tar:
        members = tar.getmembers()
    assert [member.name for member in members] == ["a", "b", "bin/x"]
    assert {(member.uid, member.gid, member.mtime) for member in members} == {(0, 0, bundle.EPOCH)}
    assert [oct(member.mode) for member in members] == ["0o644", "0o644", "0o755"]


def test_bundle_runs_without_the_repository(bundle: ModuleType, tmp_path: Path) -> None:
    files = bundle.contents()
    assert not [name for name in files if name.endswith((".so", ".pyc"))]
    assert "lib/kubenode/engine/model/ipvs.py" in files
    assert any(name.startswith("lib/pyyaml-") and "LICENSE" in name for name in map(str.lower, files)) or any(
        "licen" in name.lower() for name in files if name.startswith("lib/")
    )
    for name, data in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (tmp_path / "o.yaml").write_text(
        "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {clusterIP: 10.0.0.1, ports: [{port: 80}]}\n"
    )
    words = ["render", "--objects", str(tmp_path / "o.yaml"), "--node", "n", "--format", "addresses"]
    done = subprocess.run(
        [sys.executable, "-IS", str(tmp_path / "bin/kubenode"), *words],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )
    assert done.stdout == "10.0.0.1/32\n"
