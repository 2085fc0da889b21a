# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of hypothesis for property tests: its files are in .cache, and it has no deadline.

Not a conftest.py for all: the import takes time and memory. In a user-mode kernel, a test with more memory takes longer
to start a tool.
"""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, Phase, configuration, settings

configuration.set_hypothesis_home_dir(Path(__file__).parents[2] / ".cache/hypothesis")
settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy machine")


def of_a_kernel(max_examples: int) -> settings:
    """Return the settings of a property that fills the tables of a real kernel."""
    return settings(
        max_examples=max_examples,
        deadline=None,
        database=None,
        phases=(Phase.explicit, Phase.generate),  # shrinking against a kernel takes minutes
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
