# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""The task of ``sysctls``, and the second half of that of ``kernel_settings``."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

from .._confirm import protocol as _confirm
from .._host import sysctls as _sysctls
from .._module import files as _files
from .._module.argspec import check_owner
from .._module.task import carry_out, compute, report, surroundings
from ..engine.errors import EngineError, LedgerError
from ..engine.kernel import sysctls
from ..engine.ledger import LASTING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ansible.module_utils.basic import AnsibleModule

    from .._confirm.guard import Guard
    from .._module.task import LedgerView
    from ..engine.apply import Tables
    from ..engine.ledger import Item, Ledger
    from ..engine.model import State


def converge(module: AnsibleModule, params: dict[str, Any]) -> dict[str, Any]:
    """Make a task's wishes true and return the module's result.

    Args:
        module: the AnsibleModule.
        params: ``sysctls``, ``absent``, ``persist``, ``purge`` and ``owner``, as the module sysctls takes them.

    Raises:
        EngineError: something is not to be had; nothing was changed.
    """
    owner = check_owner(params["owner"])
    _sysctls.check(params["sysctls"], params["absent"])
    watch = _confirm.begin(module, tables(module), reread, LASTING)
    with watch as guard, surroundings(module.check_mode, owner, LASTING) as around:
        return within(module, params, around, guard)


def tables(module: AnsibleModule) -> Tables:
    """Return what sysctls and our file are written with."""
    return {"sysctls": sysctls.apply, "files": _files.table(module)}


def within(
    module: AnsibleModule, params: dict[str, Any], around: LedgerView, guard: Guard | None = None
) -> dict[str, Any]:
    """Do the same where the node's lock is held already."""
    owner = params["owner"]
    values, bounds, absent = _sysctls.check(params["sysctls"], params["absent"])
    params = {**params, "values": values, "bounds": bounds, "absent": absent, "adopt": True}
    path = _sysctls.own_file(owner)
    have = {"file": _files.read(path)}
    kept = _sysctls.parse(have["file"].get(path, ""))
    named = [*values, *bounds]
    sysctls.require(named if not module.check_mode else _sysctls.never(named))
    have.update(sysctls.read([*named, *_sysctls.leaving(params, around, kept)]))
    wanted, former = _sysctls.wish(params, around, have, kept)
    made = compute(have, wanted, around, {**params, "purge": "none"})
    _files.foresee(made.steps)
    sysctls.foresee(made.steps)
    if not module.check_mode:
        _confirm.refuse_pending(owner)
        touched = {**wanted.absent, **wanted.released}
        with _confirm.over(guard, made, touched, around, owner), noted(around.open_ledger, owner, former):
            carry_out(made, wanted, have, tables(module), around, owner)
    result = report(module, made)
    overridden = []
    if params["persist"]:
        after: dict[str, str | _sysctls.Bounds] = {**_sysctls.parse(wanted.want["file"].get(path, "")), **bounds}
        for name, value, file in _sysctls.overridden(path, after):
            when = "with 'sysctl --system'" if file == _sysctls.LAST else "at the next boot"
            module.warn(f"{file} sets sysctl {name} to {value} after {path}: {when} that is its value")
            overridden.append({"name": name, "value": value, "path": file})
    return {**result, **(guard.told if guard else {}), "file": path, "overridden": overridden}


@contextlib.contextmanager
def noted(ledger: Ledger, owner: str, former: Mapping[str, str]) -> Iterator[None]:
    """Save former sysctl values in the ledger before a change.

    If the change fails and all is undone, the ledger forgets the values of sysctls that are not the owner's.
    """
    ledger.note(owner, "sysctl", [(key, json.dumps(value)) for key, value in former.items()])
    try:
        yield
    except EngineError:
        with contextlib.suppress(LedgerError):  # a note about what nobody owns does no harm
            ours = ledger.owned(owner).get("sysctl", ())
            ledger.note(owner, "sysctl", [(key, "") for key in former if key not in ours])
        raise


def foresee(params: Mapping[str, Any]) -> None:
    """Raise EngineError if the wishes cannot come true, even with all kernel modules loaded that can be."""
    values, bounds, _absent = _sysctls.check(params["sysctls"], params["absent"])
    sysctls.require(_sysctls.never([*values, *bounds]))


def reread(items: Iterable[Item]) -> State:
    """Return what there is of (kind, key) pairs."""
    keys = {kind: [key for one, key in items if one == kind] for kind in ("sysctl", "file")}
    return {**sysctls.read(keys["sysctl"]), "file": _files.read(*keys["file"])}
