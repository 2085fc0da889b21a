#!/usr/bin/python
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: agent_install
short_description: Install a release of kubenode-agent, its configuration and its unit
version_added: 0.1.0
description:
  - Used by the role P(kubenode.ipvs.agent#role). Makes sure that a release of the agent is unpacked and byte-compiled, that
    it is the current one, and that configuration and unit file are as given. Starts and stops nothing.
  - A release is a directory that is named after the digest of its bundle and complete from the moment it appears. The switch
    to it is the replacement of one link. The release that was current before is kept, so that one can go back.
  - Before anything changes, the new release is asked whether it can do its work on this node with the new configuration
    (C(kubenode check)). If it says no, the task fails with what it says and the current release goes on.
  - Needs no C(pip), no C(tar) and no internet on the node.
author:
  - The kubenode.ipvs maintainers (@kubenode)
extends_documentation_fragment:
  - kubenode.ipvs._attributes
  - kubenode.ipvs._attributes.actiongroup_all
attributes:
  action:
    description: Indicates this has a corresponding action plugin so some parts of the options can be executed on the controller.
    support: full
options:
  bundle:
    description:
      - The bundle, a file on the controller. It is sent only to nodes that do not have its release.
    type: path
  digest:
    description:
      - The name of a release that the node has already. Switching to it needs no bundle.
      - With O(bundle) it is computed.
    type: str
  directory:
    description:
      - Where releases are.
    type: path
    default: /opt/kubenode
  command:
    description:
      - The link through which people call the agent's command line.
    type: path
    default: /usr/local/bin/kubenode
  python:
    description:
      - The Python that the agent runs on, at least 3.9.
    type: path
    default: /usr/bin/python3
  config:
    description:
      - Which of O(files) is the agent's configuration.
    type: path
    default: /etc/kubenode/config.yaml
  files:
    description:
      - Files with their content, for example the configuration and the unit.
      - A file with the content null is removed.
    type: dict
    default: {}
  keep:
    description:
      - How many releases are kept beside the current one, the newest first.
    type: int
    default: 1
  state:
    description:
      - Whether the agent shall be installed. With V(absent) all releases, the link O(command) and all O(files) are removed.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: Install the agent
  kubenode.ipvs.agent_install:
    bundle: kubenode-agent.tar.gz
    files:
      /etc/kubenode/config.yaml: "{{ agent_config | to_nice_yaml }}"
  register: installed

- name: Go back to the release before
  kubenode.ipvs.agent_install:
    digest: "{{ installed.previous }}"
"""

RETURN = r"""
check_mode:
  description: Whether this task ran in check mode.
  returned: success
  type: bool
release:
  description: The name of the current release.
  returned: success
  type: str
  sample: 0f3c5a7e9b1d2c4e
previous:
  description: The name of the release that was current before this task, empty if there was none.
  returned: success
  type: str
changed_files:
  description: Which of O(files) were written or removed.
  returned: success
  type: list
  elements: path
  sample: [/etc/kubenode/config.yaml]
former_files:
  description: What RV(changed_files) held before, null where there was none. Given as O(files), they go back.
  returned: success
  type: dict
lines:
  description: What was done, or in check mode would be done.
  returned: success
  type: list
  elements: str
  sample: [unpack release 0f3c5a7e9b1d2c4e, switch to release 0f3c5a7e9b1d2c4e]
"""

import os
import shutil
import tempfile

from ansible.module_utils.basic import AnsibleModule


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def link_target(path):
    try:
        return os.path.basename(os.readlink(path))
    except OSError:
        return ""


def replace_link(path, target):
    temporary = f"{path}.new"
    if os.path.lexists(temporary):
        os.unlink(temporary)
    os.symlink(target, temporary)
    os.replace(temporary, path)


def unpack(module, bundle, release):
    """Make the directory of a release: unpacked and compiled aside, then renamed."""
    import tarfile

    parent = os.path.dirname(release)
    os.makedirs(parent, mode=0o755, exist_ok=True)
    aside = tempfile.mkdtemp(prefix=".unpack-", dir=parent)
    try:
        with tarfile.open(bundle) as archive:
            for member in archive.getmembers():
                inside = os.path.normpath(os.path.join(aside, member.name)).startswith(aside)
                if not inside or not (member.isfile() or member.isdir()):
                    module.fail_json(msg=f"bundle: {member.name} is not a plain file inside of it; nothing was changed")
                member.uid = member.gid = 0
                member.uname = member.gname = ""
            if hasattr(tarfile, "data_filter"):
                archive.extractall(aside, filter="tar")
            else:
                archive.extractall(aside)
        compile_all = [
            module.params["python"],
            "-IS",
            "-m",
            "compileall",
            "-q",
            "-s",
            aside,
            "-p",
            release,
            os.path.join(aside, "lib"),
        ]
        code, out, err = module.run_command(compile_all)
        if code != 0:
            module.fail_json(
                msg=f"the agent cannot be compiled by {module.params['python']}: {(out + err).strip()}; nothing was changed"
            )
        os.chmod(aside, 0o755)
        os.rename(aside, release)
    except (OSError, tarfile.TarError) as error:
        module.fail_json(msg=f"bundle cannot be unpacked in {parent}: {error}; the current release goes on")
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def preflight(module, release, config):
    """Fail unless the release finds configuration and node fit."""
    handle, temporary = tempfile.mkstemp(dir=module.tmpdir, suffix=".yaml")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(config or "")
    command = [module.params["python"], "-IS", os.path.join(release, "bin", "kubenode"), "check", "--config", temporary]
    code, out, err = module.run_command(command)
    if code != 0:
        said = (out + err).replace(temporary, module.params["config"]).strip().splitlines()
        reasons = [line.strip() for line in said if not line.startswith(("ok ", "note "))]
        module.fail_json(msg="the agent cannot work here: " + "; ".join(reasons), checks=said)


def write_file(module, path, content):
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=module.tmpdir)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(content)
    os.chmod(temporary, 0o644)
    module.atomic_move(temporary, path)


def old_releases(releases, keep, current):
    """Return the releases that are too many, the oldest last; what an interrupted run left, too."""
    try:
        names = os.listdir(releases)
    except OSError:
        return []
    others = [name for name in names if name != current and not name.startswith(".")]
    others.sort(key=lambda name: os.stat(os.path.join(releases, name)).st_mtime, reverse=True)
    return others[keep:] + [name for name in names if name.startswith(".unpack-")]


def main():
    module = AnsibleModule(
        argument_spec={
            "bundle": {"type": "path"},
            "digest": {"type": "str"},
            "directory": {"type": "path", "default": "/opt/kubenode"},
            "command": {"type": "path", "default": "/usr/local/bin/kubenode"},
            "python": {"type": "path", "default": "/usr/bin/python3"},
            "config": {"type": "path", "default": "/etc/kubenode/config.yaml"},
            "files": {"type": "dict", "default": {}},
            "keep": {"type": "int", "default": 1},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        required_if=[("state", "present", ("digest",))],
        supports_check_mode=True,
    )
    params = module.params
    present, directory, digest = params["state"] == "present", params["directory"], params["digest"] or ""
    current, releases = os.path.join(directory, "current"), os.path.join(directory, "releases")
    release, command = os.path.join(releases, digest), params["command"]
    previous = link_target(current)
    lines = []
    if present and not os.path.isdir(release):
        if params["bundle"] is None:
            lines.append(f"unpack release {digest}")
            if not module.check_mode:
                module.exit_json(changed=True, bundle_needed=True, lines=lines)
        else:
            lines.append(f"unpack release {digest}")
            unpack(module, params["bundle"], release)

    before = {path: read(path) for path in params["files"]}
    after = {path: content if present else None for path, content in params["files"].items()}
    changed_files = [path for path in after if after[path] != before[path]]
    lines += [f"{'remove' if after[path] is None else 'write'} {path}" for path in changed_files]
    if present:
        target = os.path.join(current, "bin", "kubenode")
        if previous != digest:
            lines.append(f"switch to release {digest}")
        if not os.path.islink(command) or os.readlink(command) != target:
            lines.append(f"link {command}")
        too_old = [name for name in old_releases(releases, params["keep"], digest) if name != previous]
        lines += [f"remove release {name}" for name in too_old]
    else:
        lines += [f"remove {path}" for path in (command, directory) if os.path.lexists(path)]

    if present and not module.check_mode and (previous != digest or params["config"] in changed_files):
        preflight(module, release, after.get(params["config"], read(params["config"])))
    if not module.check_mode:
        for path in changed_files:
            if after[path] is None:
                os.unlink(path)
            else:
                write_file(module, path, after[path])
        if present:
            if previous != digest:
                replace_link(current, os.path.join("releases", digest))
            if f"link {command}" in lines:
                replace_link(command, target)
            for name in too_old:
                shutil.rmtree(os.path.join(releases, name))
        else:
            if os.path.islink(command):
                os.unlink(command)
            shutil.rmtree(directory, ignore_errors=True)
    result = {"changed": bool(lines), "lines": lines, "changed_files": changed_files}
    result["former_files"] = {path: before[path] for path in changed_files}
    if module._diff:
        result["diff"] = [
            {"before": before[path] or "", "after": after[path] or "", "before_header": path, "after_header": path}
            for path in changed_files
        ]
        if previous != digest:
            result["diff"].append({"before": f"release {previous}\n", "after": f"release {digest}\n"})
    module.exit_json(release=digest, previous=previous, check_mode=module.check_mode, **result)


if __name__ == "__main__":
    main()
