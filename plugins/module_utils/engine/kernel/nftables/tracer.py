# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trace the packets of one connection through nftables, with a table that ends with this process.

The table has the flag owner: the kernel removes it when the socket that made it is closed, also after SIGKILL. Its
first chains set the packets' trace bit (``meta nftrace set 1``). Its other chains have no rule: their events tell where
a packet has arrived, and with which addresses, also where no other program has a chain.
"""

from __future__ import annotations

import errno
import select
import socket
import time
from struct import Struct
from types import TracebackType
from typing import NamedTuple

from ...errors import KernelError, MissingError
from ...model.nft_trace import TABLE_PREFIX, TraceEvent
from ...model.nftables import ChainKey, Compare, Foreign, Hook, NftChain, Rule, Statement, TableKey, Verdict
from ...model.step import Step
from ..decoding import decoding
from ..netlink import NETLINK_NETFILTER, SO_RCVBUFFORCE, SOL_NETLINK, event_socket, from_kernel
from ..nfnetlink.protocol import NFNLGRP_NFTRACE
from .expressions import make, pack
from .messages import compose
from .protocol import HOST32, TABLE_F_OWNER
from .trace_events import events
from .transaction import FORBIDDEN, MISSING, shorten_refusals, transact

BEGINNINGS, PACKETS = 4, 8  # of a rule's packets that are traced: first packets of TCP connections, others; powers of 2
FIRST = -500  # priority: before raw tables (-300), and before those of packets that are still fragments (-450)
AFTER_CONNTRACK = -199
LAST = 500  # priority: after the translation of addresses (100) and IPVS (99)
_MOST_EVENTS = 4096
_QUEUE_BYTES = 4 << 20
_QUIET = 0.3  # seconds without an event after which the connection rests
_LONGEST = 5.0  # seconds from the first event on, for other programs may trace packets all the time
_ADD_MEMBERSHIP = 1  # NETLINK_ADD_MEMBERSHIP
_GROUP = Struct("=i")
_META_NFTRACE = 12
_CT_DIRECTION, _CT_REPLY = 1, b"\x01"
_NUMGEN_INCREMENTAL = 0
_NUMGEN_MOST = 0xFFFFFFFF
_EQUAL = 0
_TRANSPORT, _TCP_FLAGS, _SYN, _SYN_ACK = 2, 13, b"\x02", b"\x12"
_NO_OWNER = "a trace needs tables of nftables that end with their process (Linux 5.12), which this kernel lacks"


class TracedFlow(NamedTuple):
    """The connection: its addresses as the client sends them; ``source`` "" for every client.

    ``replies``: trace the answers, too. Connection tracking must be in use on the node.
    """

    family: str
    protocol: str
    source: str
    destination: str
    port: int
    replies: bool


class Tracer:
    """Table and subscription, from the constructor to :meth:`close`. In the thread's network namespace.

    Raises:
        MissingError: the kernel lacks what a trace needs, or this process the right; nothing was changed.
        KernelError: the conversation failed, or the kernel refused the table; nothing was changed.
    """

    def __init__(self, flow: TracedFlow) -> None:
        self.is_incomplete = False  # events were lost
        self._early: list[bytes] = []  # packets that came with the answer about the table
        try:
            self._socket = event_socket(NETLINK_NETFILTER, 0, (SO_RCVBUFFORCE, _QUEUE_BYTES))
            shorten_refusals(self._socket)
        except OSError as error:
            raise MissingError(MISSING) from error
        try:
            # Port numbers of netlink sockets are unique, so no other process has a table of this name.
            self.table = TableKey(flow.family, f"{TABLE_PREFIX}{self._socket.getsockname()[0]}")
            self._create(flow)
        except BaseException:
            self.close()
            raise

    def _create(self, flow: TracedFlow) -> None:
        try:  # first, for a busy connection uses up the kernel's count of packets in no time
            self._socket.setsockopt(SOL_NETLINK, _ADD_MEMBERSHIP, _GROUP.pack(NFNLGRP_NFTRACE))
        except PermissionError:
            raise MissingError(FORBIDDEN) from None
        except OSError as error:
            raise KernelError(f"the kernel refused the events of a trace: {error.strerror}") from error
        batch = compose(steps(self.table, flow), {})
        refusals = transact([message.raw for message in batch], channel=self._socket, events=self._early)
        if refusals:
            refusal = refusals[0]
            if refusal.number == 0 and refusal.code in (errno.EOPNOTSUPP, errno.EINVAL):
                raise MissingError(_NO_OWNER)
            if refusal.code in (errno.ENOENT, errno.EOPNOTSUPP):
                raise MissingError("a trace needs the kernel modules nft_numgen and nft_ct")
            raise KernelError(f"the kernel refused the table of a trace: {refusal.reason()}")

    def close(self) -> None:
        """Close the socket: the kernel removes the table."""
        self._socket.close()

    def __enter__(self) -> Tracer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def read(self, seconds: float) -> list[TraceEvent]:
        """Return the events until the connection rests; wait at most ``seconds`` for the first one.

        Raises:
            KernelError: an event is malformed.
        """
        received: list[TraceEvent] = []
        deadline = time.monotonic() + seconds
        latest = deadline + _LONGEST
        while len(received) < _MOST_EVENTS:
            packet = self._early.pop(0) if self._early else self._next(deadline - time.monotonic())
            if packet is None:
                break
            with decoding("an event of the kernel's nftables"):
                received.extend(event for event in events(packet) if not self._is_of_another_trace(event))
            deadline = min(time.monotonic() + _QUIET, latest)
        return received

    def _is_of_another_trace(self, event: TraceEvent) -> bool:
        return event.table.startswith(TABLE_PREFIX) and event.table != self.table.name

    def _next(self, seconds: float) -> bytes | None:
        """Return the next packet of netlink; None if there is none within some seconds."""
        while select.select([self._socket], [], [], max(seconds, 0))[0]:
            try:
                return from_kernel(self._socket, socket.MSG_DONTWAIT)
            except BlockingIOError:
                continue
            except OSError:  # ENOBUFS: the queue overflowed
                self.is_incomplete = True
        return None


def steps(table: TableKey, flow: TracedFlow) -> list[Step]:
    """Return the steps that create the table."""
    requests = (*_requests(flow, with_flags=True), *_requests(flow, with_flags=False))
    chains = {
        "prerouting": NftChain(Hook("filter", "prerouting", FIRST), requests),
        "output": NftChain(Hook("filter", "output", FIRST), requests),
        "input": NftChain(Hook("filter", "input", FIRST), ()),
        "forward": NftChain(Hook("filter", "forward", FIRST), ()),
        "delivered": NftChain(Hook("filter", "input", LAST), ()),
        "postrouting": NftChain(Hook("filter", "postrouting", LAST), ()),
    }
    if flow.replies:
        replies = (_traced(_reply(flow), PACKETS),)
        chains["prerouting-replies"] = NftChain(Hook("filter", "prerouting", AFTER_CONNTRACK), replies)
        chains["output-replies"] = NftChain(Hook("filter", "output", AFTER_CONNTRACK), replies)
    return [
        Step("nft_table", table, None, TABLE_F_OWNER),
        *(Step("nft_chain", ChainKey(table, name), None, chain) for name, chain in chains.items()),
    ]


def _requests(flow: TracedFlow, with_flags: bool) -> tuple[Rule, ...]:
    """Return the rule for requests; ``with_flags``: that for the first packets of TCP connections, if it is TCP."""
    matches: list[Statement] = [
        Compare(f"{flow.family} daddr", flow.destination),
        Compare("meta l4proto", flow.protocol),
        Compare("th dport", str(flow.port)),
    ]
    if flow.source:
        matches.insert(0, Compare(f"{flow.family} saddr", flow.source))
    if not with_flags:
        return (_traced(matches, PACKETS),)
    if flow.protocol != "tcp":
        return ()
    begins = pack(
        [
            make("payload", dreg=1, base=_TRANSPORT, offset=_TCP_FLAGS, len=1),
            make("bitwise", sreg=1, dreg=1, len=1, mask=_SYN_ACK, xor=b"\0"),
            make("cmp", sreg=1, op=_EQUAL, data=_SYN),
        ]
    )
    return (_traced([*matches, Foreign(begins.hex())], BEGINNINGS, ends=True),)


def _reply(flow: TracedFlow) -> list[Statement]:
    """Return the matches of packets in the other direction: their original addresses are those of the request."""
    is_reply = pack([make("ct", dreg=1, key=_CT_DIRECTION), make("cmp", sreg=1, op=_EQUAL, data=_CT_REPLY)])
    matches: list[Statement] = [
        Foreign(is_reply.hex()),
        Compare("meta l4proto", flow.protocol),
        Compare(f"ct original {flow.family} daddr", flow.destination),
        Compare("ct original proto-dst", str(flow.port)),
    ]
    if flow.source:
        matches.append(Compare(f"ct original {flow.family} saddr", flow.source))
    return matches


def _traced(matches: list[Statement], most: int, ends: bool = False) -> Rule:
    """Return a rule that sets the trace bit of the first ``most`` packets (a power of 2) that match.

    So the kernel itself bounds the events, however busy the connection is.
    """
    mark = [
        make("numgen", dreg=1, modulus=_NUMGEN_MOST, type=_NUMGEN_INCREMENTAL),
        make("bitwise", sreg=1, dreg=1, len=4, mask=HOST32.pack(_NUMGEN_MOST & ~(most - 1)), xor=bytes(4)),
        make("cmp", sreg=1, op=_EQUAL, data=bytes(4)),
        make("immediate", dreg=1, data=b"\x01"),
        make("meta", key=_META_NFTRACE, sreg=1),
    ]
    end = (Verdict("accept"),) if ends else ()
    return Rule((*matches, Foreign(pack(mark).hex()), *end))
