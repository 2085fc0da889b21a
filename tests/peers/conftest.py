# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests against programs of others have to be told: where the program is. They are not part of `make test`."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say which program, and how many random clusters."""
    parser.addoption("--kube-proxy", metavar="PATH", help="a kube-proxy; not below /tmp or /run, which are the kernel's own")
    parser.addoption("--clusters", type=int, default=10, metavar="N", help="how many random clusters (%(default)s)")
    parser.addoption("--first", type=int, default=0, metavar="SEED", help="the seed of the first of them (%(default)s)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        first = metafunc.config.getoption("--first")
        metafunc.parametrize("seed", range(first, first + metafunc.config.getoption("--clusters")))
