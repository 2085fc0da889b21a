# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of hypothesis for tests of properties: its files are in .cache, and no clock decides.

Not a conftest.py for all: it takes time to import, and memory, and the more of that a test has the longer it takes to
start a tool in a user-mode kernel.
"""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, configuration, settings

configuration.set_hypothesis_home_dir(Path(__file__).parents[2] / ".cache/hypothesis")
settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy machine")
