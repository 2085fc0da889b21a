# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TLS, client certificates, tokens and proxies, over real connections to the fake API server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.agent.process import eventually
from support.agent.watched_source import FAST, NODE, Fixed
from support.fakes.apiserver import FakeApiServer
from support.fakes.certificates import Authority

from kubenode.log import Log
from kubenode.sources.kubernetes.access import Access, Identity
from kubenode.sources.kubernetes.api import Session
from kubenode.sources.kubernetes.credentials import Credentials
from kubenode.sources.kubernetes.errors import ApiError, RefusedError, UnusableError
from kubenode.sources.kubernetes.source import ApiOfNode, Kubernetes

SECRET = "s3cr3t-t0k3n"
Serve = Callable[..., FakeApiServer]


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def serve(authority: Authority, tmp_path: Path) -> Iterator[Serve]:
    servers: list[FakeApiServer] = []

    def start(address: str = "127.0.0.1", by: Authority = authority, *, ask_clients: bool = False) -> FakeApiServer:
        servers.append(FakeApiServer(by.server_context(tmp_path, address, ask_clients=ask_clients)))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def get(access: Access, path: str = "/version") -> object:
    accessor = Fixed("")
    accessor._access = access
    session = Session(accessor, Credentials())
    try:
        return session.get(path, {})["major"]
    finally:
        session.drop()


def test_server_of_the_cluster_authority_is_trusted(serve: Serve, authority: Authority) -> None:
    assert get(Access(serve().url, authority.pem.decode(), Identity())) == "1"


def test_server_of_another_authority_is_refused(serve: Serve, authority: Authority) -> None:
    server = serve(by=Authority("other"))
    with pytest.raises(UnusableError, match="cannot be reached: its certificate is not good: "):
        get(Access(server.url, authority.pem.decode(), Identity()))
    with pytest.raises(ApiError, match="its certificate is not good"):
        get(Access(server.url, "", Identity()))  # the system's authorities did not sign it either
    assert get(Access(server.url, authority.pem.decode(), Identity(), insecure=True)) == "1"
    assert server.requests[-1].path == "/version"
    assert len(server.requests) == 1  # the untrusted server got no request


def test_untrusted_server_blocks_the_source(serve: Serve, authority: Authority, tmp_path: Path) -> None:
    """An untrusted certificate blocks the source, so that the waiting role fails. A silent server does not block it."""
    server = serve(by=Authority("other"))
    accessor = Fixed("")
    accessor._access = Access(server.url, authority.pem.decode(), Identity())
    source = Kubernetes(
        ApiOfNode("", "", NODE),
        str(tmp_path / "snapshot"),
        Log(write=lambda _line: None),
        timing=FAST,
        accessor=accessor,
    )
    try:
        assert source.blocked == ""
        source.start()
        eventually(lambda: "certificate is not good" in source.blocked)
        accessor._access = Access("https://127.0.0.1:1", authority.pem.decode(), Identity())
        eventually(lambda: "connection refused" in source.waiting and source.blocked == "")
    finally:
        source.close()


def test_server_of_another_name_is_refused(serve: Serve, authority: Authority) -> None:
    url, pem = serve("api.example").url, authority.pem.decode()
    with pytest.raises(ApiError, match="its certificate is not good: IP address mismatch"):
        get(Access(url, pem, Identity()))
    assert get(Access(url, pem, Identity(), server_name="api.example")) == "1"


def test_invalid_authority_is_named(serve: Serve) -> None:
    with pytest.raises(ApiError, match="certificate authority is not a certificate in PEM form"):
        get(Access(serve().url, SECRET, Identity()))


@pytest.mark.parametrize("how", ["files", "data", "mixed"])
def test_client_certificates(serve: Serve, authority: Authority, tmp_path: Path, how: str) -> None:
    server = serve(ask_clients=True)
    pem = authority.pem.decode()
    certificate, key = authority.issue("system:node-proxier")
    files = tmp_path / "c.pem", tmp_path / "k.pem"
    files[0].write_bytes(certificate)
    files[1].write_bytes(key)
    identity = {
        "files": Identity(certificate_file=str(files[0]), key_file=str(files[1])),
        "data": Identity(certificate=certificate, key=key),
        "mixed": Identity(certificate=certificate, key_file=str(files[1])),
    }[how]
    assert get(Access(server.url, pem, identity)) == "1"
    with pytest.raises(ApiError):
        get(Access(server.url, pem, Identity()))


def test_renewed_client_certificate_is_used(serve: Serve, authority: Authority, tmp_path: Path) -> None:
    """kubelet's certificate is one example; the earlier one may have expired."""
    files = tmp_path / "c.pem", tmp_path / "k.pem"
    accessor = Fixed("")
    identity = Identity(certificate_file=str(files[0]), key_file=str(files[1]))
    accessor._access = Access(serve(ask_clients=True).url, authority.pem.decode(), identity)
    session = Session(accessor, Credentials())
    for hours, works in ((-0.5, False), (1, True)):
        for file, content in zip(files, authority.issue("node1", hours=hours), strict=True):
            file.write_bytes(content)
        if works:
            assert session.get("/version", {})["major"] == "1"
        else:
            with pytest.raises(ApiError, match="cannot be reached: "):
                session.get("/version", {})
    session.drop()


def test_mismatched_key_is_reported_without_its_text(serve: Serve, authority: Authority, tmp_path: Path) -> None:
    certificate, _key = authority.issue("a")
    _certificate, key = authority.issue("b")
    with pytest.raises(ApiError, match=r"given as data.* cannot be used: they do not fit together"):
        get(Access(serve().url, authority.pem.decode(), Identity(certificate=certificate, key=key)))
    with pytest.raises(ApiError, match=r"/nowhere.* cannot be used: No such file"):
        get(Access(serve().url, authority.pem.decode(), Identity(certificate=certificate, key_file="/nowhere")))


def test_tokens_are_sent_as_bearer(fake: FakeApiServer) -> None:
    fake.users = {SECRET: "admin"}
    assert get(Access(fake.url, "", Identity(token=SECRET))) == "1"
    with pytest.raises(RefusedError, match="answers 401 Unauthorized: Unauthorized") as caught:
        get(Access(fake.url, "", Identity(token="old")))
    assert "old" not in str(caught.value)
    with pytest.raises(ApiError, match="token has invalid characters"):
        get(Access(fake.url, "", Identity(token=f"{SECRET}\r\nX: y")))


def test_server_url_may_have_a_path(fake: FakeApiServer) -> None:
    with pytest.raises(RefusedError, match="answers 404"):
        get(Access(f"{fake.url}/k8s/clusters/c-1", "", Identity()))
    assert fake.requests[-1].path == "/k8s/clusters/c-1/version"


def test_proxies_of_the_environment_are_ignored(fake: FakeApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert get(Access(fake.url, "", Identity())) == "1"


@pytest.mark.parametrize(("address", "spelled"), [("127.0.0.1", "127.0.0.1"), ("2001:db8::1", "[2001:db8::1]")])
def test_configured_proxy_is_used(serve: Serve, authority: Authority, address: str, spelled: str) -> None:
    server = serve(address)
    listener = socket.create_server(("127.0.0.1", 0))
    asked: list[bytes] = []

    def proxy() -> None:
        """Relay one connection."""
        client, _address = listener.accept()
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += client.recv(1)
        asked.append(head)
        target = socket.create_connection(("127.0.0.1", server.port))
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        back = threading.Thread(target=pump, args=(target, client), daemon=True)
        back.start()
        pump(client, target)
        back.join(60)
        client.close()
        target.close()

    thread = threading.Thread(target=proxy, daemon=True)
    thread.start()
    proxy_url = f"http://me:pw@127.0.0.1:{listener.getsockname()[1]}"
    access = Access(f"https://{spelled}:{server.port}", authority.pem.decode(), Identity(), proxy=proxy_url)
    assert get(access) == "1"
    thread.join(60)
    listener.close()
    assert asked[0].startswith(f"CONNECT {spelled}:{server.port} HTTP/1.".encode())
    assert server.requests[-1].headers["host"] == f"{spelled}:{server.port}"
    assert b"Proxy-Authorization: Basic bWU6cHc=\r\n" in asked[0]


def pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:1", "cannot be reached: connection refused"),
        ("http://no-such-host.invalid", "cannot be reached: its name cannot be resolved"),
    ],
)
def test_missing_server_is_named(url: str, words: str) -> None:
    with pytest.raises(ApiError, match=words):
        get(Access(url, "", Identity()))
