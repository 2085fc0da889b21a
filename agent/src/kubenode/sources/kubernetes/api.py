# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to the API: JSON documents, pages of lists, streams of watch events in protobuf or JSON.

Every failure is raised as an ApiError.
"""

from __future__ import annotations

import json
import socket
import ssl
import time
import zlib
from collections.abc import Callable, Generator, Mapping
from http.client import HTTPException, HTTPResponse, IncompleteRead, RemoteDisconnected
from typing import Any
from urllib.parse import urlencode

from ..._version import VERSION
from ...manifests.documents import decode
from .access import Accessor
from .connection import Connection
from .credentials import Credentials
from .errors import ApiError, BrokenOffError, RefusedError, TooLargeError, UnreachableError, UnusableError
from .event_stream import JSON, PROTOBUF, RawEvent, raw_events

_USER_AGENT = f"kubenode-agent/{VERSION}"
_READ_SECONDS = 30.0  # without a single byte of an answer
_ANSWER_SECONDS = 180.0  # for a whole page
_CHUNK = 65536
_MOST_PAGE = 16 << 20  # decoded, a page takes several times as much memory
_MOST_LIST = 256 << 20  # of a list that the API does not split into pages
_MIB = 1 << 20
_MOST_MESSAGE = 300
_GZIP = 31  # zlib's wbits for the gzip format
_LONGEST_WAIT = 60.0  # seconds; a proxy's page for maintenance may ask for an hour


class Session:
    """Requests of one thread to the API, on one connection that is kept until it fails.

    Every method raises ApiError, after which the next request connects anew. ``connected`` gets the peer's address with
    each request. ``filled`` is the share of the space for an answer that the last answer took, from 0 to 1.
    """

    filled = 0.0

    def __init__(
        self, accessor: Accessor, credentials: Credentials, connected: Callable[[str], None] = lambda _address: None
    ) -> None:
        self._connected = connected
        self._accessor = accessor
        self._credentials = credentials
        self._connection: Connection | None = None
        self._closed = False

    def get(self, path: str, query: Mapping[str, str]) -> Any:
        """Return the JSON document at a path. It may come compressed: a list shrinks to a fifth.

        Raises:
            TooLargeError: it is larger than 16 MiB, or than 256 MiB for a query with the limit 0.
        """
        return self._document("GET", path, query, None, {"Accept-Encoding": "gzip"})

    def post(self, path: str, document: Any) -> Any:
        """Send a JSON document; return the answer."""
        return self._document("POST", path, {}, json.dumps(document).encode())

    def events(
        self, path: str, query: Mapping[str, str], silence: float, *, protobuf: bool
    ) -> Generator[RawEvent, None, None]:
        """Yield the events of a watch as they come, and an empty one when it begins.

        Args:
            path: path of the resource.
            query: what to watch.
            silence: seconds without a byte after which the stream ends.
            protobuf: prefer protobuf, half the size of JSON. The answer says which of both the API has chosen.
        """
        response = self._send("GET", path, query, None, {"Accept": f"{PROTOBUF}, {JSON}" if protobuf else JSON})
        try:
            if self._connection is not None:
                self._connection.wait(silence)
            yield RawEvent(b"")
            yield from raw_events(response.read1, _is_protobuf(response))
        except (socket.timeout, TimeoutError):
            return  # the API is silent or away: the next request tells which
        except (OSError, HTTPException, ValueError) as error:
            raise BrokenOffError(f"the API's stream broke off: {_reason(error)}") from None
        finally:
            response.close()
            self.drop()  # a connection with an unread rest of a stream cannot be used again

    def drop(self) -> None:
        """Connect anew for the next request."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def abort(self) -> None:
        """End the running request from another thread, and refuse further ones."""
        self._closed = True
        connection = self._connection
        if connection is not None:
            connection.abort()

    def _document(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes | None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        response = self._send(method, path, query, body, headers or {})
        most = _MOST_LIST if query.get("limit") == "0" else _MOST_PAGE
        try:
            body = _body(response, most)
            self.filled = len(body) / most
            return decode(body.decode())
        except (socket.timeout, TimeoutError):
            raise self._broken(f"the API has sent nothing for {_READ_SECONDS:g} s") from None
        except (OSError, HTTPException) as error:
            raise self._broken(f"the API's answer broke off: {_reason(error)}") from None
        except (ValueError, RecursionError):
            raise self._broken("the API's answer is not JSON") from None
        except ApiError:
            self.drop()
            raise

    def _send(
        self, method: str, path: str, query: Mapping[str, str], body: bytes | None, more: Mapping[str, str]
    ) -> HTTPResponse:
        if self._closed:
            raise ApiError("the agent is stopping")
        address = f"{path}?{urlencode(query)}" if query else path
        headers = {
            "User-Agent": _USER_AGENT,
            **({"Content-Type": "application/json"} if body is not None else {}),
            **more,
        }
        try:
            if self._connection is None:
                access = self._accessor.access()
                self._connection = Connection(access, self._credentials.resolve(access.identity), _READ_SECONDS)
            self._connection.send_request(method, address, headers, body)
            self._connected(self._connection.peer)
            response = self._connection.getresponse()
        except (OSError, HTTPException, ValueError) as error:
            self.drop()
            kind = (
                UnusableError
                if isinstance(error, ssl.SSLCertVerificationError) and _is_untrusted(error)
                else UnreachableError
            )
            raise kind(f"the API cannot be reached: {_reason(error)}") from None
        except ApiError:
            self.drop()
            raise
        if 200 <= response.status < 300:
            return response
        raise self._refusal(response)

    def _refusal(self, response: HTTPResponse) -> RefusedError:
        reason, message = "", response.reason or ""
        try:
            status = _status(response, _body(response, _MOST_PAGE))
            causes = (status.get("details") or {}).get("causes") or ()
            too_large = any(cause.get("reason") == "ResourceVersionTooLarge" for cause in causes)
            reason = "ResourceVersionTooLarge" if too_large else str(status.get("reason") or "")
            message = str(status.get("message") or message)
        except (OSError, HTTPException, ValueError, AttributeError, TypeError, RecursionError, ApiError):
            pass  # a proxy's page, or no body: only the status is known
        finally:
            self.drop()
        if response.status == 401:
            self._credentials.refused()
        wait = response.headers.get("Retry-After") or ""
        seconds = min(float(wait), _LONGEST_WAIT) if wait.isascii() and wait.isdigit() else 0.0
        return RefusedError(response.status, reason, _short(message), seconds)

    def _broken(self, text: str) -> ApiError:
        self.drop()
        return ApiError(text)


def _is_protobuf(response: HTTPResponse) -> bool:
    return response.headers.get_content_type() == PROTOBUF  # without parameters, such as stream=watch


def _status(response: HTTPResponse, body: bytes) -> Any:
    """Return the Status of a refusal."""
    if not _is_protobuf(response):
        return json.loads(body)
    from .protobuf_objects import decode_object

    return decode_object(body)


def _body(response: HTTPResponse, most: int) -> bytes:
    """Return the whole body; the connection can be used again if the body was complete."""
    with response:
        return _read(response, most)


def _read(response: HTTPResponse, most: int) -> bytes:
    end = time.monotonic() + _ANSWER_SECONDS
    packed = zlib.decompressobj(_GZIP) if response.headers.get("Content-Encoding") == "gzip" else None
    parts: list[bytes] = []
    size = 0
    while True:
        data = response.read1(_CHUNK)
        if not data:
            if response.length or (packed and not packed.eof):
                raise IncompleteRead(b"", response.length)
            return b"".join(parts)
        if packed:
            data = _unpacked(packed, data, most - size + 1)
        parts.append(data)
        size += len(data)
        if size > most:
            raise TooLargeError(f"the API's answer is larger than {most // _MIB} MiB")
        if time.monotonic() > end:
            raise ApiError(f"the API's answer is not complete after {_ANSWER_SECONDS:g} s")


def _unpacked(packed: Any, data: bytes, most: int) -> bytes:
    """Unpack at most ``most`` bytes: a compressed kilobyte may hold a megabyte."""
    try:
        unpacked: bytes = packed.decompress(data, most)
    except zlib.error:
        raise ApiError("the API's answer is not gzip, as it says") from None
    return unpacked


def _is_untrusted(error: ssl.SSLCertVerificationError) -> bool:
    """Tell whether no known authority has signed the certificate. A certificate out of its time is another error."""
    # X509_V_ERR_: self-signed, self-signed in the chain, no issuer, no chain
    return error.verify_code in (18, 19, 20, 21)


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not good: {error.verify_message}"
    if isinstance(error, (socket.timeout, TimeoutError)):
        return "no answer"
    if isinstance(error, (IncompleteRead, RemoteDisconnected)):
        return "the connection was closed"
    if isinstance(error, socket.gaierror):
        return f"its name cannot be resolved: {error.strerror}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error.strerror or 'broken off'}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[0].lower() + error.strerror[1:]
    return _short(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MOST_MESSAGE else line[: _MOST_MESSAGE - 3] + "..."
