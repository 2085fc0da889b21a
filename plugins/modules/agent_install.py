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
  - Used by the role P(kubenode.ipvs.agent#role). Makes sure that a release of the agent is unpacked and byte-compiled,
    that it is the current one, and that configuration and unit file are as given. Starts and stops nothing.
  - A release is a directory that is named after the digest of its bundle and complete from the moment it appears. The
    switch to it is the replacement of one link. The release that was current before is kept, so that one can go back.
  - A bundle is verified before anything of it is used. Its SHA-256 must be the controller's, and each file must have
    the SHA-256 that the bundle's manifest C(SHA256SUMS) gives. No file may be missing, additional, or anything but a
    plain file inside of the release.
  - A release that is unpacked already is compared with its manifest at every run, and unpacked again if a file differs.
  - Before anything changes, the new release is asked whether it can do its work on this node with the new configuration
    (C(kubenode check)). If it says no, the task fails with what it says and the current release goes on.
  - What was there before a change is written down on the node first (C(unproven.json) in O(directory)), until
    O(state=proven) says that the new one works or O(state=former) goes back. So one can still go back after a run that
    was interrupted.
  - Needs no C(pip), no C(tar) and no internet on the node.
author:
  - The kubenode.ipvs maintainers (@kubenode)
extends_documentation_fragment:
  - kubenode.ipvs._attributes
  - kubenode.ipvs._attributes.action
  - kubenode.ipvs._attributes.actiongroup_all
attributes:
  idempotent:
    support: partial
    details:
      - Until O(state=proven), O(state=present) says at every run that what is installed has to prove itself.
options:
  bundle:
    description:
      - The bundle, a file on the controller. It is sent only to nodes that do not have its release.
    type: path
  digest:
    description:
      - The name of a release that the node has already. Switching to it needs no bundle.
      - With O(bundle) it is computed. Required with O(state=present).
    type: str
  sha256:
    description:
      - The SHA-256 that O(bundle) must have, in 64 lower-case hexadecimal digits.
      - If it is not given, the controller computes it from its file. Give the published digest to have a file of
        another digest refused.
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
  beside_kube_proxy:
    description:
      - Whether the release is fit even while kube-proxy runs on the node, which will have gone before anybody starts
        the release.
    type: bool
    default: false
  keep:
    description:
      - How many releases are kept beside the current one, the newest first, when the current one has proven itself.
    type: int
    default: 1
  state:
    description:
      - With V(present) the release is installed and current, and the files are as given.
      - With V(proven) what is installed has shown that it works; from then on it is what one goes back to.
      - With V(former) the release and the files that worked last are put back, without asking them. The release that
        did not work is kept.
      - With V(absent) all releases, the link O(command) and all O(files) are removed, and the directory of O(config) if
        nothing else is in it.
    type: str
    choices: [present, proven, former, absent]
    default: present
"""

EXAMPLES = r"""
- name: Install the agent
  kubenode.ipvs.agent_install:
    bundle: kubenode-agent.tar.gz
    files:
      /etc/kubenode/config.yaml: "{{ agent_config | to_nice_yaml }}"
  register: installed

- name: Say that it works
  kubenode.ipvs.agent_install:
    state: proven

- name: Or go back to what worked before
  kubenode.ipvs.agent_install:
    state: former
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
former:
  description: The name of the release that worked last, empty if there is none. It is what O(state=former) goes back
    to.
  returned: success
  type: str
needs:
  description: What a running agent needs now to be what is installed. Anything but V(nothing) has yet to prove itself.
  returned: success
  type: str
  sample: restart
  choices: [nothing, reload, restart]
changed_files:
  description: Which of O(files) were written or removed.
  returned: success
  type: list
  elements: path
  sample: [/etc/kubenode/config.yaml]
checks:
  description: All that the release has said about node and configuration, one line each.
  returned: if the release finds that it cannot work
  type: list
  elements: str
  sample: ['ok    kernel module ip_vs: loaded', 'FAIL  kernel 6.1.0 has no module dummy']
lines:
  description: What was done, or in check mode would be done.
  returned: success
  type: list
  elements: str
  sample: [unpack release 0f3c5a7e9b1d2c4e, switch to release 0f3c5a7e9b1d2c4e]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.kubenode.ipvs.plugins.module_utils._host.agent_releases import (
    STATES,
    ReleasePaths,
    link_target,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "bundle": {"type": "path"},
            "digest": {"type": "str"},
            "sha256": {"type": "str"},
            "directory": {"type": "path", "default": "/opt/kubenode"},
            "command": {"type": "path", "default": "/usr/local/bin/kubenode"},
            "python": {"type": "path", "default": "/usr/bin/python3"},
            "config": {"type": "path", "default": "/etc/kubenode/config.yaml"},
            "files": {"type": "dict", "default": {}},
            "beside_kube_proxy": {"type": "bool", "default": False},
            "keep": {"type": "int", "default": 1},
            "state": {"type": "str", "choices": ["present", "proven", "former", "absent"], "default": "present"},
        },
        required_if=[("state", "present", ("digest",))],
        required_by={"bundle": ("sha256",)},
        supports_check_mode=True,
    )
    paths = ReleasePaths(module.params["directory"], module.params["command"])
    current = link_target(paths.current)
    try:
        lines, before, after, result = STATES[module.params["state"]](module, paths)
    except OSError as error:
        module.fail_json(msg=f"the agent's files cannot be read: {error}; nothing was changed")
    changed_files = [path for path in after if after[path] != before[path]]
    if module._diff:
        result["diff"] = [
            {"before": before[path] or "", "after": after[path] or "", "before_header": path, "after_header": path}
            for path in changed_files
        ]
        if current != result["release"]:
            result["diff"].append({"before": f"release {current}\n", "after": f"release {result['release']}\n"})
    module.exit_json(
        changed=bool(lines), lines=lines, changed_files=changed_files, check_mode=module.check_mode, **result
    )


if __name__ == "__main__":
    main()
