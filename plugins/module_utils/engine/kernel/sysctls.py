# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and write sysctls in ``/proc/sys``, without starting a tool."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from typing import Any

from ..errors import InputError, KernelError, MissingError
from ..model.kinds import name as item_name
from ..model.step import Step
from ..syntax.common import integer
from . import Failure, Result

ROOT = "/proc/sys"
_CHOSEN = {"root": ROOT}
_EXCHANGE = str.maketrans("./", "/.")
# The kernel module behind each part of the tree; the longest matching prefix counts.
PROVIDERS = {
    "net.ipv4.vs.": "ip_vs",
    "net.bridge.": "br_netfilter",
    "net.netfilter.nf_conntrack": "nf_conntrack",
    "net.nf_conntrack": "nf_conntrack",
    "net.ipv6.": "ipv6",
}


def use(root: str) -> None:
    """Use another directory for the sysctls ``net.*`` from now on, where a container has the node's ``/proc/sys``."""
    _CHOSEN["root"] = root


def canonical(name: str) -> str:
    """Return a sysctl's dotted name.

    Like sysctl(8): the first separator decides. ``net/ipv4/conf/eth0.100/rp_filter`` is the spelling for names with
    dots in them, and is dotted as ``net.ipv4.conf.eth0/100.rp_filter``.
    """
    if "/" in name and ("." not in name or name.index("/") < name.index(".")):
        return exchanged(name.strip("/"))
    return name.strip(".")


def exchanged(name: str) -> str:
    """Return a name with dots and slashes exchanged, which converts each spelling to the other."""
    return name.translate(_EXCHANGE)


def path(name: str) -> str:
    """Return the file of a dotted name.

    Raises:
        InputError: the name leads out of ``/proc/sys``, or has an empty part.
    """
    parts = exchanged(name).split("/")
    if "\0" in name or any(part in ("", ".", "..") for part in parts):
        raise InputError("sysctl", "name", name[:100], "a name below /proc/sys, for example net.ipv4.ip_forward")
    return os.path.join(_root(parts[0]), *parts)


def _root(first: str) -> str:
    return _CHOSEN["root"] if first == "net" else ROOT


def matching(pattern: str) -> list[str]:
    """Return the existing (dotted) names that match a dotted pattern; ``*`` and ``?`` match no separator."""
    import glob

    root = _root(exchanged(pattern).split("/")[0])
    return sorted(canonical(os.path.relpath(file, root)) for file in glob.glob(path(pattern)) if os.path.isfile(file))


def normal(value: str) -> str:
    """Return a value with every run of white space as one blank.

    The kernel separates numbers by tabs, users by blanks.
    """
    return " ".join(value.split())


def settled(live: str, wanted: str) -> str:
    """Return the value after ``wanted`` is written over ``live``.

    The kernel reads numbers in C's spellings (0x10, 020). If a sysctl has several, it sets as many as are written
    (proc_get_long, __do_proc_dointvec in kernel/sysctl.c).
    """
    there, given = live.split(), wanted.split()
    if not 0 < len(given) <= len(there) or wanted == live:
        return wanted
    try:
        values, numbers = [int(word) for word in there], [_number(word) for word in given]
    except ValueError:
        return wanted
    return live if values[: len(numbers)] == numbers else " ".join([*map(str, numbers), *there[len(numbers) :]])


def _number(text: str) -> int:
    number = integer(text.lstrip("-"))
    if number is None:
        raise ValueError(text)
    return -number if text.startswith("-") else number


def read(names: Collection[str]) -> dict[str, dict[Any, Any]]:
    """Return the values of those of the (dotted) names that exist.

    Raises:
        KernelError: a value exists and cannot be read.
    """
    values = {}
    for name in names:
        try:
            with open(path(name), encoding="utf-8", errors="surrogateescape") as file:
                values[name] = normal(file.read())
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise KernelError(f"sysctl {name} cannot be read: {error.strerror}") from error
    return {"sysctl": values}


def require(names: Collection[str]) -> None:
    """Raise MissingError for all absent names, with the kernel module of each."""
    missing = [name for name in names if not os.path.exists(path(name))]
    if missing:
        raise MissingError("; ".join(_missing(name) for name in missing))


def foresee(steps: list[Step]) -> None:
    """Raise KernelError if a step would write to a read-only file system, as in most containers.

    The check needs no write, so check mode can use it.
    """
    for step in steps:
        if (
            step.kind == "sysctl"
            and step.after
            and os.path.exists(path(step.key))
            and os.statvfs(path(step.key)).f_flag & os.ST_RDONLY
        ):
            raise KernelError(f"{_explain(step, OSError(errno.EROFS, ''))}; nothing was changed")


def apply(steps: list[Step], keep_going: bool = False) -> Result:
    """Write values. A step without an after is done without a write, as only the ledger changes."""
    done: list[Step] = []
    failed: list[Failure] = []
    for step in steps:
        try:
            if step.after is not None:
                _write(step.key, step.after)
            done.append(step)
        except OSError as error:
            failed.append(Failure(step, _explain(step, error)))
            if not keep_going:
                break
    return Result(done, failed)


def _write(name: str, value: str) -> None:
    handle = os.open(path(name), os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, f"{value}\n".encode("utf-8", "surrogateescape"))
    finally:
        os.close(handle)


def _explain(step: Step, error: OSError) -> str:
    if error.errno in (errno.ENOENT, errno.ENOTDIR) and not os.path.exists(path(step.key)):
        return _missing(step.key)
    words = {
        errno.ENOENT: f"the kernel has nothing by the name {step.after!r} (a kernel module that is not loaded?)",
        errno.EINVAL: f"the kernel refused the value {step.after!r}",
        errno.ERANGE: f"the kernel refused the value {step.after!r}: out of range",
        errno.EROFS: f"{ROOT} is read-only here (a container?)",
        errno.EACCES: "no right to write it (run as root)",
        errno.EPERM: "no right to write it (run as root)",
    }
    return f"{item_name('sysctl', step.key)}: {words.get(error.errno or 0, error.strerror)}"


def provider(name: str) -> str:
    """Return the kernel module of a sysctl, "" if it belongs to the kernel itself."""
    return PROVIDERS.get(max((prefix for prefix in PROVIDERS if name.startswith(prefix)), key=len, default=""), "")


def _missing(name: str) -> str:
    if provider(name):
        return f"sysctl {name} does not exist; the kernel module {provider(name)} makes it: load that first"
    return f"sysctl {name} does not exist in this kernel"
