# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page docs/reference/faults.md: each fault that a test injects, with the sentence of ``kubenode explain``."""

from __future__ import annotations

from collections.abc import Mapping

from .faults import FOREIGN, KERNEL, OBJECTS, PINNED, PROXIES, SYSTEM

_HEAD = """# Faults that `kubenode explain` names

`tests/kernel/test_explain_faults.py` injects these faults into a real kernel, one by one and in both rules back ends.
It writes this page with the sentences of `kubenode explain`. [When something does not work](../how-to/troubleshoot.md)
begins with that command.

Addresses are those of the test: 10.99.0.11 is a client outside, and 10.96.0.120 a cluster IP. 10.244.1.11 is a pod of
the node, and 10.244.2.11 a pod of another node.
"""
_SECTIONS = (
    ("Objects", OBJECTS),
    ("The agent's items in the kernel", KERNEL),
    ("Other programs", FOREIGN),
    ("Settings, routes, links and connections", (*SYSTEM, *PROXIES, PINNED)),
)


def page(sentences: Mapping[str, Mapping[str, str]]) -> str:
    """Return the text of the page; sentences are by title and back end."""
    parts = [_HEAD]
    for title, faults in _SECTIONS:
        parts.append(f"\n## {title}\n\n| Fault | Rules back end | Sentence |\n|---|---|---|\n")
        for fault in faults:
            said = sentences[fault.title]
            if len(set(said.values())) == 1 and len(said) > 1:
                said = {"both": next(iter(said.values()))}
            parts.extend(f"| {fault.title} | {back_end} | {_cell(text)} |\n" for back_end, text in said.items())
    return "".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
