# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded answers of a real kubeadm and kubectl to the commands of the role kubeadm, from tests/golden/kubeadm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import yaml

GOLDEN = Path(__file__).parents[2] / "golden/kubeadm"


class Answer(NamedTuple):
    """Command line of the role, with its exit status and output; texts are lists of lines."""

    argv: list[str]
    rc: int
    stdout: list[str]
    stderr: list[str]


def read(name: str) -> dict[str, Any]:
    """Return a recording."""
    recording: dict[str, Any] = json.loads((GOLDEN / name).read_text(encoding="utf-8"))
    return recording


def recorded() -> dict[str, Answer]:
    """Return all answers by name."""
    return {name: Answer(**answer) for name, answer in read("answers.json")["answers"].items()}


def said(name: str, stream: str = "stdout") -> str:
    """Return the recorded text of a stream."""
    return "".join(f"{line}\n" for line in getattr(recorded()[name], stream))


def defaults(name: str, kind: str) -> dict[str, Any]:
    """Return the document of a kind that kubeadm printed with its defaults."""
    documents = yaml.safe_load_all((GOLDEN / name).read_text(encoding="utf-8"))
    return next(document for document in documents if document["kind"] == kind)
