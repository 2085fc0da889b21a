# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses of API servers in configuration, kubeconfig and snapshot, for commands and modules that do not connect."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubenode.manifests.api_servers import host, named, remembered
from kubenode.sources.kubernetes import snapshot


def kubeconfig(path: Path, server: str, proxy: str = "", write: Any = json.dumps) -> str:
    others = [{"name": "other", "cluster": {"server": "https://198.51.100.99"}}, "junk", {"name": "one"}]
    config = {
        "kind": "Config",
        "current-context": "here",
        "contexts": [
            {"name": "there", "context": {"cluster": "other"}},
            {"name": "here", "context": {"cluster": "one"}},
        ],
        "clusters": [
            *others,
            {"name": "one", "cluster": {"server": server, **({"proxy-url": proxy} if proxy else {})}},
        ],
    }
    path.write_text(write(config))
    return str(path)


@pytest.mark.parametrize("write", [json.dumps, yaml.safe_dump])
@pytest.mark.parametrize(
    ("server", "proxy", "override", "addresses"),
    [
        ("https://192.0.2.10:6443", "", "", {"192.0.2.10"}),
        ("https://[2001:db8::0:1]:6443", "http://192.0.2.3:3128", "", {"2001:db8::1", "192.0.2.3"}),
        ("https://192.0.2.10", "", "https://192.0.2.11:6443", {"192.0.2.11"}),
        ("https://[::ffff:192.0.2.10]", "", "", {"192.0.2.10"}),
        ("https://api.example.com:6443", "", "", set()),
        ("https://[::1", "", "", set()),
    ],
)
def test_current_context_names_the_servers(
    tmp_path: Path, server: str, proxy: str, override: str, addresses: set[str], write: Any
) -> None:
    assert named(kubeconfig(tmp_path / "k", server, proxy, write), override) == (addresses, "")


def test_absent_kubeconfig_leaves_the_configured_server(tmp_path: Path) -> None:
    assert named(str(tmp_path / "none"), "https://192.0.2.11:6443") == ({"192.0.2.11"}, "")
    assert named("", "") == (frozenset(), "")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "expected a current-context with a cluster"),
        (b"[]", "expected a current-context with a cluster"),
        (b'{"current-context": ["x"], "contexts": 7}', "expected a current-context with a cluster"),
        (b'{"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "y"}}]}', "expected a current-"),
        (b"{", "line 1: not valid JSON: Expecting"),
        (b"\xff", "not text in UTF-8"),
        (b"[" * 100_000, "line 1: not valid JSON: nested too deeply"),
        (None, "cannot be read: Is a directory"),
    ],
)
def test_unusable_kubeconfig_is_named(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "k"
    path.mkdir() if content is None else path.write_bytes(content)
    addresses, trouble = named(str(path), "https://192.0.2.11")
    assert addresses == {"192.0.2.11"}
    assert trouble.startswith(f"kubeconfig {path}: {reason}")
    assert trouble.endswith("; the addresses of its API server are not reserved")


def test_host_of_an_invalid_url_is_none() -> None:
    assert host("https://[::1") == ""
    assert host("") == ""


def test_named_pipe_as_kubeconfig_does_not_block(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert named(str(path), "")[1]
    assert remembered(str(path)) == frozenset()


def test_snapshot_remembers_peers(tmp_path: Path) -> None:
    path = str(tmp_path / "snapshot")
    snapshot.write(path, "n1", "https://192.0.2.10:6443", [], ["2001:db8::1", "junk"])
    assert remembered(path) == {"192.0.2.10", "2001:db8::1"}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"server": "", "peers": 7}', b"\xff\n", b"[" * 100_000])
def test_other_files_have_no_remembered_peers(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "snapshot").write_bytes(content)
    assert remembered(str(tmp_path / "snapshot")) == frozenset()
    assert remembered(str(tmp_path)) == frozenset()
