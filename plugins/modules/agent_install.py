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
  - Used by the role P(kubenode.ipvs.agent#role). Makes sure that a release of the agent is unpacked, byte-compiled and
    current, and that configuration and unit file have the given content. Starts and stops no service.
  - A release is a directory named after the digest of its bundle. It is complete from the moment it exists. The module
    switches to it by replacing one link, and keeps the previous release for a rollback.
  - The module verifies a bundle before it uses it. The bundle's SHA-256 must be the controller's, and each file must
    have the SHA-256 in the bundle's manifest C(SHA256SUMS). The bundle must have exactly these files, all of them plain
    files inside the release.
  - Every run compares an unpacked release with its manifest, and unpacks it again if a file differs.
  - Fails if an agent in a container (a DaemonSet) serves this node, unless O(beside_daemonset). Two agents would undo
    each other's work.
  - Before any change, the new release checks this node with the new configuration (C(kubenode check)). If the check
    fails, the task fails with its output, and the current release keeps running.
  - Before a change, the module records the previous release and files on the node (C(unproven.json) in O(directory)).
    The record stays until O(state=proven) accepts the new release, or O(state=former) rolls back. So a rollback is
    possible even after an interrupted run.
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
      - Until O(state=proven), every run with O(state=present) reports that the installed release is not proven yet
        (RV(needs)).
options:
  bundle:
    description:
      - The bundle, a file on the controller. The controller sends it only to nodes that do not have its release.
    type: path
  digest:
    description:
      - The name of a release that is on the node already. A switch to it needs no bundle.
      - With O(bundle) it is computed. Required with O(state=present).
    type: str
  sha256:
    description:
      - The SHA-256 that O(bundle) must have, in 64 lower-case hexadecimal digits.
      - If omitted, the controller computes it from its file. With the published digest, the task refuses any other
        file.
    type: str
  directory:
    description:
      - The directory of the releases.
    type: path
    default: /opt/kubenode
  command:
    description:
      - The link to the agent's command line, for operators.
    type: path
    default: /usr/local/bin/kubenode
  python:
    description:
      - The Python that the agent runs on, at least 3.9.
    type: path
    default: /usr/bin/python3
  config:
    description:
      - The path of the agent's configuration, one of O(files).
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
      - Whether the check of the release accepts a running kube-proxy. Use it if kube-proxy ends before the release
        starts.
    type: bool
    default: false
  beside_daemonset:
    description:
      - Whether the module installs beside an agent in a container (a DaemonSet). Use it if that agent ends before the
        release starts.
    type: bool
    default: false
  package:
    description:
      - The directory that the agent's package (C(.deb) or C(.rpm)) installs. If it is there, O(state=present) fails,
        because two agents would fight about the node.
    type: path
    default: /usr/lib/kubenode-agent
  keep:
    description:
      - The number of previous releases to keep when the current release has proven itself. The newest are kept.
    type: int
    default: 1
  state:
    description:
      - With V(present) the release is installed and current, and the files have the given content.
      - With V(proven) the installed release and files are recorded as working. They become the target of a rollback.
      - With V(former) the last proven release and files are restored, without a check. The failed release is kept.
      - With V(absent) all releases, the link O(command) and all O(files) are removed, and the directory of O(config) if
        nothing but an empty C(manifests) is in it then.
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

- name: Record that the release works
  kubenode.ipvs.agent_install:
    state: proven

- name: Or roll back to the release that worked before
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
  description: The name of the last proven release, empty if there is none. O(state=former) rolls back to it.
  returned: success
  type: str
needs:
  description: The action that a running agent needs to use the installed release and files. Unless it is V(nothing),
    they are not proven yet.
  returned: success
  type: str
  sample: restart
  choices: [nothing, reload, restart]
changed_files:
  description: The O(files) that were written or removed.
  returned: success
  type: list
  elements: path
  sample: [/etc/kubenode/config.yaml]
checks:
  description: The results of the release's checks of node and configuration, one line each.
  returned: if a check fails
  type: list
  elements: str
  sample: ['ok    kernel module ip_vs: loaded', 'FAIL  kernel 6.1.0 has no module dummy']
lines:
  description: The changes that the task made, or in check mode would make, one line each.
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
            "beside_daemonset": {"type": "bool", "default": False},
            "package": {"type": "path", "default": "/usr/lib/kubenode-agent"},
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
