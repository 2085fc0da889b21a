# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the node's prerequisites.

Checks privileges, kernel modules, tools, the configuration, and other load balancers on this node. Each line says ok,
note or FAIL, and how to fix it. What is checked of rules depends on the rules back end: iptables and ipset, or nftables
in the kernel. kube-proxy's own checks for mode ipvs are included: the version of ipset, and a virtual server with the
scheduler. The virtual server is made in a separate network namespace: the node does not change, but the kernel may load
modules.

Exit status: 0 no FAIL, 1 at least one FAIL, 64 wrong usage.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..engine.proxy.rules_backend import Choice

_MODULES = ("ip_vs", "nf_conntrack", "dummy")
_OF_RULES = {
    "iptables": ("ip_set", "xt_set", "xt_comment", "xt_addrtype", "xt_mark", "xt_conntrack"),
    "nftables": ("nf_tables", "nft_chain_nat", "nft_masq", "nft_ct", "nft_fib_ipv4", "nft_reject_ipv4"),
}
# Modules that only some Services need.
_MAYBE = {
    "iptables": ("xt_physdev", "xt_ipvs", "nf_conntrack_netlink"),
    "nftables": ("nft_fib_ipv6", "nft_reject_ipv6", "nft_numgen", "nft_nat", "nf_conntrack_netlink"),
}
# Other processes that may balance on this node, by process name, each with its consequence.
_OTHERS = {
    "kube-proxy": "it removes every virtual server that it does not know",
    "kube-router": "without --run-service-proxy=false it removes every virtual server that it does not know",
    "cilium-agent": "with kubeProxyReplacement it serves Services before IPVS sees them",
    "keepalived": "its virtual servers are left alone",
}
_CAP_NET_ADMIN = 12
Finding = tuple[str, str]  # "ok", "note" or "FAIL"; message


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    from .parser import add_config, add_run_dir

    add_config(parser)
    add_run_dir(parser)
    parser.add_argument(
        "--beside-kube-proxy",
        action="store_true",
        help="accept a running kube-proxy: it will have ended before the agent starts",
    )
    parser.add_argument(
        "--beside-daemonset",
        action="store_true",
        help="accept an agent in a container: it will have ended before the agent on the node starts",
    )


def run(options: argparse.Namespace) -> int:
    """Run the checks; print one line for each."""
    from .desired import configuration

    config = configuration(options)
    bad = False
    chosen = _chosen(config.rules_backend, options.run_dir)
    for checks in (
        _rights(options.run_dir),
        [("ok", f"rules back end {chosen.backend}: {chosen.reason}")],
        _modules(config.scheduler, chosen.backend),
        _iptables() if chosen.backend == "iptables" else _nftables(),
        _ipvs(config.scheduler, chosen.backend),
        _others(options.beside_kube_proxy),
        _other_agent(options.run_dir, options.beside_daemonset),
    ):
        for verdict, words in checks:
            print(f"{verdict:4}  {words}")
            bad = bad or verdict == "FAIL"
    return 1 if bad else 0


def _rights(directory: str) -> Iterator[Finding]:
    with open("/proc/self/status", encoding="ascii") as file:
        effective = next((line.split()[1] for line in file if line.startswith("CapEff:")), "0")
    if int(effective, 16) >> _CAP_NET_ADMIN & 1:
        yield "ok", "the capability CAP_NET_ADMIN"
    else:
        yield "FAIL", "the capability CAP_NET_ADMIN is missing: run as root"
    parent = directory if os.path.isdir(directory) else os.path.dirname(directory) or "/"
    if os.access(parent, os.W_OK):
        yield "ok", f"{directory} can be written"
    else:
        yield "FAIL", f"{parent} cannot be written, expected a writable directory for the ledger"


def _chosen(setting: str, directory: str) -> Choice:
    """Return the rules back end that the agent would use; its claims count if there is a ledger."""
    from ..engine.ledger import Ledger
    from ..engine.proxy.rules_backend import choose
    from ..paths import OWNER

    if setting != "auto" or not os.access(os.path.join(directory, "ledger.db"), os.R_OK | os.W_OK):
        return choose(setting, dict)
    ledger = Ledger(directory)
    try:
        return choose(setting, lambda: ledger.owned(OWNER))
    finally:
        ledger.close()


def rules_backend(setting: str, directory: str) -> str:
    """Return the rules back end that the agent would use."""
    return _chosen(setting, directory).backend


def wanted_modules(scheduler: str, backend: str) -> tuple[list[str], tuple[str, ...]]:
    """Return the kernel modules that the agent needs, and those that only some Services need."""
    names = [*_MODULES, f"ip_vs_{scheduler}", *_OF_RULES[backend]]
    return names + (_nft_modules() if backend == "iptables" else []), _MAYBE[backend]


def _modules(scheduler: str, backend: str) -> Iterator[Finding]:
    from ..engine.kernel import modules

    names, optional = wanted_modules(scheduler, backend)
    for name, state in modules.states([*names, *optional]).items():
        if state in (modules.LOADED, modules.BUILTIN):
            yield "ok", f"kernel module {name}: {state}"
        elif state == modules.LOADABLE:
            yield (
                "note",
                f"kernel module {name}: not loaded; run modprobe {name} (the role prepare loads it at every boot)",
            )
        elif state == modules.UNKNOWN:
            yield "note", f"kernel module {name}: state unknown"
        else:
            yield "note" if name in _MAYBE[backend] else "FAIL", modules.missing(name)


def _nft_modules() -> list[str]:
    """Return the modules that iptables-nft needs for the agent's rules; none for iptables-legacy."""
    from ..engine.errors import EngineError
    from ..engine.kernel import iptables

    try:
        return ["nft_compat"] if iptables.version().backend == "nft" else []
    except EngineError:
        return []  # reported by the check of iptables


def _iptables() -> Iterator[Finding]:
    from ..engine.errors import EngineError
    from ..engine.kernel import iptables

    try:
        ours = iptables.version()
        yield "ok", f"iptables {'.'.join(map(str, ours.numbers))} ({ours.backend})"
    except EngineError as error:
        yield "FAIL", str(error)


def _nftables() -> Iterator[Finding]:
    """Ask the kernel for everything that the tables need, in a transaction that is taken back."""
    from ..engine.errors import EngineError
    from ..engine.kernel import nftables

    try:
        missing = nftables.missing_features()
    except EngineError as error:
        yield "FAIL", str(error)
        return
    for name in missing:
        yield "FAIL", f"nftables on this kernel lacks {name}"
    if not missing:
        yield "ok", "nftables: tables with sets, marks, masquerading and refusals could be made"


def _ipvs(scheduler: str, backend: str) -> Iterator[Finding]:
    """Run kube-proxy's checks in a scratch namespace, where no other process sees the virtual server."""
    from ..engine.errors import EngineError
    from ..engine.kernel import ipset
    from ..engine.kernel.ipvs.preflight import can_use_ipvs
    from ..engine.kernel.scratch import in_scratch

    version: str | None = None
    if backend == "iptables":
        with suppress(EngineError):
            version = ipset.version()
    try:
        problems = in_scratch(lambda: can_use_ipvs(scheduler, version, with_sets=backend == "iptables"))
    except EngineError as error:
        problems = [str(error)]
    if problems is None:
        from ..container import is_in_container

        words = f"the scheduler {scheduler} cannot be tried out: no network namespace can be made here"
        if is_in_container():  # the init container has tried it out
            yield "note", words
            return
        problems = [f"{words} (run as root)"]
    for problem in problems:
        yield "FAIL", problem
    if not problems:
        if version:
            yield "ok", version
        yield "ok", f"IPVS with the scheduler {scheduler}: a virtual server could be made"


def _other_agent(directory: str, beside_daemonset: bool) -> Iterator[Finding]:
    """Find an agent that was deployed another way than this one: by the role, or in a container."""
    from ..container import is_in_container
    from .others import other_agent

    in_container = is_in_container()
    agent = other_agent(directory, in_container=in_container)
    if agent:
        yield "note" if beside_daemonset and not in_container else "FAIL", agent


def _others(beside_kube_proxy: bool) -> Iterator[Finding]:
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/comm", encoding="utf-8", errors="replace") as file:
                    name = file.read().strip()
            except OSError:
                continue
            if name in _OTHERS:
                verdict = "FAIL" if name == "kube-proxy" and not beside_kube_proxy else "note"
                yield verdict, f"{name} is running (pid {entry}): {_OTHERS[name]}"
