# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show what the agent did on this node, and the desired state of a moment.

Prints one line for each change of the desired state, each pass and each problem, with the steps of the pass below it:

  2026-11-24T03:12:07.123Z  wanted   EndpointSlice shop/web-x7k2p
  2026-11-24T03:12:07.131Z  event    1 step in 0.004 s
      - real server 10.244.1.5:8080 of tcp 10.96.0.10:80   shop/web:http
  2026-11-24T03:12:37.002Z  period   1 step in 0.210 s
      drift: + virtual server tcp 10.96.0.10:80: scheduler rr   shop/web:http

Records come from the ring that the agent keeps in its state directory (history.maxSize, 16 MiB). A full ring loses its
oldest records. With --state, prints the desired state of a moment instead, exactly: one item a line, or in a format of
kubenode render. It works with and without a running agent.

TIME is a date and time (2026-11-24T03:12:07, local unless it ends with Z or an offset), a time of the last 24 hours
(03:12 or 03:12:07, local), a time ago (90s, 15m, 2h, 1d), or seconds since the epoch (@1764000000).

Exit status: 0 printed, 1 there is no history, it cannot be read, or it does not know the state of that moment,
2 printed, but files of the history are damaged or foreign, records were lost, or a full ring does not reach back to
--since, 64 wrong usage.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from .history_time import moment_of

_MOST_ROOM = 1024 << 20  # bytes: the largest history.maxSize
_STATE_FORMATS = ("ipvsadm", "ipset", "iptables", "ip6tables", "nft", "addresses")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    from .parser import add_state_dir

    now = time.time()

    def moment(text: str) -> int:
        try:
            return moment_of(text, now)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    parser.add_argument("--since", metavar="TIME", type=moment, help="begin at this time (default: the oldest record)")
    parser.add_argument("--until", metavar="TIME", type=moment, help="end at this time (default: the newest record)")
    parser.add_argument("--service", metavar="NAMESPACE/NAME", help="show only what concerns this Service")
    parser.add_argument("--state", action="store_true", help="print the desired state of the moment --at")
    parser.add_argument("--at", metavar="TIME", type=moment, help="moment of --state (default: now)")
    parser.add_argument(
        "--format",
        choices=("text", "json", *_STATE_FORMATS),
        default="text",
        help="text and json, and with --state the formats of kubenode render (default: %(default)s)",
    )
    add_state_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Print the history or a state; return the exit status."""
    import os
    import sys

    from ..engine.errors import EngineError
    from ..history.reading import Reader
    from ..paths import HISTORY
    from .commands import USAGE_ERROR
    from .desired import complain

    problem = _wrong(options)
    if problem:
        print(f"kubenode history: {problem}", file=sys.stderr)
        return USAGE_ERROR
    with Reader(os.path.join(options.state_dir, HISTORY)) as reader:
        try:
            complete = _state(reader, options) if options.state else _records(reader, options)
        except ValueError as error:
            raise EngineError(f"the history {options.state_dir}/{HISTORY} cannot be read: {error}") from None
        for text in reader.problems:
            complain(text)
        return 0 if complete and not reader.problems else 2


def _wrong(options: argparse.Namespace) -> str:
    """Return the contradiction of the options, "" for none."""
    if options.state and (options.since is not None or options.until is not None or options.service is not None):
        return "--state has the option --at; --since, --until and --service are for records"
    if not options.state and (options.at is not None or options.format in _STATE_FORMATS):
        return f"{'--at' if options.at is not None else '--format ' + options.format} needs --state"
    if options.service is not None and len(options.service.split("/")) != 2:
        return f"--service is {options.service!r}, expected NAMESPACE/NAME"
    return ""


def _state(reader: Any, options: argparse.Namespace) -> bool:
    import json
    import sys

    from ..engine.desired.nft_state import nft_state
    from ..engine.model.step import Step, plain
    from ..engine.render import render
    from ..history.reading import HistoryError
    from ..history.replay import UnknownMomentError, state_at
    from .history_time import shown

    at = int(time.time() * 1000) if options.at is None else options.at
    try:
        replayed = state_at(reader, at)
    except UnknownMomentError as error:
        exact = min((head.moment for head in reader.checkpoints()), default=None)
        begin = "" if exact is None else f"; it knows states from {shown(exact)} on" + _room(reader, exact, at)
        raise HistoryError(f"the state of {shown(at)} is not known: the history {error}{begin}") from None
    items = sorted(
        (Step(kind, key, None, value) for kind, values in replayed.state.items() for key, value in values.items()),
        key=lambda step: (step.kind, str(step.key)),
    )
    if options.format in _STATE_FORMATS:
        is_nft = options.format == "nft" and "nft_table" not in replayed.state
        sys.stdout.write(render(nft_state(replayed.state) if is_nft else replayed.state, options.format))
    elif options.format == "json":
        values = [{"kind": step.kind, "key": plain(step.key), "value": plain(step.after)} for step in items]
        services = [{"virtual_server": str(server), "service": port} for server, port in sorted(replayed.names.items())]
        moments = {"at": at / 1000, "changed": replayed.since / 1000, "last_record": replayed.last / 1000}
        document = {**moments, "running": replayed.is_running, "items": values, "services": services}
        print(json.dumps(document, indent=1))
    else:
        running = "" if replayed.is_running else "; no agent ran"
        changed, last = shown(replayed.since), shown(replayed.last)
        print(f"# wanted at {shown(at)}: last changed {changed}, last record {last}{running}")
        for step in items:
            print(step.describe()[2:])
    return True


def _records(reader: Any, options: argparse.Namespace) -> bool:
    from ..history.reading import DAMAGED
    from .desired import complain
    from .history_text import Printer
    from .history_time import shown

    heads = reader.checkpoints()
    since = 0 if options.since is None else options.since
    before = [head for head in heads if head.moment <= since]
    head = before[-1] if before else heads[0] if heads else None
    whole = reader.state(head) if head is not None else None
    printer = Printer(options.format, options.service, whole[1] if whole is not None else {})
    first = reader.first()
    if options.format == "text":
        printer.begin(heads[0].moment if heads else None, first.moment if first is not None else None)
    known_from = head.number if head is not None else 0
    for line in reader.lines(0, min(since, head.moment) if head is not None else since):
        if line.type == DAMAGED:
            printer.has_gaps = True  # the reader names the file
            continue
        record = line.record()
        if options.until is not None and record.moment > options.until:
            break
        if record.moment >= since:
            printer.show(record)
        elif record.number >= known_from:
            printer.learn(record)
    printer.end()
    missing = _room(reader, first.moment, since) if first is not None and options.since is not None else ""
    if first is not None and missing:
        complain(f"the history has no record before {shown(first.moment)}{missing}")
    return not printer.has_gaps and not missing


def _room(reader: Any, known: int, asked: int) -> str:
    """Return why a full ring does not reach back to a moment, with the remedy; "" if the ring was never full."""
    first = reader.first()
    if first is None or first.number == 1 or known <= asked:
        return ""
    size, last = reader.extent()
    room = size * max(1, last - asked) // max(1, last - known) * 5 // 4  # a ring is never quite full
    if room > _MOST_ROOM:
        hours = _MOST_ROOM * max(1, last - known) // max(1, size) / 3_600_000
        return f"; it was full, and older ones were removed; history.maxSize: 1024Mi would hold some {hours:.0f} hours"
    need = -(-room >> 20)
    return f"; it was full, and older ones were removed; to keep them, set history.maxSize to about {need}Mi"
