# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Address of the API and identity of the agent: types and helpers that kubeconfig and service account share."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from .errors import AccessError


class Plugin(NamedTuple):
    """Command that prints an ExecCredential (kubernetes: client-go credential plugins).

    ``where`` names it in messages.
    """

    command: str
    arguments: tuple[str, ...]
    environment: dict[str, str]
    version: str
    hint: str
    cluster: Mapping[str, Any] | None
    where: str


class Identity(NamedTuple):
    """Identity of the agent: a token, or a certificate and its key, or a plugin. May be empty.

    Certificate and key are each a file's path, or PEM.
    """

    token: str = ""
    token_file: str = ""
    certificate_file: str = ""
    certificate: bytes = b""
    key_file: str = ""
    key: bytes = b""
    plugin: Plugin | None = None


class Access(NamedTuple):
    """Address and trust of a connection. ``authority`` is PEM, "" for the system's; ``proxy`` is a URL or ""."""

    server: str
    authority: str
    identity: Identity
    insecure: bool = False
    server_name: str = ""
    proxy: str = ""


class Accessor(Protocol):
    """Source of the API's address and the agent's identity, read again at each call: files may have changed."""

    @property
    def name(self) -> str:
        """Return the source's name in messages."""

    def access(self) -> Access:
        """Return the present address and identity.

        Raises:
            AccessError: the address or the identity is not available.
        """


def read_file(path: str, what: str) -> bytes:
    """Return a file's content.

    Raises:
        AccessError: the file cannot be read. The message begins with its purpose, ``what``.
    """
    try:
        with open(path, "rb") as file:
            return file.read()
    except (OSError, ValueError) as error:  # ValueError: the path has a zero byte or a lone surrogate
        name, reason = (
            (path, error.strerror) if isinstance(error, OSError) else (ascii(path), "no file can have this name")
        )
        raise AccessError(f"{what} {name} cannot be read: {reason}") from None


def signature(path: str) -> tuple[int, int, int] | None:
    """Return a value that changes with the file: time, size and inode; None for a missing file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def check_url(url: str, what: str, schemes: tuple[str, ...]) -> str:
    """Return a URL without a slash at its end.

    Raises:
        AccessError: the URL is invalid or has another scheme. The message begins with its purpose, ``what``.
    """
    try:
        parts = urlsplit(url)
        good = parts.scheme in schemes and bool(parts.hostname) and not parts.query and not parts.fragment
        good = good and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good:
        raise AccessError(
            f"{what} is {_without_secrets(url)!r}, expected"
            f" {' or '.join(f'{scheme}://HOST[:PORT]' for scheme in schemes)}"
        )
    return url.rstrip("/")


def _without_secrets(url: str) -> str:
    """Return a URL without user and password."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"
