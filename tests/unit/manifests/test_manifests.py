# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A directory of manifests: the source reads only changed files, and an unreadable file changes nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.clusters import objects as make

from kubenode.manifests.directory import Manifests
from kubenode.manifests.documents import ObjectKey


def service(name: str, port: int = 80) -> dict[str, Any]:
    return make.service(name, ["10.96.0.1"], [make.port(port)])


def write(path: Path, *items: dict[str, Any]) -> None:
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps({"kind": "List", "items": list(items)}))
    temporary.rename(path)


def known(source: Manifests) -> dict[str, int]:
    """Return name and port of every valid object."""
    return {item["metadata"]["name"]: item["spec"]["ports"][0]["port"] for item in source.objects()}


def key(name: str) -> ObjectKey:
    return ObjectKey("Service", "ns1", name)


def test_objects_are_unknown_before_the_directory_exists(tmp_path: Path) -> None:
    source = Manifests(str(tmp_path / "manifests"))
    assert source.waiting
    assert source.scan() == ([], [])
    assert "manifests cannot be read: No such file" in source.waiting
    (tmp_path / "manifests").mkdir()
    write(tmp_path / "manifests/a.json", service("a"))
    assert len(source.scan({"whatever"}).put) == 1  # the first scan reads everything
    assert source.waiting == ""


def test_scan_returns_changes_only(tmp_path: Path) -> None:
    write(tmp_path / "a.json", service("a"), service("b"))
    write(tmp_path / "c.yaml", service("c"))
    (tmp_path / "notes.txt").write_text("{")
    (tmp_path / ".hidden.json").write_text("{")
    source = Manifests(str(tmp_path))
    assert len(source.scan().put) == 3
    assert source.scan() == ([], [])
    write(tmp_path / "a.json", service("a", 81))
    changes = source.scan({"a.json"})
    assert [item["metadata"]["name"] for item in changes.put] == ["a"]
    assert changes.removed == [key("b")]
    (tmp_path / "c.yaml").unlink()
    assert source.scan({"c.yaml"}).removed == [key("c")]
    assert known(source) == {"a": 81}


def test_a_file_is_read_only_if_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.json", service("a"))
    write(tmp_path / "b.json", service("b"))
    source = Manifests(str(tmp_path))
    source.scan()
    write(tmp_path / "b.json", service("b", 81))
    read = []
    original = Manifests._read
    monkeypatch.setattr(
        Manifests, "_read", lambda self, name, before: (read.append(name), original(self, name, before))[1]
    )
    source.scan()
    assert read == ["b.json"]


def test_bad_file_keeps_its_last_good_version(tmp_path: Path) -> None:
    write(tmp_path / "a.json", service("a"))
    source = Manifests(str(tmp_path))
    source.scan()
    (tmp_path / "a.json").write_text('{"kind": ')
    assert source.scan() == ([], [])
    assert known(source) == {"a": 80}
    assert source.unknown == set()
    assert source.problems["a.json"].startswith(f"{tmp_path}/a.json:1: not valid JSON")
    assert source.problems["a.json"].endswith("its last good version stays in place")
    write(tmp_path / "a.json", service("a", 82))
    assert len(source.scan().put) == 1
    assert source.problems == {}


def test_file_that_was_never_good_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    write(tmp_path / "b.json", service("b"))
    os.symlink("nowhere", tmp_path / "c.json")
    (tmp_path / "d.json").write_bytes(b"\xff\xfe")
    source = Manifests(str(tmp_path))
    source.scan()
    assert known(source) == {"b": 80}
    assert source.unknown == {"a.json", "c.json", "d.json"}
    assert "the link leads nowhere" in source.problems["c.json"]
    assert "UTF-8" in source.problems["d.json"]
    for name in ("a.json", "c.json", "d.json"):
        (tmp_path / name).unlink()
    source.scan()
    assert (source.unknown, source.problems) == (set(), {})


def test_irregular_file_does_not_block(tmp_path: Path) -> None:
    """Reading a pipe would block until a process writes."""
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "directory.yaml").mkdir()
    manifests = Manifests(str(tmp_path))
    assert manifests.scan() == ([], [])
    assert manifests.problems == {
        name: f"{tmp_path}/{name}: not a file; nothing of this file is known"
        for name in ("pipe.yaml", "directory.yaml")
    }


def test_first_of_two_files_with_one_object_counts(tmp_path: Path) -> None:
    write(tmp_path / "b.json", service("x", 2))
    source = Manifests(str(tmp_path))
    source.scan()
    write(tmp_path / "a.json", service("x", 1))
    assert len(source.scan().put) == 1
    assert known(source) == {"x": 1}
    assert source.problems == {"b.json": f"{tmp_path}/b.json: Service ns1/x is also in a.json, which counts"}
    (tmp_path / "a.json").unlink()
    changes = source.scan()
    assert changes.removed == []
    assert known(source) == {"x": 2}
    assert source.problems == {}


def test_removed_directory_keeps_its_objects(tmp_path: Path) -> None:
    directory = tmp_path / "manifests"
    directory.mkdir()
    write(directory / "a.json", service("a"))
    source = Manifests(str(directory))
    source.scan()
    directory.rename(tmp_path / "away")
    assert source.scan() == ([], [])
    assert source.waiting
    assert known(source) == {"a": 80}


def test_single_file_is_read(tmp_path: Path) -> None:
    write(tmp_path / "a.json", service("a"))
    source = Manifests(str(tmp_path / "a.json"))
    assert len(source.scan().put) == 1


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.none() | st.just("bad") | st.dictionaries(st.sampled_from("xyz"), st.integers(1, 3)),
        ),
        max_size=12,
    )
)
def test_changes_add_up_to_all_objects(tmp_path_factory: pytest.TempPathFactory, edits: list[Any]) -> None:
    """The changes of all scans add up to the objects of a fresh source."""
    directory = tmp_path_factory.mktemp("manifests")
    source = Manifests(str(directory))
    followed: dict[str, int] = {}
    for name, content in edits:
        path = directory / f"{name}.json"
        if content is None:
            path.unlink(missing_ok=True)
        elif content == "bad":
            path.write_text("{")
        else:
            write(path, *(service(item, port) for item, port in content.items()))
        changes = source.scan({path.name})
        for item in changes.put:
            followed[item["metadata"]["name"]] = item["spec"]["ports"][0]["port"]
        for gone in changes.removed:
            del followed[gone.name]
        assert followed == known(source)
