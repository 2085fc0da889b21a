# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Sysctls: from a task's options to live values and one file; and which other files have the last word."""

from __future__ import annotations

import fnmatch
import json
import os

from ._argspec import unique
from ._converge import Wish
from ._files import HEADER
from .engine.errors import InputError
from .engine.kernel import sysctls

# A file of an earlier directory hides those of the same name in later ones (sysctl.d(5)).
DIRECTORIES = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")
LAST = "/etc/sysctl.conf"  # procps reads it after all others; systemd only where a link in sysctl.d leads to it


def check(given, absent):
    """Return values by canonical name, and the canonical names of those that shall not be ours.

    Raises:
        EngineError: a value is not one, or a name stands there twice.
    """
    seen, values = {}, {}
    for name, value in given.items():
        key = sysctls.canonical(name)
        unique(seen, key, f"sysctls[{name}]", f"sysctl {key}")
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise InputError(
                f"sysctls[{name}]", "value", value, "a number or a text (YAML turns yes and on into booleans: quote them)"
            )
        if "\n" in str(value):
            raise InputError(f"sysctls[{name}]", "value", value, "one line")
        values[key] = sysctls.normal(str(value))
    for index, name in enumerate(absent):
        unique(seen, sysctls.canonical(name), f"absent[{index}]", f"sysctl {sysctls.canonical(name)}")
    return values, [sysctls.canonical(name) for name in absent]


def own_file(owner):
    """Return the path of an owner's file."""
    return f"/etc/sysctl.d/90-kubenode-{owner}.conf"


def parse(text):
    """Return the settings of a sysctl.d file in their order, names canonical (patterns included)."""
    found = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        name = name.strip()
        if equals and name and name[0] not in "#;":
            found[sysctls.canonical(name.lstrip("-").strip())] = sysctls.normal(value)
    return found


def render(owner, values):
    """Return the text of an owner's file, or None if there is nothing to keep."""
    if not values:
        return None
    lines = [HEADER.format(module="sysctls", owner=owner)]
    lines += [f"{_slashed(name) if '/' in name else name} = {values[name]}\n" for name in sorted(values)]
    return "".join(lines)


def _slashed(name):
    return name.replace("/", "\0").replace(".", "/").replace("\0", ".")


def wish(params, around, have, kept):
    """Return what the task wants, and what becomes of the former values.

    Args:
        params: ``values`` and ``absent`` of :func:`check`, with ``owner``, ``purge`` and ``persist`` of the task.
        around: the lasting ledger.
        have: live values and our file.
        kept: what our file says.

    Returns:
        The wish, the keys that go, and the former values of the keys that become ours.
    """
    values, path = params["values"], own_file(params["owner"])
    going = leaving(params, around, kept)
    former = (
        {key: json.loads(text) for key, text in around.ledger.notes(params["owner"], "sysctl").items()} if around.ledger else {}
    )
    want = dict(values)
    want.update((key, former[key]) for key in going if key in former and key in have["sysctl"])
    lasting = {} if params["purge"] == "owned" else {key: value for key, value in kept.items() if key not in going}
    for key, value in values.items():
        if params["persist"]:
            lasting[key] = value
        else:
            lasting.pop(key, None)
    text = render(params["owner"], lasting)
    new = {key: have["sysctl"][key] for key in values if key not in around.owned.get("sysctl", ()) and key in have["sysctl"]}
    wanted = Wish(
        {"sysctl": want, "file": {} if text is None else {path: text}}, {"file": {path} if text is None else set()}, {}, {}
    )
    return wanted, going, new


def never(names):
    """Return those of the names that could not be there even if a kernel module were loaded that can be; check mode refuses only those."""
    from .engine.kernel import modules

    missing = [name for name in names if not os.path.exists(sysctls.path(name))]
    providers = {name: sysctls.provider(name) for name in missing}
    states = modules.states({provider for provider in providers.values() if provider})
    return [name for name in missing if states.get(providers[name]) != modules.LOADABLE]


def leaving(params, around, kept):
    """Return the keys that were this owner's and shall not be any more."""
    mine = {*around.owned.get("sysctl", ()), *kept}
    if params["purge"] == "owned":
        return sorted(mine - set(params["values"]))
    return [key for key in params["absent"] if key in mine]


def overridden(path, values, directories=DIRECTORIES, last=LAST):
    """Return the settings of other files that take effect after ``path`` and say something else: name, value, file."""
    found, hidden = [], set()
    files = []
    for directory in directories:
        try:
            names = os.listdir(directory)
        except OSError:
            continue
        for name in names:
            if name.endswith(".conf") and name not in hidden:
                hidden.add(name)
                files.append((name, os.path.join(directory, name)))
    later = [file for name, file in sorted(files) if name > os.path.basename(path)]
    for file in [*later, last] if values else []:
        try:
            with open(file, encoding="utf-8", errors="replace") as handle:
                settings = parse(handle.read())
        except OSError:
            continue
        for pattern, value in settings.items():
            for name in values:
                if value != values[name] and (name == pattern or fnmatch.fnmatchcase(name, pattern)):
                    found.append((name, value, file))
    return found
