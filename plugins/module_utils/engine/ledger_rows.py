# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ledger's rows as text: keys in canonical JSON, validated on reading.

A key becomes part of the input of iptables and ipset, and of messages. So only a key that this code could have written
is read: with its kind's fields and types, printable, and without white space (except for a rule).
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, get_type_hints

from .model.kinds import KINDS

# Kinds that a service proxy or a task claims until the next boot. All others (files, kernel modules, sysctls) are
# claimed in the ledger that only root writes.
_UNTIL_REBOOT = frozenset(
    ("link", "set", "chain", "jump", "nft_table", "nft_text", "virtual_server", "sync_daemon", "address", "route")
)
_LONGEST = 65536  # characters of a key
_SHOWN = 100


class RowError(Exception):
    """A row is unusable; the text has the reason."""


def encode(key: Any) -> str:
    """Return a key as text; named tuples are written as lists."""
    return json.dumps(key, separators=(",", ":"))


def decode(kind: object, text: object, *, lasting: bool = True) -> Any:
    """Return the key of a row.

    Args:
        kind: the row's kind.
        text: its key as text.
        lasting: whether only root can write the ledger.

    Raises:
        RowError: the kind is unknown, or the text is not the canonical form of a key of this kind.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        raise RowError("has a kind that this release does not know")
    if not lasting and kind not in _UNTIL_REBOOT:
        raise RowError("has a kind that is not claimed here")
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise RowError(f"has a key of more than {_LONGEST} letters")
    try:
        key = KINDS[kind].decode_key(json.loads(text))
        canonical = encode(key) == text
    except (ValueError, TypeError, LookupError, RecursionError):
        canonical = False
    if not canonical or not _is_plain(key):
        raise RowError(f"has a key that is none of a {KINDS[kind].label}")
    return key


def _is_plain(key: Any, rule: bool = False) -> bool:
    """Tell whether a key is a printable text, or a named tuple of texts and numbers as its class declares them."""
    if isinstance(key, str):
        return key.isprintable() and (rule or not (not key or key.startswith("-") or any(map(str.isspace, key))))
    for (field, type_), value in zip(_fields(key.__class__).items(), key):
        if type_ is str:
            fits = isinstance(value, str) and (not value or _is_plain(value, field == "rule"))
        elif type_ is int:
            fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 32
        else:
            fits = isinstance(value, type_) and _is_plain(value)
        if not fits:
            return False
    return True


@cache
def _fields(type_: Any) -> dict[str, Any]:
    """Return the fields of a named tuple with their types, in their order."""
    return get_type_hints(type_)


def readable(text: object) -> str:
    """Return a text that is safe in a message: printable and short."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in str(text)[: _SHOWN + 1])
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
