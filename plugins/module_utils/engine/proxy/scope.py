# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scope of a partial plan: the items that must be planned together. Pure functions.

A plan for such a scope treats each item as a plan for the whole node does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..model import ReadState, State
from ..model.ipvs import RealServerKey, VirtualServerKey
from ..model.kinds import KINDS
from .diff import Differences
from .drain import policy as drain_policy

KeySets = dict[str, set[Any]]  # by kind


def only(state: ReadState, keys: Mapping[str, set[Any]]) -> State:
    """Return the items with these keys."""
    return {kind: {key: state[kind][key] for key in some if key in state.get(kind, {})} for kind, some in keys.items()}


def spots(have: ReadState, want: ReadState, servers: Iterable[VirtualServerKey]) -> KeySets:
    """Return the addresses and local routes, by kind, that serve only these virtual servers.

    Bindings of wanted virtual servers are wanted, and left out.
    """
    wanted = want.get("virtual_server", {})
    return drain_policy.bindings(have, {server.address for server in servers if server not in wanted})


def together(
    keys: Mapping[str, Iterable[Any]], have: ReadState, want: ReadState, draining: Iterable[RealServerKey]
) -> KeySets:
    """Return the keys, and those of the items that must be planned with them."""
    chosen: KeySets = {"real_server": set(), **{kind: set(some) for kind, some in keys.items()}}
    for kind, some in list(chosen.items()):
        parent = KINDS[kind].parent
        if parent is not None:
            chosen.setdefault(parent[0], set()).update(parent[1](key) for key in some)
    # No event names a draining real server, since it is not wanted. But it keeps its unwanted virtual server, and the
    # address of that.
    wanted = want.get("virtual_server", {})
    keeping = [key for key in draining if key.server not in wanted]
    kept = {key for key in keeping if key.server in chosen.get("virtual_server", ())}
    for kind, bindings in spots(have, want, (key.server for key in kept)).items():
        chosen.setdefault(kind, set()).update(bindings)
    # the same address may be kept for another virtual server
    bound = {whose(key) for kind, whose in drain_policy.BINDINGS.items() for key in chosen[kind]}
    kept.update(key for key in keeping if key.server.address in bound)
    chosen["real_server"].update(kept)
    chosen.setdefault("virtual_server", set()).update(key.server for key in kept)
    return chosen


def deserving(
    differences: Differences,
    have: ReadState,
    want: ReadState,
    draining: Iterable[RealServerKey],
    left: Mapping[str, set[Any]],
    others: Mapping[str, Mapping[Any, str]],
) -> KeySets | None:
    """Return the items to plan after a comparison; None for all.

    The plan is the same as for all items, except for those ``left`` alone because they drain: unless another process
    changed them, they are checked in turns.
    """
    sets, present = want.get("set", {}), have.get("set", {})
    if any(key in present and not KINDS["set"].same(present[key], value) for key, value in sets.items()):
        return None  # a replaced set needs all of its members
    part: KeySets = {
        kind: (odd - left.get(kind, set())).union(differences.news[kind]) for kind, odd in differences.odd.items()
    }
    part["jump"] = {*want.get("jump", ()), *have.get("jump", ())}  # the position of a rule depends on all others
    for kind, claimed in others.items():
        part.setdefault(kind, set()).update(want.get(kind, {}).keys() & claimed.keys())
    return together(part, have, want, draining)
