# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One HTTP/1.1 connection to the API server, with TLS as given by an Access.

Every watch makes a new connection, and so uses changed certificates, authorities and addresses. Proxies in the
environment are ignored: the kubeconfig alone decides the way of a node's API traffic.
"""

from __future__ import annotations

import base64
import os
import socket
import ssl
from http.client import HTTPConnection
from typing import Any
from urllib.parse import unquote, urlsplit

from .access import Access, Identity
from .errors import AccessError

_CONNECT_SECONDS = 10.0
# The kernel ends the connection to a peer that is silently gone within half a minute.
_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000))


class Connection(HTTPConnection):
    """HTTP connection, opened by the first request.

    Args:
        access: address and trust of the API server.
        identity: identity resolved by :class:`~.credentials.Credentials`.
        read_seconds: timeout of one read.
    """

    _tunnel_host: str | None  # http.client's

    def __init__(self, access: Access, identity: Identity, read_seconds: float) -> None:
        parts = urlsplit(access.server)
        secure = parts.scheme == "https"
        host, port = parts.hostname or "", parts.port or (443 if secure else 80)
        proxy = urlsplit(access.proxy) if access.proxy else None
        if proxy is None:
            super().__init__(host, port, timeout=_CONNECT_SECONDS)
        else:
            super().__init__(proxy.hostname or "", proxy.port or 80, timeout=_CONNECT_SECONDS)
            self.set_tunnel(host, port, headers=_proxy_headers(proxy))
        self.path = parts.path.rstrip("/")  # prefix of an API server behind a gateway
        self._read_seconds = read_seconds
        self._name = access.server_name or host
        self._context = _context(access, identity) if secure else None
        self.peer = ""  # the address of the API server, or of the proxy before it, once connected
        self._socket: Any = None  # kept for abort(): http.client forgets its own when an answer ends the connection
        self._headers = {"Accept": "application/json"}
        if identity.token:
            self._headers["Authorization"] = f"Bearer {_one_line(identity.token)}"

    def connect(self) -> None:
        """Connect, through the proxy if there is one."""
        host = self._tunnel_host
        if host and ":" in host:
            self._tunnel_host = f"[{host}]"  # before Python 3.12, http.client adds no brackets
        super().connect()
        self._tunnel_host = host
        self.peer = str(self.sock.getpeername()[0])
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            option = getattr(socket, name, None)
            if option is not None:
                self.sock.setsockopt(socket.IPPROTO_TCP, option, value)
        if self._context is not None:
            self.sock = self._context.wrap_socket(self.sock, server_hostname=self._name)
        self._socket = self.sock
        self.wait(self._read_seconds)

    def send_request(self, method: str, path: str, headers: dict[str, str], body: bytes | None = None) -> None:
        """Send a request for a path of the API."""
        self.request(method, self.path + path, body=body, headers={**self._headers, **headers})

    def abort(self) -> None:
        """Wake another thread that waits for this connection; that thread closes it."""
        if self._socket is not None:
            try:
                # not SSLSocket.shutdown, which drops the TLS object that the other thread uses
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
            except OSError:
                pass

    def wait(self, seconds: float) -> None:
        """Set the timeout of further reads."""
        if self._socket is not None:
            self._socket.settimeout(seconds)


def _context(access: Access, identity: Identity) -> ssl.SSLContext:
    # Not create_default_context: since Python 3.13 it sets VERIFY_X509_STRICT. That refuses authorities that Kubernetes
    # distributions made for years.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif access.authority:
        try:
            context.load_verify_locations(cadata=access.authority)
        except (ssl.SSLError, ValueError):
            raise AccessError("the certificate authority is not a certificate in PEM form") from None
    else:
        context.load_default_certs()
    if identity.certificate or identity.certificate_file:
        _load_certificate(context, identity)
    return context


def _load_certificate(context: ssl.SSLContext, identity: Identity) -> None:
    """Load the client's certificate and key; PEM that is not in a file goes through memory, never through a disk."""
    opened: list[int] = []
    try:
        paths = [
            file or _in_memory(data, opened)
            for file, data in (
                (identity.certificate_file, identity.certificate),
                (identity.key_file, identity.key),
            )
        ]
        context.load_cert_chain(paths[0], paths[1], password=_no_password)
    except (OSError, ValueError) as error:
        about = " and ".join(file for file in (identity.certificate_file, identity.key_file) if file) or "given as data"
        why = (
            error.strerror
            if isinstance(error, OSError) and not isinstance(error, ssl.SSLError)
            else "they do not fit together"
        )
        raise AccessError(f"client certificate and key ({about}) cannot be used: {why}") from None
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _in_memory(data: bytes, opened: list[int]) -> str:
    descriptor = os.memfd_create("kubenode", os.MFD_CLOEXEC)
    opened.append(descriptor)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    return f"/proc/self/fd/{descriptor}"


def _no_password() -> str:
    raise ValueError("the key is encrypted")  # otherwise OpenSSL asks on the terminal


def _proxy_headers(proxy: Any) -> dict[str, str]:
    if not proxy.username:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _one_line(token: str) -> str:
    if not token.isascii() or not token.isprintable():
        raise AccessError("the token has invalid characters, expected printable ASCII")
    return token
