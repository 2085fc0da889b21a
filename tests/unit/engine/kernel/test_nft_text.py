# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Error messages of nft."""

from __future__ import annotations

import pytest

from kubenode.engine.kernel.nft_text import Complaint, complaint


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        (
            "/dev/stdin:3:5-9: Error: syntax error, unexpected string\n  tcp dprt 22\n\n/dev/stdin:9:1-1: Error: x",
            Complaint("/dev/stdin", 3, "syntax error, unexpected string"),
        ),
        (
            "In file included from /dev/stdin:2:1-24:\n/etc/x.nft:7:1-5: Error: syntax error\n",
            Complaint("/etc/x.nft", 7, "syntax error"),
        ),
        ("Error: No such file\nlist table ip x\n", Complaint("/dev/stdin", 0, "No such file")),
        ("", Complaint("/dev/stdin", 0, "nft failed without a message")),
    ],
)  # fmt: skip
def test_first_error_has_file_line_and_text(errors: str, expected: Complaint) -> None:
    assert complaint(errors) == expected
