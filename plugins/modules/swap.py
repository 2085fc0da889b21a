#!/usr/bin/python
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swap
short_description: Turn swap off for good, or on again as it was
version_added: 0.1.0
description:
  - With O(state=off), swap is turned off now, lines of C(fstab) whose third field is C(swap) are commented out with a mark
    of this collection, and swap units of systemd that do not come from C(fstab) are masked, zram devices included.
  - With O(state=restored), what this module commented out or masked is as it was, and swap is turned on. What others did
    stays.
author:
  - The kubenode.ipvs maintainers (@kubenode)
extends_documentation_fragment:
  - kubenode.ipvs._attributes
  - kubenode.ipvs._attributes.actiongroup_all
options:
  state:
    description:
      - What shall be.
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

- name: Have swap again as it was
  kubenode.ipvs.swap:
    state: restored
"""

RETURN = r"""
lines:
  description: What was done, or in check mode would be done.
  returned: success
  type: list
  elements: str
  sample: [turn off /dev/sda2, comment out UUID=0b1c in /etc/fstab, mask dev-zram0.swap]
"""

import os
import tempfile

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.kubenode.ipvs.plugins.module_utils import _swap

# Which units this module masked, so that it unmasks no other.
MASKED = "/var/lib/kubenode/masked-swap-units"


def read(path):
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def write(module, path, text):
    handle, temporary = tempfile.mkstemp(dir=module.tmpdir)
    with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(text)
    module.atomic_move(temporary, path)


def run(module, commands):
    for command in commands:
        code, _out, error = module.run_command(command)
        if code != 0:
            module.fail_json(msg=f"{' '.join(command)} failed: {error.strip()}")


def main():
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["off", "restored"], "default": "off"},
            "fstab": {"type": "path", "default": "/etc/fstab"},
        },
        supports_check_mode=True,
    )
    fstab = module.params["fstab"]
    before = read(fstab)
    ours = read(MASKED).split()
    commands, lines = [], []
    if module.params["state"] == "off":
        after = _swap.without_swap(before)
        masks = _swap.units()
        remembered = ours + [unit for unit in masks if unit not in ours]
        lines += [f"comment out {area} in {fstab}" for area in _swap.in_fstab(fstab)]
        if masks:
            lines += [f"mask {unit}" for unit in masks]
            commands.append(["systemctl", "mask", *masks])
        areas = _swap.active()
        if areas:
            lines += [f"turn off {area}" for area in areas]
            commands.append(["swapoff", "-a"])
    else:
        after = _swap.with_swap(before)
        remembered = []
        unmasks = [unit for unit in _swap.masked() if unit in ours]
        if unmasks:
            lines += [f"unmask {unit}" for unit in unmasks]
            commands += [["systemctl", "unmask", *unmasks], ["systemctl", "start", *unmasks]]
        if after != before:
            lines.append(f"uncomment swap in {fstab}")
            commands.append(["swapon", "-a", "-e"])
    result = {"changed": bool(lines), "lines": lines}
    if module._diff:
        result["diff"] = {"before": before, "after": after, "before_header": fstab, "after_header": fstab}
    if not module.check_mode:
        if remembered != ours:
            os.makedirs(os.path.dirname(MASKED), mode=0o755, exist_ok=True)
            write(module, MASKED, "".join(f"{unit}\n" for unit in remembered))
        # fstab changes only after swap could be turned off; and is as it was before swap is turned on by it.
        if module.params["state"] == "off":
            run(module, commands)
        if after != before:
            write(module, fstab, after)
        if module.params["state"] == "restored":
            run(module, commands)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
