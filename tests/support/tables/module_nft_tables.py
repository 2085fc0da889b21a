# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Helpers shared by the tests of the module nft_tables: a node in namespaces of its own, and a table's text."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kernel.modules import converge

from ..processes.guarded import guards, wait
from ..processes.namespace import fresh, sh

_CLONE_NEWNS = 0x20000
FOREIGN = """table inet foreign {
	set s {
		type ipv4_addr
		elements = { 203.0.113.1, 203.0.113.2 }
	}

	chain forward {
		type filter hook forward priority filter; policy accept;
		ip saddr @s counter packets 3 bytes 300 drop comment "by  others"
	}
}
"""
CONTENT = """
# A comment with a brace: }
define ssh = 22
set trusted {
  type ipv4_addr; flags interval
  elements = { 192.0.2.0/24, 198.51.100.0/24 }
}
set names { type ifname; elements = { "lo", "a}b" }
}
map verdicts { type inet_service : verdict; elements = { 80 : jump web, 443 : drop }
}
counter seen { }
chain web { ip saddr @trusted counter accept
}
chain input {
  type filter hook input priority 0
  tcp dport $ssh counter name seen accept comment "a } b"
  tcp dport vmap @verdicts
}
"""
TEXT = """counter seen {
}
set names {
  type ifname
  elements = {
    "a}b",
    "lo",
  }
}
set trusted {
  type ipv4_addr
  flags interval
  elements = {
    192.0.2.0/24,
    198.51.100.0/24,
  }
}
map verdicts {
  type inet_service : verdict
  elements = {
    80 : jump web,
    443 : drop,
  }
}
chain input {
  type filter hook input priority filter; policy accept;
  tcp dport 22 counter name "seen" accept comment "a } b"
  tcp dport vmap @verdicts
}
chain web {
  ip saddr @trusted counter accept
}
"""
BASE = "chain c { type filter hook input priority 0\n}\n"


@contextmanager
def separate_node() -> Iterator[None]:
    """Enter an empty network and an empty /run, with a foreign table that has to stay as it is."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/mnt", "rb") as home:
        directory = os.getcwd()
        assert libc.unshare(_CLONE_NEWNS) == 0
        try:
            sh("mount", "--make-rprivate", "/")
            sh("mount", "-t", "tmpfs", "tmpfs", "/run")
            fresh()
            sh("nft", "-f", "-", text=FOREIGN)
            yield
            wait(lambda: guards() == [])
            assert listing("inet", "foreign") == FOREIGN, "the foreign table changed"
        finally:
            assert libc.setns(home.fileno(), 0) == 0
            os.chdir(directory)


def listing(family: str, name: str, *options: str) -> str:
    return sh("nft", *options, "list", "table", family, name)


def tables(*items: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    return converge("nft_tables", tables=list(items), **arguments)


def named() -> list[str]:
    return [line.partition(" ")[2] for line in sh("nft", "list", "tables").splitlines()]


def ruleset() -> str:
    return sh("nft", "list", "ruleset")
