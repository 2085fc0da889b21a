# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Options that several modules share, and checks of input that they share."""

from __future__ import annotations

import re
from typing import Any

from ..engine.errors import EngineError, InputError

OWNER: dict[str, Any] = {"owner": {"type": "str", "default": "ansible"}}
PURGE: dict[str, Any] = {
    "purge": {"type": "str", "choices": ["none", "owned", "all"], "default": "none"},
    "adopt": {"type": "bool", "default": False},
}
PERSIST: dict[str, Any] = {
    "persist": {"type": "bool", "default": True},
    "purge": {"type": "str", "choices": ["none", "owned"], "default": "none"},
}
STATE: dict[str, Any] = {"state": {"type": "str", "choices": ["present", "absent"], "default": "present"}}
FAMILIES = {"ipv4": 4, "ipv6": 6}
_NO_HOSTS = ("0.0.0.0/8", "224.0.0.0/4", "255.255.255.255/32", "::/128", "ff00::/8")


def check_owner(owner: str) -> str:
    """Return the owner's name.

    Raises:
        InputError: the name cannot be part of a file's name, or is reserved.
    """
    if owner == "agent":
        raise InputError("task", "owner", owner, "another name ('agent' is the service proxy's)")
    if not re.match(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}\Z", owner):
        raise InputError(
            "task", "owner", owner, "1 to 63 letters, digits, '_', '.' or '-', beginning with a letter or digit"
        )
    return owner


def unique(seen: dict[Any, str], key: Any, option_path: str, text: str | None = None) -> None:
    """Record in ``seen`` that ``key`` is at an option path (for example ``services[3]``).

    Raises:
        EngineError: the key is at another option path, too; the text names both.
    """
    if key in seen:
        raise EngineError(f"{option_path} and {seen[key]} are both {text or key}; name each item once")
    seen[key] = option_path


def address(subject: str, field: str, value: str) -> str:
    """Return an address in canonical spelling.

    Raises:
        InputError: the value is no address.
    """
    from ..engine.model import net

    try:
        return net.canonical(value)
    except ValueError:
        raise InputError(subject, field, value, "an IPv4 or IPv6 address") from None


def host(subject: str, field: str, value: str) -> str:
    """Return the address of a host in canonical spelling.

    Raises:
        InputError: the value is no address of a host.
    """
    from ..engine.model import net

    where = address(subject, field, value)
    if any(net.contains(network, where) for network in _NO_HOSTS):
        raise InputError(subject, field, value, "the address of a host")
    return where


def number(subject: str, field: str, value: int, low: int, high: int) -> int:
    """Return ``value``.

    Raises:
        InputError: the value is not between ``low`` and ``high``.
    """
    if not low <= value <= high:
        raise InputError(subject, field, value, f"a number between {low} and {high}")
    return value
