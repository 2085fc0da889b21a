# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IPv6 items of a service proxy.

A node without IPv6 can hold only the other items.
"""

from __future__ import annotations

from typing import Any, Callable

from ..model import State
from .presence import exists

_IPV6 = "/proc/net/if_inet6"  # missing where the kernel has no IPv6, or has it disabled
_IS_IPV6: dict[str, Callable[[Any], bool]] = {
    "set": lambda key: bool(key.startswith("KUBE-6-")),
    "member": lambda key: bool(key.set.startswith("KUBE-6-")),
    "chain": lambda key: bool(key.family == 6),
    "jump": lambda key: bool(key.family == 6),
    "virtual_server": lambda key: bool(key.family == 6),
    "real_server": lambda key: bool(key.server.family == 6),
    "address": lambda key: ":" in key.address,
    "route": lambda key: ":" in key.network,
}


def possible(state: State) -> State:
    """Return a desired state without IPv6 items if this node has no IPv6.

    Raises:
        KernelError: as :func:`is_present`.
    """
    return state if is_present() else without_ipv6(state)


def is_present() -> bool:
    """Tell whether this node has IPv6.

    Raises:
        KernelError: the kernel cannot tell. "No" would remove all IPv6 items.
    """
    return exists(_IPV6, "IPv6 virtual servers, sets and rules")


def without_ipv6(state: State) -> State:
    """Return a state, or changes of one, without IPv6's items."""
    return {
        kind: {key: value for key, value in items.items() if kind not in _IS_IPV6 or not _IS_IPV6[kind](key)}
        for kind, items in state.items()
    }
