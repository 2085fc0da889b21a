# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversation with nftables: repeated reading, refusals of a transaction, and malformed answers.

The kernel is a fake that answers with given messages.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from kubenode.engine.errors import BusyError, KernelError, MissingError
from kubenode.engine.kernel.netlink import attribute, string_attribute
from kubenode.engine.kernel.nftables.chains import encode_table
from kubenode.engine.kernel.nftables.set_elements import encode_element
from kubenode.engine.kernel.nftables.sets import encode_set
from kubenode.engine.kernel.nftables.transaction import Refusal, transact
from kubenode.engine.model.nftables import ElementKey, NftSet, SetKey, TableKey

read: Any = import_module("kubenode.engine.kernel.nftables.read")
TABLE = TableKey("ip", "t")
SET, ADDRESSES = SetKey(TABLE, "s"), NftSet(("ipv4_addr",))
HEADER = bytes((2, 0, 0, 0))
GETTABLE, GETSET, GETSETELEM, GETGEN = 1, 10, 13, 16


class Kernel:
    """Kernel whose answers to a command are functions, called once for each request."""

    def __init__(self, generation: Callable[[], int], **dumps: Callable[[], list[bytes]]) -> None:
        self.generation = generation
        self.dumps = {int(command[1:]): answer for command, answer in dumps.items()}

    def query(self, _asked: bytes) -> list[bytes]:
        return [HEADER + attribute(1, struct.pack(">I", self.generation()))]

    def dump(self, asked: bytes) -> list[bytes]:
        if asked[16] != HEADER[0] or asked[4] not in self.dumps:
            return []
        return [HEADER + payload for payload in self.dumps[asked[4]]()]

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *_error: object) -> None:
        return None


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[Kernel], None]:
    monkeypatch.setattr(read, "sleep", lambda _seconds: None)
    return lambda kernel: monkeypatch.setattr(read, "NetlinkSocket", lambda _protocol: kernel)


def raising(code: int) -> Callable[[], list[bytes]]:
    def answer() -> list[bytes]:
        raise OSError(code, "refused")

    return answer


def test_tables_are_read_again_after_a_change(use: Callable[[Kernel], None]) -> None:
    numbers = iter((1, 2, 2, 2))
    dumps = iter(([], [encode_table(TABLE, 0)]))
    use(Kernel(lambda: next(numbers), g1=lambda: next(dumps)))
    assert read.read_generation() == (
        2,
        {"nft_table": {TABLE: 0}, "nft_set": {}, "nft_element": {}, "nft_chain": {}},
    )


def test_endless_changes_are_an_error(use: Callable[[Kernel], None]) -> None:
    numbers = iter(range(1000))
    use(Kernel(lambda: next(numbers)))
    with pytest.raises(BusyError):
        read.read()


@pytest.mark.parametrize("code", [errno.ENOENT, errno.EINTR])
def test_vanishing_tables_are_an_error_in_the_end(use: Callable[[Kernel], None], code: int) -> None:
    use(Kernel(lambda: 1, g1=lambda: [encode_table(TABLE, 0)], g10=raising(code)))
    with pytest.raises(BusyError):
        read.read()


@pytest.mark.parametrize(
    ("code", "kind"),
    [(errno.EPERM, MissingError), (errno.EOPNOTSUPP, MissingError), (errno.ENOBUFS, KernelError)],
)
def test_refused_reading_is_explained(use: Callable[[Kernel], None], code: int, kind: type[KernelError]) -> None:
    use(Kernel(lambda: 1, g1=raising(code)))
    with pytest.raises(kind, match="nftables"):
        read.read()


@pytest.mark.parametrize("size", [b"", attribute(20, struct.pack(">I", 2))])
def test_elements_are_read_again_while_the_kernel_moves_them(use: Callable[[Kernel], None], size: bytes) -> None:
    members = [encode_element(ADDRESSES, (f"10.0.0.{number}",)) for number in (1, 2)]
    dumps = iter((members[:1], members, members))
    use(
        Kernel(
            lambda: 1,
            g1=lambda: [encode_table(TABLE, 0)],
            g10=lambda: [encode_set(SET, ADDRESSES, 1) + size],
            g13=lambda: [attribute(3, b"".join(next(dumps)))],
        )
    )
    assert read.read()["nft_element"] == {ElementKey(SET, (f"10.0.0.{number}",)): "" for number in (1, 2)}


@pytest.mark.parametrize(
    "dumps",
    [
        {"g1": [b""]},
        {"g1": [bytes(4)]},
        {"g1": [string_attribute(1, "t") + attribute(2, b"x")]},
        {"g10": [string_attribute(1, "t")]},
        {"g10": [encode_set(SET, ADDRESSES, 1)], "g13": [attribute(3, bytes(4))]},
        {"g10": [encode_set(SET, ADDRESSES, 1)], "g13": [attribute(3, attribute(1, b""))]},
        {"g4": [string_attribute(1, "t")]},
        {"g7": [string_attribute(1, "t")]},
    ],
)
def test_malformed_answer_is_a_documented_error(use: Callable[[Kernel], None], dumps: dict[str, list[bytes]]) -> None:
    answers = {"g1": [encode_table(TABLE, 0)], **dumps}
    use(Kernel(lambda: 1, **{key: lambda payloads=payloads: payloads for key, payloads in answers.items()}))
    with pytest.raises(KernelError, match="cannot be decoded"):
        read.read()


def test_name_with_zero_bytes_is_read(use: Callable[[Kernel], None]) -> None:
    table = TableKey("ip", "a\0b")
    use(Kernel(lambda: 1, g1=lambda: [encode_table(table, 0)]))
    assert read.read()["nft_table"] == {table: 0}


class Channel:
    """Socket of a transaction: it keeps what is sent, and has answers."""

    def __init__(self, answers: list[bytes | OSError]) -> None:
        self.answers = answers
        self.sent = b""

    def send(self, packet: bytes) -> int:
        self.sent = bytes(packet)
        return len(packet)

    def recvfrom(self, _size: int, _flags: int) -> tuple[bytes, tuple[int, int]]:
        if not self.answers:
            raise BlockingIOError
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer, (0, 0)

    def setsockopt(self, *_option: object) -> None:
        return None

    def bind(self, _address: object) -> None:
        return None

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *_error: object) -> None:
        return None


def refusal(sequence: int, code: int, details: bytes = b"") -> bytes:
    body = struct.pack("=iIHHII", -code, 16, 0, 0, sequence, 0) + details
    return struct.pack("=IHHII", 16 + len(body), 2, 0x300 if details else 0x100, sequence, 0) + body


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Channel]:
    def use(*answers: bytes | OSError) -> Channel:
        channel = Channel(list(answers))
        monkeypatch.setattr(socket, "socket", lambda *_arguments: channel)
        return channel

    return use


MESSAGE = struct.pack("=IHHII", 20, 0xA00, 1, 0, 0) + HEADER


def test_refusals_have_number_text_and_offset(answering: Callable[..., Channel]) -> None:
    details = string_attribute(1, "no such set") + attribute(2, struct.pack("=I", 44))
    answering(refusal(3, errno.ENOENT, details), refusal(2, errno.EEXIST) + refusal(4, 0))
    assert transact([MESSAGE] * 3) == [Refusal(0, errno.EEXIST, "", 0), Refusal(1, errno.ENOENT, "no such set", 44)]
    assert Refusal(1, errno.ENOENT, "no such set", 44).reason() == "No such file or directory (no such set)"


def test_batch_has_begin_generation_and_end(answering: Callable[..., Channel]) -> None:
    channel = answering()
    assert transact([MESSAGE], generation=7) == []
    assert channel.sent[4] == 16
    assert attribute(1, struct.pack(">I", 7)) in channel.sent
    assert channel.sent[-16] == 17
    transact([MESSAGE], rehearse=True)
    assert channel.sent[-16] != 17


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.ERESTART, BusyError),
        (errno.EPERM, MissingError),
        (errno.EOPNOTSUPP, MissingError),
        (errno.ENOMEM, KernelError),
    ],
)
def test_refused_batch_is_explained(answering: Callable[..., Channel], code: int, kind: type[KernelError]) -> None:
    answering(refusal(1, code))
    with pytest.raises(kind, match="nftables"):
        transact([MESSAGE])


def test_first_refusal_survives_a_full_queue(answering: Callable[..., Channel]) -> None:
    answering(OSError(errno.ENOBUFS, "full"), refusal(2, errno.EINVAL))
    assert transact([MESSAGE]) == [Refusal(0, errno.EINVAL, "", 0)]
    answering(OSError(errno.ENOBUFS, "full"))
    with pytest.raises(KernelError, match="lost"):
        transact([MESSAGE])


@pytest.mark.parametrize(
    "answer",
    [
        b"x",
        struct.pack("=IHHII", 0, 2, 0, 2, 0),
        struct.pack("=IHHII", 20, 2, 0, 2, 0) + bytes(4),
        refusal(2, errno.EINVAL, b"\1\0\1\0"),
        refusal(99, errno.EINVAL),
        OSError(errno.EMSGSIZE, "too long"),
    ],
)
def test_malformed_refusal_is_a_documented_error(answering: Callable[..., Channel], answer: bytes | OSError) -> None:
    answering(answer)
    with pytest.raises(KernelError):
        transact([MESSAGE])
