# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for cluster DNS: a name server in the lab's namespace behind a Service, which asks the API server.

It knows the cluster's domain only. It has no cache, so that an answer is never older than the question.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dnslib import AAAA, CNAME, QTYPE, RCODE, RR, A, DNSRecord
from dnslib.server import DNSLogger, DNSServer
from lab import netns

from .dns_records import lookup
from .settings import DNS, HOST

if TYPE_CHECKING:
    from .api import Api
    from .control_plane import ControlPlane

NAMESPACE, SERVICE, PORT = "kube-system", "kube-dns", 53
_TTL = 1  # seconds
_MAX_ALIASES = 4


class _Resolver:
    def __init__(self, api: Api) -> None:
        self._api = api

    def resolve(self, request: DNSRecord, _handler: Any) -> DNSRecord:
        """Return the answer to a query."""
        reply = request.reply()
        reply.header.ra = 1
        try:
            self._answer(reply, str(request.q.qname).rstrip(".").lower(), request.q.qtype)
        except OSError:
            reply.header.rcode = RCODE.SERVFAIL
        return reply

    def _answer(self, reply: DNSRecord, name: str, kind: int) -> None:
        for _ in range(_MAX_ALIASES):
            records = lookup(name, self._api.get)
            if records is None:
                reply.header.rcode = RCODE.NXDOMAIN
                return
            for address in records.addresses:
                own, data = (QTYPE.AAAA, AAAA(address)) if ":" in address else (QTYPE.A, A(address))
                if kind in (own, QTYPE.ANY):
                    reply.add_answer(RR(name, own, ttl=_TTL, rdata=data))
            if not records.alias:
                return
            reply.add_answer(RR(name, QTYPE.CNAME, ttl=_TTL, rdata=CNAME(records.alias)))
            name = records.alias.rstrip(".").lower()
        reply.header.rcode = RCODE.SERVFAIL


class ClusterDns:
    """Name server, from :meth:`start` until :meth:`close`."""

    def __init__(self, control_plane: ControlPlane, namespace: str) -> None:
        self._control_plane = control_plane
        self._namespace = namespace
        self._servers: list[DNSServer] = []

    def start(self) -> None:
        """Listen on the lab's bridge, and make the Service whose endpoint that is."""
        resolver = _Resolver(self._control_plane.api)
        with netns.inside(self._namespace):  # threads begin in the namespace of the thread that starts them
            for is_tcp in (False, True):
                quiet = DNSLogger(logf=lambda _line: None)
                server = DNSServer(resolver, address=HOST.ipv4, port=PORT, tcp=is_tcp, logger=quiet)
                self._servers.append(server)
                server.start_thread()
        listed = {"apiVersion": "v1", "kind": "List", "items": objects()}
        self._control_plane.kubectl("apply", "--filename", "-", text=json.dumps(listed))

    def close(self) -> None:
        """End the name server."""
        for server in self._servers:
            server.stop()
            server.server.server_close()
        self._servers.clear()


def objects() -> list[dict[str, Any]]:
    """Return the Service of cluster DNS and its EndpointSlice."""
    metadata = {"namespace": NAMESPACE, "name": SERVICE}
    labels = {"kubernetes.io/service-name": SERVICE, "endpointslice.kubernetes.io/managed-by": "e2e"}
    ports = [{"name": f"dns-{protocol.lower()}", "port": PORT, "protocol": protocol} for protocol in ("UDP", "TCP")]
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"clusterIP": DNS, "ports": ports}},
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**metadata, "labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [HOST.ipv4], "conditions": {"ready": True}}],
            "ports": ports,
        },
    ]
