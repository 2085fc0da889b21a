# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limit of the register state (``molecule/lab/xstate.c``), with which the lab's kernel runs on newer processors."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
TRACEME, KILL, GETREGSET, SETREGSET = 0, 8, 0x4204, 0x4205
XSTATE = 0x202
LEGACY_AND_HEADER = 512 + 64  # any processor with XSAVE has this much, and one with AVX has more
XMM0 = 160


class Area(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


def ask(library: ctypes.CDLL, request: int, pid: int, area: bytearray) -> tuple[int, int]:
    """Return errno, and the number of bytes read or written."""
    library.ptrace.restype = ctypes.c_long
    buffer = (ctypes.c_char * len(area)).from_buffer(area)
    given = Area(ctypes.addressof(buffer), len(area))
    ctypes.set_errno(0)
    status = library.ptrace(request, pid, ctypes.c_void_p(XSTATE), ctypes.byref(given))
    return (ctypes.get_errno() if status < 0 else 0), given.size


@pytest.fixture
def stopped() -> Iterator[int]:
    """Start a traced process that stays stopped."""
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).ptrace(TRACEME, 0, None, None)
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    os.waitpid(pid, 0)
    yield pid
    ctypes.CDLL(None).ptrace(KILL, pid, None, None)
    os.waitpid(pid, 0)


@pytest.fixture
def preloaded(tmp_path: Path) -> ctypes.CDLL:
    library = tmp_path / "xstate.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(ROOT / "molecule/lab/xstate.c")], check=True)
    return ctypes.CDLL(str(library), use_errno=True)


def test_short_xstate_area_sets_its_registers(stopped: int, preloaded: ctypes.CDLL) -> None:
    whole = bytearray(1 << 16)
    code, size = ask(preloaded, GETREGSET, stopped, whole)
    assert code == 0
    assert LEGACY_AND_HEADER < size < 1 << 16
    short = whole[:LEGACY_AND_HEADER]
    short[XMM0 : XMM0 + 16] = bytes(range(16))
    short[512] |= 2  # XSAVE's header: SSE is in use
    plain = ctypes.CDLL(None, use_errno=True)
    assert ask(plain, SETREGSET, stopped, short)[0] == errno.EFAULT  # the host's answer without the library
    for _time in range(2):
        assert ask(preloaded, SETREGSET, stopped, short)[0] == 0
        now = bytearray(size)
        assert ask(plain, GETREGSET, stopped, now) == (0, size)
        assert now[XMM0 : XMM0 + 16] == bytes(range(16))


def test_whole_xstate_area_passes_unchanged(stopped: int, preloaded: ctypes.CDLL) -> None:
    area = bytearray(1 << 16)
    _code, size = ask(preloaded, GETREGSET, stopped, area)
    whole = area[:size]
    whole[XMM0 : XMM0 + 16] = bytes(range(16, 32))
    whole[512] |= 2
    assert ask(preloaded, SETREGSET, stopped, whole) == (0, size)
    now = bytearray(size)
    ask(preloaded, GETREGSET, stopped, now)
    assert now[XMM0 : XMM0 + 16] == bytes(range(16, 32))
