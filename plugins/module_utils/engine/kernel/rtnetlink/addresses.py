# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and write links, their addresses and their local routes, by rtnetlink in batches."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import groupby
from typing import Any, NamedTuple

from ...errors import KernelError
from ...model import Items
from ...model.kinds import name
from ...model.link import STATIC, AddressKey, Link, Route, RouteKey
from ...model.net import pack, unpack
from ...model.step import Step
from .. import Failure, Result, finished, sysctls
from ..decoding import decoding
from ..fingerprint import Fingerprint
from ..netlink import (
    AF_INET,
    AF_INET6,
    NETLINK_ROUTE,
    NLM_F_CREATE,
    NLM_F_EXCL,
    NetlinkSocket,
    attribute,
    attributes,
    message,
    string,
    string_attribute,
)
from . import protocol
from .routes import first_routes, has_wildcard, local_routes, route_message, routed_addresses

_NO_QUEUE = bytes(4)  # kube-proxy gives kube-ipvs0 a queue of length 0; nothing is ever sent through it
_PATIENCE = 200  # attempts, 5 ms apart
_PROMOTE = "net/ipv4/conf/{link}/promote_secondaries"
_NO_LINK = 0x7FFFFFFF  # an index that no link has
_ADDRESSES = "the kernel's addresses"
_SLICE = 500  # addresses; some milliseconds

# Errors that mean that the step's result is already there.
_FULFILLED = {
    ("address", "create"): (errno.EEXIST,),
    ("address", "delete"): (errno.EADDRNOTAVAIL, errno.ENODEV),
    ("route", "create"): (errno.EEXIST,),
    ("route", "delete"): (errno.ESRCH, errno.ENODEV),
    ("link", "create"): (errno.EEXIST,),
    ("link", "delete"): (errno.ENODEV,),
}
_WORDS = {
    errno.EPERM: "the capability CAP_NET_ADMIN is needed (run as root)",
    errno.EACCES: "IPv6 is disabled on the link (sysctl net.ipv6.conf.*.disable_ipv6)",
    errno.ENODEV: "there is no such link",
    errno.EINVAL: "the kernel refused it as invalid",
}
_UNSUPPORTED = {
    "link": "the kernel does not know this type of link: load the kernel module {type}",
    "address": "the kernel has no support for this family of addresses: load the kernel module ipv6",
    "route": "the kernel has no support for this family of addresses: load the kernel module ipv6",
}


class _Known(NamedTuple):
    number: int
    link: Link


@contextmanager
def _conversation() -> Iterator[NetlinkSocket]:
    """Open an rtnetlink conversation.

    Raises:
        KernelError: the conversation failed, for example without memory or descriptors.
    """
    try:
        with NetlinkSocket(NETLINK_ROUTE) as socket:
            yield socket
    except OSError as error:
        raise KernelError(f"the conversation with the kernel's rtnetlink failed: {error.strerror or error}") from error


class Reading(NamedTuple):
    """Links that exist, and their addresses: None if these are as in the earlier reading with this fingerprint."""

    links: dict[str, Link]
    addresses: dict[AddressKey, bool] | None
    fingerprint: bytes | None


def read(links: Collection[str]) -> dict[str, dict[Any, Any]]:
    """Return the links of these names that exist, and their addresses."""
    present = finished(reading(links))
    return {"link": present.links, "address": present.addresses or {}}


def reading(links: Collection[str], earlier: bytes | None = None) -> Generator[None, None, Reading]:
    """Do what :func:`read` does, in slices. Decode no address if the fingerprint is the ``earlier`` one."""
    with _conversation() as socket:
        known = _links(socket)
        names = {known[link].number: link for link in links if link in known}
        payloads = _dump_addresses(socket)  # at once: a write in the middle would be a reason to dump again
    yield
    with decoding(_ADDRESSES):
        payloads = [payload for payload in payloads if protocol.link_of_address(payload) in names]
    present = {link: known[link].link for link in names.values()}
    fingerprint = Fingerprint()
    fingerprint.add(repr(sorted(names.items())).encode() + b"".join(payloads))
    fingerprint.end()
    if fingerprint.value == earlier:
        return Reading(present, None, earlier)
    addresses: dict[AddressKey, bool] = {}
    for first in range(0, len(payloads), _SLICE):
        decoded = _decoded(payloads[first : first + _SLICE])
        addresses.update((AddressKey(names[index], address, prefix), True) for index, address, prefix in decoded)
        yield
    return Reading(present, addresses, fingerprint.value)


def read_routes(links: Collection[str]) -> Items:
    """Return the local routes on these links, without the kernel's own.

    Of several routes of a network, the engine's comes before those of other programs.
    """
    with _conversation() as socket:
        names = {known.number: link for link, known in _links(socket).items() if link in links}
        return first_routes(_local_routes(socket, names))


def node_addresses() -> list[tuple[str, str, int]]:
    """Return link, address and prefix length of every address of the node."""
    with _conversation() as socket:
        names = {known.number: link for link, known in _links(socket).items()}
        return [(names[index], address, prefix) for index, address, prefix in _addresses(socket) if index in names]


def apply(steps: list[Step], keep_going: bool = False) -> Result:
    """Execute steps of the kinds ``link``, ``address`` and ``route``, many to a system call.

    Creating what exists, or deleting what is absent, counts as done. Without ``keep_going``, the first run of steps of
    one kind with a failure is the last. The kernel continues after a step that it refuses, so ``done`` may have steps
    behind the failed one.

    Raises:
        KernelError: the conversation ended (without ``keep_going`` only before anything was done).
    """
    done: list[Step] = []
    failed: list[Failure] = []
    fresh: set[str] = set()
    run: list[Step] = []
    try:
        with _conversation() as socket:
            for _kind, group in groupby(steps, key=lambda step: step.kind):
                run = list(group)
                if fresh and any(step.kind == "route" and step.after is None for step in run):
                    _wait_for_routes(socket, fresh)
                known = _links(socket)
                flushed = _flushed(socket, known, run)
                with _promoting(run):
                    outcome = _execute(socket, run, known)
                if flushed:
                    socket.request([_message(step, known) for step in flushed])
                other = _other_lengths(socket, known, run, outcome)
                for step, code in zip(run, outcome):
                    if step.key in other:
                        failed.append(
                            Failure(
                                step,
                                f"{name(step.kind, step.key)}: it is there with the prefix length {other[step.key]}",
                            )
                        )
                    elif code == 0 or code in _FULFILLED.get((step.kind, step.verb), ()):
                        done.append(step)
                        if step.kind == "address" and step.after is not None and ":" in step.key.address:
                            fresh.add(step.key.address)
                    else:
                        failed.append(Failure(step, _explain(step, code)))
                if failed and not keep_going:
                    break
    except KernelError as error:
        if keep_going or not run:
            raise
        return Result([*dict.fromkeys([*done, *run])], [*failed, Failure(run[0], str(error))])
    return Result(done, failed)


def _execute(socket: NetlinkSocket, steps: list[Step], known: dict[str, _Known]) -> list[int]:
    """Return the outcome of each step; removals that would take a route of another priority are not sent."""
    unsure = [step.kind == "route" and step.after is None and has_wildcard(step.key, step.before) for step in steps]
    present: set[tuple[RouteKey, Route]] = set()
    if any(unsure):
        present = set(_local_routes(socket, {link.number: title for title, link in known.items()}))
    absent = {
        index
        for index, (step, check) in enumerate(zip(steps, unsure))
        if check and (step.key, step.before or STATIC) not in present
    }
    sent = [index for index in range(len(steps)) if index not in absent]
    outcome = dict.fromkeys(absent, errno.ESRCH)
    outcome.update(zip(sent, socket.request([_message(steps[index], known) for index in sent])))
    return [outcome[index] for index in range(len(steps))]


def _flushed(socket: NetlinkSocket, known: dict[str, _Known], steps: list[Step]) -> list[Step]:
    """Return the steps that restore the IPv6 addresses of dummy links that go down.

    The kernel drops them with the link. Link-local addresses, which the kernel makes itself, are left out.
    """
    down = [step.key for step in steps if step.kind == "link" and step.verb == "change" and not step.after.up]
    links = {known[link].number: link for link in down if link in known and known[link].link.type == "dummy"}
    present = _addresses(socket) if links else ()
    keys = [AddressKey(links[index], address, prefix) for index, address, prefix in present if index in links]
    return [
        Step("address", key, None, True) for key in keys if ":" in key.address and not key.address.startswith("fe80:")
    ]


@contextmanager
def _promoting(steps: list[Step]) -> Iterator[None]:
    """Keep the other IPv4 addresses of a network when its first address is removed.

    The kernel would remove all of them with it.
    """
    links = {step.key.link for step in steps if step.kind == "address" and step.after is None and step.key.prefix < 32}
    changed = []
    try:
        for link in links:
            with suppress(OSError):
                if _promotes(link).strip() == "0":
                    _promotes(link, "1")
                    changed.append(link)
        yield
    finally:
        for link in changed:
            with suppress(OSError):
                _promotes(link, "0")


def _promotes(link: str, value: str = "") -> str:
    path = sysctls.path(sysctls.canonical(_PROMOTE.format(link=link)))
    with open(path, "w" if value else "r", encoding="ascii") as file:
        return str(file.write(value)) if value else file.read()


def _other_lengths(
    socket: NetlinkSocket, known: dict[str, _Known], steps: list[Step], outcome: list[int]
) -> dict[AddressKey, int]:
    """Return the refused addresses that their link has with another prefix length, with that length."""
    refused = [
        step.key for step, code in zip(steps, outcome) if step.kind == "address" and step.after and code == errno.EEXIST
    ]
    if not refused:
        return {}
    lengths = {(index, address): prefix for index, address, prefix in _addresses(socket) if ":" in address}
    prefix_of = {key: lengths.get((known[key.link].number, key.address), key.prefix) for key in refused}
    return {key: prefix for key, prefix in prefix_of.items() if prefix != key.prefix}


def _wait_for_routes(socket: NetlinkSocket, wanted: set[str]) -> None:
    """Wait until new IPv6 addresses are local: the kernel creates their routes asynchronously.

    Until then, the routes that they replace must stay.
    """
    for _time in range(_PATIENCE):
        payloads = _dump(socket, protocol.RTM_GETROUTE, protocol.ALL_ROUTES, "routes")
        with decoding("the kernel's routes"):
            if wanted <= routed_addresses(payloads):
                return
        time.sleep(0.005)


def _links(socket: NetlinkSocket) -> dict[str, _Known]:
    links = {}
    payloads = _dump(socket, protocol.RTM_GETLINK, protocol.ALL_LINKS, "links")
    with decoding("the kernel's links"):
        for payload in payloads:
            index, is_up, fields = protocol.unpack_link(payload)
            kind = attributes(fields.get(protocol.IFLA_LINKINFO, b"")).get(protocol.IFLA_INFO_KIND, b"")
            links[string(fields[protocol.IFLA_IFNAME])] = _Known(index, Link(string(kind), is_up))
    return links


def _local_routes(socket: NetlinkSocket, names: dict[int, str]) -> list[tuple[RouteKey, Route]]:
    payloads = _dump(socket, protocol.RTM_GETROUTE, protocol.ALL_ROUTES, "routes")
    with decoding("the kernel's routes"):
        return list(local_routes(payloads, names))


def _addresses(socket: NetlinkSocket) -> list[tuple[int, str, int]]:
    return _decoded(_dump_addresses(socket))


def _dump_addresses(socket: NetlinkSocket) -> list[bytes]:
    return _dump(socket, protocol.RTM_GETADDR, protocol.ALL_ADDRESSES, "addresses")


def _decoded(payloads: Iterable[bytes]) -> list[tuple[int, str, int]]:
    with decoding(_ADDRESSES):
        unpacked = [protocol.unpack_address(payload) for payload in payloads]
        return [(index, unpack(raw), prefix) for index, prefix, raw in unpacked if raw]


def _dump(socket: NetlinkSocket, kind: int, header: bytes, what: str) -> list[bytes]:
    try:
        return socket.dump(message(kind, 0, header))
    except OSError as error:
        raise KernelError(f"the kernel's {what} cannot be listed: {error.strerror}") from error


def _message(step: Step, known: dict[str, _Known]) -> bytes:
    if step.kind == "link":
        return _link_message(step, known)
    link = known.get(step.key.link)
    index = link.number if link else _NO_LINK
    if step.kind == "route":
        return route_message(step.key, index, step.before, step.after)
    raw = pack(step.key.address)
    family, flags = (AF_INET, 0) if len(raw) == 4 else (AF_INET6, protocol.IFA_F_NODAD)
    header = protocol.IFADDRMSG.pack(family, step.key.prefix, flags, 0, index)
    fields = attribute(protocol.IFA_LOCAL, raw) + attribute(protocol.IFA_ADDRESS, raw)
    if step.after is None:
        return message(protocol.RTM_DELADDR, 0, header + fields)
    return message(protocol.RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, header + fields)


def _link_message(step: Step, known: dict[str, _Known]) -> bytes:
    title = string_attribute(protocol.IFLA_IFNAME, step.key)
    if step.after is None:
        return message(protocol.RTM_DELLINK, 0, protocol.ALL_LINKS + title)
    flags = protocol.IFF_UP if step.after.up else 0
    header = protocol.IFINFOMSG.pack(0, 0, 0, flags, protocol.IFF_UP)
    if step.key in known:  # a step that changes the type fails in the kernel
        return message(protocol.RTM_NEWLINK, 0, header + title)
    info = attribute(protocol.IFLA_LINKINFO, attribute(protocol.IFLA_INFO_KIND, step.after.type.encode()))
    queue = attribute(protocol.IFLA_TXQLEN, _NO_QUEUE) if step.after.type == "dummy" else b""
    return message(protocol.RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, header + title + queue + info)


def _explain(step: Step, code: int) -> str:
    value = step.after or step.before
    text = _WORDS.get(code, f"the kernel answered: {os.strerror(code)}")
    if code == errno.EOPNOTSUPP:
        text = _UNSUPPORTED[step.kind]
    return f"{name(step.kind, step.key)}: {text.format(type=getattr(value, 'type', ''))}"
