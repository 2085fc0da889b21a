# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Sysctls: convert a task's options to live values and the owner's file, and find files that override it."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from .._module.argspec import unique
from .._module.files import HEADER, boot_order
from ..engine.errors import EngineError, InputError
from ..engine.kernel import sysctls
from ..engine.kernel.foreign_files import foreign_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from .._module.planning import Owners


DIRECTORIES = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")
LAST = "/etc/sysctl.conf"  # procps reads it after all others; systemd only where a link in sysctl.d leads to it
_NAME = re.compile(r"[^\s=#;-][^\s=]*\Z")


class Bounds(NamedTuple):
    """Bounds of a value, number by number; each bound is a tuple of numbers or None."""

    low: tuple[int, ...] | None
    high: tuple[int, ...] | None

    def within(self, name: str, text: str) -> str:
        """Return ``text`` with each number raised to the lower and lowered to the upper bound.

        Raises:
            EngineError: the text does not consist of as many numbers as the bounds.
        """
        try:
            numbers = [int(word) for word in text.split()]
        except ValueError:
            raise EngineError(f"sysctl {name} is {text!r}, expected a number for min and max") from None
        for bound, pick in ((self.low, max), (self.high, min)):
            if bound is not None and len(bound) != len(numbers):
                raise EngineError(f"sysctl {name} is {text!r}, {len(numbers)} numbers, but min or max has {len(bound)}")
            if bound is not None:
                numbers = [pick(pair) for pair in zip(numbers, bound)]
        return " ".join(str(number) for number in numbers)

    def nearest(self) -> str:
        """Return the value to use while the live value is unknown."""
        return " ".join(str(number) for number in self.low or self.high or ())


def check(given: Mapping[str, Any], absent: Iterable[str]) -> tuple[dict[str, str], dict[str, Bounds], list[str]]:
    """Return values and bounds by canonical name, and the canonical names of those to give up.

    Raises:
        EngineError: a value is invalid, or a name is listed twice.
    """
    seen: dict[str, str] = {}
    values, bounds = {}, {}
    for name, value in given.items():
        option_path = f"sysctls[{name}]"
        key = _key(name, option_path)
        unique(seen, key, option_path, f"sysctl {key}")
        if isinstance(value, dict):
            bounds[key] = _bounds(option_path, value)
        else:
            values[key] = _value(option_path, "value", value)
    gone = [_key(name, f"absent[{index}]") for index, name in enumerate(absent)]
    for index, key in enumerate(gone):
        unique(seen, key, f"absent[{index}]", f"sysctl {key}")
    return values, bounds, gone


def _key(name: str, option_path: str) -> str:
    key = sysctls.canonical(name)
    try:
        sysctls.path(key)
    except InputError:
        key = ""
    if not _NAME.match(key):
        raise InputError(option_path, "name", name, "a sysctl's name, for example net.ipv4.ip_forward")
    return key


def _value(option_path: str, field: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise InputError(
            option_path, field, value, "a number or a text (YAML turns yes and on into booleans: quote them)"
        )
    if "\n" in str(value):
        raise InputError(option_path, field, value, "one line")
    return sysctls.normal(str(value))


def _bounds(option_path: str, given: dict[str, Any]) -> Bounds:
    if not given or set(given) - {"min", "max"}:
        raise InputError(option_path, "value", given, "a value, or a dictionary of min, max or both")
    limits = {}
    for field, value in given.items():
        try:
            limits[field] = tuple(int(word) for word in _value(option_path, field, value).split())
        except ValueError:
            raise InputError(option_path, field, value, "a number, or as many as the parameter has") from None
        if not limits[field]:
            raise InputError(option_path, field, value, "a number, or as many as the parameter has")
    low, high = limits.get("min"), limits.get("max")
    if low and high and (len(low) != len(high) or any(one > other for one, other in zip(low, high))):
        raise InputError(option_path, "min", given["min"], f"not above max, {given['max']}")
    return Bounds(low, high)


def own_file(owner: str) -> str:
    """Return the path of an owner's file."""
    return f"/etc/sysctl.d/90-kubenode-{owner}.conf"


def parse(text: str) -> dict[str, str]:
    """Return the settings of a sysctl.d file in their order, names canonical (patterns included)."""
    settings = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        name = name.strip()
        if equals and name and name[0] not in "#;":
            settings[sysctls.canonical(name.lstrip("-").strip())] = sysctls.normal(value)
    return settings


def render(owner: str, values: Mapping[str, str]) -> str | None:
    """Return the text of an owner's file, or None without values."""
    if not values:
        return None
    lines = [HEADER.format(module="sysctls", owner=owner)]
    lines += [f"{sysctls.exchanged(name) if '/' in name else name} = {values[name]}\n" for name in sorted(values)]
    return "".join(lines)


def bounded_at_boot(
    bounds: Mapping[str, Bounds], path: str, live: Mapping[str, str], kept: Mapping[str, str]
) -> dict[str, str | None]:
    """Return the values that the owner's file needs, by key, so that each key is within its bounds after a boot.

    The value is None if the file must omit the key: an earlier file sets a value within the bounds, and that file must
    keep its effect, also after an administrator changes it. Without an earlier file, a boot begins with the kernel's
    default, which is the live value at first.
    """
    before = spoken(before_ours(path), bounds)
    values = {}
    for key, limits in bounds.items():
        if key in before:
            value = limits.within(key, before[key][0])
            values[key] = None if value == before[key][0] else value
        elif key in kept and limits.within(key, kept[key]) == kept[key]:
            values[key] = kept[key]
        else:
            values[key] = limits.within(key, live[key]) if key in live else limits.nearest()
    return values


def overridden(path: str, wanted: Mapping[str, str | Bounds]) -> list[tuple[str, str, str]]:
    """Return the settings of later files that differ from the wanted ones: name, value, file.

    Args:
        path: the owner's file.
        wanted: values or :class:`Bounds` by name.
    """
    settings = []
    for name, (value, file) in spoken(after_ours(path), wanted).items():
        want = wanted[name]
        if value != (want.within(name, value) if isinstance(want, Bounds) else sysctls.settled(value, want)):
            settings.append((name, value, file))
    return settings


def spoken(files: Iterable[str], names: Collection[str]) -> dict[str, tuple[str, str]]:
    """Return the last settings of the names in files: value and file by name.

    Patterns do not count: they do not change a sysctl that any file sets by its full name, in any order (sysctl.d(5)).
    """
    last_settings: dict[str, tuple[str, str]] = {}
    for file in files if names else ():
        settings = parse(foreign_text(file))
        last_settings.update((name, (settings[name], file)) for name in names if name in settings)
    return last_settings


def before_ours(path: str) -> list[str]:
    """Return the files that are read before the owner's file, in their order."""
    return [file for file in boot_order(DIRECTORIES) if os.path.basename(file) < os.path.basename(path)]


def after_ours(path: str) -> list[str]:
    """Return the files that are read after the owner's file, in their order."""
    return [*[file for file in boot_order(DIRECTORIES) if os.path.basename(file) > os.path.basename(path)], LAST]


def survey(patterns: Iterable[str] | None, owners: Owners) -> list[dict[str, Any]]:
    """Return live value, owner, original value and boot setting of each sysctl.

    Args:
        patterns: names, perhaps with wildcards; None for those that the ledger lists.
        owners: the owners of items.

    Raises:
        EngineError: a pattern cannot be a sysctl's name.
    """
    if patterns is None:
        names = owners.keys("sysctl")
    else:
        keys = [_key(pattern, f"names[{index}]") for index, pattern in enumerate(patterns)]
        names = sorted({name for key in keys for name in sysctls.matching(key)})
    at_boot = spoken([*boot_order(DIRECTORIES), LAST], set(names))
    rows = []
    for name in names:
        owner = owners("sysctl", name)
        saved = owners.notes(owner, "sysctl").get(name)
        value, path = at_boot.get(name, (None, None))
        rows.append(
            {
                "name": name,
                "value": _live(name),
                "owner": owner,
                "former": None if saved is None else former_value(saved),
                "boot": None if path is None else {"value": value, "path": path},
            }
        )
    return rows


def former_value(text: str) -> str | None:
    """Return the value that a note of the ledger keeps, None if it is no value."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, str) else None


def _live(name: str) -> str | None:
    try:
        return sysctls.read([name])["sysctl"].get(name)
    except EngineError:  # some sysctls are write-only, some have no value yet
        return None
