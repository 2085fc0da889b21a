# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of one node: a tar archive on its second disk, which the node unpacks over / at its first start."""

from __future__ import annotations

import hashlib
import io
import tarfile
from typing import TYPE_CHECKING

from . import naming

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_NETWORK = """\
[Match]
MACAddress={mac}
Type=ether
[Network]
{addresses}
Gateway={bridge.ipv4}
Gateway={bridge.ipv6}
LinkLocalAddressing=ipv6
IPv6AcceptRA=no
IPv6DuplicateAddressDetection=0
LLMNR=no
"""


def files(
    name: str, index: int, release: str, hosts: Mapping[str, naming.Addresses], keys: Mapping[str, str]
) -> dict[str, tuple[int, str]]:
    """Return a node's files: path without leading slash to mode and text.

    Args:
        name: host name.
        index: number of the node, which decides its addresses.
        release: release, which decides the package source.
        hosts: all hosts of the lab, for /etc/hosts.
        keys: texts of ``authorized`` (the user's public key), ``host`` and ``host.pub`` (the node's host key).
    """
    addresses = "\n".join(f"Address={address}" for address in naming.node_addresses(index).with_lengths)
    names = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
    names += [f"{address} {host}" for host, pair in hosts.items() for address in pair]
    network = _NETWORK.format(mac=naming.node_mac(index), addresses=addresses, bridge=naming.bridge_addresses())
    return {
        "etc/hostname": (0o644, name + "\n"),
        "etc/hosts": (0o644, "\n".join(names) + "\n"),
        "etc/machine-id": (0o444, hashlib.sha256(f"{keys['host']} {name}".encode()).hexdigest()[:32] + "\n"),
        "etc/systemd/network/10-lab.network": (0o644, network),
        "etc/apt/sources.list.d/lab.list": (0o644, naming.package_source(release)),
        "root/.ssh/authorized_keys": (0o600, keys["authorized"]),
        "etc/ssh/ssh_host_ed25519_key": (0o600, keys["host"]),
        "etc/ssh/ssh_host_ed25519_key.pub": (0o644, keys["host.pub"]),
        "etc/lab-node": (0o644, "This node has its settings.\n"),
    }


def write(path: Path, contents: Mapping[str, tuple[int, str]]) -> None:
    """Write the archive, padded to whole sectors, so that it can be a disk."""
    directories: Sequence[tuple[str, int]] = (("root/.ssh", 0o700),)
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, mode in directories:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            archive.addfile(entry)
        for name, (mode, text) in contents.items():
            entry = tarfile.TarInfo(name)
            content = text.encode()
            entry.mode, entry.size = mode, len(content)
            archive.addfile(entry, io.BytesIO(content))
