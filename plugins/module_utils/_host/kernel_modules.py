# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Kernel modules: choose among alternative names, read and write boot files, select modules to unload."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from .._module.argspec import unique
from .._module.files import HEADER, boot_order
from ..engine.errors import InputError, MissingError
from ..engine.kernel.foreign_files import foreign_text
from ..engine.kernel.modules import BUILTIN, LOADABLE, LOADED, UNKNOWN, canonical, missing, parameters, states

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from .._module.planning import Owners

    Alternatives = tuple[str, ...]


LOAD_DIRECTORIES = (
    "/etc/modules-load.d",
    "/run/modules-load.d",
    "/usr/local/lib/modules-load.d",
    "/usr/lib/modules-load.d",
    "/lib/modules-load.d",
)
MODPROBE_DIRECTORIES = tuple(directory.replace("modules-load.d", "modprobe.d") for directory in LOAD_DIRECTORIES)
_NAME = re.compile(r"[A-Za-z0-9_]+\Z")
_PARAMETER = re.compile(r"[A-Za-z0-9_.-]+\0[^\s\"'#]*\Z")


class Choice(NamedTuple):
    """Choice among the wanted modules: ``names`` to load or loaded already, missing entries, and warnings."""

    names: list[str]
    lacking: list[str]
    warnings: list[str]


def check(params: Mapping[str, Any]) -> tuple[list[Alternatives], list[Alternatives], list[str], dict[str, str]]:
    """Return the tuple ``(wanted, optional, absent, parameters)``.

    ``wanted`` and ``optional`` hold tuples of alternatives, ``absent`` holds names, ``parameters`` maps names to text.

    Raises:
        EngineError: a name or a parameter is invalid, or a name is listed twice.
    """
    seen: dict[str, str] = {}
    lists: dict[str, list[Alternatives]] = {}
    for option in ("modules", "optional", "absent"):
        lists[option] = []
        for index, text in enumerate(params[option]):
            option_path = f"{option}[{index}]"
            names = tuple(canonical(name) for name in text.split("|"))
            for name in names:
                if not _NAME.match(name):
                    raise InputError(option_path, "name", text, "a kernel module's name, or several joined by '|'")
                unique(seen, name, option_path, f"kernel module {name}")
            lists[option].append(names)
    if any(len(names) > 1 for names in lists["absent"]):
        raise InputError(
            "absent", "name", "|".join(next(names for names in lists["absent"] if len(names) > 1)), "one name each"
        )
    parameters: dict[str, str] = {}
    placed: dict[str, str] = {}
    for name, given in params["parameters"].items():
        if not _NAME.match(canonical(name)):
            raise InputError(f"parameters[{name}]", "name", name, "a kernel module's name")
        unique(placed, canonical(name), f"parameters[{name}]", f"kernel module {canonical(name)}")
        if not isinstance(given, dict) or not all(_is_parameter(*pair) for pair in given.items()):
            raise InputError("parameters", name, given, "a dictionary of names and values without spaces and quotes")
        parameters[canonical(name)] = " ".join(f"{key}={_plain(value)}" for key, value in given.items())
    return lists["modules"], lists["optional"], [names[0] for names in lists["absent"]], parameters


def _is_parameter(name: object, value: object) -> bool:
    return isinstance(value, (str, int, float)) and bool(_PARAMETER.match(f"{name}\0{value}"))


def _plain(value: Any) -> Any:
    return "Y" if value is True else "N" if value is False else value


def choose(wanted: Iterable[Alternatives], optional: Iterable[Alternatives], states: Mapping[str, str]) -> Choice:
    """Return the choice for each entry: the first loaded or built-in name, else the first loadable one.

    An unknown state, as in a container, is a warning, not an error.
    """
    names, lacking, warnings = [], [], []
    for required, entries in ((True, wanted), (False, optional)):
        for names_ in entries:
            chosen = next(
                (name for state in ((LOADED, BUILTIN), (LOADABLE,)) for name in names_ if states[name] in state), None
            )
            if chosen is not None:
                names.append(chosen)
            elif any(states[name] == UNKNOWN for name in names_):
                warnings.append(
                    f"kernel module {' or '.join(names_)}: its state cannot be determined here (a container?)"
                )
            elif required:
                lacking.append("|".join(names_))
            else:
                warnings.append(f"optional: {missing('|'.join(names_))}")
    return Choice(names, lacking, warnings)


def require(choice: Choice) -> None:
    """Raise MissingError that names every missing module."""
    if choice.lacking:
        raise MissingError(missing(*choice.lacking) + "; nothing was changed")


def files(owner: str) -> tuple[str, str]:
    """Return the paths of an owner's files: the modules to load at boot, and their parameters."""
    return f"/etc/modules-load.d/kubenode-{owner}.conf", f"/etc/modprobe.d/kubenode-{owner}.conf"


def parse_load(text: str) -> list[str]:
    """Return the names in a modules-load.d file, in the kernel's spelling, each once."""
    names = [canonical(line.strip()) for line in text.splitlines() if line.strip() and line.strip()[0] not in "#;"]
    return list(dict.fromkeys(names))


def parse_options(text: str) -> dict[str, str]:
    """Return the parameters in a modprobe.d file by module name."""
    by_module = {}
    for line in text.splitlines():
        words = line.split(None, 2)
        if len(words) == 3 and words[0] == "options":
            by_module[canonical(words[1])] = words[2].strip()
    return by_module


def overridden(path: str, names: Collection[str], wanted: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return the settings in other files of modprobe.d that count at the next boot instead: name, value and file.

    For a parameter (``ip_vs.conn_tab_bits``), the last value counts: modprobe joins the options of all files in the
    order of the files' names. For a module, the value is ``blacklist``: modules-load.d does not load it then
    (systemd-modules-load.service(8)).

    Args:
        path: the owner's file of modprobe.d.
        names: the modules that are to be loaded at boot.
        wanted: parameters ("a=1 b=2") by module name.
    """
    overriding = {}
    given = {
        f"{name}.{pair.partition('=')[0]}": pair.partition("=")[2] for name in wanted for pair in wanted[name].split()
    }
    for file in boot_order(MODPROBE_DIRECTORIES):
        for line in foreign_text(file).replace("\\\n", " ").splitlines():
            word, name, *rest = [*line.split(), "", ""]  # modprobe.d(5)
            name = canonical(name)
            if word == "blacklist" and name in names:
                overriding[name] = ("blacklist", file)
            elif word == "options" and os.path.basename(file) > os.path.basename(path):
                settings = (pair.partition("=") for pair in rest if pair)
                overriding.update((f"{name}.{key}", (value, file)) for key, _equals, value in settings)
    last = (
        (name, value, file)
        for name, (value, file) in sorted(overriding.items())
        if name in given or value == "blacklist"
    )
    return [(name, value, file) for name, value, file in last if name not in given or not _same(value, given[name])]


def differing(live: Mapping[str, str], wanted: str) -> list[tuple[str, str, str]]:
    """Return parameter, live value and wanted value of each parameter in ``wanted`` ("a=1 b=2") that differs.

    Parameters that the kernel does not show are left out.
    """
    pairs = [pair.partition("=")[::2] for pair in wanted.split()]
    return [(name, live[name], value) for name, value in pairs if name in live and not _same(live[name], value)]


def _same(live: str, wanted: str) -> bool:
    if live == wanted:
        return True
    if live in ("Y", "N"):  # the kernel takes y, Y, 1 and n, N, 0 (kstrtobool)
        return wanted in {"Y": ("y", "1"), "N": ("n", "0")}[live]
    try:
        return int(live, 0) == int(wanted, 0)
    except ValueError:
        return False


def survey(names: Iterable[str] | None, owners: Owners) -> list[dict[str, Any]]:
    """Return state, parameters, users, owner and boot file of each kernel module.

    Args:
        names: in any spelling; None for the loaded modules and those that the ledger lists.
        owners: the owners of items.

    Raises:
        EngineError: a name is invalid.
    """
    users = in_use()
    if names is None:
        names = sorted({*users, *owners.keys("kernel_module")})
    for index, name in enumerate(names):
        if not _NAME.match(canonical(name)):
            raise InputError(f"names[{index}]", "name", name, "a kernel module's name")
    names = list(dict.fromkeys(canonical(name) for name in names))
    at_boot = {name: file for file in boot_order(LOAD_DIRECTORIES) for name in parse_load(foreign_text(file))}
    return [
        {
            "name": name,
            "state": state,
            "parameters": parameters(name),
            "used_by": users.get(name, []),
            "owner": owners("kernel_module", name),
            "boot": at_boot.get(name),
        }
        for name, state in sorted(states(names).items())
    ]


def in_use(path: str = "/proc/modules") -> dict[str, list[str]]:
    """Return the names of the modules that use each loaded module; empty if ``path`` cannot be read."""
    try:
        with open(path, encoding="ascii") as file:
            rows = [line.split() for line in file]
    except OSError:
        return {}
    return {row[0]: [name for name in row[3].split(",") if name not in ("", "-")] for row in rows}


def render_load(owner: str, names: Collection[str]) -> str | None:
    """Return the text of a modules-load.d file, or None without names."""
    return (
        HEADER.format(module="kernel_modules", owner=owner) + "".join(f"{name}\n" for name in names) if names else None
    )


def render_options(owner: str, parameters: Mapping[str, str]) -> str | None:
    """Return the text of a modprobe.d file, or None without parameters."""
    lines = [f"options {name} {parameters[name]}\n" for name in sorted(parameters) if parameters[name]]
    return HEADER.format(module="kernel_modules", owner=owner) + "".join(lines) if lines else None


def unloadable(names: Iterable[str], path: str = "/proc/modules") -> list[str]:
    """Return the modules that only modules of ``names`` use, each before the modules that it uses."""
    holders, users = {}, {}
    try:
        with open(path, encoding="ascii") as file:
            for line in file:
                name, _size, count, above = line.split()[:4]
                holders[name] = [] if above == "-" else above.rstrip(",").split(",")
                # A scheduler, an application or a persistence engine counts twice as a user of ip_vs: by its symbols,
                # and by registering.
                users[name] = int(count) - sum(2 if holder.startswith("ip_vs_") else 1 for holder in holders[name])
    except OSError:
        return []
    going = {name for name in names if users.get(name, 1) <= 0}
    while True:
        kept = {name for name in going if not set(holders[name]) <= going}
        if not kept:
            break
        going -= kept
    ordered: list[str] = []
    while len(ordered) < len(going):
        ordered += sorted(name for name in going - set(ordered) if set(holders[name]) <= set(ordered))
    return ordered
