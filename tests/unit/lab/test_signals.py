# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signals for the packaged kernel. The kernel here is a fake; the demo and other clones without a built one boot it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

LAB = Path(__file__).parents[3] / "molecule/lab"
# Waits for three signals, reboots as the kernel does, waits for three more, and until it has one sender.
KERNEL = f"""\
#!{sys.executable}
import os, signal, sys
from contextlib import suppress

signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
for _ in range(3):
    signal.sigwait([signal.SIGIO])
if "REBOOTED" not in os.environ:
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGIO])
    os.execve(sys.argv[1], sys.argv[1:], {{**os.environ, "REBOOTED": "yes"}})
session = []
while len(session) != 2:
    session.clear()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(ProcessLookupError):
            session += [pid] * (os.getsid(int(pid)) == os.getpid())
print("signalled")
"""


def test_packaged_kernel_has_one_sender_that_ends_with_it(tmp_path: Path) -> None:
    lab = tmp_path / "molecule/lab"  # a tree without a built kernel
    lab.mkdir(parents=True)
    for name in ("kernel", "xstate.c"):
        shutil.copy(LAB / name, lab)
    program = tmp_path / "linux.uml"
    program.write_text(KERNEL)
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    # The sender has the output, too: its end shows that of the sender.
    ran = subprocess.run(
        [lab / "kernel", lab / "kernel"],
        env=environment, capture_output=True, text=True, start_new_session=True, timeout=300,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "signalled\n", "")
