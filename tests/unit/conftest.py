# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of the property tests."""

from __future__ import annotations

import pytest
import support.properties  # noqa: F401


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the number of walks."""
    parser.addoption(
        "--walks",
        type=int,
        metavar="N",
        help="through how many random plans test_hitless.py walks (without it, some thirty, the same each time)",
    )
