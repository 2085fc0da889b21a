# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages as the kernel sends them: netlink itself, IPVS, sets, links, addresses, routes, connections."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any

from fuzz.choices import Choices
from fuzz.kernel_messages import Kernel, packed, payloads
from fuzz.target import Target

from kubenode.engine.errors import EngineError
from kubenode.engine.kernel.ipset import dump as set_dump
from kubenode.engine.kernel.ipvs import connection, control, statistics, table
from kubenode.engine.kernel.ipvs.codec import pack_real, pack_server
from kubenode.engine.kernel.netlink import NetlinkSocket, attribute, message
from kubenode.engine.kernel.nfnetlink import conntrack
from kubenode.engine.kernel.nfnetlink import monitor as rule_events
from kubenode.engine.kernel.rtnetlink import addresses
from kubenode.engine.kernel.rtnetlink import monitor as events
from kubenode.engine.model.ipvs import RealServer, RealServerKey, VirtualServer, VirtualServerKey

_HEADER = Struct("=IHHII")
_KIND = Struct("=H")
_U32 = Struct("=I")
_U64 = Struct("=Q")
_BE16 = Struct(">H")
_BE32 = Struct(">I")
_DONE = message(3, 0, bytes(4))
_KEYS = (
    VirtualServerKey("tcp", "10.96.0.1", 80, 4),
    VirtualServerKey("udp", "fd00::1", 53, 6),
    VirtualServerKey("fwmark", "", 7, 4),
)
_REALS = ("10.244.1.5", "fd00:244::5", "10.244.1.6")


class _Channel:
    """Socket with packets of the kernel.

    A read without a packet fails, as after a timeout.
    """

    def __init__(self, packets: list[bytes]) -> None:
        self._packets = packets

    def send(self, packet: bytes) -> int:
        return len(packet)

    def recv(self, size: int, _flags: int = 0) -> bytes:
        if not self._packets:
            raise BlockingIOError
        return self._packets.pop(0)[:size]

    def recvfrom(self, size: int, flags: int = 0) -> tuple[bytes, tuple[int, int]]:
        return self.recv(size, flags), (0, 0)

    def close(self) -> None:
        self._packets.clear()


class _Talking(NetlinkSocket):
    """Netlink socket whose packets come from the test."""

    def __init__(self, packets: list[bytes]) -> None:
        self._socket = _Channel(packets)
        self._sequence = 0


def _netlink(data: bytes) -> None:
    choices = Choices(data)
    kind = choices.below(3)
    packets = payloads(choices.rest())[:16]
    with _Talking(packets) as talking:
        asked = message(16, 0, bytes(4))
        if kind == 0:
            talking.dump(asked)
        elif kind == 1:
            talking.query(asked)
        else:
            talking.request([asked, asked, asked])


def _ipvs(data: bytes) -> None:
    kernel = Kernel(payloads(data))
    connection.GenericSocket = lambda _family: kernel
    calls: tuple[Callable[[], Any], ...] = (
        lambda: table.read(precise=True),
        statistics.statistics,
        control.daemons,
        control.get_timeouts,
        control.info,
        lambda: table.read_connections(_KEYS),
    )
    _each(*calls)


def _each(*calls: Callable[[], Any]) -> None:
    """Make every call, also after one has raised its documented error."""
    for call in calls:
        try:
            call()
        except EngineError:
            pass


def _ipset(data: bytes) -> None:
    set_dump.NetlinkSocket = lambda _protocol: Kernel(payloads(data))
    set_dump.read(["a"])


class _Routing(Kernel):
    """Kernel that answers requests for links, addresses and routes with the payloads marked with the kind's number."""

    def dump(self, asked: bytes) -> list[bytes]:
        (kind,) = _KIND.unpack_from(asked, 4)
        return [payload[1:] for payload in self.payloads if payload[:1] == bytes((kind,))]


def _rtnetlink(data: bytes) -> None:
    kernel = _Routing(payloads(data))
    addresses.NetlinkSocket = lambda _protocol: kernel
    _each(
        lambda: addresses.read({"lo", "eth0"}),
        lambda: addresses.read_routes({"lo", "eth0"}),
        addresses.node_addresses,
    )


def _conntrack(data: bytes) -> None:
    conntrack.NetlinkSocket = lambda _protocol: Kernel(payloads(data))
    _each(lambda: conntrack.udp_flows(4), lambda: conntrack.udp_flows(6))


def _link_events(data: bytes) -> None:
    listening = events.Events.__new__(events.Events)
    listening._socket = _Channel([data])
    for event in listening.read() or ():
        assert isinstance(event, events.Event)


def _rule_events(data: bytes) -> None:
    listening = rule_events.RuleEvents.__new__(rule_events.RuleEvents)
    listening._socket = _Channel([data])
    assert isinstance(listening.rules_changed(), bool)


def _counters(wide: Struct) -> bytes:
    return b"".join(attribute(number, wide.pack(number)) for number in range(1, 11))


def _ipvs_seeds() -> list[bytes]:
    server = VirtualServer("rr", 0, 0, 32, "")
    payloads = []
    for key in _KEYS:
        value = server._replace(netmask=128) if key.family == 6 else server
        payload = bytes((1, 1, 0, 0)) + _more(
            pack_server(key, value), attribute(10, _counters(_U32)) + attribute(12, _counters(_U64))
        )
        payloads.append(payload)
        for address in _REALS:
            counts = b"".join(attribute(number, _U32.pack(3)) for number in (7, 8, 9)) + attribute(10, _counters(_U32))
            payloads.append(
                bytes((5, 1, 0, 0))
                + _more(pack_real(RealServerKey(key, address, 8080), RealServer(1, "masquerade")), counts)
            )
    daemon = (
        attribute(1, _U32.pack(1))
        + attribute(2, b"eth0\0")
        + attribute(3, _U32.pack(5))
        + attribute(5, bytes((224, 0, 0, 81)))
    )
    payloads.append(bytes((9, 1, 0, 0)) + attribute(3, daemon))
    return [packed(payloads), *(packed([payload]) for payload in payloads)]


def _more(nested: bytes, attributes: bytes) -> bytes:
    """Return a nested attribute with further attributes in it."""
    (size, kind) = Struct("=HH").unpack_from(nested)
    return attribute(kind, nested[4:size] + attributes)


def _set_seeds() -> list[bytes]:
    ip = attribute(1, attribute(1, bytes((10, 0, 0, 1))))
    port = attribute(4, _BE16.pack(80))
    tcp = attribute(7, bytes((6,)))
    other = attribute(20, attribute(1, bytes((10, 0, 0, 2))))
    numbers = ((18, 1024), (19, 65536), (17, 7), (24, 1), (25, 0), (26, 100))
    sizes = b"".join(attribute(number, _BE32.pack(value)) for number, value in numbers) + attribute(21, bytes((12,)))
    seeds = []
    for kind, member in (
        ("hash:ip", ip),
        ("hash:ip,port", ip + port + tcp),
        ("hash:ip,port,ip", ip + port + tcp + other),
        ("hash:ip,port,net", ip + port + tcp + other + attribute(21, bytes((24,)))),
        ("bitmap:port", port),
    ):
        head = port + attribute(5, _BE16.pack(90)) if kind == "bitmap:port" else sizes
        texts = (
            attribute(2, b"a\0")
            + attribute(3, kind.encode() + b"\0")
            + attribute(4, bytes((1,)))
            + attribute(5, bytes((2,)))
        )
        first = bytes((2, 0, 0, 0)) + texts + attribute(7, head)
        seeds.append(
            packed([first, bytes((2, 0, 0, 0)) + attribute(2, b"a\0") + attribute(8, attribute(7, member) * 2)])
        )
    empty = (
        bytes((2, 0, 0, 0))
        + attribute(2, b"a\0")
        + attribute(3, b"hash:ip\0")
        + attribute(5, bytes((2,)))
        + attribute(7, sizes)
    )
    return [*seeds, packed([empty + attribute(8, attribute(7, attribute(1, b"")))])]


def _route_payloads() -> list[bytes]:
    four, six = bytes((10, 96, 0, 1)), b"\xfd" + bytes(15)
    link = Struct("=BxHiII").pack(0, 1, 2, 1, 0) + attribute(3, b"eth0\0") + attribute(18, attribute(1, b"dummy\0"))
    payloads = [link]
    for family, raw in ((2, four), (10, six)):
        payloads.append(Struct("=BBBBI").pack(family, 8 * len(raw), 0, 0, 2) + attribute(1, raw) + attribute(2, raw))
        for protocol in (2, 3):
            head = Struct("=BBBBBBBBI").pack(family, 8 * len(raw), 0, 0, 255, protocol, 0, 2, 0)
            payloads.append(head + attribute(1, raw) + attribute(4, _U32.pack(2)))
    return payloads


def _routing_seeds() -> list[bytes]:
    marked = [
        bytes((kind,)) + payload for kind, payload in zip((18, 22, 26, 26, 22, 26, 26), _route_payloads(), strict=True)
    ]
    return [packed(marked), *(packed([each]) for each in marked)]


def _flow_seeds() -> list[bytes]:
    flows = []
    for family, raw in ((2, bytes((10, 0, 0, 1))), (10, b"\xfd" + bytes(15))):
        source, destination = (1, 2) if family == 2 else (3, 4)
        protocol = attribute(2, attribute(1, bytes((17,))) + attribute(2, _BE16.pack(5)) + attribute(3, _BE16.pack(53)))
        tuple_ = attribute(1, attribute(source, raw) + attribute(destination, raw)) + protocol
        flow = attribute(1, tuple_) + attribute(2, tuple_) + attribute(12, _U32.pack(9)) + attribute(18, _BE16.pack(1))
        flows.append(bytes((family, 0, 0, 0)) + flow)
    return [packed(flows), *(packed([payload]) for payload in flows)]


def _netlink_seeds() -> list[bytes]:
    good = _HEADER.pack(24, 16, 2, 1, 0) + bytes(8)
    done = _HEADER.pack(20, 3, 2, 1, 0) + bytes(4)
    refused = _HEADER.pack(36, 2, 0, 1, 0) + Struct("=i").pack(-2) + bytes(16)
    torn = _HEADER.pack(24, 16, 0x12, 1, 0) + bytes(8)
    end = _HEADER.pack(36, 2, 0, 4, 0) + bytes(20)
    packets = (
        [good + good, done],
        [good, refused],
        [torn, done],
        [refused, end],
        [_HEADER.pack(0, 16, 2, 1, 0)],
        [done[:18]],
    )
    return [bytes((kind,)) + packed(list(each)) for kind in range(3) for each in packets]


def _event_seeds() -> list[bytes]:
    events = []
    for kind, payload in zip((16, 20, 25, 25, 20, 25, 25), _route_payloads(), strict=False):
        events.append(_HEADER.pack(16 + len(payload), kind, 0, 0, 0) + payload)
    return [*events, b"".join(events), _HEADER.pack(0, 16, 0, 0, 0), _HEADER.pack(17, 16, 0, 0, 0) + b"\0"]


def _rule_seeds() -> list[bytes]:
    table = attribute(1, b"nat\0")
    events = [Struct("=IHHIIBBH").pack(20 + len(table), 0xA06, 0, 0, 0, family, 0, 0) + table for family in (1, 2, 10)]
    return [*events, b"".join(events), bytes(20)]


TARGETS = {
    "netlink": Target(_netlink, _netlink_seeds(), (OSError,), longest=512),
    "ipvs": Target(_ipvs, _ipvs_seeds(), longest=2048),
    "ipset": Target(_ipset, _set_seeds(), (set_dump.UnfamiliarError,), longest=1024),
    "rtnetlink": Target(_rtnetlink, _routing_seeds(), longest=512),
    "conntrack": Target(_conntrack, _flow_seeds(), longest=512),
    "link_events": Target(_link_events, _event_seeds(), (), longest=512),
    "rule_events": Target(_rule_events, _rule_seeds(), (), longest=256),
}
