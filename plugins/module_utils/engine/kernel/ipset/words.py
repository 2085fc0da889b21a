# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Explain ipset's error messages, and name the remedy."""

from __future__ import annotations

from ...model.step import Step
from .read import read

IN_USE = "in use by "
TYPE_MISMATCH = "their type does not match"


def explain(step: Step, complaint: str) -> str:
    """Return why a step failed; reads the kernel only if that adds information."""
    name = step.key if step.kind == "set" else step.key.set
    if "is full" in complaint:
        header = read([name], members=False)["set"].get(name)
        limit = f" ({header.option('maxelem')})" if header is not None else ""
        return f"set {name} is full: it holds as many members as its maxelem allows{limit}; raise maxelem"
    if "set with the same name already exists" in complaint:
        header = read([name], members=False)["set"].get(name)
        return f"a set {name} of another kind exists: {header.text()}" if header is not None else complaint
    if IN_USE in complaint and step.kind == "set" and step.after is None:
        return f"set {name} is in use: rules of iptables or sets of type list:set refer to it; remove those first"
    return complaint
