# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules back end of a service proxy on this node: iptables with IP sets, or tables of nftables."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Callable, NamedTuple

from ..kernel import modules
from ..kernel.command import is_installed
from ..model import State

_COMMANDS = ("iptables", "ipset")
_MODULES = ("ip_set", "xt_set")  # newer kernels of some distributions do not have them
IPTABLES, NFTABLES = "iptables", "nftables"
# Kinds of items that stand in the ledger for each back end: what an owner has on the node decides first.
KINDS = {NFTABLES: ("nft_table",), IPTABLES: ("chain", "jump", "set")}


def spelled(state: State, setting: str, owned: Callable[[], Mapping[str, Sized]]) -> State:
    """Return a whole desired state in the items of the back end that :func:`choose` returns.

    Raises:
        EngineError: the ledger cannot be read.
    """
    if choose(setting, owned).backend == IPTABLES:
        return state
    from ..desired.nft_state import nft_state

    return nft_state(state)


class Choice(NamedTuple):
    """Back end, and the reason for it in words."""

    backend: str
    reason: str


def choose(setting: str, owned: Callable[[], Mapping[str, Sized]]) -> Choice:
    """Return the back end that the setting (``auto``, ``iptables`` or ``nftables``) leads to on this node.

    ``auto`` stays with the owner's items. Without any, it takes iptables if both commands are there and the kernel has
    sets, else nftables if the kernel has all that the tables need. ``owned`` returns the owner's keys by kind; only
    ``auto`` calls it.

    Raises:
        EngineError: the ledger cannot be read.
    """
    if setting != "auto":
        return Choice(setting, "the configuration names it")
    claims = owned()
    for backend, kinds in KINDS.items():
        if any(claims.get(kind) for kind in kinds):
            return Choice(backend, "this node's rules are in it")
    lacking = [tool for tool in _COMMANDS if not is_installed(tool)]
    owner = "node"
    if not lacking:  # as in a container image, whatever the kernel has
        lacking = [name for name, state in modules.states(_MODULES).items() if state == modules.ABSENT]
        owner = "kernel"
    if not lacking:
        return Choice(IPTABLES, f"the node has {' and '.join(_COMMANDS)}")
    from ..kernel import nftables

    missing = nftables.missing_features()
    if missing:
        return Choice(IPTABLES, f"nftables on this kernel lacks {', '.join(missing)}")
    return Choice(NFTABLES, f"the {owner} has no {' and no '.join(lacking)}")
