# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that wake a user-mode kernel. The console here is a fake; the kernels of tests/kernel have the real one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

WAKE = Path(__file__).parents[3] / "molecule/lab/wake"


def test_console_can_answer_and_no_file_is_left(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as console:
        console.bind(str(tmp_path / "mconsole"))
        console.settimeout(60)
        wake = subprocess.Popen([sys.executable, WAKE, tmp_path / "mconsole"], env={**os.environ, "TMPDIR": str(files)})
        request, sender = console.recvfrom(4096)
        console.sendto(b"OK", sender)
        wake.terminate()
        wake.wait()
    assert request[12:].rstrip(b"\0") == b"version"
    assert list(files.iterdir()) == []
