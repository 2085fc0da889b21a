# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The back end of iptables of a real kernel, legacy or nft."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.processes.faults import Fault, in_child
from support.processes.kernel import IPTABLES, use_tables
from support.processes.namespace import fresh

from kubenode.engine.errors import KernelError
from kubenode.engine.kernel import iptables

pytest.register_assert_rewrite("support.tables.iptables_cases")

from support.tables.iptables_cases import IptablesCases  # noqa: E402


def test_output_that_iptables_save_could_not_write_is_refused(tmp_path: Path) -> None:
    """iptables-save ends with status 0 then; the chains would count as gone."""
    fresh()
    use_tables()

    def read() -> int:
        try:
            iptables.read(families=(4,))
        except KernelError as error:
            print(error)
            return 1
        return 0

    assert in_child(Fault("write", "", "1"), tmp_path, read).status == 0
    refused = in_child(Fault("write", "EPIPE", "1"), tmp_path, read)
    assert refused.status == 1, refused
    # The first output of each process is lost. To find the tables of iptables-nft, its back end is asked for, too.
    lost = {
        "legacy": "iptables-save printed nothing, expected the tables in ",
        "nft": "iptables --version printed nothing",
    }
    assert lost[IPTABLES] in refused.output


class TestIptables(IptablesCases):
    backend = IPTABLES
