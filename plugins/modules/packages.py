#!/usr/bin/python
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: packages
short_description: Install packages from repositories, from a mirror, or from files of the controller
version_added: 0.1.0
description:
  - Used by the role P(kubenode.ipvs.prepare#role). Makes sure that packages are installed, in one task and with
    ansible-core alone, on distributions that have C(apt-get), C(dnf), C(zypper) or C(pacman). Removes and upgrades no
    more packages than necessary.
  - A mirror is used for this one installation. The module does not write it into files below C(/etc).
  - From a directory of the controller, packages are installed without any network. The module copies all packages for
    the node's package manager from the directory to the node, installs them, and removes the copies. So the directory
    must have the packages with all dependencies that a node may lack. Files that are not newer than the installed
    packages are ignored.
author:
  - The kubenode.ipvs maintainers (@kubenode)
extends_documentation_fragment:
  - kubenode.ipvs._attributes
  - kubenode.ipvs._attributes.action
  - kubenode.ipvs._attributes.actiongroup_all
options:
  names:
    description:
      - The packages.
    type: list
    elements: str
    required: true
  mirror:
    description:
      - The repository to install from, instead of the node's own.
      - With C(apt-get), the text after the word C(deb) in C(sources.list), for example V(http://mirror.example/debian
        bookworm main). With the other package managers, a URL. The URL for C(pacman) has C($repo) and C($arch).
    type: str
    default: ''
  directory:
    description:
      - A directory of the controller with package files to install from, without any network.
      - These files need no signature of a repository. If the directory has a file C(SHA256SUMS), as the command
        C(sha256sum) writes it, each package file must have its digest there, or nothing is installed.
    type: path
  files:
    description:
      - The files of O(directory) on the node. The action plugin sets this option.
    type: list
    elements: path
"""

EXAMPLES = r"""
- name: Install from the distribution's repositories
  kubenode.ipvs.packages:
    names: [ipset, ipvsadm]

- name: Install without any network
  kubenode.ipvs.packages:
    names: [ipset, ipvsadm]
    directory: "packages/debian-12"
"""

RETURN = r"""
command:
  description: The command of the package manager that failed.
  returned: when a package manager failed
  type: list
  elements: str
  sample: [dnf, --assumeyes, --quiet, install, ipvsadm]
check_mode:
  description: Whether this task ran in check mode.
  returned: success
  type: bool
missing:
  description: The O(names) that were not installed.
  returned: success
  type: list
  elements: str
  sample: [ipvsadm]
lines:
  description: The changes that the task made, or in check mode would make, one line each.
  returned: success
  type: list
  elements: str
  sample: [install ipvsadm from the node's repositories]
"""

import contextlib
import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.kubenode.ipvs.plugins.module_utils._host import package_files as _package_files
from ansible_collections.kubenode.ipvs.plugins.module_utils._host import packages as _packages
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.kernel.machine import distribution

ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_MODE": "l", "LC_ALL": "C"}


def install(module: AnsibleModule, family: str, missing: list[str]) -> None:
    """Install the missing packages, or fail with the last lines of the package manager's output."""
    params = module.params
    source, names, origin = "repositories", missing, "the node's repositories"
    if params["files"] is not None:
        source, origin = "files", f"the files of {params['directory']}"
        try:
            names = _package_files.newer(lambda command: module.run_command(command)[:2], family, params["files"])
        except ValueError as error:
            module.fail_json(msg=f"{error} (from {params['directory']})")
    elif params["mirror"]:
        source, origin = "mirror", params["mirror"]
        name, text = _packages.mirror_list(family, params["mirror"])
        with open(os.path.join(module.tmpdir, name), "w", encoding="utf-8") as file:
            file.write(text)
        os.makedirs(os.path.join(module.tmpdir, "lists", "partial"))  # apt creates only its default directory
    commands = _packages.commands(family, source, names, module.tmpdir, params["mirror"]) if names else []
    with contextlib.ExitStack() as stack:
        if family == "arch" and source == "mirror":
            stack.enter_context(_packages.unchanged(_packages.PACMAN_LISTS, os.path.join(module.tmpdir, "sync")))
        for command in commands:
            carry_out(
                module,
                command,
                _packages.MANAGERS[family].done,
                f"{', '.join(missing)} cannot be installed from {origin}",
            )


def carry_out(module: AnsibleModule, command: list[str], done: tuple[int, ...], failure: str) -> None:
    """Run one command of a package manager; unless its status is in ``done``, fail with its last lines."""
    code, out, error = module.run_command(command, environ_update=ENVIRONMENT)
    if code not in done:
        for removal in _packages.removals(out + error):
            module.run_command(removal)
        words = (out + error).partition("\nProblem repository:")[0]  # dnf prints all its settings after this
        lines = [line.strip() for line in words.splitlines() if line.strip()]
        module.fail_json(msg=f"{failure}: {' '.join(lines[-8:])}", command=command)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "required": True},
            "mirror": {"type": "str", "default": ""},
            "directory": {"type": "path"},
            "files": {"type": "list", "elements": "path"},
        },
        supports_check_mode=True,
    )
    params = module.params
    node = distribution()
    family = node["family"]
    if family not in _packages.MANAGERS:
        module.fail_json(msg=f"distribution is {node['id']}, expected one like {', '.join(_packages.MANAGERS)}")
    if params["mirror"] and params["directory"]:
        module.fail_json(msg="mirror and directory are both given, expected one of them")
    missing = (
        _packages.missing(lambda command: module.run_command(command)[:2], family, params["names"])
        if params["names"]
        else []
    )
    origin = params["directory"] or params["mirror"] or "the node's repositories"
    result = {"changed": bool(missing), "missing": missing, "check_mode": module.check_mode}
    result["lines"] = [f"install {name} from {origin}" for name in missing]
    if module._diff:
        result["diff"] = {"before": "", "after": "".join(f"{name}\n" for name in missing), "after_header": "packages"}
    unwritable = [path for path in _packages.WRITTEN if not os.access(path, os.W_OK)]
    if missing and unwritable:
        module.fail_json(
            msg=(
                f"{', '.join(missing)} cannot be installed: {', '.join(unwritable)} is read-only, expected to be"
                " written to; nothing was changed"
            )
        )
    if missing and not module.check_mode:
        if params["directory"] and params["files"] is None:
            module.exit_json(files_needed=True, suffix=_packages.MANAGERS[family].suffix, **result)
        install(module, family, missing)
        left = _packages.missing(lambda command: module.run_command(command)[:2], family, missing)
        if left:
            module.fail_json(msg=f"{', '.join(left)} cannot be installed: not among the packages of {origin}")
    elif missing:
        result["suffix"] = _packages.MANAGERS[family].suffix
    module.exit_json(**result)


if __name__ == "__main__":
    main()
