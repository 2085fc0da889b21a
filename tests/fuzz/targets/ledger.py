# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of a ledger from another version or another writer."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from typing import Any

from fuzz.choices import Choices
from fuzz.target import Target
from fuzz.targets.objects import seeds
from fuzz.targets.text import SCRATCH

from kubenode.engine.errors import EngineError
from kubenode.engine.ledger import Ledger
from kubenode.engine.model.kinds import KINDS
from kubenode.engine.proxy import saved_sysctls
from kubenode.engine.proxy.drain import store

_KINDS = (*KINDS, "rule_set", "", "\0")
_KEYS: tuple[Any, ...] = (
    "a", ["tcp", "10.96.0.1", 80, 4], [["tcp", "10.96.0.1", 80, 4], "10.244.1.5", 8080], [4, "nat", "A"],
    [4, "nat", "A", "-j B"], ["kube-ipvs0", "10.96.0.1", 32], ["a", "b"], [], [[]], {}, None, 1, "net.ipv4.ip_forward",
    ".etc.x",
)  # fmt: skip
_TEXTS = ('["0", "1"]', "1.5", "nan", "", "[", "{}", "[1]", "[[]]", '[null, "1"]', "1e999", "null", "[" * 3000)
_DIRECTORY = f"{SCRATCH}/ledger"
_template: list[bytes] = []


def _rows(data: bytes) -> None:
    choices = Choices(data)
    path = _fresh()
    with sqlite3.connect(path) as database:
        for _ in range(1 + choices.below(4)):
            kind = choices.pick(_KINDS)
            if choices.chance(2):
                row = (kind, _key(choices), choices.pick(("agent", "b", "")))
                database.execute("INSERT OR REPLACE INTO claim VALUES (?, ?, ?)", row)
            else:
                kind = choices.pick(("sysctl", "real_server", kind))
                note = choices.pick(_TEXTS) if choices.chance(2) else choices.text()
                database.execute(
                    "INSERT OR REPLACE INTO note VALUES (?, ?, ?, ?)", ("agent", kind, _key(choices), note)
                )
    database.close()
    ledger = Ledger(_DIRECTORY)
    try:
        for use in (
            lambda: ledger.owned("agent"),
            lambda: ledger.others("agent"),
            ledger.owners,
            lambda: store.recall(ledger, "kubenode-agent"),
            lambda: saved_sysctls.names(ledger, "agent"),
            lambda: saved_sysctls.wanted_back(ledger, "agent", {"sysctl": {"net.ipv4.ip_forward": "1"}}),
            lambda: ledger.claim("b", [("set", "a")]),
            lambda: saved_sysctls.forget(ledger, "agent"),
        ):
            try:
                use()
            except EngineError:
                continue
    finally:
        ledger.close()


def _fresh() -> str:
    """Write an empty ledger of this version; return its path."""
    path = f"{_DIRECTORY}/ledger.db"
    if not _template:
        shutil.rmtree(_DIRECTORY, ignore_errors=True)
        Ledger(_DIRECTORY).close()
        with open(path, "rb") as file:
            _template.append(file.read())
    for ending in ("-journal", "-wal", "-shm"):
        if os.path.exists(path + ending):
            os.unlink(path + ending)
    with open(path, "wb") as file:
        file.write(_template[0])
    return path


def _key(choices: Choices) -> Any:
    """Return a key as the ledger writes it, or with one part corrupted, or any text."""
    kind = choices.below(8)
    if kind == 7:
        return choices.text()
    if kind == 6:
        return choices.bytes(choices.byte() & 15)
    key = choices.pick(_KEYS)
    if isinstance(key, list) and key and choices.chance(3):
        key = [*key[:-1], choices.odd()] if choices.chance(2) else [*key, 1]
    try:
        return json.dumps(key)
    except (TypeError, ValueError):
        return "\0"


TARGETS = {"ledger": Target(_rows, seeds(40, 60, 9), longest=256)}
