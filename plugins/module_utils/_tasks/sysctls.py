# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Task of ``sysctls``: options, converted to live values and the owner's file; ledger notes keep original values."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar

from .._confirm.protocol import CONFIRM
from .._host import sysctls as _sysctls
from .._module import files as _files
from .._module.argspec import OWNER, PERSIST
from .._module.planning import TaskChange
from .._module.task import ConfirmableTask
from ..engine.errors import EngineError, LedgerError
from ..engine.kernel import sysctls
from ..engine.ledger import LASTING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from ansible.module_utils.basic import AnsibleModule

    from .._module.planning import LedgerView
    from ..engine.ledger import Item
    from ..engine.model import ReadState, State
    from ..engine.plan import Plan


class Task(ConfirmableTask):
    """Task of ``sysctls``, and the second half of the task of ``kernel_settings``."""

    spec: ClassVar[dict[str, Any]] = {
        "sysctls": {"type": "dict", "default": {}},
        "absent": {"type": "list", "elements": "str", "default": []},
        **PERSIST,
        **OWNER,
        **CONFIRM,
    }
    directory = LASTING

    def __init__(self, module: AnsibleModule, params: dict[str, Any]) -> None:
        super().__init__(module, params)
        self.adopt = True
        self.tables = {"sysctls": sysctls.apply, "files": _files.table(module)}
        self._values, self._bounds, self._absent = _sysctls.check(params["sysctls"], params["absent"])
        self._names = [*self._values, *self._bounds]
        self._path = _sysctls.own_file(self.owner)
        self._kept: dict[str, str] = {}  # present settings of the owner's file
        self._lasting: dict[str, str] = {}  # desired settings of the owner's file
        self._original: dict[str, str] = {}  # values of the sysctls that the owner claims in this run

    def foresee(self) -> None:
        """Raise EngineError if a sysctl stays absent even after every loadable kernel module is loaded."""
        sysctls.require(never(self._names))

    def read(self, view: LedgerView) -> State:
        file = _files.read(self._path)
        self._kept = _sysctls.parse(file.get(self._path, ""))
        sysctls.require(never(self._names) if self.module.check_mode else self._names)
        return {"file": file, **sysctls.read([*self._names, *self._leaving(view)])}

    def change(self, have: ReadState, view: LedgerView) -> TaskChange:
        live, mine, leaving = have["sysctl"], view.owned.get("sysctl", ()), self._leaving(view)
        want = {key: sysctls.settled(live.get(key, ""), value) for key, value in self._values.items()}
        for key, bounds in self._bounds.items():
            value = bounds.within(key, live[key]) if key in live else bounds.nearest()
            # Do not claim a value that is within its bounds already: a later `absent` would change it.
            if key in mine or live.get(key) != value:
                want[key] = value
        self._original = {key: live[key] for key in want if key not in mine and key in live}
        originals = self._noted_originals(view)
        want.update((key, originals[key]) for key in leaving if key in originals and key in live)
        self._lasting = self._settings_to_keep(live, leaving)
        text = _sysctls.render(self.owner, self._lasting)
        return TaskChange(
            {"sysctl": want, "file": {} if text is None else {self._path: text}},
            {"file": {self._path} if text is None else set()},
            released={"sysctl": leaving},
        )

    def reread(self, items: Collection[Item]) -> State:
        keys = {kind: [key for one, key in items if one == kind] for kind in ("sysctl", "file")}
        return {**sysctls.read(keys["sysctl"]), "file": _files.read(*keys["file"])}

    def refine(self, made: Plan) -> Plan:
        _files.foresee(made.steps)
        sysctls.foresee(made.steps)
        return made

    @contextmanager
    def noted(self, _made: Plan, view: LedgerView) -> Iterator[None]:
        ledger = view.open_ledger
        ledger.note(self.owner, "sysctl", [(key, json.dumps(value)) for key, value in self._original.items()])
        try:
            yield
        except EngineError:
            with suppress(LedgerError):  # a note about an unowned sysctl does no harm
                ours = ledger.owned(self.owner).get("sysctl", ())
                ledger.note(self.owner, "sysctl", [(key, "") for key in self._original if key not in ours])
            raise

    def result(self) -> dict[str, Any]:
        overridden = []
        if self.params["persist"]:
            for name, value, file in _sysctls.overridden(self._path, {**self._lasting, **self._bounds}):
                when = "with 'sysctl --system'" if file == _sysctls.LAST else "at the next boot"
                self.module.warn(f"{file} overrides {self._path}: sysctl {name} is {value} {when}")
                overridden.append({"name": name, "value": value, "path": file})
        return {"file": self._path, "overridden": overridden}

    def _leaving(self, view: LedgerView) -> list[str]:
        """Return the keys that this owner has and gives up."""
        mine = {*view.owned.get("sysctl", ()), *self._kept}
        if self.purge == "owned":
            return sorted(mine.difference(self._names))
        return [key for key in self._absent if key in mine]

    def _noted_originals(self, view: LedgerView) -> dict[str, str]:
        originals = {}
        for key, note in view.ledger.notes(self.owner, "sysctl").items() if view.ledger else ():
            value = _sysctls.former_value(note)
            if value is None:
                view.open_ledger.ignore("note", "sysctl", key, "has a text that is no value")
            else:
                originals[key] = value
        return originals

    def _settings_to_keep(self, live: Mapping[str, str], leaving: Collection[str]) -> dict[str, str]:
        """Return the desired settings of the owner's file."""
        settings = {} if self.purge == "owned" else {key: self._kept[key] for key in self._kept if key not in leaving}
        at_boot = {**self._values, **_sysctls.bounded_at_boot(self._bounds, self._path, live, self._kept)}
        for key in self._names:
            settings.pop(key, None)
            value = at_boot[key]
            if self.params["persist"] and value is not None:
                settings[key] = value
        return settings


def never(names: Iterable[str]) -> list[str]:
    """Return the names that stay absent even if every loadable kernel module is loaded.

    Check mode refuses only these names.
    """
    from ..engine.kernel import modules

    missing = [name for name in names if not os.path.exists(sysctls.path(name))]
    providers = {name: sysctls.provider(name) for name in missing}
    states = modules.states({provider for provider in providers.values() if provider})
    return [name for name in missing if states.get(providers[name]) != modules.LOADABLE]
