# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The back end of iptables of a real kernel, legacy or nft."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.processes.kernel import IPTABLES, use_tables
from support.processes.namespace import fresh

from kubenode.engine.errors import KernelError
from kubenode.engine.kernel import iptables

pytest.register_assert_rewrite("support.tables.iptables_cases")

from support.tables.iptables_cases import IptablesCases  # noqa: E402


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Put a script before a program of iptables."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def put(name: str, command: str) -> None:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{command}\n")
        path.chmod(0o755)

    return put


def test_output_that_iptables_save_could_not_write_is_refused(program: Callable[[str, str], None]) -> None:
    """iptables-save ends with status 0 then; the chains would count as gone."""
    fresh()
    use_tables()
    lost = "strace -qq -o /dev/null -e trace=write -e inject=write:error=ENOMEM:when=1"
    program("iptables-save", f'exec {lost} /usr/sbin/iptables-{IPTABLES}-save "$@"')
    with pytest.raises(KernelError, match=r"^iptables-save printed nothing, expected the tables in "):
        iptables.read(families=(4,))


def test_version_that_iptables_could_not_write_is_refused(program: Callable[[str, str], None]) -> None:
    program("iptables", "exit 0")
    with pytest.raises(KernelError, match=r"^iptables --version printed nothing, expected its version and back end$"):
        iptables.version()


class TestIptables(IptablesCases):
    backend = IPTABLES
