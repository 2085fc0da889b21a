# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel modules that are missing, as on a node that lacks their package."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..waiting import eventually

_HELPER = Path("/proc/sys/kernel/modprobe")


@contextmanager
def no_module_loads() -> Iterator[None]:
    """Let the kernel load no module by itself; modprobe still does."""
    former = _HELPER.read_text()
    _HELPER.write_text("/bin/false")
    try:
        yield
    finally:
        _HELPER.write_text(former)


def unload_ip_vs() -> None:
    """Unload ip_vs, which the kernel allows after the last namespace that used it is gone."""

    def gone() -> bool:
        loaded = [line.split()[0] for line in Path("/proc/modules").read_text().splitlines()]
        users = [name for name in loaded if name.startswith("ip_vs_") or name == "xt_ipvs"]
        subprocess.run(["modprobe", "-r", *users, "ip_vs"], check=False, capture_output=True)
        return not Path("/sys/module/ip_vs").exists()

    eventually(gone)
