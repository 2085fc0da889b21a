# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that the caller gives to the benchmark, and the proxies' commands and configurations."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.proxies import programs
from bench.proxies.subjects import AGENT, IPVS, NFTABLES, NFTABLES_DEFAULT


@pytest.fixture
def executable(tmp_path: Path) -> str:
    path = tmp_path / "program"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_missing_programs_are_named_with_their_variables(executable: str) -> None:
    given = programs.from_environment({"KUBE_PROXY": executable})
    assert not given.has_api
    assert programs.missing(given) == (
        "Without kube-apiserver and etcd, only the agent is measured."
        " Give the programs with `make bench KUBE_PROXY=PATH KUBE_APISERVER=PATH ETCD=PATH`"
    )


def test_all_programs_leave_no_remark(executable: str) -> None:
    given = programs.from_environment(dict.fromkeys(programs.VARIABLES, executable))
    assert given.has_api
    assert programs.missing(given) == ""


def test_path_that_is_no_program_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"ETCD=.*/none: expected the path of an executable etcd"):
        programs.from_environment({"ETCD": str(tmp_path / "none")})


def test_agent_reads_the_configuration_of_the_ipvs_mode() -> None:
    (files,) = (word for word in AGENT.command if word.endswith(".json"))
    assert files == f"{IPVS.file}:{AGENT.file}"


def test_each_configuration_has_a_file_of_its_own() -> None:
    assert NFTABLES.file != NFTABLES_DEFAULT.file
    assert NFTABLES.configuration()["nftables"] == {"minSyncPeriod": "1ms"}
    assert "nftables" not in NFTABLES_DEFAULT.configuration()
