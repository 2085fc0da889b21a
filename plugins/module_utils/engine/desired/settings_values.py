# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readers of configuration values.

Every function raises ValueError with the expected form.
"""

from __future__ import annotations

import re
from typing import Any, Callable

from ..model.ipvs import LONGEST_TIMEOUT, SCHEDULERS
from ..model.net import canonical, contains, family, full_prefix, network

_LOOPBACK = {4: "127.0.0.1", 6: "::1"}
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST = (1 << 63) * 1e-9
_PART = r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)"


def text(value: Any) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise ValueError("text")
    return value


def host_name(value: Any) -> str:
    """Return the name of a node: without white space around it, in lower case; "" if not given."""
    name = text(value).strip().lower()
    if value and not name:
        raise ValueError("the name of a node")
    return name


def boolean(value: Any) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def number(value: Any) -> float:
    """Return a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("a number")
    try:
        return float(value)
    except OverflowError:
        raise ValueError("a number of at most 308 digits") from None


def integer(lowest: int, highest: int) -> Callable[[Any], int]:
    """Return the reader of an integer within limits."""

    def convert(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
            raise ValueError(f"an integer from {lowest} to {highest}")
        return value

    return convert


def one_of(*choices: str) -> Callable[[Any], str]:
    """Return the reader of one of several words."""

    def convert(value: Any) -> str:
        if value not in choices:
            raise ValueError("one of " + ", ".join(repr(choice) for choice in choices))
        return str(value)

    return convert


def metrics_services(value: Any) -> str | int:
    """Return "off", "all", or the number K of ``top: K``. YAML reads a bare ``off`` as false."""
    if value is False or value in ("off", "all"):
        return value or "off"
    if isinstance(value, dict) and list(value) == ["top"]:
        try:
            return integer(1, (1 << 31) - 1)(value["top"])
        except ValueError:
            pass
    raise ValueError("off, all, or top: K with the number of Services, at least 1")


def mebibytes(lowest: int, highest: int) -> Callable[[Any], int]:
    """Return the converter of a quantity such as ``16Mi`` to bytes."""

    def convert(value: Any) -> int:
        match = re.fullmatch(r"([1-9][0-9]{0,5})Mi", value) if isinstance(value, str) else None
        if match is None or not lowest <= int(match[1]) <= highest:
            raise ValueError(f"a quantity from {lowest}Mi to {highest}Mi")
        return int(match[1]) << 20

    return convert


def seconds(value: Any) -> float:
    """Return the seconds of a Go duration such as ``1m30s``, which counts nanoseconds in 64 bits."""
    sign, rest = 1.0, value
    if isinstance(rest, str) and rest[:1] in ("-", "+"):
        sign, rest = (-1.0 if rest[0] == "-" else 1.0), rest[1:]
    if rest == "0":
        return 0.0
    if not isinstance(rest, str) or not re.fullmatch(f"({_PART})+", rest):
        raise ValueError("a duration such as 30s, 1m0s or 24h0m0s")
    total = sum(float(count) * _UNITS[unit] for count, unit in re.findall(_PART, rest))
    if total >= _LONGEST:
        raise ValueError(f"a duration of less than {_LONGEST / 3600:.0f}h")
    return sign * total


def duration(value: Any) -> float:
    """Return the seconds of a duration that is not negative."""
    parsed = seconds(value)
    if parsed < 0:
        raise ValueError("a duration that is not negative")
    return parsed


def positive_duration(value: Any) -> float:
    """Return the seconds of a duration greater than zero."""
    parsed = seconds(value)
    if parsed <= 0:
        raise ValueError("a duration greater than 0")
    return parsed


def ipvs_timeout(value: Any) -> float:
    """Return the seconds of a duration that IPVS can wait."""
    parsed = duration(value)
    if parsed > LONGEST_TIMEOUT:
        raise ValueError(f"a duration of at most {LONGEST_TIMEOUT}s, which the kernel can count")
    return parsed


def ip(value: Any) -> str:
    """Return a canonical address."""
    try:
        return canonical(value)
    except (ValueError, TypeError):
        raise ValueError("an IPv4 or IPv6 address") from None


def host_port(usual: int) -> Callable[[Any], tuple[str, int]]:
    """Return the reader of ``ADDRESS:PORT``, or of an address alone, which means its usual port."""

    def convert(value: Any) -> tuple[str, int]:
        expected = "ADDRESS:PORT such as 0.0.0.0:10256 or [::]:10256"
        try:
            return canonical(value), usual
        except (ValueError, TypeError):
            pass
        host, colon, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
        bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        # brackets around IPv6 addresses, and only around those
        if not colon or (":" in bare) is (bare == host):
            raise ValueError(expected)
        if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
            raise ValueError(f"{expected} with a port from 1 to 65535")
        try:
            return canonical(bare), int(port)
        except ValueError:
            raise ValueError(expected) from None

    return convert


def networks(value: Any) -> tuple[str, ...]:
    """Return canonical networks; host bits are cleared."""
    if not isinstance(value, list):
        raise ValueError("a list of networks")
    parsed = []
    for item in value:
        try:
            if "/" not in item:
                raise ValueError
            parsed.append(network(item))
        except (ValueError, TypeError):
            raise ValueError(f"a list of networks such as 10.0.0.0/8; {item!r} is not one") from None
    return tuple(parsed)


def cluster_cidrs(value: Any) -> tuple[str, ...]:
    """Return the networks of ``A`` or ``A,B``: at most one per family."""
    if not isinstance(value, str):
        raise ValueError("a network, or two of different families with a comma between them")
    cidrs = networks([part.strip() for part in value.split(",")])
    if len({family(net) for net in cidrs}) < len(cidrs):
        raise ValueError("at most one network of each family")
    return cidrs


def service_cidrs(value: Any) -> tuple[str, ...]:
    """Return the networks of cluster IPs: canonical, of more than one address, without the loopback addresses."""
    cidrs = networks(value)
    for given, net in zip(value, cidrs):
        fam = family(net)
        try:
            network(given, strict=True)
        except ValueError:
            raise ValueError(f"networks without host bits; {given!r} is in {net}") from None
        if net.endswith(f"/{full_prefix(fam)}") or contains(net, _LOOPBACK[fam]):
            raise ValueError(f"networks of cluster IPs such as 10.96.0.0/12; {given!r} is not one")
    return tuple(dict.fromkeys(cidrs))


def node_port_addresses(value: Any) -> tuple[str, ...]:
    """Return ``("primary",)``, or canonical networks."""
    if value == ["primary"]:
        return ("primary",)
    if isinstance(value, list) and "primary" in value:
        raise ValueError("either networks, or nothing but 'primary'")
    return networks(value)


def scheduler(value: Any) -> str:
    """Return the name of an IPVS scheduler."""
    return one_of(*SCHEDULERS)(value)


def interface(value: Any) -> str:
    """Return the name of an interface, or its beginning; "" if not given."""
    if not isinstance(value, str) or len(value) > 15 or re.search(r"[\s/]", value):
        raise ValueError("the name of an interface: at most 15 characters, no white space, no slash")
    return value


def url(value: Any) -> str:
    """Return the URL of a server."""
    if not isinstance(value, str) or not re.fullmatch(r"https?://[^\s/]+(/\S*)?", value):
        raise ValueError("a URL such as https://192.0.2.1:6443")
    return value


def node_labels(value: Any) -> tuple[tuple[str, str], ...]:
    """Return labels and their values, sorted."""
    if not isinstance(value, dict) or not all(isinstance(text, str) for pair in value.items() for text in pair):
        raise ValueError("labels such as {kubenode.ipvs/proxy: agent}, with texts as values")
    return tuple(sorted(value.items()))


def path(value: Any) -> str:
    """Return an absolute path."""
    if not isinstance(value, str) or not value.startswith("/"):
        raise ValueError("an absolute path")
    return value
