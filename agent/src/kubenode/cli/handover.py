# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cleanup after kube-proxy in another mode: wait for its rules, drain, remove the rest, count cut connections."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from ..engine.errors import EngineError, MissingError
from ..engine.kernel import iptables, nftables
from ..engine.kernel.ipvs.established import Destination, established
from ..engine.kernel.ipvs.usage import real_server_use
from ..engine.model import ReadState
from ..engine.model.ipvs import VirtualServerKey
from ..engine.proxy.handover import NFTABLES, families, handed_over, unserved
from .desired import complain
from .oneshot import Pass, show

_PAUSE = 0.2  # seconds between two readings of the node


class Limits(NamedTuple):
    """Longest times in seconds: until kube-proxy's rules exist, and until IPVS has no established connection."""

    wait: float
    drain: float


class _Census:
    """Established connections of IPVS at the last reading in which the virtual servers existed."""

    def __init__(self, servers: Collection[VirtualServerKey], mode: str) -> None:
        self._servers = set(servers)
        self._destinations = {Destination(key.protocol, key.address, key.port) for key in servers}
        self._counts_all = mode == NFTABLES  # kube-proxy removes those of other owners, too
        self.established = 0

    def take(self) -> int:
        """Read the node's connections; return the established ones."""
        try:
            used = real_server_use()
        except MissingError:  # the module ip_vs was unloaded
            return self.established
        if not self._servers.isdisjoint(used):
            counts = established()
            if not self._counts_all:
                counts = Counter({key: counts[key] for key in self._destinations & counts.keys()})
            self.established = sum(counts.values())
        return self.established


def show_steps(work: Pass, mode: str) -> int:
    """Print the steps that :func:`remove` would execute; return the exit status."""
    owned = work.owned()
    prepared = work.plan({}, drain=False, keep=handed_over(owned, mode, families(owned)))
    show(prepared, "text")
    return 2 if prepared.steps else 0


def remove(directory: str, mode: str, limits: Limits) -> int:
    """Wait until kube-proxy serves in this mode, then remove the agent's items; return the exit status.

    Raises:
        EngineError: kube-proxy's rules do not appear in time; nothing was changed.
    """
    with Pass(directory) as work:
        owned = work.owned()
    if not owned:
        return 0
    wanted = families(owned)
    census = _Census(owned.get("virtual_server", ()), mode)
    census.take()
    print(f"waiting for kube-proxy in {mode} mode", flush=True)
    _await_rules(wanted, mode, census, limits.wait)
    if mode != NFTABLES:  # kube-proxy's rules get new connections, and IPVS keeps the established ones
        end = time.monotonic() + limits.drain
        while census.take() and time.monotonic() < end:
            time.sleep(_PAUSE)
    with Pass(directory) as work:
        kept = handed_over(work.owned(), mode, wanted)
        prepared = work.plan({}, drain=False, keep=kept)
        show(prepared, "text")
        cut = census.take()
        failed = work.execute(prepared).failed
        work.hand_over(kept)
        if not failed:
            work.forget()  # claims of items that kube-proxy has removed, and sysctls, which it needs as they are
    for failure in failed:
        complain(f"{failure.step.describe()}: {failure.message}")
    print(f"{cut} established connections were cut")
    return 1 if failed else 0


def _await_rules(wanted: Collection[int], mode: str, census: _Census, seconds: float) -> None:
    """Wait until kube-proxy's rules exist in all wanted families; count connections until then."""
    end = time.monotonic() + seconds
    while missing := unserved(_read_rules(wanted, mode), wanted, mode):
        census.take()
        if time.monotonic() >= end:
            which = " and ".join(f"IPv{family}" for family in sorted(missing))
            raise EngineError(
                f"kube-proxy has no rules of its {mode} mode for {which} after {seconds:g} s, so nothing was removed:"
                f" start kube-proxy with mode {mode}"
            )
        time.sleep(_PAUSE)


def _read_rules(wanted: Collection[int], mode: str) -> ReadState:
    if mode == NFTABLES:
        present: Mapping[str, Mapping[Any, Any]] = {"nft_table": nftables.read_tables()}
        return present
    return iptables.read(families=tuple(sorted(wanted)))
