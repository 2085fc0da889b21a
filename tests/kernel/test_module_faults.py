# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A system call fails while a module applies its plan: the message says why, all is undone, and the next run succeeds.

strace(1) injects the fault in place of the kernel. It counts calls in each process from the moment when the module
begins to apply its plan.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kernel.modules import ModuleError, run
from support.clusters import objects
from support.processes.faults import Fault, Finished, later_in_child
from support.processes.guarded import node
from support.processes.kernel import IPTABLES, use_tables
from support.processes.namespace import fresh, sh

from ansible_collections.kubenode.ipvs.plugins.module_utils.engine import apply

KERNEL_MODULES = ("ip_vs", "ip_vs_rr", "ip_vs_wrr", "nf_conntrack", "ip_set", "xt_set", "dummy", "br_netfilter")
NO_MEMORY, NO_SPACE, NO_RIGHT = (
    "Cannot allocate memory",
    "No space left on device|disk is full",
    "no right|CAP_NET_ADMIN|permitted",
)
NO_NFT_MEMORY = "Memory allocation problem"
REFUSED = "the kernel refused the changes of table"  # iptables-restore gives no reason
ESTABLISHED = "net.netfilter.nf_conntrack_tcp_timeout_established"
Arguments = dict[str, Any]


def services(turn: int) -> Arguments:
    """Return more items than one message holds."""
    items = [
        {
            "address": f"192.0.2.{number}",
            "port": 80,
            "protocol": "tcp",
            "scheduler": "rr" if (number + turn) % 2 else "wrr",
            "real_servers": [
                {"address": f"198.51.100.{host}", "port": 8080} for host in range(1, 2 + (number + turn) % 4)
            ],
        }
        for number in range(1, 100)
        if (number + turn) % 3
    ]
    return {"services": items}


def sets(turn: int) -> Arguments:
    members = [f"192.0.2.{number}" for number in range(1, 250) if (number + turn) % 3]
    items: list[Arguments] = [{"name": "every", "type": "hash:ip", "members": members}]
    items += [
        {"name": f"again{number}", "type": "hash:ip", "maxelem": 100 + turn, "members": members[:50]}
        for number in (1, 2)
    ]
    items.append({"name": f"turn{turn}", "type": "hash:net", "members": [f"10.{turn}.0.0/16"]})
    return {"sets": items}


def chains(turn: int) -> Arguments:
    rules = [f"-s 192.0.2.{number}/32 -j DROP" for number in range(1, 20) if (number + turn) % 3]
    items = [{"name": "MINE", "rules": rules, "jumps": [{"chain": ("INPUT", "FORWARD")[turn]}]}]
    return {"chains": [*items, {"name": f"TURN{turn}", "rules": ["-j RETURN"], "table": "nat"}]}


def links(turn: int) -> Arguments:
    addresses = [f"192.0.2.{number}" for number in range(1, 20) if (number + turn) % 3]
    return {
        "links": [
            {"name": "vips", "up": bool(turn), "addresses": addresses},
            {"name": f"turn{turn}", "addresses": ["192.0.2.99"]},
        ]
    }


def sysctls(turn: int) -> Arguments:
    return {
        "sysctls": {
            "net.ipv4.ip_forward": turn,
            "net.ipv4.conf.all.arp_ignore": 1 + turn,
            "net.ipv4.vs.conntrack": 1 - turn,
        }
    }


def modules(turn: int) -> Arguments:
    return {"modules": [("ip_vs_lc", "ip_vs_sed")[turn], "ip_vs_nq"][: 1 + turn]}


def proxy(turn: int) -> Arguments:
    items: list[objects.Object] = []
    for number in range(1, 30):
        if (number + turn) % 3:
            ends = [objects.endpoint(f"10.244.1.{host}", "n1") for host in range(1, 2 + (number + turn) % 4)]
            items.append(
                objects.service(
                    f"o{number}",
                    [f"10.96.1.{number}"],
                    [objects.port(80, "p", node_port=30000 + number)],
                    kind="NodePort",
                )
            )
            items.append(objects.piece(f"o{number}", ends, [objects.port(8080, "p")]))
    quiet: Arguments = {
        "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": f"{7200 + turn}s", "tcpCloseWaitTimeout": "0s"}
    }
    quiet["clusterCIDR"] = f"10.{turn}.0.0/16"
    return {"objects": items, "node_name": "n1", "owner": "ansible", "config": quiet}


STATES: dict[str, Callable[[int], Arguments]] = {
    "ipvs_services": services,
    "ipsets": sets,
    "iptables_chains": chains,
    "virtual_addresses": links,
    "sysctls": sysctls,
    "kernel_modules": modules,
    "service_proxy": proxy,
}
# Per module: which call fails with which error, and the reason that the message contains.
FAULTS = {
    "ipvs_services": [
        (Fault("sendto", "ENOMEM", "3"), NO_MEMORY),
        (Fault("sendto", "EPERM", "3"), NO_RIGHT),
        (Fault("recvfrom", "ENOMEM", "3"), NO_MEMORY),
        (Fault("pwrite64", "ENOSPC", "1"), NO_SPACE),
    ],
    "ipsets": [
        # A changed set is remade beside itself: delete, create and fill, swap, delete.
        *((Fault("clone", "ENOMEM", str(number)), NO_MEMORY) for number in range(1, 9)),
        (
            Fault("sendto", "ENOMEM", "4"),
            "ipset restore: Internal protocol error",
        ),  # when it lists the sets afterwards
    ],
    "iptables_chains": {
        "legacy": [
            (Fault("setsockopt", "ENOMEM", "1"), REFUSED),
            (Fault("setsockopt", "EPERM", "3"), REFUSED),
        ],
        # One message for each table, so the second one fails after the first is done.
        "nft": [
            (Fault("sendto", "ENOMEM", "1"), NO_NFT_MEMORY),
            (Fault("sendmsg", "ENOMEM", "1"), NO_NFT_MEMORY),
            (Fault("sendmsg", "ENOMEM", "2"), NO_NFT_MEMORY),
            (Fault("sendmsg", "EPERM", "2"), NO_RIGHT),
        ],
    }[IPTABLES],
    "virtual_addresses": [
        (Fault("sendto", "ENOMEM", "5"), NO_MEMORY),
        (Fault("recvfrom", "ENOMEM", "5"), NO_MEMORY),
    ],
    "sysctls": [
        (Fault("write", "EPERM", "2"), NO_RIGHT),
        (Fault("write", "ENOSPC", "4"), NO_SPACE),
    ],
    "kernel_modules": [
        (Fault("finit_module,init_module", "ENOMEM", "1"), NO_MEMORY),
        (Fault("write", "ENOSPC", "1"), NO_SPACE),
    ],
    "service_proxy": [
        # Not the fourth one of iptables-nft: an ipset that undoes the members has as many, and would fail, too.
        (Fault("sendto", "ENOMEM", {"legacy": "4", "nft": "2"}[IPTABLES]), NO_MEMORY),
        (Fault("setsockopt", "ENOMEM", "1"), r"virtual server tcp \S+: scheduler rr failed: netlink cannot be used: "),
        (Fault("setsockopt", "ENOMEM", "7"), r"real server \S+ of tcp \S+: .* failed: netlink cannot be used: "),
        (Fault("write", "EPERM", "1"), f"sysctl {ESTABLISHED}: no right"),
        (Fault("pwrite64", "ENOSPC", "1"), NO_SPACE),
    ],
}


def state(name: str) -> dict[str, Any]:
    tables = {**node(), ESTABLISHED: Path("/proc/sys", ESTABLISHED.replace(".", "/")).read_text()}
    if name == "kernel_modules":
        tables["modules"] = sorted(line.split()[0] for line in Path("/proc/modules").read_text().splitlines())
    return tables


def struck(name: str, turn: int, fault: Fault, directory: Path) -> Finished:
    """Run a module with a fault that counts from the moment when it begins to apply its plan."""

    def module(begin: Callable[[], None]) -> int:
        carry_out = apply.execute

        def begins(*arguments: Any, **options: Any) -> Any:
            begin()
            return carry_out(*arguments, **options)

        apply.execute = begins
        subprocess._USE_VFORK = False  # if vfork(2) fails, Python retries with clone(2)
        try:
            run(name, **wanted(name, turn))
        except ModuleError as error:
            print(error)
            return 1
        return 0

    return later_in_child(fault, directory, module)


def wanted(name: str, turn: int) -> Arguments:
    return {**STATES[name](turn), **({} if name == "service_proxy" else {"purge": "owned"})}


@pytest.mark.parametrize("name", STATES)
def test_module_with_failed_call_is_all_or_nothing(name: str, tmp_path: Path) -> None:
    sh("modprobe", "-a", *KERNEL_MODULES)
    fresh()
    sh("ip", "link", "set", "lo", "up")
    use_tables()
    states = {}
    for turn in (0, 1, 0):
        run(name, **wanted(name, turn))
        states[turn] = state(name)
    turn = 0
    for fault, says in FAULTS[name]:
        done = struck(name, 1 - turn, fault, tmp_path)
        assert (done.status, done.happened > 0, done.errors) == (1, True, ""), f"{fault}: {done}"
        assert state(name) == states[turn], f"{fault}: {done.output}"
        assert len(done.output.splitlines()) == 1, f"{fault}: {done.output}"
        assert re.search(says, done.output), f"{fault}: {done.output}"
        turn = 1 - turn
        run(name, **wanted(name, turn))
        assert state(name) == states[turn], fault
    run(name, **({"state": "absent", "owner": "ansible"} if name == "service_proxy" else {"purge": "owned"}))
