# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Adapt the agent to a container: capabilities, the node's sysctls, the node's iptables back end.

Only the image's command calls this. A container runtime gives a user other than root no ambient capabilities
(kubernetes: KEP-2763), so its programs have only those that their files permit. In the image, the file of Python
permits CAP_NET_ADMIN and CAP_NET_RAW.
"""

from __future__ import annotations

import os
import re

USER = 65525  # uid and gid of the agent in its image
SYSCTLS = "/host/proc/sys"  # where a pod mounts the node's /proc/sys/net; a container's own /proc/sys is read-only
_MARK = "KUBENODE_IN_CONTAINER"  # in the environment of the image's processes
_CAPABILITIES = (1 << 12) | (1 << 13)  # CAP_NET_ADMIN, CAP_NET_RAW (linux/capability.h)
_VERSION_3 = 0x20080522
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 47, 2
_OF_KUBELET = re.compile(r"^:KUBE-(KUBELET-CANARY|IPTABLES-HINT) ", re.MULTILINE)
_OF_KUBERNETES = re.compile(r"^:KUBE-", re.MULTILINE)


def adapt() -> None:
    """Adapt this process, before its command runs."""
    os.environ[_MARK] = "1"
    raise_capabilities()
    from .engine.kernel import iptables, sysctls

    if os.path.isdir(os.path.join(SYSCTLS, "net")):
        sysctls.use(SYSCTLS)
    iptables.choose(iptables_backend())


def is_in_container() -> bool:
    """Tell whether this process is the image's command."""
    return _MARK in os.environ


def raise_capabilities() -> int:
    """Make the permitted ones of the two capabilities effective, and ambient: the tools that it starts have them, too.

    Returns the raised capabilities as a mask. Without any, the agent reports which right is missing.
    """
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    head = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable of the numbers below 32, then of those above
    if libc.capget(head, sets):
        return 0
    wanted = sets[1] & _CAPABILITIES
    sets[0] |= wanted
    sets[2] |= wanted
    if not wanted or libc.capset(head, sets):
        return 0
    for number in range(32):
        if wanted >> number & 1:
            libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, number, 0, 0)
    return int(wanted)


def iptables_backend() -> str:
    """Return the back end of iptables, ``legacy`` or ``nft``, that the node's kubelet and service proxy use.

    kubelet's chains decide, as in kube-proxy's image (kubernetes-sigs/iptables-wrappers). Where the kernel has no
    tables of iptables-legacy, looking for them would make them.
    """
    if not os.path.exists("/proc/self/net/ip_tables_names"):
        return "nft"
    if _OF_KUBELET.search(_saved("nft", "mangle")):
        return "nft"
    return "legacy" if any(_OF_KUBERNETES.search(_saved("legacy", table)) for table in ("mangle", "nat")) else "nft"


def _saved(backend: str, table: str) -> str:
    from .engine.errors import EngineError
    from .engine.kernel.command import run

    try:
        return run([f"iptables-{backend}-save", "-t", table]).output
    except EngineError:
        return ""
