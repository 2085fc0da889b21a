# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Size limits of a Service, checked by the lengths of its lists before virtual servers and endpoints multiply."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InputError
from ..kubernetes.objects import EndpointSlice, Service
from ..model.net import family
from .context import Context


def too_large(service: Service, slices: Sequence[EndpointSlice], contexts: Sequence[Context]) -> str:
    """Return why a Service is refused because of too many virtual or real servers; "" if it is served.

    The counts come from the lengths of its lists. Addresses that the address policy leaves out later count, too.
    """
    virtual = real = 0
    for context in contexts:
        fam = context.family
        if not any(family(ip) == fam for ip in service.cluster_ips):
            continue
        addresses = 1 + sum(family(ip) == fam for ip in (*service.external_ips, *service.load_balancer_ips))
        node_ports = sum(port.node_port > 0 for port in service.ports)
        count = len(service.ports) * addresses + node_ports * len(context.node_port_ips)
        virtual += count
        real += count * sum(len(piece.endpoints) for piece in slices if piece.family == fam)
    subject = f"Service {service.namespace}/{service.name}"
    for what, count, setting, most in (
        (
            "virtual servers (ports x addresses)",
            virtual,
            "maxVirtualServersPerService",
            contexts[0].config.max_virtual_servers,
        ),
        (
            "real servers (virtual servers x endpoints)",
            real,
            "maxRealServersPerService",
            contexts[0].config.max_real_servers,
        ),
    ):
        if count > most:
            return str(
                InputError(
                    subject,
                    "spec.ports",
                    f"{count} {what}",
                    f"at most {most}: use several Services, or raise {setting}",
                )
            )
    return ""
