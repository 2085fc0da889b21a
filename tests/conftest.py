# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""For all tests: what hypothesis remembers of failures is kept where everything else is that a run leaves behind."""

from __future__ import annotations

from pathlib import Path

from hypothesis import configuration

configuration.set_hypothesis_home_dir(Path(__file__).parents[1] / ".cache/hypothesis")
