# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of ``kubenode top``: one for each Service port, and their text. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..engine.kernel.ipvs.statistics import Traffic
from ..engine.kernel.ipvs.usage import RealServerUse
from ..engine.model.ipvs import RealServerKey, VirtualServerKey, endpoint

NAME_COLUMN = "service"
_NAME_WIDTH = 40
_UNITS = ("", "k", "M", "G", "T", "P")


class Wanted(NamedTuple):
    """Desired virtual server: its Service port, and the weight of each real server by address and port."""

    service: str
    real_servers: Mapping[str, int]


class Row(NamedTuple):
    """Use of one Service port, over all its virtual servers.

    ``service`` is "" for a virtual server without a Service; then the row is this virtual server's alone. Counters
    are those of the kernel since it made the virtual servers; rates are a second. ``real_servers`` and ``draining``
    count an address and port once. ``drift`` counts missing and surplus items and other weights; None if the desired
    state is unknown.
    """

    service: str
    virtual_servers: tuple[str, ...]
    traffic: Traffic
    active: int
    inactive: int
    real_servers: int
    draining: int
    drift: int | None

    @property
    def name(self) -> str:
        """Return the Service port, or else the virtual server."""
        return self.service or self.virtual_servers[0]

    def as_json(self) -> dict[str, Any]:
        """Return the row as plain data."""
        plain = self._asdict()
        del plain["traffic"]
        return {**plain, "virtual_servers": list(self.virtual_servers), **self.traffic._asdict()}


# Column -> header, value to show and to sort by.
COLUMNS: dict[str, tuple[str, Any]] = {
    "connections": ("CONN/S", lambda row: row.traffic.connection_rate),
    "packets": ("PKT/S", lambda row: row.traffic.packet_rate_in + row.traffic.packet_rate_out),
    "bytes": ("BYTE/S", lambda row: row.traffic.byte_rate_in + row.traffic.byte_rate_out),
    "total": ("CONNS", lambda row: row.traffic.connections),
    "active": ("ACTIVE", lambda row: row.active),
    "inactive": ("INACTIVE", lambda row: row.inactive),
    "real_servers": ("REALS", lambda row: row.real_servers),
    "draining": ("DRAIN", lambda row: row.draining),
    "drift": ("DRIFT", lambda row: -1 if row.drift is None else row.drift),
}
SORTS = (NAME_COLUMN, *COLUMNS)


def rows(
    counters: Mapping[VirtualServerKey, Traffic],
    used: Mapping[VirtualServerKey, Mapping[RealServerKey, RealServerUse]],
    wanted: Mapping[str, Wanted],
) -> list[Row]:
    """Return a row for each Service port, and for each virtual server without one."""
    texts = {str(key): key for key in counters}
    groups: dict[str, list[str]] = {}
    for text in {**texts, **dict.fromkeys(wanted)}:
        its = wanted.get(text)
        groups.setdefault(its.service if its and its.service else text, []).append(text)
    return [_row(servers, texts, counters, used, wanted) for servers in groups.values()]


def _row(
    servers: list[str],
    keys: Mapping[str, VirtualServerKey],
    counters: Mapping[VirtualServerKey, Traffic],
    used: Mapping[VirtualServerKey, Mapping[RealServerKey, RealServerUse]],
    wanted: Mapping[str, Wanted],
) -> Row:
    present: set[str] = set()
    draining: set[str] = set()
    active = inactive = drift = 0
    traffic: list[Traffic] = []
    for text in servers:
        key, want = keys.get(text), wanted[text].real_servers if text in wanted else {}
        if key is None:
            drift += 1 + len(want)
            continue
        traffic.append(counters[key])
        weights = {}
        for real, use in used.get(key, {}).items():
            name = endpoint(real.address, real.port)
            weights[name] = use.weight
            active += use.active
            inactive += use.inactive
        drains = {name for name, weight in weights.items() if weight == 0 and want.get(name) != 0}
        draining |= drains
        present.update(weights)
        drift += sum(1 for name in {*want, *weights} - drains if want.get(name) != weights.get(name))
        drift += len(drains.intersection(want))
    known = any(text in wanted for text in servers)
    service = wanted[servers[0]].service if known else ""
    total = traffic[0] if len(traffic) == 1 else Traffic(*map(sum, zip(*traffic)))
    return Row(service, tuple(servers), total, active, inactive, len(present), len(draining), drift if known else None)


def chosen(found: Iterable[Row], sort: str, words: str) -> list[Row]:
    """Return the rows with ``words`` in the name of the Service or of a virtual server, sorted by a column.

    Numbers sort from the largest, equal ones and names from A to Z.
    """
    rows_found = [row for row in found if words in row.service or any(words in text for text in row.virtual_servers)]
    rows_found.sort(key=lambda row: row.name)
    if sort != NAME_COLUMN:
        rows_found.sort(key=COLUMNS[sort][1], reverse=True)
    return rows_found


def table(found: Iterable[Row], width: int = 0) -> list[str]:
    """Return the rows as lines below a header, each cut to ``width`` characters (0: not at all)."""
    name_width = max(16, min(_NAME_WIDTH, width - 9 * len(COLUMNS))) if width else _NAME_WIDTH
    lines = [f"{'SERVICE':{name_width}}" + "".join(f" {header:>8}" for header, _value in COLUMNS.values())]
    for row in found:
        cells = [short(value(row)) if value(row) >= 0 else "-" for _header, value in COLUMNS.values()]
        name = row.name if not width or len(row.name) <= name_width else row.name[: name_width - 1] + "…"
        lines.append(f"{name:{name_width}}" + "".join(f" {cell:>8}" for cell in cells))
    return [line[:width] for line in lines] if width else lines


def short(number: int) -> str:
    """Return a number in at most six characters: ``12345``, ``123.4k``, ``5.6M``."""
    value, unit = float(number), 0
    while value >= (100_000 if unit == 0 else 999.95) and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.1f}{_UNITS[unit]}" if unit else str(number)
