# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fingerprint changes with what it is of, and with nothing else."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from kubenode.engine.kernel import fingerprint


def sh(command: str, text: str = "") -> str:
    return subprocess.run(command, shell=True, check=True, capture_output=True, text=True, input=text).stdout


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    sh("modprobe -a ip_set ip_set_hash_ip iptable_nat iptable_filter ip6table_nat ip6table_filter xt_comment")
    yield
    for tool in ("iptables", "ip6tables"):
        for table in ("nat", "filter"):
            sh(f"{tool} -t {table} -F; {tool} -t {table} -X")
    sh("ipset destroy")


def sets() -> bytes | None:
    return fingerprint.of_sets(["ONE", "TWO"])


def rules() -> bytes | None:
    return fingerprint.of_rules("legacy")


def test_sets() -> None:
    seen = [sets()]
    for command in (
        "ipset create ONE hash:ip",
        "ipset add ONE 10.0.0.1",
        "ipset add ONE 10.0.0.2",
        "ipset del ONE 10.0.0.1",
        "ipset create TWO hash:ip family inet6",
        "ipset flush ONE",
        "ipset destroy ONE",
        "ipset create ONE hash:ip maxelem 1000",
    ):
        sh(command)
        assert sets() not in seen, command
        assert sets() == sets()
        seen.append(sets())
    sh("ipset create FOREIGN hash:ip")
    sh("ipset add FOREIGN 10.0.0.1")
    assert sets() == seen[-1]


@pytest.mark.parametrize("tool", ["iptables", "ip6tables"])
def test_rules(tool: str) -> None:
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
        sh(f"{tool} {arguments}")
        assert rules() not in seen, arguments
        assert rules() == rules()
        seen.append(rules())
    sh(f"{tool} -P FORWARD ACCEPT")


def test_counters_and_other_tables_make_no_difference() -> None:
    sh("iptables -N OURS; iptables -A OURS -p udp -j ACCEPT; iptables -I OUTPUT -j OURS; ip6tables -I OUTPUT -p udp -j ACCEPT")
    before = rules()
    sh("bash -c 'echo x >/dev/udp/127.0.0.1/9; echo x >/dev/udp/::1/9'")
    assert "[0:0] -A OURS" not in sh("iptables-save -c -t filter")
    assert "[0:0] -A OUTPUT" not in sh("ip6tables-save -c -t filter")
    assert rules() == before
    sh("iptables -t mangle -N FOREIGN && iptables -t mangle -X FOREIGN")
    assert rules() == before


def test_what_cannot_be_asked_is_none() -> None:
    command = ["unshare", "-U", "--", ".venv/bin/python", "-c"]
    program = "from kubenode.engine.kernel import fingerprint as f; print(f.of_rules('legacy'), f.of_sets(['ONE']))"
    ended = subprocess.run([*command, program], check=False, capture_output=True, text=True, env={"PYTHONPATH": "agent/src"})
    assert ended.stdout == "None None\n", ended.stderr
