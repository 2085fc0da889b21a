# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One step of a plan: creation, change or deletion of an item."""

from __future__ import annotations

from typing import Any, NamedTuple

from .kinds import KINDS, name


class Step(NamedTuple):
    """``before`` is None for a creation, ``after`` is None for a deletion."""

    kind: str
    key: Any
    before: Any
    after: Any

    @property
    def verb(self) -> str:
        """Return ``create``, ``change`` or ``delete``."""
        if self.before is None:
            return "create"
        return "delete" if self.after is None else "change"

    def inverse(self) -> Step:
        """Return the step that undoes this one."""
        return Step(self.kind, self.key, self.after, self.before)

    def describe(self) -> str:
        """Return a line such as ``~ virtual server tcp 10.96.0.10:80: scheduler rr -> scheduler wrr``."""
        item = name(self.kind, self.key)
        if self.before is None:
            return f"+ {item}: {KINDS[self.kind].text(self.key, self.after)}".rstrip(": ")
        if self.after is None:
            return f"- {item}"
        return f"~ {item}{self.change}"

    @property
    def change(self) -> str:
        """Return the end of the line of a change, such as ``: scheduler rr -> scheduler wrr``."""
        text = KINDS[self.kind].text
        return f": {text(self.key, self.before)} -> {text(self.key, self.after)}"

    def as_json(self) -> dict[str, Any]:
        """Return the step as plain data: ``kind``, ``verb``, ``key``, ``before``, ``after``."""
        return {
            "kind": self.kind,
            "verb": self.verb,
            "key": plain(self.key),
            "before": plain(self.before),
            "after": plain(self.after),
        }


def plain(value: Any) -> Any:
    """Turn named tuples into dictionaries and tuples into lists, all the way down."""
    if hasattr(value, "_asdict"):
        return {field: plain(item) for field, item in value._asdict().items()}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return value
