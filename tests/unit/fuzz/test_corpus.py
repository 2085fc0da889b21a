# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kept examples: every input that the fuzzer has found runs again, without the fuzzer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fuzz.target import bounded, check
from fuzz.targets import MODULES, load

CORPUS = Path(__file__).resolve().parents[2] / "fuzz/corpus"
EXAMPLES = sorted(path for path in CORPUS.glob("*/*") if path.is_file())


@pytest.fixture(autouse=True)
def keep_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore the transports that targets replace."""
    from fuzz.targets import nftables, tables

    from kubenode.engine.kernel.ipset import dump, tool
    from kubenode.engine.kernel.iptables import tool as rules_tool
    from kubenode.engine.kernel.ipvs import connection
    from kubenode.engine.kernel.nfnetlink import conntrack
    from kubenode.engine.kernel.rtnetlink import addresses
    from kubenode.sources.kubernetes import api

    for module, name in (
        (addresses, "NetlinkSocket"),
        (conntrack, "NetlinkSocket"),
        (dump, "NetlinkSocket"),
        (nftables.nft_read, "NetlinkSocket"),
        (nftables.nft_read, "sleep"),
        (connection, "GenericSocket"),
        (tool, "run"),
        (rules_tool, "run"),
        (tables.set_read, "query"),
        (tables.set_read, "forced"),
        (tables.rules_read, "save"),
        (api, "Connection"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name))
    with bounded():
        yield


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_kept_example_raises_only_documented_errors(path: Path) -> None:
    find = check(load(path.parent.name), path.read_bytes())
    assert find is None, f"{find.signature}\n{find.text}"


@pytest.mark.parametrize("name", MODULES)
def test_seeds_raise_only_documented_errors(name: str) -> None:
    target = load(name)
    finds = [find for find in (check(target, seed) for seed in target.seeds) if find is not None]
    assert not finds, "\n".join(f"{find.signature}\n{find.text}" for find in finds)


def test_each_directory_of_examples_is_a_target() -> None:
    assert {path.parent.name for path in EXAMPLES} <= set(MODULES)
