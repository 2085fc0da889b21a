# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel modules: detected by presence, never by the kernel's version.

States are ``loaded``, ``builtin``, ``loadable`` (the files of the module and of its dependencies exist), ``absent``
(this kernel has no such module, or another kernel awaits its boot) and ``unknown`` (in a container, or without any
kernel's modules in ``/lib/modules``).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Callable

from ..errors import MissingError
from ..model.step import Step
from . import Failure, Result
from .command import run

LOADED, BUILTIN, LOADABLE, ABSENT, UNKNOWN = "loaded", "builtin", "loadable", "absent", "unknown"


def canonical(name: str) -> str:
    """Return the kernel's spelling: ``br-netfilter`` and ``br_netfilter`` are one module."""
    return name.replace("-", "_")


def states(names: Collection[str]) -> dict[str, str]:
    """Return the state of each module; keys are the names as given. Reads files only."""
    loaded = _loaded()
    state_of = {name: LOADED for name in names if canonical(name) in loaded}
    left = {canonical(name) for name in names if name not in state_of}
    if not left:
        return state_of
    directory = f"/lib/modules/{os.uname().release}"
    builtin = _files(os.path.join(directory, "modules.builtin"))
    loadable = _files(os.path.join(directory, "modules.dep"))
    no_index = ABSENT if loadable is None and _awaits_reboot() else UNKNOWN
    rest = left - (builtin or {}).keys() - (loadable or {}).keys()
    aliases = _aliased(directory, rest) if rest else {}
    for name in names:
        if name in state_of:
            continue
        spelled = canonical(name)
        target = aliases.get(spelled, spelled)
        if builtin is not None and target in builtin:
            state_of[name] = BUILTIN
        elif target in loaded:
            state_of[name] = LOADED
        elif loadable is not None and target in loadable and not _lost(directory, loadable[target]):
            state_of[name] = LOADABLE
        elif os.path.isdir(f"/sys/module/{target}"):
            state_of[name] = BUILTIN  # not in /proc/modules, but in sysfs
        else:
            state_of[name] = no_index if loadable is None else ABSENT
    return state_of


def parameters(name: str) -> dict[str, str]:
    """Return the parameters of a loaded module, except for unreadable ones."""
    directory = f"/sys/module/{canonical(name)}/parameters"
    values = {}
    try:
        entries = sorted(os.listdir(directory))
    except OSError:
        return {}
    for entry in entries:
        try:
            with open(os.path.join(directory, entry), encoding="utf-8", errors="replace") as file:
                values[entry] = file.read().strip()
        except OSError:
            continue
    return values


def load(wanted: Mapping[str, str]) -> dict[str, str]:
    """Load modules; values are parameters ("a=1 b=2") or "". Return the reason of each failure.

    Modules without parameters are loaded last, by one process: as a dependency, another module would load without its
    parameters.
    """
    plain = [name for name, given in wanted.items() if not given]
    calls = [["modprobe", name, *given.split()] for name, given in wanted.items() if given]
    calls += [["modprobe", "-a", *plain]] if plain else []
    reasons: dict[str, str] = {}
    for call in calls:
        ended = run(call)
        names = plain if call[1] == "-a" else [call[1]]
        now = states(names)
        # modprobe may succeed without loading: an "install" line of modprobe.d can make it do nothing.
        bad = (LOADABLE, ABSENT, UNKNOWN) if ended.status else (LOADABLE,)
        failed = [name for name in names if now[name] in bad]
        reasons.update({name: _reason(name, now[name], ended.errors) for name in failed})
    return reasons


def read(names: Collection[str]) -> dict[str, dict[Any, Any]]:
    """Return the named modules that are loaded or built in, with the value ``loaded``."""
    return {"kernel_module": {name: LOADED for name, state in states(names).items() if state in (LOADED, BUILTIN)}}


def apply(steps: list[Step], keep_going: bool = False) -> Result:
    """Load (the step's after is ``loaded``, perhaps followed by parameters) and unload modules."""
    wanted = {step.key: step.after.partition(" ")[2] for step in steps if step.after is not None}
    reasons = load(wanted) if wanted else {}
    reasons.update(unload([step.key for step in steps if step.after is None]))
    done = [step for step in steps if step.key not in reasons]
    failed = [Failure(step, f"kernel module {step.key}: {reasons[step.key]}") for step in steps if step.key in reasons]
    return Result(done, failed)


def table() -> Callable[[list[Step], bool], Result]:
    """Return an ``apply`` for one task, whose undo also unloads the dependencies that it loaded.

    modprobe loads dependencies, too. They are in no plan, so no step would unload them.
    """
    before = _loaded()

    def apply_and_tidy(steps: list[Step], keep_going: bool = False) -> Result:
        result = apply(steps, keep_going)
        brought = [step.key for step in result.done if step.after is None and step.key not in before]
        if brought:
            now = _loaded()
            # a dependency in use stays
            unload([name for name in _needed(brought) if name in now and name not in before])
        return result

    return apply_and_tidy


def unload(names: Collection[str]) -> dict[str, str]:
    """Unload modules; return the reason of each failure."""
    reasons = {}
    # The kernel lists the module loaded last first: users before their dependencies.
    latest = [name for name in _loaded() if name in names]
    for name in [*latest, *(name for name in names if name not in latest)]:
        ended = run(["rmmod", name])  # modprobe -r would unload dependencies that others want
        if ended.status:
            reasons[name] = _last_line(ended.errors) or "it cannot be unloaded"
    return reasons


def _needed(names: Collection[str]) -> list[str]:
    """Return the modules that modprobe loads for others and themselves (lines ``insmod /lib/modules/…/ip_vs.ko``)."""
    lines = run(["modprobe", "--show-depends", "--all", *names]).output.splitlines()
    files = [line.split()[1] for line in lines if line.startswith("insmod ")]
    return [canonical(file.rpartition("/")[2].partition(".ko")[0]) for file in files]


def _awaits_reboot() -> bool:
    from .machine import read_machine

    return read_machine().awaits_reboot


def missing(*entries: str) -> str:
    """Return cause and remedy for modules that this kernel does not have; ``|`` joins alternatives."""
    from .machine import read_machine  # these two files, late: a node that has its modules does not need them
    from .missing_modules import diagnose, sentences

    machine = read_machine()
    return "; ".join(sentences(diagnose(entries, machine, lost_files(entries)), machine))


def lost_files(entries: Collection[str]) -> dict[str, str]:
    """Return the missing file of each module that modules.dep lists: its own, or that of a dependency."""
    directory = f"/lib/modules/{os.uname().release}"
    listed = _files(os.path.join(directory, "modules.dep")) or {}
    names = {name: canonical(name) for entry in entries for name in entry.split("|")}
    lost = {name: _lost(directory, listed[spelled]) for name, spelled in names.items() if spelled in listed}
    return {name: path for name, path in lost.items() if path}


def _reason(name: str, state: str, errors: str) -> str:
    if state == ABSENT:
        return missing(name)
    own_lines = [line for line in errors.splitlines() if canonical(name) in canonical(line)]
    return _last_line("\n".join(own_lines) or errors) or "modprobe did not load it (an install line in modprobe.d?)"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].replace("modprobe: ", "") if lines else ""


def _loaded() -> dict[str, None]:
    """Return the loaded modules, the latest first."""
    try:
        with open("/proc/modules", encoding="ascii") as file:
            return {line.split(" ", 1)[0]: None for line in file}
    except OSError:
        return {}  # a kernel without modules


def _lines(file_name: str) -> Iterator[str] | None:
    try:
        with open(file_name, encoding="utf-8", errors="replace") as file:
            return iter(file.read().splitlines())
    except OSError:
        return None


def _files(file_name: str) -> dict[str, list[str]] | None:
    """Return the files of each module in modules.dep or modules.builtin (``kernel/ip_vs.ko.xz: kernel/nf.ko.xz``).

    A module's own file comes first, then those of its dependencies.
    """
    lines = _lines(file_name)
    if lines is None:
        return None
    files = {}
    for line in lines:
        own, _colon, dependencies = line.partition(":")
        files[canonical(own.rpartition("/")[2].partition(".ko")[0])] = [own, *dependencies.split()]
    return files


def _lost(directory: str, files: Collection[str]) -> str:
    """Return the first file that does not exist, or ""."""
    return next((file for file in files if file and not os.path.exists(os.path.join(directory, file))), "")


def _aliased(directory: str, names: Collection[str]) -> dict[str, str]:
    """Return the modules behind names that are aliases (``nf_conntrack_ipv4`` of nf_conntrack)."""
    modules: dict[str, str] = {}
    for line in _lines(os.path.join(directory, "modules.alias")) or ():
        if line.startswith("alias "):
            _word, pattern, module = line.split(None, 2)
            for name in names:
                if fnmatchcase(name, canonical(pattern)):
                    modules.setdefault(name, canonical(module))
    return modules


def require(names: Collection[str]) -> None:
    """Raise MissingError naming every module that is not loaded, built in or loadable.

    A module in state ``unknown`` counts as present.
    """
    lacking = [name for name, state in states(names).items() if state == ABSENT]
    if lacking:
        raise MissingError(missing(*lacking))
