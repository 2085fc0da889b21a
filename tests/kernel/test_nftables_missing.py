# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kernel without what the tables of nftables need: named by ``kubenode check``, and ``auto`` takes iptables."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agent.process import AgentProcess
from support.processes.namespace import fresh, sh
from support.waiting import eventually

from kubenode.engine.kernel import nftables
from kubenode.engine.proxy.rules_backend import choose

HELPER = Path("/proc/sys/kernel/modprobe")


def loaded() -> list[str]:
    return [line.split()[0] for line in Path("/proc/modules").read_text().splitlines()]


def unload(*beginnings: str) -> bool:
    """Remove modules with these names, as far as nothing uses them; tell whether all are gone."""
    names = [name for name in loaded() if name.startswith(beginnings)]
    for name in names:
        os.system(f"rmmod {name} 2>/dev/null")
    return not any(name.startswith(beginnings) for name in loaded())


@pytest.fixture(autouse=True)
def _helper() -> Iterator[None]:
    """Enter a namespace without rules, and restore the kernel's loading of modules afterwards."""
    fresh()
    former = HELPER.read_text()
    yield
    HELPER.write_text(former)
    sh("modprobe", "-a", "nf_tables", "nft_numgen", "nft_masq", "nft_chain_nat")


@pytest.fixture
def without_commands() -> Iterator[None]:
    hidden = [os.path.realpath(str(shutil.which(command))) for command in ("iptables", "ipset")]
    for program in hidden:
        sh("mount", "--bind", "/dev/null", program)
    yield
    for program in hidden:
        sh("umount", program)


@pytest.mark.usefixtures("without_commands")
@pytest.mark.parametrize(
    ("modules", "missing"),
    [
        (("nft_numgen",), ["nft_numgen"]),
        (("nft_masq", "nft_numgen"), ["nft_masq", "nft_numgen"]),
        (("nft_", "nf_tables"), ["nf_tables"]),
    ],
    ids=["one", "two", "all"],
)
def test_missing_module_is_named_and_auto_takes_iptables(
    tmp_path: Path, modules: tuple[str, ...], missing: list[str]
) -> None:
    assert choose("auto", dict).backend == "nftables"
    eventually(lambda: unload(*modules))
    HELPER.write_text("/bin/false")
    assert nftables.missing_features() == missing
    choice = choose("auto", dict)
    assert (choice.backend, choice.reason) == ("iptables", f"nftables on this kernel lacks {', '.join(missing)}")
    agent = AgentProcess(tmp_path)
    agent.configure({}, rules={"backend": "nftables"})
    lines = agent.command("check", "--config", str(agent.config), "--run-dir", str(agent.run), expect=1).stdout
    for name in missing:
        assert f"FAIL  nftables on this kernel lacks {name}" in lines.splitlines()


@pytest.fixture
def without_sets(tmp_path: Path) -> Iterator[None]:
    """Hide the modules of sets from this kernel's index."""
    eventually(lambda: unload("xt_set", "ip_set"))
    index = Path(f"/lib/modules/{os.uname().release}/modules.dep")
    lines = index.read_text().splitlines(keepends=True)
    (tmp_path / "modules.dep").write_text("".join(line for line in lines if "ip_set" not in line))
    sh("mount", "--bind", str(tmp_path / "modules.dep"), str(index))
    yield
    sh("umount", str(index))


@pytest.mark.usefixtures("without_sets")
def test_auto_takes_nftables_on_a_kernel_without_sets() -> None:
    choice = choose("auto", dict)
    assert choice == ("nftables", "the kernel has no ip_set and no xt_set")


def test_check_leaves_the_kernel_as_it_was(tmp_path: Path) -> None:
    generation = nftables.generation()
    agent = AgentProcess(tmp_path)
    agent.configure({}, rules={"backend": "nftables"})
    lines = agent.command("check", "--config", str(agent.config), "--run-dir", str(agent.run), expect=None).stdout
    assert "ok    nftables: tables with sets, marks, masquerading and refusals could be made" in lines.splitlines()
    assert nftables.generation() == generation
    assert sh("nft", "list", "ruleset") == ""
