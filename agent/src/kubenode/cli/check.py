# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell in words whether this node can do what the agent needs.

Looks at rights, kernel modules, tools, the configuration, and at who else might be balancing here; each line says ok, note or FAIL,
and what to do. The scheduler is tried out with a virtual server in a network namespace of its own, so nothing on the node changes but
that the kernel may load modules that it has.

Exit status: 0 fit, 1 not, 64 wrong usage.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

_MODULES = ("ip_vs", "nf_conntrack", "ip_set", "xt_set", "dummy", "xt_comment", "xt_addrtype", "xt_mark", "xt_conntrack")
_MAYBE = {
    "xt_physdev": "needed for external IPs",
    "xt_ipvs": "needed for load balancers with source ranges",
    "nf_conntrack_netlink": "needed to remove stale UDP flows",
}
_OLDEST_IPSET = (6, 0)
_CAP_NET_ADMIN = 12
_CLONE_NEWNET = 0x40000000
Finding = tuple[str, str]  # "ok", "note" or "FAIL"; words


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    from .parser import add_config, add_run_dir

    add_config(parser)
    add_run_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Check."""
    from .desired import configuration

    config = configuration(options)
    bad = False
    for checks in (_rights(options.run_dir), _modules(config.scheduler), _tools(), _scheduler(config.scheduler), _others()):
        for verdict, words in checks:
            print(f"{verdict:4}  {words}")
            bad = bad or verdict == "FAIL"
    return 1 if bad else 0


def _rights(directory: str) -> Iterator[Finding]:
    with open("/proc/self/status", encoding="ascii") as file:
        effective = next((line.split()[1] for line in file if line.startswith("CapEff:")), "0")
    if int(effective, 16) >> _CAP_NET_ADMIN & 1:
        yield "ok", "the right CAP_NET_ADMIN"
    else:
        yield "FAIL", "no right CAP_NET_ADMIN: run as root"
    place = directory if os.path.isdir(directory) else os.path.dirname(directory) or "/"
    if os.access(place, os.W_OK):
        yield "ok", f"{directory} can be written"
    else:
        yield "FAIL", f"{place} cannot be written: the ledger has no place"


def _modules(scheduler: str) -> Iterator[Finding]:
    from ..engine.kernel import modules

    names = [*_MODULES, f"ip_vs_{scheduler}"]
    for name, state in modules.states([*names, *_MAYBE]).items():
        if state in (modules.LOADED, modules.BUILTIN):
            yield "ok", f"kernel module {name}: {state}"
        elif state == modules.LOADABLE:
            yield "note", f"kernel module {name}: not loaded; modprobe {name} (the role prepare makes that last)"
        elif state == modules.UNKNOWN:
            yield "note", f"kernel module {name}: this node does not tell"
        elif name in _MAYBE:
            yield "note", f"{modules.missing(name)}; {_MAYBE[name]}"
        else:
            yield "FAIL", modules.missing(name)


def _tools() -> Iterator[Finding]:
    from ..engine.errors import EngineError
    from ..engine.kernel import ipset, iptables

    try:
        found = ipset.version()
        text = ".".join(map(str, found)) or "of unknown version"
        yield ("ok" if found >= _OLDEST_IPSET else "FAIL"), f"ipset {text}, needed is 6.0"
    except EngineError as error:
        yield "FAIL", str(error)
    try:
        ours = iptables.version()
        yield "ok", f"iptables {'.'.join(map(str, ours.numbers))} ({ours.backend})"
    except EngineError as error:
        yield "FAIL", str(error)


def _scheduler(scheduler: str) -> Iterator[Finding]:
    """Make a virtual server where nobody sees it."""
    from ..engine.errors import EngineError

    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, _try(scheduler).encode())
        except (OSError, EngineError) as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as pipe:
        words = pipe.read()
    os.waitpid(child, 0)
    if words:
        yield "FAIL", words
    else:
        yield "ok", f"IPVS with the scheduler {scheduler}: a virtual server could be made"


def _try(scheduler: str) -> str:
    """Return "" if a virtual server with this scheduler can be made in a new network namespace, or else why not."""
    import ctypes

    from ..engine.kernel.ipvs.preflight import scheduler_problem

    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(_CLONE_NEWNET) < 0:
        return f"the scheduler {scheduler} cannot be tried out in a network namespace: {os.strerror(ctypes.get_errno())}"
    return scheduler_problem(scheduler)


def _others() -> Iterator[Finding]:
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/comm", encoding="utf-8") as file:
                    name = file.read().strip()
            except OSError:
                continue
            if name == "kube-proxy":
                yield "FAIL", f"kube-proxy is running (pid {entry}): it removes every virtual server that it does not know"
            elif name == "keepalived":
                yield "note", f"keepalived is running (pid {entry}): its virtual servers are left alone"
