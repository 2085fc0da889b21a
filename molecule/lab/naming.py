# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names and addresses of everything a lab makes, all derived from the clone's path and the lab's name.

Only names of network namespaces are visible on the whole machine, so only they hold the clone's id. All interfaces are
inside such namespaces, so labs may use the same short names and addresses.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, NamedTuple

from .errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

BRIDGE = "lab0"
CLIENT_LINK = "eth0"
REPOSITORY_PORT = 8000

_PREFIX = "knlab"
_IPV4 = "10.77.0."
_IPV6 = "fd77:6b6e::"
_FIRST_NODE, _FIRST_CLIENT, MAX_HOSTS = 11, 101, 80
# A dot separates the parts of a namespace's name, so no part may have one.
_NAME = re.compile(r"[a-z][a-z0-9-]{0,14}")


class Addresses(NamedTuple):
    """Addresses of a host on the lab's network."""

    ipv4: str
    ipv6: str

    @property
    def with_lengths(self) -> tuple[str, str]:
        """Both addresses with their prefix lengths, as for ``ip address add``."""
        return f"{self.ipv4}/24", f"{self.ipv6}/64"


def check_name(kind: str, name: str) -> str:
    """Return the name of a lab, node or client if it is valid.

    Raises:
        UsageError: the name is invalid.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"{kind} {name!r}: expected 1 to 15 of a-z, 0-9 and '-', the first a letter")
    return name


def clone_prefix(root: Path) -> str:
    """Return the prefix of all namespaces of a clone."""
    return f"{_PREFIX}.{hashlib.sha256(str(root).encode()).hexdigest()[:8]}."


def lab_namespace(root: Path, lab: str) -> str:
    """Return the name of the namespace with a lab's bridge, taps and node processes."""
    return clone_prefix(root) + lab


def client_namespace(root: Path, lab: str, client: str) -> str:
    """Return the name of a client's namespace."""
    return f"{lab_namespace(root, lab)}.{client}"


def lab_of_namespace(root: Path, namespace: str) -> str | None:
    """Return the lab of a namespace, None if the namespace is not of this clone."""
    prefix = clone_prefix(root)
    return namespace[len(prefix) :].split(".")[0] if namespace.startswith(prefix) else None


def bridge_addresses() -> Addresses:
    """Return the addresses of the lab's bridge, where the package repository answers."""
    return Addresses(f"{_IPV4}1", f"{_IPV6}1")


def node_addresses(index: int) -> Addresses:
    """Return the addresses of the node with this index, counted from 0."""
    return _host(_FIRST_NODE + index)


def client_addresses(index: int) -> Addresses:
    """Return the addresses of the client with this index, counted from 0."""
    return _host(_FIRST_CLIENT + index)


def _host(number: int) -> Addresses:
    return Addresses(f"{_IPV4}{number}", f"{_IPV6}{number}")


def node_mac(index: int) -> str:
    """Return the node's hardware address, locally administered. It is the same after a restart."""
    return f"02:6b:6e:00:00:{_FIRST_NODE + index:02x}"


def tap(index: int) -> str:
    """Return the name of a node's tap device."""
    return f"tap{index}"


def client_cable(index: int) -> str:
    """Return the name of the bridge's end of a client's veth pair."""
    return f"veth{index}"


def package_source(release: str) -> str:
    """Return the line of ``sources.list`` for the lab's package repository."""
    return f"deb [trusted=yes] http://{bridge_addresses().ipv4}:{REPOSITORY_PORT}/{release} ./\n"
