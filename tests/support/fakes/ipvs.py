# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fake kernel for faults that a real kernel does not show on demand.

It keeps IPVS services in a dictionary, and returns scripted errors.
"""

from __future__ import annotations

import errno
from types import TracebackType
from typing import Any

from kubenode.engine.kernel.ipvs.attributes import Command, Service
from kubenode.engine.kernel.netlink import attributes

_IDENTITY = (Service.AF, Service.PROTOCOL, Service.ADDR, Service.PORT, Service.FWMARK)


class FakeKernel:
    """Replaces :class:`~kubenode.engine.kernel.genetlink.GenericSocket`: takes real messages, keeps services only.

    ``faults`` maps a command to the errno with which it fails; ``forgetful`` makes the list of services stay empty;
    ``asked`` has every received command.
    """

    def __init__(self) -> None:
        self.services: dict[Any, bytes] = {}
        self.faults: dict[int, int] = {}
        self.forgetful = False
        self.asked: list[int] = []

    def __call__(self, _family: str) -> FakeKernel:
        return self

    def __enter__(self) -> FakeKernel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass

    def message(self, command: int, _flags: int = 0, payload: bytes = b"") -> bytes:
        return bytes((command, 1, 0, 0)) + payload

    def renumber(self) -> bool:
        return False

    def dump(self, message: bytes) -> list[bytes]:
        code = self._take(message[0])
        if code:
            raise OSError(code, "scripted")
        if self.forgetful or message[0] != Command.GET_SERVICE:
            return []
        return [b"\0\0\0\0" + raw for raw in self.services.values()]

    def request(self, messages: list[bytes]) -> list[int]:
        return [self._take(message[0]) or self._change(message[0], message[4:]) for message in messages]

    def _take(self, command: int) -> int:
        self.asked.append(command)
        return self.faults.get(command, 0)

    def _change(self, command: int, raw: bytes) -> int:
        fields = attributes(raw, 4)
        key = tuple(fields.get(number) for number in _IDENTITY)
        if command == Command.NEW_SERVICE:
            if key in self.services:
                return errno.EEXIST
            self.services[key] = raw
        elif self.services.get(key) is None:
            return errno.ESRCH
        elif command == Command.DEL_SERVICE:
            del self.services[key]
        return 0
