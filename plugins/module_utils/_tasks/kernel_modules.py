# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""The task of ``kernel_modules``, and the first half of that of ``kernel_settings``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from .._confirm import protocol as _confirm
from .._host import kernel_modules as _kernel_modules
from .._module import files as _files
from .._module.argspec import check_owner
from .._module.task import TaskChange, carry_out, compute, report, surroundings, taken_back
from ..engine.kernel import modules
from ..engine.ledger import LASTING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Callable

    from ansible.module_utils.basic import AnsibleModule

    from .._module.task import LedgerView
    from ..engine.apply import ApplyError
    from ..engine.errors import EngineError


def converge(module: AnsibleModule, params: dict[str, Any]) -> dict[str, Any]:
    """Make a task's wishes true and return the module's result.

    Args:
        module: the AnsibleModule.
        params: ``modules``, ``optional``, ``absent``, ``parameters``, ``persist``, ``purge`` and ``owner``, as the
            module kernel_modules takes them.

    Raises:
        EngineError: something is not to be had; nothing was changed.
    """
    owner = check_owner(params["owner"])
    _kernel_modules.check(params)
    with surroundings(module.check_mode, owner, LASTING) as around:
        return within(module, params, around)[0]


def within(
    module: AnsibleModule, params: dict[str, Any], around: LedgerView
) -> tuple[dict[str, Any], Callable[[EngineError], ApplyError]]:
    """Converge while the caller holds the node's lock.

    Returns:
        The module's result, and what undoes the task (see :func:`taken_back`).
    """
    owner = params["owner"]
    required, optional, absent, parameters = _kernel_modules.check(params)
    named = [name for entry in [*required, *optional] for name in entry]
    load_path, options_path = _kernel_modules.files(owner)
    mine = around.owned.get("kernel_module", set())
    text = _files.read(load_path, options_path)
    kept = _kernel_modules.parse_load(text.get(load_path, ""))
    states = modules.states(sorted({*named, *absent, *mine, *kept, *parameters}))
    choice = _kernel_modules.choose(required, optional, states)
    _kernel_modules.require(choice)
    going = set(absent) if params["purge"] == "none" else {*mine, *kept, *absent} - set(choice.names)
    removed = _kernel_modules.unloadable(going & mine)

    there = {name: "loaded" for name, state in states.items() if state in (modules.LOADED, modules.BUILTIN)}
    # Steps of one sort keep the order of what is there: users are unloaded before what they use.
    there = {**dict.fromkeys(removed, "loaded"), **there}
    want = {name: f"loaded {parameters.get(name, '')}".strip() for name in choice.names if name not in there}
    want.update((name, there[name]) for name in choice.names if name in mine and name in there)
    lasting = [name for name in kept if name not in going and params["purge"] == "none"]
    if params["persist"]:
        lasting += [name for name in choice.names if name not in lasting and states[name] != modules.BUILTIN]
    else:
        lasting = [name for name in lasting if name not in choice.names]
    options = _kernel_modules.parse_options(text.get(options_path, "")) if params["purge"] == "none" else {}
    options = {name: given for name, given in {**options, **parameters}.items() if name not in going}
    new = {
        load_path: _kernel_modules.render_load(owner, lasting),
        options_path: _kernel_modules.render_options(owner, options if params["persist"] else {}),
    }
    wanted = TaskChange(
        {"kernel_module": want, "file": {path: content for path, content in new.items() if content is not None}},
        {"kernel_module": set(removed), "file": {path for path, content in new.items() if content is None}},
        {},
        {},
        released={"kernel_module": going & mine},
    )
    have = {"kernel_module": there, "file": text}
    tables = {"modules": modules.table(), "files": _files.table(module)}
    made = compute(have, wanted, around, {"owner": owner, "purge": "none", "adopt": True})
    _files.foresee(made.steps)
    if not module.check_mode:
        _confirm.refuse_pending(owner)
        carry_out(made, wanted, have, tables, around, owner)
        states = modules.states(list(states)) if made.steps else states
    result = report(module, made)
    for warning in choice.warnings:
        module.warn(warning)
    result["states"] = {name: states[name] for name in states if name in named or name in absent}
    loaded = {name: given for name, given in parameters.items() if name in there}
    result["differing"] = _warn_of_live_values(module, loaded, states)
    result["overridden"] = _warn_of_the_next_boot(module, owner, lasting, options) if params["persist"] else []
    return result, partial(taken_back, made=made, tables=tables, around=around, owner=owner)


def _warn_of_live_values(
    module: AnsibleModule, loaded: Mapping[str, str], states: Mapping[str, str]
) -> list[dict[str, str]]:
    """Warn of parameters that a loaded kernel module has with another value; return them."""
    differing = []
    for name in sorted(loaded):
        for parameter, live, given in _kernel_modules.differing(modules.parameters(name), loaded[name]):
            builtin = states[name] == modules.BUILTIN
            when = f"with {name}.{parameter}={given} on the kernel's command line" if builtin else "at its next load"
            verb = "is built in" if builtin else "is loaded"
            module.warn(f"kernel module {name} {verb} with {parameter}={live}; {given} takes effect {when}")
            differing.append({"module": name, "parameter": parameter, "live": live, "wanted": given})
    return differing


def _warn_of_the_next_boot(
    module: AnsibleModule, owner: str, lasting: list[str], options: Mapping[str, str]
) -> list[dict[str, str]]:
    """Warn of files that override the owner's own at the next boot; return what they say."""
    load_path, options_path = _kernel_modules.files(owner)
    overridden = []
    for name, value, file in _kernel_modules.overridden(options_path, lasting, options):
        path = options_path if "." in name else load_path
        effect = "is not loaded" if value == "blacklist" else f"has the value {value}"
        module.warn(f"{file} says otherwise than {path}: {name} {effect} at the next boot")
        overridden.append({"name": name, "value": value, "path": file})
    return overridden
