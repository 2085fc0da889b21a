# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random IPVS tables: all values that the model supports and the kernel accepts."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kubenode.engine.kernel import ipvs
from kubenode.engine.model.ipvs import (
    FORWARDING_METHODS,
    HASHED,
    LARGEST_THRESHOLD,
    TUNNEL_TYPES,
    RealServer,
    RealServerKey,
    VirtualServer,
    VirtualServerKey,
)
from kubenode.engine.plan import Step

# Schedulers of Linux 6.1; twos came with 6.2.
NOTHING: dict[str, dict[Any, Any]] = {"virtual_server": {}, "real_server": {}}
WEB = VirtualServerKey("tcp", "10.96.0.10", 80, 4)
DNS = VirtualServerKey("udp", "10.96.0.10", 53, 4)
REAL = RealServerKey(WEB, "10.244.1.5", 8080)
SCHEDULERS = ("rr", "wrr", "lc", "wlc", "fo", "ovf", "lblc", "lblcr", "dh", "sh", "sed", "nq", "mh")
U32 = 0xFFFFFFFF

ports = st.integers(0, 0xFFFF)
hosts4 = st.builds("10.{}.{}.{}".format, *[st.integers(0, 255)] * 2, st.integers(1, 254))
hosts6 = st.integers(1, 0xFFFF).flatmap(
    lambda low: st.sampled_from((f"2001:db8::{low:x}", f"2001:db8:{low:x}::1", f"fd00::{low:x}:1"))
)
hosts = {4: hosts4, 6: hosts6}


@st.composite
def virtual_server_keys(draw: st.DrawFn) -> VirtualServerKey:
    family = draw(st.sampled_from((4, 6)))
    protocol = draw(st.sampled_from(("tcp", "udp", "sctp", "fwmark")))
    if protocol == "fwmark":
        return VirtualServerKey(protocol, "", draw(st.integers(1, U32)), family)
    return VirtualServerKey(protocol, draw(hosts[family]), draw(st.integers(1, 0xFFFF)), family)


@st.composite
def virtual_servers(draw: st.DrawFn, family: int) -> VirtualServer:
    return VirtualServer(
        draw(st.sampled_from(SCHEDULERS)),
        draw(st.integers(0, 0x3F)) & ~HASHED,
        draw(st.integers(0, 4294967)),
        draw(st.integers(1, 128) if family == 6 else st.integers(0, 32)),
        draw(st.sampled_from(("", "", "", "sip"))),
    )


@st.composite
def real_servers(draw: st.DrawFn, methods: tuple[str, ...] = FORWARDING_METHODS) -> RealServer:
    kind = draw(st.sampled_from(TUNNEL_TYPES))
    upper = draw(st.integers(0, LARGEST_THRESHOLD))
    return RealServer(
        draw(st.integers(0, 0x7FFFFFFF)),
        draw(st.sampled_from(methods)),
        upper,
        draw(st.integers(0, upper)),
        kind,
        draw(st.integers(1 if kind == "gue" else 0, 0xFFFF)),
        draw(st.integers(0, 0xFFFF)),
    )


@st.composite
def tables(draw: st.DrawFn) -> dict[str, dict[Any, Any]]:
    """Draw a state of a few virtual servers with a few real servers each.

    Real servers of the other family are reached by tunnels.
    """
    servers = {key: draw(virtual_servers(key.family)) for key in draw(st.sets(virtual_server_keys(), max_size=6))}
    reals = {}
    for server in servers:
        for family, address in draw(
            st.sets(st.sampled_from((4, 6)).flatmap(lambda f: st.tuples(st.just(f), hosts[f])), max_size=4)
        ):
            methods = FORWARDING_METHODS if family == server.family else ("tunnel",)
            reals[RealServerKey(server, address, draw(ports))] = draw(real_servers(methods))
    return {"virtual_server": servers, "real_server": reals}


def create(key: Any, value: Any) -> Step:
    """Return the step that creates one item."""
    return Step("real_server" if isinstance(key, RealServerKey) else "virtual_server", key, None, value)


def write(state: dict[str, dict[Any, Any]]) -> None:
    """Create the table from an empty one."""
    result = ipvs.apply(creations(state))
    assert [failure.message for failure in result.failed] == []
    assert result.done == creations(state)


def creations(state: dict[str, dict[Any, Any]]) -> list[Step]:
    """Return the steps that create a table from an empty one."""
    return [
        Step(kind, key, None, value) for kind in ("virtual_server", "real_server") for key, value in state[kind].items()
    ]
