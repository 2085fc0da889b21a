# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets as text: those that the engine reads and writes by netlink, and some that it leaves to the tool ipset."""

from __future__ import annotations

KNOWN = """
create A hash:ip family inet hashsize 1024 maxelem 65536
add A 10.0.0.1
add A 255.255.255.255
create A6 hash:ip family inet6 maxelem 131072
add A6 fd00::1
add A6 ::ffff:10.0.0.1
create P hash:ip,port family inet
add P 10.96.0.1,tcp:80
add P 10.96.0.1,udp:65535
add P 10.96.0.1,sctp:1
create P6 hash:ip,port family inet6
add P6 fd00::1,udp:53
create L hash:ip,port,ip
add L 10.244.0.1,tcp:8080,10.244.0.1
create L6 hash:ip,port,ip family inet6
add L6 fd00::1,tcp:8080,fd00::2
create N hash:ip,port,net
add N 10.96.0.1,tcp:80,192.0.2.0/24
add N 10.96.0.1,tcp:80,192.0.2.7
add N 10.96.0.1,tcp:80,128.0.0.0/1
create N6 hash:ip,port,net family inet6
add N6 fd00::1,tcp:80,2001:db8::/32
add N6 fd00::1,tcp:80,2001:db8::7
create B bitmap:port range 0-65535
add B 0
add B 30080
add B 65535
create empty hash:ip,port
"""
UNKNOWN = {
    "a timeout": "create X hash:ip timeout 60\nadd X 10.0.0.1 timeout 0\n",
    "counters": "create X hash:ip counters\nadd X 10.0.0.1\n",
    "comments": "create X hash:ip,port comment\nadd X 10.0.0.1,tcp:80 comment why\n",
    "another type": "create X hash:net\nadd X 10.0.0.0/8\n",
    "another protocol": "create X hash:ip,port\nadd X 10.0.0.1,icmp:ping\n",
    "a member that matches nothing": "create X hash:ip,port,net\nadd X 10.0.0.1,tcp:80,10.0.0.0/8 nomatch\n",
    "a netmask": "create X hash:ip netmask 24\nadd X 10.0.0.0\n",
}
