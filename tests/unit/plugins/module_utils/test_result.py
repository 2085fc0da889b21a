# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parameters in results."""

from __future__ import annotations

from ansible_collections.kubenode.ipvs.plugins.module_utils._module import result


def test_short_parameters_are_repeated_as_they_are() -> None:
    given = {
        "owner": "edge",
        "services": [{"address": "10.0.0.1", "real_servers": [{"address": "10.1.0.1"}] * 50}],
        "none": None,
    }
    assert result.brief(given) == given


def test_of_long_lists_the_length_is_repeated() -> None:
    given = {"sets": [{"name": "a", "members": [str(number) for number in range(100_000)]}], "list": [1] * 51}
    assert result.brief(given) == {"sets": [{"name": "a", "members": "100000 elements"}], "list": "51 elements"}
