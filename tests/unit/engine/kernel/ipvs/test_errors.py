# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals of kernels that the lab does not have, in words."""

from __future__ import annotations

import errno

import pytest
from support.tables.ipvs_tables import REAL

from kubenode.engine.kernel.ipvs.attributes import Command
from kubenode.engine.kernel.ipvs.errors import explain
from kubenode.engine.model.ipvs import RealServer

SUBJECT = "real server 10.244.1.5:8080 of tcp 10.96.0.10:80: "


@pytest.mark.parametrize("command", [Command.NEW_DEST, Command.SET_DEST])
@pytest.mark.parametrize("code", [errno.EINVAL, errno.ERANGE])
@pytest.mark.parametrize(("upper", "lower"), [(2**31, 0), (2**32 - 1, 2**31)])
def test_refused_thresholds_are_named(command: int, code: int, upper: int, lower: int) -> None:
    """Linux >= 6.1.192 refuses thresholds of 2^31 and more."""
    message = explain(command, code, "real_server", REAL, RealServer(1, upper_threshold=upper, lower_threshold=lower))
    assert message == (
        f"{SUBJECT}the kernel refused a value (this kernel takes thresholds up to 2147483647; upper_threshold is"
        f" {upper}, lower_threshold is {lower})"
    )


def test_valid_thresholds_are_not_suspected() -> None:
    value = RealServer(1, upper_threshold=2**31 - 1, lower_threshold=2**31 - 1)
    message = explain(Command.NEW_DEST, errno.EINVAL, "real_server", REAL, value)
    assert message.endswith("(the address must be one host's: not multicast, not broadcast, not link-local)")
    message = explain(Command.NEW_DEST, errno.ERANGE, "real_server", REAL, RealServer(-1))
    assert message == (
        f"{SUBJECT}the kernel refused a value: the weight (-1) must not be negative, nor the lower threshold (0) be"
        " above the upper one (0)"
    )
