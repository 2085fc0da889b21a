# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check mode refuses everything that ipset or the kernel would refuse.

The message names the position.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from kernel.modules import ModuleError, run


@pytest.fixture(autouse=True)
def table() -> Iterator[None]:
    yield
    run("ipsets", purge="owned")
    subprocess.run(["ipset", "destroy"], check=True)


def saved() -> str:
    return subprocess.run(["ipset", "save"], check=True, capture_output=True, text=True).stdout


S = {"name": "s", "type": "hash:ip"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"type": "bitmap:ip", "range": "10.0.0.0/15"},
            "set s: bitmap:ip range .*: The range you specified exceeds the size limit",
        ),
        ({"type": "bitmap:ip", "range": "10.0.0.0/8", "netmask": 8}, "set s: bitmap:ip range .*"),
        (
            {"members": ["192.0.2.1 evil"]},
            r"sets\[0\]\.members\[0\]: member '192\.0\.2\.1 evil' of set s \(hash:ip\): Unknown argument",
        ),
        (
            {"members": ["192.0.2.1", "192.0.2.2 timeout"], "timeout": 9},
            (
                r"sets\[0\]\.members\[1\]: member '192\.0\.2\.2 timeout' of set s \(hash:ip\): Missing mandatory"
                r" argument of option `timeout'"
            ),
        ),
        (
            {"members": ["192.0.2.1", f'192.0.2.2 comment "{"x" * 256}"'], "comment": True},
            (
                r"sets\[0\]\.members\[1\]: member '192\.0\.2\.2 comment \"x*\"' of set s \(hash:ip\): .*Comment is"
                r" longer than the maximum"
            ),
        ),
        (
            {"type": "hash:net,iface", "members": ["10.0.0.0/8,sixteen-letters-"]},
            (
                r"sets\[0\]\.members\[0\]: member '10\.0\.0\.0/8,sixteen-letters-' of set s \(hash:net,iface\):"
                r" .*longer than 15"
            ),
        ),
        (
            {"name": 'a"b'},
            (
                "sets\\[0\\]: name is 'a\"b', expected 1 to 31 characters without spaces and double quotes, and no"
                " kubenode"
            ),
        ),
        ({"name": "kubenode-swap-new"}, r"sets\[0\]: name is 'kubenode-swap-new', expected"),
    ],
)
def test_check_mode_refuses_impossible_members(given: dict[str, Any], words: str) -> None:
    for check in (True, False):
        with pytest.raises(ModuleError, match=words if check else r"sets\[0\]|; nothing was changed$"):
            run("ipsets", check=check, sets=[{**S, **given}])
        assert saved() == ""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"maxelem": 2}, r"what set s would hold: member '192\.0\.2\.\d' of set s \(hash:ip\): Hash is full"),
        (
            {"family": "inet6"},
            r"what set s would hold: member '192\.0\.2\.\d' of set s \(hash:ip\): .*resolving to IPv6 address failed",
        ),
        (
            {"type": "hash:mac"},
            r"what set s would hold: member '192\.0\.2\.\d' of set s \(hash:mac\): .*as ethernet address",
        ),
    ],
)
def test_check_mode_refuses_members_unfit_for_the_new_type(change: dict[str, Any], words: str) -> None:
    run("ipsets", sets=[{**S, "members": ["192.0.2.1", "192.0.2.2", "192.0.2.3"]}])
    before = saved()
    for check in (True, False):
        with pytest.raises(ModuleError, match=words if check else "the set stays as it was") as error:
            run("ipsets", check=check, sets=[{**S, **change}])
        assert saved() == before, error
    foreseen = run("ipsets", check=True, sets=[{**S, "maxelem": 3, "counters": True}])
    assert foreseen["lines"] == run("ipsets", sets=[{**S, "maxelem": 3, "counters": True}])["lines"]
