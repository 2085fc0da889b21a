# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Results of modules: plan, diff and failures."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..engine.errors import EngineError
from ..engine.model.kinds import KINDS, name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ansible.module_utils.basic import AnsibleModule

    from ..engine.model.step import Step
    from ..engine.plan import Plan

_SHOWN = 50  # elements of a list


@contextmanager
def failing(module: AnsibleModule) -> Iterator[None]:
    """Turn the engine's errors into the module's failure."""
    try:
        yield
    except EngineError as error:
        details = {}
        # an ApplyError: only a module that applies a plan imports the class
        if hasattr(error, "failed") and hasattr(error, "undone"):
            details["failed_steps"] = [
                dict(failure.step.as_json(), message=failure.message) for failure in error.failed
            ]
            details["undone"] = [step.describe() for step in error.undone]
        module.fail_json(msg=str(error), **details)


def report(module: AnsibleModule, made: Plan) -> dict[str, Any]:
    """Return the result fields ``changed``, ``plan``, ``lines``, ``adopted`` and, in diff mode, ``diff``."""
    result = {"changed": bool(made.steps or made.adopted), "plan": made.as_json(), "lines": made.lines()}
    result["adopted"] = sorted(name(kind, key) for kind, keys in made.adopted.items() for key in keys)
    if module._diff:
        result["diff"] = difference(made.steps)
    return result


def difference(steps: Iterable[Step]) -> dict[str, dict[str, Any]]:
    """Return before and after of the items that change, by name.

    An item that changes and is then removed is only in before.
    """
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    for step in steps:
        item = name(step.kind, step.key)
        if step.before is not None and item not in after:
            before[item] = _shown(step.kind, step.key, step.before)
        after.pop(item, None)
        if step.after is not None:
            after[item] = _shown(step.kind, step.key, step.after)
    return {"before": before, "after": after}


def _shown(kind: str, key: Any, value: Any) -> str | list[str]:
    if kind == "nft_text":
        return list(value.splitlines())
    return list(value) if kind == "chain" else KINDS[kind].text(key, value)


def brief(given: Any) -> Any:
    """Return parameters for the result's ``invocation``, with the length in place of a long list.

    ``ansible-playbook -vvv`` shows them. Ansible walks through a result several times on both sides: the options for a
    large table took a third of the module's time.
    """
    if isinstance(given, dict):
        return {name: brief(value) for name, value in given.items()}
    if isinstance(given, list):
        return [brief(value) for value in given] if len(given) <= _SHOWN else f"{len(given)} elements"
    return given
