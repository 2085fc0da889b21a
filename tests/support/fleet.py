# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of the playbook verify for a converged node, and a strict reader of its page."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

NODE = {
    "changed": False,
    "problems": [],
    "refused": [],
    "kernel": "6.1.0",
    "iptables": "nft",
    "virtualization": "kvm",
    "distribution": {"id": "debian", "version": "12"},
}
NOTHING = {"changed": False, "lines": []}
GOOD: dict[str, Any] = {
    "node": NODE,
    "prepared": True,
    "packages": None,
    "kernel": NOTHING,
    "swap": {"changed": False, "skipped": True},
    "files": [{"changed": False, "results": []}, {"skipped": True}],
    "install": NOTHING,
    "status": {"rc": 0, "stdout": "converged: 3 virtual servers", "stderr": ""},
    "plan": {"rc": 0, "stdout": "", "stderr": ""},
    "table": {"services": [{"real_servers": [{"weight": 1}, {"weight": 0}]}, {"real_servers": []}]},
}
EVIL = "<script>alert(1)</script> \"'&<img src=x onerror=y>"


class Page(HTMLParser):
    """A parser that fails unless every element is closed in its place."""

    VOID = frozenset({"meta", "br", "rect", "input"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def fleet_of(number: int, shift: int = 0) -> dict[str, Any]:
    """Return the results of many nodes: of 20 nodes, 14 are ok, 4 drift, 1 fails, 1 is unreachable.

    With another ``shift``, other nodes do.
    """
    return {f"node-{index:04}": _results(index, (index + shift) % 20) for index in range(number)}


def _results(index: int, state: int) -> dict[str, Any]:
    table = {"services": [{"real_servers": [{"weight": 1}, {"weight": index % 2}]} for _service in range(index % 50)]}
    node = {**GOOD, "table": table}
    if state < 14:
        return node
    if state == 18:
        return {**node, "kernel": {"failed": True, "msg": "module ip_vs: the kernel refuses it"}, "prepared": False}
    if state == 19:
        return {"node": {"unreachable": True, "msg": f"ssh: connect to host 192.0.2.{index % 250}: timed out"}}
    lines = [f"+ virtual server tcp 10.96.{service}.1:80" for service in range(3 + index % 20)]
    kernel = {"changed": True, "lines": ["~ net.ipv4.vs.conntrack: 0 -> 1"]}
    return {**node, "plan": {"rc": 2, "stdout": "\n".join(lines), "stderr": ""}, "kernel": kernel}
