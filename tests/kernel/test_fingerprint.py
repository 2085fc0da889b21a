# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fingerprint of a table changes with that table's content, and with nothing else."""

from __future__ import annotations

import gc
import subprocess
from collections.abc import Iterator

import pytest

from kubenode.engine.kernel.iptables import fingerprint


def sh(command: str, text: str = "") -> str:
    return subprocess.run(command, shell=True, check=True, capture_output=True, text=True, input=text).stdout


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    sh("modprobe -a iptable_nat iptable_filter ip6table_nat ip6table_filter xt_comment")
    yield
    for tool in ("iptables", "ip6tables"):
        for table in ("nat", "filter"):
            sh(f"{tool}-legacy -t {table} -F; {tool}-legacy -t {table} -X")


def rules() -> bytes | None:
    return fingerprint("legacy")


@pytest.mark.parametrize("tool", ["iptables", "ip6tables"])
def test_rule_changes_change_the_fingerprint(tool: str) -> None:
    seen = [rules()]
    for arguments in (
        "-N OURS",
        "-A OURS -p tcp --dport 80 -m comment --comment one -j ACCEPT",
        "-A OURS -p tcp --dport 80 -m comment --comment two -j ACCEPT",
        "-I OUTPUT -j OURS",
        "-D OURS 1",
        "-t nat -N OURS",
        "-P FORWARD DROP",
    ):
        sh(f"{tool}-legacy {arguments}")
        assert rules() not in seen, arguments
        assert rules() == rules()
        seen.append(rules())
    sh(f"{tool}-legacy -P FORWARD ACCEPT")


def test_counters_and_other_tables_keep_the_fingerprint() -> None:
    sh(
        "iptables-legacy -N OURS; iptables-legacy -A OURS -p udp -j ACCEPT; iptables-legacy -I OUTPUT -j OURS;"
        " ip6tables-legacy -I OUTPUT -p udp -j"
        " ACCEPT"
    )
    before = rules()
    sh("bash -c 'echo x >/dev/udp/127.0.0.1/9; echo x >/dev/udp/::1/9'")
    assert "[0:0] -A OURS" not in sh("iptables-legacy-save -c -t filter")
    assert "[0:0] -A OUTPUT" not in sh("ip6tables-legacy-save -c -t filter")
    assert rules() == before
    sh("iptables-legacy -t mangle -N FOREIGN && iptables-legacy -t mangle -X FOREIGN")
    assert rules() == before


def test_fingerprint_leaves_no_reference_cycles() -> None:
    """The agent reads fingerprints at each comparison, and its garbage collector runs seldom."""
    rules()
    gc.collect()
    for number in range(3):
        rules()
        sh(f"iptables-legacy -N OURS{number}")  # entries of a different length
    assert gc.collect() == 0


def test_unreadable_table_has_no_fingerprint() -> None:
    command = ["unshare", "-U", "--", ".venv/bin/python", "-c"]
    program = "from kubenode.engine.kernel.iptables import fingerprint; print(fingerprint('legacy'))"
    ended = subprocess.run(
        [*command, program], check=False, capture_output=True, text=True, env={"PYTHONPATH": "agent/src"}
    )
    assert ended.stdout == "None\n", ended.stderr
