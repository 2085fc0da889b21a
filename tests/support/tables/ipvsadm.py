# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Independent parser of ``ipvsadm --save --numeric``, which shares no code with the engine's.

ipvsadm prints no thresholds, and the forwarding methods local and bypass as direct routing. It prints netmask, timeout
and the scheduler's flags only where they matter.
"""

from __future__ import annotations

import ipaddress
import shlex
import subprocess
from typing import Any

PROTOCOLS = {"-t": "tcp", "-u": "udp", "--sctp-service": "sctp"}
METHODS = {"-m": "masquerade", "-g": "direct", "-i": "tunnel"}
FLAGS = {"flag-1": 8, "flag-2": 16, "flag-3": 32, "sh-fallback": 8, "sh-port": 16, "mh-fallback": 8, "mh-port": 16}

Key = tuple[str, str, int, int]


def saved() -> tuple[dict[Key, dict[str, Any]], dict[tuple[Key, str, int], dict[str, Any]]]:
    """Return virtual servers by (protocol, address, port or mark, family), real servers by (that, address, port)."""
    done = subprocess.run(["ipvsadm", "-S", "-n"], check=True, capture_output=True, text=True)
    return parse(done.stdout)


def parse(text: str) -> tuple[dict[Key, dict[str, Any]], dict[tuple[Key, str, int], dict[str, Any]]]:
    servers: dict[Key, dict[str, Any]] = {}
    reals: dict[tuple[Key, str, int], dict[str, Any]] = {}
    for line in text.splitlines():
        words = shlex.split(line)
        verb, key, rest = words[0], *_key(words[1:])
        if verb == "-A":
            servers[key] = _server(rest)
        else:
            address, port = _endpoint(rest[1])
            reals[key, address, port] = _real(rest[2:])
    return servers, reals


def _key(words: list[str]) -> tuple[Key, list[str]]:
    option, value, rest = words[0], words[1], words[2:]
    if option == "-f":
        six = rest[:1] == ["-6"]
        return ("fwmark", "", int(value) % 2**32, 6 if six else 4), rest[1:] if six else rest
    address, port = _endpoint(value)
    return (PROTOCOLS[option], address, port, ipaddress.ip_address(address).version), rest


def _endpoint(text: str) -> tuple[str, int]:
    address, port = text.rsplit(":", 1)
    return str(ipaddress.ip_address(address.strip("[]"))), int(port)


def _server(words: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {"flags": 0, "timeout": 0, "netmask": None, "pe_name": ""}
    rest = iter(words)
    for option in rest:
        if option == "-o":
            fields["flags"] |= 4
        elif option == "-s":
            fields["scheduler"] = next(rest)
        elif option == "-p":
            fields["flags"] |= 1
            fields["timeout"] = int(next(rest))
        elif option == "-M":
            mask = next(rest)
            fields["netmask"] = ipaddress.ip_network(f"0.0.0.0/{mask}").prefixlen if "." in mask else int(mask)
        elif option == "-b":
            for word in next(rest).split(","):
                fields["flags"] |= FLAGS[word]
        elif option == "--pe":
            fields["pe_name"] = next(rest)
        else:
            raise ValueError(f"ipvsadm says {option} in {words}")
    return fields


def _real(words: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {"tunnel_type": "ipip", "tunnel_port": 0, "tunnel_flags": 0}
    rest = iter(words)
    for option in rest:
        if option in METHODS:
            fields["forward"] = METHODS[option]
        elif option == "-w":
            fields["weight"] = int(next(rest))
        elif option == "--tun-type":
            fields["tunnel_type"] = next(rest)
        elif option == "--tun-port":
            fields["tunnel_port"] = int(next(rest))
        elif option.startswith("--tun-"):
            fields["tunnel_flags"] |= {"--tun-nocsum": 0, "--tun-csum": 1, "--tun-remcsum": 2}[option]
        else:
            raise ValueError(f"ipvsadm says {option} in {words}")
    return fields
