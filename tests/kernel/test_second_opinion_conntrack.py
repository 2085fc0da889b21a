# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's UDP flows, read by the engine and by pyroute2."""

from __future__ import annotations

import subprocess
from tempfile import NamedTemporaryFile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import properties  # noqa: F401
from support.processes.namespace import fresh, sh
from support.properties import of_a_kernel
from support.second_opinion import conntrack as second_opinion

from kubenode.engine.kernel.nfnetlink import conntrack

ports = st.integers(1, 0xFFFF)
hosts = {
    4: st.builds("10.{}.{}.{}".format, *[st.integers(0, 255)] * 2, st.integers(1, 254)),
    6: st.integers(1, 0xFFFF).map(lambda low: f"2001:db8::{low:x}"),
}


@st.composite
def entries(draw: st.DrawFn) -> str:
    """Draw the words of conntrack(8) for one entry, whose replies may come from another address and port."""
    host = hosts[draw(st.sampled_from((4, 6)))]
    source, destination, port, to = draw(host), draw(host), draw(ports), draw(ports)
    server, server_port = draw(st.one_of(st.just((destination, to)), st.tuples(host, ports)))
    protocol = draw(st.sampled_from(("udp", "udp", "udp", "tcp --state ESTABLISHED")))
    return (
        f"-I -p {protocol} -s {source} -d {destination} --sport {port} --dport {to} -r {server} -q {source}"
        f" --reply-port-src {server_port} --reply-port-dst {port} -t 600"
    )


@pytest.fixture(scope="module", autouse=True)
def _module() -> None:
    subprocess.run(["modprobe", "-a", "nf_conntrack_netlink"], check=True)


@of_a_kernel(40)
@given(st.lists(entries(), max_size=20, unique=True))
def test_udp_flows_read_as_with_pyroute2(made: list[str]) -> None:
    fresh()
    with NamedTemporaryFile("w") as file:
        file.writelines(f"{line}\n" for line in made)
        file.flush()
        sh("conntrack", "--load-file", file.name)
    seen = 0
    for family in (4, 6):
        flows = second_opinion.udp_flows(family)
        assert {second_opinion.from_engine(flow) for flow in conntrack.udp_flows(family)} == flows
        seen += len(flows)
    assert bool(seen) == any("udp" in line for line in made)
