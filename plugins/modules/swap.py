#!/usr/bin/python
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swap
short_description: Turn swap off at once and at every boot, or restore it
version_added: 0.1.0
description:
  - With O(state=off), the module turns swap off now and at every boot. It comments out lines of C(fstab) whose third
    field is C(swap), with a mark of this collection. Swap units of systemd that do not come from C(fstab) get a drop-in
    file C(90-kubenode.conf) with a condition that is never true. Such units are zram devices, discovered partitions and
    swap files. Services that make swap (C(zramswap), C(zram-config), C(dphys-swapfile) and the like) get the same
    drop-in file.
  - If an area cannot be turned off, the module turns the others on again and changes nothing else.
  - With O(state=restored), the module restores the lines that it commented out, removes its files and turns swap on.
    Changes of other programs stay. An area that was neither in C(fstab) nor a unit of systemd stays off.
author:
  - The kubenode.ipvs maintainers (@kubenode)
extends_documentation_fragment:
  - kubenode.ipvs._attributes
  - kubenode.ipvs._attributes.actiongroup_all
options:
  state:
    description:
      - The wanted state of swap.
    type: str
    choices: ['off', restored]
    default: 'off'
  fstab:
    description:
      - The file that lists swap areas.
    type: path
    default: /etc/fstab
"""

EXAMPLES = r"""
- name: Turn swap off, now and at every boot
  kubenode.ipvs.swap:

- name: Restore swap
  kubenode.ipvs.swap:
    state: restored
"""

RETURN = r"""
lines:
  description: The changes that the task made, or in check mode would make, one line each.
  returned: success
  type: list
  elements: str
  sample: [turn off /dev/sda2, comment out UUID=0b1c in /etc/fstab, keep dev-zram0.swap from starting]
"""

import contextlib
import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.kubenode.ipvs.plugins.module_utils._host import swap as _swap
from ansible_collections.kubenode.ipvs.plugins.module_utils._module import files as _files


def changes(state: str, fstab: str) -> tuple[dict[str, str | None], list[str], list[str]]:
    """Return the files to write with their text (None: remove), the units to block or release, and lines about both."""
    before = _files.text_of(fstab) or ""
    if state == "off":
        units, blocked = _swap.units(_swap.UNIT_DIRECTORIES), _swap.blocked(_swap.UNIT_DIRECTORIES[0])
        if os.path.isdir(_swap.UNIT_DIRECTORIES[0]):
            units += [unit for unit in _swap.device_units() if unit not in units and unit not in blocked]
        lines = [f"comment out {area} in {fstab}" for area in _swap.in_fstab(fstab)]
        lines += [f"keep {unit} from starting" for unit in units]
        text = _swap.DROP_IN_TEXT
        after = _swap.without_swap(before)
    else:
        units = _swap.blocked(_swap.UNIT_DIRECTORIES[0])
        lines = [f"let {unit} start" for unit in units]
        text = None
        after = _swap.with_swap(before)
        if after != before:
            lines.append(f"uncomment swap in {fstab}")
    files = {_swap.drop_in(unit, _swap.UNIT_DIRECTORIES[0]): text for unit in units}
    if after != before:
        files[fstab] = after
    return files, units, lines


def run(module: AnsibleModule, *command: str) -> str:
    # swapon reads fstab through libmount, which takes the path from this variable.
    code, _out, error = module.run_command(list(command), environ_update={"LIBMOUNT_FSTAB": module.params["fstab"]})
    return f"{' '.join(command)} failed: {error.strip()}" if code else ""


def systemctl(module: AnsibleModule, *arguments: str) -> None:
    """Call systemctl if systemd runs; on an error, fail the module."""
    if os.path.isdir("/run/systemd/system"):
        problem = run(module, "systemctl", *arguments)
        if problem:
            module.fail_json(msg=problem)


def turn_off(module: AnsibleModule, units: list[str], areas: list[str]) -> None:
    """Turn all swap off, or fail with all areas on again."""
    services = [unit for unit in units if unit in _swap.SERVICES]
    problem = run(module, "systemctl", "stop", *services) if services else ""
    if not problem and _swap.active():
        problem = run(module, "swapoff", "-a")
    if problem:
        turn_on(module, areas)
        module.fail_json(msg=f"{problem}; what was turned off is on again, no file was changed")


def turn_on(module: AnsibleModule, areas: list[str]) -> None:
    """Turn on the areas that are off."""
    for area in areas:
        if area not in _swap.active():
            run(module, "swapon", _swap.path(area))


def write(module: AnsibleModule, files: dict[str, str | None], before: dict[str, str | None]) -> str:
    """Write all files, or leave all as they were; return the error, or ""."""
    for path, text in files.items():
        try:
            put(module, path, text)
        except OSError as error:
            for written in list(files)[: list(files).index(path) + 1]:
                with contextlib.suppress(OSError):
                    put(module, written, before[written])
            return f"file {path} cannot be written: {error.strerror}"
    return ""


def put(module: AnsibleModule, path: str, text: str | None) -> None:
    """Write a file; without a text, remove it, and its directory if that is empty then."""
    _files.write(module, path, text)
    if text is None and not os.listdir(os.path.dirname(path)):
        os.rmdir(os.path.dirname(path))


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["off", "restored"], "default": "off"},
            "fstab": {"type": "path", "default": "/etc/fstab"},
        },
        supports_check_mode=True,
    )
    state, fstab = module.params["state"], module.params["fstab"]
    try:
        files, units, lines = changes(state, fstab)
        before = {path: _files.text_of(path) for path in files}
    except OSError as error:
        module.fail_json(msg=f"file {error.filename} cannot be read: {error.strerror}; nothing was changed")
    areas = _swap.active() if state == "off" else []
    lines += [f"turn off {area}" for area in areas]
    result: dict[str, Any] = {"changed": bool(lines), "lines": lines}
    if module._diff:
        result["diff"] = [
            {"before": before[path] or "", "after": text or "", "before_header": path, "after_header": path}
            for path, text in files.items()
        ]
        if areas:
            named = "".join(f"{area}\n" for area in areas)
            result["diff"].append(
                {"before": named, "after": "", "before_header": _swap.ACTIVE, "after_header": _swap.ACTIVE}
            )
    if lines and not module.check_mode:
        if state == "off":
            turn_off(module, units, areas)
        problem = write(module, files, before)
        if problem:
            turn_on(module, areas)
            module.fail_json(msg=f"{problem}; files and swap are as they were")
        if units:
            systemctl(module, "daemon-reload")
        if state == "restored":
            # A partition that fstab names has no unit in this list: `swapon -a` turns it on.
            there = [unit for unit in _swap.units(_swap.UNIT_DIRECTORIES) if unit in units]
            if there:
                systemctl(module, "start", *there)
            if fstab in files:
                problem = run(module, "swapon", "-a", "-e")
                if problem:
                    module.fail_json(msg=problem)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
