# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of ``ip_vs_conn``, as kernels print them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubenode.engine.errors import KernelError
from kubenode.engine.kernel.ipvs import established as module
from kubenode.engine.kernel.ipvs.established import Destination, established

LINES = """\
Pro FromIP   FPrt ToIP     TPrt DestIP   DPrt State       Expires PEName PEData
TCP 0A630032 E972 0A60000A 0050 0AF4020B 1F90 ESTABLISHED     899
TCP 0A630032 E973 0A60000A 0050 0AF4020B 1F90 ESTABLISHED     899
TCP 0A630032 E974 0A60000A 0050 0AF4020B 1F90 SYN_SENT        115
UDP 0A630032 E974 0A60000A 0035 0AF4020B 0035 UDP             299
TCP 2001:0db8:0000:0000:0000:0000:0000:0001 E972 2001:0db8:0000:0000:0000:0000:0000:0002 01BB \
2001:0db8:0000:0000:0000:0000:0000:0003 1F90 ESTABLISHED     899
"""


def test_established_connections_are_counted_by_destination(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conn").write_text(LINES)
    monkeypatch.setattr(module, "PATH", str(tmp_path / "conn"))
    assert established() == {Destination("tcp", "10.96.0.10", 80): 2, Destination("tcp", "2001:db8::2", 443): 1}
    (tmp_path / "conn").write_text("header\nTCP x ESTABLISHED \n")
    with pytest.raises(KernelError):
        established()
    (tmp_path / "conn").unlink()
    assert established() == {}
