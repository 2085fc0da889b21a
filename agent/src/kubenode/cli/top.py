# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show the traffic of Services, continuously.

For each Service port: connections, packets and bytes a second (in and out), connections since the kernel made its
virtual servers, active and inactive connections, real servers, draining real servers, and drift: virtual and real
servers that are missing, surplus or have another weight. A virtual server without a Service has a line of its own. The
kernel sums up its counters and estimates the rates every two seconds.

Every refresh reads all counters at once, and all connections at once: it takes no request for each Service. Names and
drift come from the running agent, or else from --objects or the configured manifests.

Keys
  s, S               sort by the next, the previous column
  / TEXT Enter       show only Services and virtual servers with this text
  arrows, page keys  scroll
  q, Control-C       end

With --batch the table is printed instead, for scripts. With --format json each refresh is one object on one line.

Exit status: 0 ended by q, or printed; 1 the kernel's table cannot be read, or no terminal, 64 wrong usage, 129 the
terminal was closed, 130 interrupted by Control-C, 143 ended by SIGTERM.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from typing import TYPE_CHECKING

from .top_rows import COLUMNS, SORTS, Row, Wanted, chosen, rows, table

if TYPE_CHECKING:
    from .top_screen import Screen

_NAMES_EVERY = 10.0  # seconds until names are asked for again although nothing looks different
_HEADER = 2  # line of the table's header on the screen


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    from .parser import add_config, add_objects, add_run_dir

    parser.add_argument("--batch", action="store_true", help="print the table instead of a screen")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="json implies --batch")
    parser.add_argument(
        "--count", metavar="N", type=_positive, default=1, help="print the table N times in a batch (default: 1)"
    )
    parser.add_argument(
        "--interval", metavar="SECONDS", type=_seconds, default=2.0, help="time between refreshes (default: 2)"
    )
    parser.add_argument("--sort", choices=SORTS, default="connections", help="column to sort by (default: %(default)s)")
    parser.add_argument("--filter", metavar="TEXT", default="", help="only Services and virtual servers with TEXT")
    add_objects(parser)
    add_config(parser)
    add_run_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Show the table until the user ends it, or print it."""
    import sys

    from ..engine.errors import EngineError

    view = View(options)
    if options.batch or options.format == "json":
        return _batch(view, options)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise EngineError("standard input and output are not a terminal; use kubenode top --batch")
    from .top_screen import Screen, SignalError

    try:
        with Screen() as screen:
            _interactive(view, options, screen)
    except SignalError as end:
        return end.status
    except EOFError:
        return 0
    return 0


class View:
    """Reads the kernel's counters, and asks for the desired virtual servers when they may have changed.

    ``problem`` says why names are unknown, "" if they are known.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        from ..engine.kernel.ipvs.usage import UsageReader

        self.problem = ""
        self._options = options
        self._reader = UsageReader()
        self._wanted: dict[str, Wanted] = {}
        self._asked_at = -_NAMES_EVERY
        self._unnamed: set[str] = set()

    def rows(self) -> list[Row]:
        """Return all rows.

        The kernel and the desired state are read one after the other, and may change in between. So an item counts as
        drift only if it differs from the desired state before and after.
        """
        from ..engine.kernel.ipvs.usage import real_server_use

        fresh = time.monotonic() - self._asked_at >= _NAMES_EVERY
        if fresh:
            self._ask()
        counters, used = self._reader.counters(), real_server_use()
        found = rows(counters, used, self._wanted)
        unnamed = {row.name for row in found if not row.service}
        if any(row.drift for row in found) or unnamed != self._unnamed:
            before = {row.name: row.drift or 0 for row in found}
            self._ask()
            found = [
                row._replace(drift=row.drift and min(row.drift, before.get(row.name, 0)))
                for row in rows(counters, used, self._wanted)
            ]
            self._unnamed = {row.name for row in found if not row.service}
        return found

    def _ask(self) -> None:
        from .wanted_servers import wanted_servers

        self._asked_at = time.monotonic()
        self._wanted, self.problem = wanted_servers(self._options)


def _batch(view: View, options: argparse.Namespace) -> int:
    import sys

    for number in range(options.count):
        if number:
            time.sleep(options.interval)
        found = chosen(view.rows(), options.sort, options.filter)
        if options.format == "json":
            answer = {"time": round(time.time(), 3), "services": [row.as_json() for row in found]}
            print(json.dumps({**answer, "problem": view.problem}), flush=True)
            continue
        print("\n".join(["", *table(found)] if number else table(found)), flush=True)
        if view.problem:
            print(f"kubenode top: {view.problem}", file=sys.stderr)
    return 0


def _interactive(view: View, options: argparse.Namespace, screen: Screen) -> None:
    """Refresh until q is pressed. Keys act on the last refresh."""
    sort, words, editing, first = options.sort, options.filter, False, 0
    found, due = view.rows(), time.monotonic() + options.interval
    while True:
        shown = chosen(found, sort, words)
        columns, height = screen.size
        page = max(1, height - _HEADER - 1)
        first = max(0, min(first, len(shown) - page))
        screen.draw([*_head(view, shown, sort, words, editing), *table(shown[first : first + page], columns)], _HEADER)
        key = screen.key(due - time.monotonic())
        if time.monotonic() >= due:
            found, due = view.rows(), time.monotonic() + options.interval
        if editing:
            editing = key != "\n"
            words = words[:-1] if key == "\b" else words + key if key.isprintable() and len(key) == 1 else words
        elif key == "q":
            return
        elif key in ("s", "S"):
            sort = SORTS[(SORTS.index(sort) + (1 if key == "s" else -1)) % len(SORTS)]
        elif key == "/":
            words, editing = "", True
        else:
            first += {"up": -1, "down": 1, "page up": -page, "page down": page}.get(key, 0)


def _head(view: View, shown: list[Row], sort: str, words: str, editing: bool) -> list[str]:
    total = sum(row.traffic.connection_rate for row in shown)
    draining, drift = sum(row.draining for row in shown), sum(row.drift or 0 for row in shown)
    lines = [
        f"{os.uname().nodename}  {time.strftime('%H:%M:%S')}  {len(shown)} Services, {total} connections/s,"
        f" {draining} draining, {drift} drifted  {view.problem}",
        f"sort: {COLUMNS[sort][0] if sort in COLUMNS else 'SERVICE'}  filter: {words}{'_' if editing else ''}"
        "   s sort, / filter, q quit",
    ]
    return lines


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _seconds(text: str) -> float:
    duration = float(text)
    if not 0.1 <= duration <= 86400:
        raise ValueError
    return duration


_positive.__name__, _seconds.__name__ = "positive number", "number of seconds"  # argparse names them in its errors
