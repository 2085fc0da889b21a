# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Task of ``kernel_modules``: options, converted to loaded modules and the owner's files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from .._host import kernel_modules as _kernel_modules
from .._module import files as _files
from .._module.argspec import OWNER, PERSIST
from .._module.planning import TaskChange
from .._module.task import PlannedTask
from ..engine.kernel import modules
from ..engine.ledger import LASTING

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

    from .._module.planning import LedgerView
    from ..engine.model import ReadState, State
    from ..engine.plan import Plan


OPTIONS: dict[str, Any] = {
    "modules": {"type": "list", "elements": "str", "default": []},
    "optional": {"type": "list", "elements": "str", "default": []},
    "parameters": {"type": "dict", "default": {}},
    **PERSIST,
    **OWNER,
}


class Task(PlannedTask):
    """Task of ``kernel_modules``, and the first half of the task of ``kernel_settings``."""

    spec: ClassVar[dict[str, Any]] = {**OPTIONS, "absent": {"type": "list", "elements": "str", "default": []}}
    directory = LASTING

    def __init__(self, module: AnsibleModule, params: dict[str, Any]) -> None:
        super().__init__(module, params)
        self.adopt = True
        self.tables = {"modules": modules.table(), "files": _files.table(module)}
        self._required, self._optional, self._absent, self._parameters = _kernel_modules.check(params)
        self._load_path, self._options_path = _kernel_modules.files(self.owner)
        self._named = {name for names in (*self._required, *self._optional) for name in names}

    def read(self, view: LedgerView) -> State:
        files = _files.read(self._load_path, self._options_path)
        mine = view.owned.get("kernel_module", set())
        self._kept = _kernel_modules.parse_load(files.get(self._load_path, ""))
        about = {*self._named, *self._absent, *mine, *self._kept, *self._parameters}
        self._states = modules.states(sorted(about))
        self._choice = _kernel_modules.choose(self._required, self._optional, self._states)
        _kernel_modules.require(self._choice)
        absent = set(self._absent)
        self._leaving = absent if self.purge == "none" else {*mine, *self._kept, *absent}.difference(self._choice.names)
        self._removed = _kernel_modules.unloadable(self._leaving & mine)
        loaded = {name: "loaded" for name, state in self._states.items() if state in (modules.LOADED, modules.BUILTIN)}
        # Steps of one kind keep the order of the present items: a module is unloaded before the modules that it uses.
        self._present = {**dict.fromkeys(self._removed, "loaded"), **loaded}
        return {"kernel_module": self._present, "file": files}

    def change(self, have: ReadState, view: LedgerView) -> TaskChange:
        present, mine, names = self._present, view.owned.get("kernel_module", set()), self._choice.names
        want = {name: f"loaded {self._parameters.get(name, '')}".strip() for name in names if name not in present}
        want.update((name, present[name]) for name in names if name in mine and name in present)
        keeps, persist = self.purge == "none", self.params["persist"]
        self._at_boot = [name for name in self._kept if keeps and name not in self._leaving]
        if persist:
            self._at_boot += [
                name for name in names if name not in self._at_boot and self._states[name] != modules.BUILTIN
            ]
        else:
            self._at_boot = [name for name in self._at_boot if name not in names]
        options = _kernel_modules.parse_options(have["file"].get(self._options_path, "")) if keeps else {}
        options.update(self._parameters)
        self._options = {name: given for name, given in options.items() if name not in self._leaving}
        texts = {
            self._load_path: _kernel_modules.render_load(self.owner, self._at_boot),
            self._options_path: _kernel_modules.render_options(self.owner, self._options if persist else {}),
        }
        return TaskChange(
            {"kernel_module": want, "file": {path: text for path, text in texts.items() if text is not None}},
            {"kernel_module": self._removed, "file": {path for path, text in texts.items() if text is None}},
            released={"kernel_module": self._leaving & mine},
        )

    def refine(self, made: Plan) -> Plan:
        _files.foresee(made.steps)
        return made

    def result(self) -> dict[str, Any]:
        if self.plan.steps and not self.module.check_mode:
            self._states = modules.states(list(self._states))
        for warning in self._choice.warnings:
            self.module.warn(warning)
        about = {*self._named, *self._absent}
        return {
            "states": {name: state for name, state in self._states.items() if name in about},
            "differing": self._differing(),
            "overridden": self._overridden() if self.params["persist"] else [],
        }

    def _differing(self) -> list[dict[str, str]]:
        """Warn of parameters that have another value in a loaded kernel module; return them."""
        differing = []
        for name in sorted(self._parameters.keys() & self._present):
            live = modules.parameters(name)
            builtin = self._states[name] == modules.BUILTIN
            for parameter, value, given in _kernel_modules.differing(live, self._parameters[name]):
                when = (
                    f"with {name}.{parameter}={given} on the kernel's command line" if builtin else "at its next load"
                )
                verb = "is built in" if builtin else "is loaded"
                self.module.warn(f"kernel module {name} {verb} with {parameter}={value}; {given} takes effect {when}")
                differing.append({"module": name, "parameter": parameter, "live": value, "wanted": given})
        return differing

    def _overridden(self) -> list[dict[str, str]]:
        """Warn of files that override the owner's files at the next boot; return their settings."""
        overridden = []
        for name, value, file in _kernel_modules.overridden(self._options_path, self._at_boot, self._options):
            path = self._options_path if "." in name else self._load_path
            effect = "is not loaded" if value == "blacklist" else f"has the value {value}"
            self.module.warn(f"{file} overrides {path}: {name} {effect} at the next boot")
            overridden.append({"name": name, "value": value, "path": file})
        return overridden
