# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded watch events and refusals of a real API server, each as JSON and as protobuf (tests/golden/protobuf)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from ..fakes.apiserver_http import Answer

PATH = Path(__file__).parents[2] / "golden/protobuf/watches.json"
STREAM = {"Content-Type": "application/vnd.kubernetes.protobuf;stream=watch"}


class Recorded(NamedTuple):
    """One document: its JSON, and its protobuf (a frame without its length, or the body of an answer)."""

    json: dict[str, Any]
    protobuf: bytes

    @property
    def name(self) -> str:
        """Return a text that names the document in a test's id."""
        item = self.json.get("object", self.json)
        words = (
            self.json.get("type"),
            item["kind"],
            item["metadata"].get("name"),
            item["metadata"].get("resourceVersion"),
        )
        return " ".join(filter(None, [*words, str(item.get("code") or "")]))


def _recorded(kind: str) -> list[Recorded]:
    entries = [json.loads(line) for line in PATH.read_text().splitlines()]
    return [Recorded(entry["json"], base64.b64decode(entry["protobuf"])) for entry in entries if entry["is"] == kind]


EVENTS, REFUSALS = _recorded("event"), _recorded("refusal")
CHANGES = [event for event in EVENTS if event.json["type"] in ("ADDED", "MODIFIED", "DELETED")]


def event_of(kind: str, type_: str) -> Recorded:
    """Return the first event of a type with an object of a kind."""
    return next(event for event in EVENTS if (event.json["object"]["kind"], event.json["type"]) == (kind, type_))


def frame(data: bytes) -> bytes:
    """Return a frame with its length before it."""
    return len(data).to_bytes(4, "big") + data


def stream(frames: Iterable[bytes]) -> Answer:
    """Return a watch's answer in protobuf that ends after these frames."""
    return Answer(200, b"".join(map(frame, frames)), STREAM)
