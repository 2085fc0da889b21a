# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts of a real ``kubeadm config validate`` on the role's documents, as recorded.

KUBENODE_TEST_KUBEADM=/path/to/kubeadm asks that kubeadm as well. Documents without a recorded verdict must be
recorded: see tests/support/kubeadm/real.py.
"""

from __future__ import annotations

import pytest
from support.kubeadm import real as kubeadm_real
from support.kubeadm.answers import Answer, read
from support.kubeadm.cases import CASES, VERSION

RECORDED = read("validated.json")


@pytest.fixture(params=["recorded", "live"] if kubeadm_real.KUBEADM else ["recorded"])
def live(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "live")


@pytest.mark.parametrize("name", CASES)
def test_recorded_kubeadm_judges_as_expected(name: str, live: bool) -> None:
    case = CASES[name]
    if live:
        answer = kubeadm_real.validate(case)
    else:
        was = dict(RECORDED["cases"][name])
        assert was.pop("documents") == case.documents(), "other documents than were judged"
        answer = Answer(**was)
    assert (answer.rc == 0) == (case.refused == ""), answer
    assert case.refused in " ".join(answer.stderr)
    assert case.refused or answer.stdout == ["ok"]


def test_recordings_match_the_cases() -> None:
    assert RECORDED["version"] == VERSION
    assert list(RECORDED["cases"]) == list(CASES)


def test_every_setting_is_judged() -> None:
    from ansible_collections.kubenode.ipvs.plugins.plugin_utils.kubeadm_settings import SETTINGS

    given = {name for case in CASES.values() if not case.refused for name in case.settings}
    assert set(SETTINGS) - given == {"kubernetes_version"}  # every case has a version
