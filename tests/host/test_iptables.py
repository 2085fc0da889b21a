# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nft back end of iptables, in network namespaces of this machine.

The kernel of tests/kernel has no nf_tables for IPv4.
"""

from __future__ import annotations

import os

import pytest

pytest.register_assert_rewrite("support.tables.iptables_cases")

from support.tables.iptables_cases import IptablesCases  # noqa: E402

from kubenode.engine.kernel import iptables  # noqa: E402
from kubenode.engine.model.iptables import ChainKey  # noqa: E402
from kubenode.engine.plan import plan  # noqa: E402


class TestNft(IptablesCases):
    backend = "nft"

    @pytest.fixture(autouse=True)
    def namespace(self, tmp_path, monkeypatch) -> None:
        for program in ("iptables", "ip6tables"):
            for verb in ("", "-save", "-restore"):
                (tmp_path / f"{program}{verb}").symlink_to(f"/usr/sbin/{program}-nft{verb}")
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        super().namespace.__wrapped__(self)

    def test_iptables_back_end_can_be_chosen(self) -> None:
        want = {"chain": {ChainKey(4, "filter", "OURS"): ("-j DROP",)}}
        for chosen, other in (("legacy", "nft"), ("nft", "legacy")):
            iptables.choose(chosen)
            try:
                assert iptables.version().backend == chosen
                assert iptables.apply(plan({}, want, {}).steps).failed == []
                assert iptables.read([4])["chain"][ChainKey(4, "filter", "OURS")] == ("-j DROP",)
                iptables.choose(other)
                assert ChainKey(4, "filter", "OURS") not in iptables.read([4])["chain"]
                iptables.choose(chosen)
                assert iptables.apply([step.inverse() for step in plan({}, want, {}).steps]).failed == []
            finally:
                iptables.choose("")

    def test_refusal_of_a_later_table_leaves_the_earlier_one_done(self, strike) -> None:
        """iptables-nft commits one table after the other; here the kernel refuses the second one."""
        want = {"chain": {ChainKey(4, table, "OURS"): ("-j RETURN",) for table in ("filter", "nat")}}
        steps = plan({}, want, {}).steps
        strike("iptables-restore", "sendmsg:error=EPERM:when=2")
        result = iptables.apply(steps)
        assert result.done == [steps[0]]
        assert [(failure.step, failure.message) for failure in result.failed] == [
            (steps[1], "iptables needs root (the capability CAP_NET_ADMIN in this network namespace)")
        ]
        assert iptables.read([4])["chain"][steps[0].key] == ("-j RETURN",)
