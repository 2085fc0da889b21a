# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Task of ``ipvs_services``: IPVS's table, its timeouts and its synchronisation daemons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from .._confirm.protocol import CONFIRM
from .._module.argspec import OWNER, PURGE, STATE, number
from .._module.planning import TaskChange
from .._module.task import ConfirmableTask
from ..engine.errors import MissingError
from ..engine.kernel import ipvs
from .ipvs_items import SERVICE, desired_items

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ansible.module_utils.basic import AnsibleModule

    from .._module.planning import LedgerView
    from ..engine.ledger import Item
    from ..engine.model import State
    from ..engine.model.ipvs import VirtualServer, VirtualServerKey
    from ..engine.plan import Plan
    from .ipvs_drain import Drain

_DAY = 86400  # seconds

SYNC_DAEMON: dict[str, Any] = {
    "role": {"type": "str", "required": True, "choices": ["master", "backup"]},
    "interface": {"type": "str"},
    "sync_id": {"type": "int", "default": 0},
    "maxlen": {"type": "int", "default": 0},
    "group": {"type": "str", "default": "224.0.0.81"},
    "port": {"type": "int", "default": 8848},
    "ttl": {"type": "int", "default": 1},
    **STATE,
}


class Task(ConfirmableTask):
    """Task of ``ipvs_services``: virtual servers and real servers, timeouts and synchronisation daemons."""

    spec: ClassVar[dict[str, Any]] = {
        "services": {"type": "list", "elements": "dict", "default": [], "options": SERVICE},
        "timeouts": {"type": "dict", "options": {name: {"type": "int"} for name in ("tcp", "tcp_fin", "udp")}},
        "sync_daemons": {"type": "list", "elements": "dict", "options": SYNC_DAEMON},
        "keep_weights": {"type": "bool", "default": False},
        "drain": {"type": "bool", "default": False},
        "drain_timeout": {"type": "int", "default": 60},
        **CONFIRM,
        **OWNER,
        **PURGE,
    }
    _drain: Drain | None = None

    def __init__(self, module: AnsibleModule, params: dict[str, Any]) -> None:
        super().__init__(module, params)
        self._want, self._absent, self._keep_unlisted = desired_items(params["services"])
        number("task", "drain_timeout", params["drain_timeout"], 1, _DAY)
        self.tables = {"ipvs": ipvs.apply}
        self._has_settings = params["timeouts"] is not None or params["sync_daemons"] is not None
        if self._has_settings:
            from . import ipvs_settings

            ipvs_settings.check(params, self._want, self._absent)
            self.tables[ipvs_settings.TABLE] = ipvs_settings.apply
        if params["drain"]:
            from .ipvs_drain import Drain

            self._drain = Drain(params["drain_timeout"])
            self.tables["ipvs"] = self._drain.apply

    def read(self, _view: LedgerView) -> State:
        return _read(self._want if self._has_settings else (), True)

    def change(self, have: State, view: LedgerView) -> TaskChange:
        want = self._want
        if self.module.check_mode:
            check_modules(want["virtual_server"], have["virtual_server"])
        if self.params["keep_weights"]:
            there = have["real_server"]
            reals = want["real_server"].items()
            kept = {key: real._replace(weight=there[key].weight) if key in there else real for key, real in reals}
            want = {**want, "real_server": kept}
        scope = {"virtual_server": have["virtual_server"]}
        change = TaskChange(want, self._absent, scope, {"real_server": self._keep_unlisted})
        if self._has_settings:
            from . import ipvs_settings

            change = ipvs_settings.complete(change, have)
        if self._drain:
            self._drain.lock = view.lock
        return change

    def reread(self, items: Collection[Item]) -> State:
        servers = {
            key if kind == "virtual_server" else key.server
            for kind, key in items
            if kind in ("virtual_server", "real_server")
        }
        return _read({kind for kind, _key in items}, servers)

    def refine(self, made: Plan) -> Plan:
        return self._drain.refine(made) if self._drain else made

    def result(self) -> dict[str, Any]:
        if not self._drain or not self._drain.drained:
            return {}
        for warning in self._drain.warnings:
            self.module.warn(warning)
        return {"drained": self._drain.drained}


def _read(kinds: Collection[str], precise: bool | set[VirtualServerKey]) -> State:
    """Return virtual servers and real servers, and the settings among ``kinds``."""
    settings = {"ipvs_timeout", "sync_daemon"}.intersection(kinds)
    if not settings:
        return ipvs.read(precise=precise)
    from . import ipvs_settings

    return {**ipvs.read(precise=precise), **ipvs_settings.read(settings)}


def check_modules(want: Mapping[Any, VirtualServer], have: Mapping[Any, VirtualServer]) -> None:
    """Check in check mode that the kernel has each wanted scheduler and persistence engine.

    Raises:
        MissingError: the kernel has no module for one that no present virtual server uses.
    """
    from ..engine.kernel import modules

    needs: dict[str, VirtualServerKey] = {}
    for key, server in want.items():
        needs.setdefault(f"ip_vs_{server.scheduler}", key)
        if server.pe_name:
            needs.setdefault(f"ip_vs_pe_{server.pe_name}", key)
    for server in have.values():
        needs.pop(f"ip_vs_{server.scheduler}", None)
        needs.pop(f"ip_vs_pe_{server.pe_name}", None)
    for module, state in modules.states(needs).items():
        if state == modules.ABSENT:
            raise MissingError(f"virtual server {needs[module]}: {modules.missing(module)}; nothing was changed")
