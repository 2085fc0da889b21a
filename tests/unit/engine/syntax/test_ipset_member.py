# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Spelling of headers and members.

tests/kernel/test_ipset_spelling.py compares it with ipset's own.
"""

from __future__ import annotations

from typing import Any

import pytest

from kubenode.engine.errors import InputError
from kubenode.engine.model.ipset import IPSet, keeps_members, same_set
from kubenode.engine.model.member_options import pairs, same_options
from kubenode.engine.syntax.ipset_header import header
from kubenode.engine.syntax.ipset_member import Member, Speller


@pytest.mark.parametrize(
    ("kind", "options", "text"),
    [
        ("hash:ip", {}, "hash:ip family inet hashsize 1024 maxelem 65536"),
        (
            "hash:ip",
            {
                "comment": True,
                "counters": "",
                "skbinfo": False,
                "timeout": 0,
                "netmask": 24,
                "maxelem": None,
                "forceadd": True,
            },
            "hash:ip family inet hashsize 1024 maxelem 65536 netmask 24 timeout 0 counters comment forceadd",
        ),
        ("hash:ip", {"netmask": "32"}, "hash:ip family inet hashsize 1024 maxelem 65536"),
        ("hash:ip", {"family": "inet6", "netmask": 128}, "hash:ip family inet6 hashsize 1024 maxelem 65536"),
        ("hash:mac", {}, "hash:mac hashsize 1024 maxelem 65536"),
        ("hash:ip,mark", {}, "hash:ip,mark family inet markmask 0xffffffff hashsize 1024 maxelem 65536"),
        (
            "hash:ip,mark",
            {"markmask": "255"},
            "hash:ip,mark family inet markmask 0x000000ff hashsize 1024 maxelem 65536",
        ),
        ("bitmap:port", {"range": "80-5"}, "bitmap:port range 5-80"),
        ("bitmap:ip", {"range": "10.0.0.7/24", "netmask": 28}, "bitmap:ip range 10.0.0.0-10.0.0.255 netmask 28"),
        ("bitmap:ip,mac", {"range": "10.0.0.9-10.0.0.5"}, "bitmap:ip,mac range 10.0.0.5-10.0.0.9"),
        ("list:set", {"timeout": 5}, "list:set size 8 timeout 5"),
    ],
)
def test_headers_are_canonical(kind: str, options: dict[str, Any], text: str) -> None:
    assert header(kind, options).text() == text


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("hash:all", {}, "^set S: type is 'hash:all', expected one of bitmap:ip, "),
        ("hash:ip", {"range": "1-2"}, "^set S: option is 'range', expected one of those of hash:ip: family, "),
        ("hash:mac", {"family": "inet"}, "option is 'family'"),
        ("hash:net", {"netmask": 5}, "option is 'netmask'"),
        ("hash:ip", {"maxelem": "many"}, "maxelem is 'many', expected a number"),
        ("hash:ip", {"maxelem": True}, "maxelem is True"),
        ("hash:ip", {"comment": "yes"}, "comment is 'yes', expected true or false"),
        ("hash:ip", {"family": "ipv4"}, "family is 'ipv4', expected inet or inet6"),
        ("hash:ip", {"bitmask": "24"}, "bitmask is '24'"),
        ("bitmap:port", {}, "range is None"),
        ("bitmap:port", {"range": "0-65536"}, "range is '0-65536', expected FROM-TO"),
        ("bitmap:ip", {"range": "10.0.0.0"}, "range is '10.0.0.0', expected FROM-TO or NETWORK/PREFIX"),
        ("bitmap:ip", {"range": "fd00::/120"}, "range is"),
        ("bitmap:ip", {"range": "10.0.0.0/33"}, "range is"),
    ],
)
def test_impossible_headers(kind: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        header(kind, options, "set S")


def test_equal_headers_are_recognised() -> None:
    plain = header("hash:ip", {})
    assert same_set(plain, header("hash:ip", {"hashsize": 64, "bucketsize": 4}))
    assert not same_set(plain, header("hash:ip", {"forceadd": True}))
    assert not same_set(plain, header("hash:ip", {"comment": True}))
    assert keeps_members(plain, header("hash:ip", {"comment": True, "maxelem": 5}))
    assert not keeps_members(plain, header("hash:ip", {"netmask": 24}))
    assert not keeps_members(plain, header("hash:net", {}))


HASH_IP, NET6 = header("hash:ip", {}), header("hash:net", {"family": "inet6"})
IP_PORT, IFACE, PORTS = (
    header("hash:ip,port", {}),
    header("hash:net,iface", {}),
    header("bitmap:port", {"range": "0-65535"}),
)
ALL = header("hash:net", {"timeout": 600, "counters": True, "comment": True, "skbinfo": True})


@pytest.mark.parametrize(
    ("kind", "text", "member", "options"),
    [
        (HASH_IP, "10.0.0.1/32", "10.0.0.1", ""),
        (NET6, "FD00:0::7/64", "fd00::/64", ""),
        (NET6, "[fd00::7]", "fd00::7", ""),
        (IP_PORT, "10.0.0.1,80", "10.0.0.1,tcp:80", ""),
        (IP_PORT, "10.0.0.1,17:53", "10.0.0.1,udp:53", ""),
        (IFACE, "0.0.0.0/0,eth0", "0.0.0.0/0,eth0", ""),
        (IFACE, "10.0.0.1/8,eth0 wildcard nomatch", "10.0.0.0/8,eth0", "nomatch wildcard"),
        (ALL, "10.0.0.0/8", "10.0.0.0/8", "timeout 600 packets 0 bytes 0"),
        (
            ALL,
            '10.0.0.0/8  skbprio 1:A comment "a  b" skbmark 0X0f bytes 7 nomatch timeout 0',
            "10.0.0.0/8",
            'timeout 0 nomatch packets 0 bytes 7 comment "a  b" skbmark 0xf skbprio 1:a',
        ),
        (ALL, '10.0.0.0/8 comment "" skbqueue 0', "10.0.0.0/8", "timeout 600 packets 0 bytes 0"),
    ],
)
def test_members_are_canonical(kind: IPSet, text: str, member: str, options: str) -> None:
    assert Speller(kind)(text) == Member(member, options)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (HASH_IP, "10.0.0.0/30"),
        (HASH_IP, "10.0.0.0-10.0.0.9"),
        (IP_PORT, "10.0.0.1,http"),
        (IP_PORT, "10.0.0.1,tcp:80-90"),
        (IP_PORT, "10.0.0.1,icmp:8/0"),
        (IP_PORT, "10.0.0.1,47:0"),
        (PORTS, "80-90"),
    ],
)
def test_unsupported_members_are_left_to_ipset(kind: IPSet, text: str) -> None:
    assert Speller(kind)(text) is None


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (
            HASH_IP,
            "10.0.0.300",
            "^set S: member is '10.0.0.300', expected an address of the set's family instead of '10.0.0.300'",
        ),
        (HASH_IP, "fd00::1", "family"),
        (HASH_IP, "10.0.0.0/33", "address"),
        (HASH_IP, "my-host", "address"),
        (NET6, "10.0.0.0/8", "family"),
        (NET6, "fd00::/x", "network"),
        (IP_PORT, "10.0.0.1", "expected ip,port"),
        (IP_PORT, "10.0.0.1,tcp:65536", "expected a port, or protocol:port instead of 'tcp:65536'"),
        (IP_PORT, "10.0.0.1,:80", "port"),
        (PORTS, "70000", "expected a port"),
        (HASH_IP, "0.0.0.0", "another address: hash:ip cannot hold that one"),
        (header("hash:ip", {"family": "inet6", "netmask": 64}), "::7", "another address"),
        (header("hash:mac", {}), "0:0:0:0:0:0", "another address"),
        (header("hash:net", {}), "10.0.0.0/0", "a prefix length of at least 1"),
        (header("bitmap:port", {"range": "0-99"}), "100", "expected a port within 0-99"),
        (header("bitmap:ip", {"range": "10.0.0.0/24"}), "10.0.1.0", "expected an address within 10.0.0.0-10.0.0.255"),
        (header("hash:mac", {}), "0a:0b:0c:0d:0e", "MAC"),
        (header("hash:ip,mark", {}), "10.0.0.1,0x1ffffffff", "mark of 32 bits"),
        (header("list:set", {}), "x" * 32, "name of a set"),
        (HASH_IP, "10.0.0.1 timeout 5", "option is 'timeout', expected a set that is made with timeout"),
        (HASH_IP, "10.0.0.1 nomatch", "option is 'nomatch', expected a set of a type with networks"),
        (HASH_IP, "10.0.0.1 nosuch 1", "option is 'nosuch', expected one of timeout, "),
        (IFACE, "10.0.0.0/8,sixteen-letters-", "the name of an interface"),
        (IFACE, "10.0.0.0/8,physdev:sixteen-letters-", "the name of an interface"),
        (ALL, f'10.0.0.0/8 comment "{"é" * 128}"', "comment is 'éééé.*…', expected at most 255 bytes"),
        (ALL, "10.0.0.0/8 timeout", "timeout has no value"),
        (ALL, '10.0.0.0/8 comment "x', "no closing quote"),
        (ALL, "10.0.0.0/8 packets many", "packets is 'many', expected a number"),
        (ALL, "10.0.0.0/8 skbmark 7", "skbmark is '7', expected 0xMARK"),
        (ALL, "10.0.0.0/8 skbprio 7", "skbprio is '7', expected MAJOR:MINOR"),
        (ALL, "10.0.0.0/8 wildcard", "option is 'wildcard'"),
    ],
)
def test_invalid_members_are_refused(kind: IPSet, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Speller(kind, "set S")(text)


@pytest.mark.parametrize(
    ("have", "want", "same"),
    [
        ("timeout 597 packets 3 bytes 180", "timeout 600", True),
        ("timeout 0", "", True),
        ("timeout 597", "timeout 0", False),
        ("timeout 597 packets 3", "timeout 597", True),
        ("timeout 597 packets 3", "timeout 60", False),
        ("", "nomatch", False),
        ('timeout 5 comment "timeout 0"', 'timeout 6 comment "timeout 0"', True),
        ('comment "a b"', 'comment "a c"', False),
        ("", "timeout", False),
        ("skbprio 1:2 skbmark 0x1", "skbmark 0x1 skbprio 1:2", True),
    ],
)
def test_kernel_counters_are_no_difference(have: str, want: str, same: bool) -> None:
    assert same_options(have, want) is same


def test_options_are_taken_apart() -> None:
    assert pairs('timeout 5 nomatch comment "a  b" skbmark 0x1') == [
        ("timeout", "5"),
        ("nomatch", ""),
        ("comment", "a  b"),
        ("skbmark", "0x1"),
    ]
