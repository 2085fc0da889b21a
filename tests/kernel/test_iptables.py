# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The back end of iptables of a real kernel, legacy or nft."""

from __future__ import annotations

import pytest
from support.processes.kernel import IPTABLES

pytest.register_assert_rewrite("support.tables.iptables_cases")

from support.tables.iptables_cases import IptablesCases  # noqa: E402


class TestIptables(IptablesCases):
    backend = IPTABLES
