#!/usr/bin/python
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_check
short_description: Check whether a node is fit for IPVS
version_added: 0.1.0
description:
  - Reports which prerequisites of IPVS a node has, and which it lacks. Changes nothing.
  - Reads files, asks a running agent at its socket, and starts no process, so it costs less than gathering facts.
    The role P(kubenode.ipvs.prepare#role) uses the result to decide what to install and change.
author:
  - The kubenode.ipvs maintainers (@kubenode)
extends_documentation_fragment:
  - kubenode.ipvs._attributes.info
  - kubenode.ipvs._attributes.actiongroup_all
options:
  modules:
    description:
      - The kernel modules to report.
      - Names joined by C(|) are alternatives, one of which the node must have.
      - If the command C(iptables) is iptables-nft, C(nft_compat) is added to a list with modules C(xt_...).
        On the RHEL family, also before C(iptables) is installed.
    type: list
    elements: str
    default: [ip_vs, ip_vs_rr, 'nf_conntrack|nf_conntrack_ipv4', dummy, ip_set, xt_set]
  commands:
    description:
      - The commands to report.
    type: list
    elements: str
    default: [ipset, iptables-restore]
  files:
    description:
      - Files to report by presence and content.
    type: list
    elements: path
    default: []
  fstab:
    description:
      - The file that lists swap areas.
    type: path
    default: /etc/fstab
seealso:
  - module: kubenode.ipvs.kernel_modules
"""

EXAMPLES = r"""
- name: Check the node
  kubenode.ipvs.node_check:
  register: node

- name: Fail on nodes that are not fit for IPVS
  ansible.builtin.assert:
    that: node.fit
    fail_msg: "{{ node.problems | join('; ') }}"
"""

RETURN = r"""
fit:
  description: Whether there are no RV(problems).
  returned: success
  type: bool
problems:
  description: The reasons why the node is not fit for IPVS, one sentence each.
  returned: success
  type: list
  elements: str
  sample: ['command ipset is not installed']
refused:
  description:
    - The RV(problems) that no package can solve. The role P(kubenode.ipvs.prepare#role) refuses such a node.
  returned: success
  type: list
  elements: str
  sample: ['Python is 3.6.8, expected 3.9 or newer (ansible_python_interpreter)']
lacks:
  description: The prerequisites that packages may provide.
  returned: success
  type: dict
  contains:
    commands:
      description: The O(commands) that are not installed.
      type: list
      elements: str
    modules:
      description: The O(modules) that the kernel does not have.
      type: list
      elements: str
    packages:
      description:
        - The packages with these modules for the running kernel. Empty if another remedy is needed, for example a
          reboot. The RV(problems) name the remedy.
      type: list
      elements: str
  sample: {commands: [ipset], modules: [ip_set], packages: [linux-modules-extra-6.8.0-1016-aws]}
missing_modules:
  description: The cause and the remedy of each module in RV(lacks.modules).
  returned: success
  type: list
  elements: dict
  contains:
    entry:
      description: The entry of O(modules).
      type: str
    needed_for:
      description: The feature that needs the module, empty for a module that no feature of this collection needs.
      type: str
    cause:
      description: >-
        The cause. V(reboot) if the kernel was updated and the node was not rebooted, V(file) if C(modules.dep) lists
        the module and one of its files is missing, V(package) if no installed package has the module.
      type: str
    path:
      description: The missing file, below C(/lib/modules/RELEASE). Empty for another RV(missing_modules[].cause).
      type: str
    packages:
      description: The packages with the module for the running kernel.
      type: list
      elements: str
    command:
      description: The command that installs the module, empty if none is known.
      type: str
  sample:
    - entry: ip_set
      needed_for: sets
      cause: package
      path: ""
      packages: [linux-modules-extra-6.8.0-1016-aws]
      command: apt-get install linux-modules-extra-6.8.0-1016-aws
commands:
  description: The path of each command, null if it is not installed.
  returned: success
  type: dict
  sample: {ipset: /usr/sbin/ipset, ipvsadm: null}
unconfirmed:
  description:
    - Changes of tasks with C(confirm_timeout) that wait for their confirmation. Without confirmation the node undoes
      them.
    - Only root sees them.
  returned: success
  type: list
  elements: dict
  contains:
    owner:
      description: The owner. Its other tasks are refused until the confirmation.
      type: str
    path:
      description: The file that stands for the change. To confirm the change, remove the file.
      type: str
    lines:
      description: The first fifty lines of the change's plan, and the number of further lines.
      type: list
      elements: str
check_mode:
  description: Whether this task ran in check mode, by the command line or by C(check_mode) of a play or task.
  returned: success
  type: bool
files:
  description: Whether each of O(files) exists.
  returned: success
  type: dict
  sample: {/etc/systemd/system/kubenode-agent.service: true}
contents:
  description: The SHA-256 of each of O(files), in hexadecimal, null for a missing file.
  returned: success
  type: dict
modules:
  description: >-
    The state of each kernel module, V(loaded), V(builtin), V(loadable), V(absent), or V(unknown) if it cannot be
    determined (a container, a kernel without modules).
  returned: success
  type: dict
  sample: {ip_vs: loaded, dummy: builtin}
ipvs:
  description: The version of the kernel's IPVS, null if it is not loaded.
  returned: success
  type: str
  sample: 1.2.1
iptables:
  description: The back end of the command C(iptables), V(legacy) or V(nft), null if there is none or it cannot be
    determined.
  returned: success
  type: str
  sample: nft
kernel:
  description: The release of the kernel.
  returned: success
  type: str
  sample: 6.1.0-18-amd64
python:
  description: The version of the Python that runs modules.
  returned: success
  type: str
  sample: 3.11.2
distribution:
  description: The distribution by C(/etc/os-release), with the family of its package names.
  returned: success
  type: dict
  contains:
    id:
      description: The distribution.
      type: str
    version:
      description: The version, empty for a rolling distribution.
      type: str
    like:
      description: The distribution and the C(ID_LIKE) of C(/etc/os-release).
      type: list
      elements: str
    family:
      description: One of V(debian), V(redhat), V(suse), V(arch) or V(unknown).
      type: str
  sample: {id: ubuntu, version: "24.04", like: [ubuntu, debian], family: debian}
image_based:
  description: Whether C(/usr) is read-only or an image (ostree), so that packages cannot be installed the usual way.
  returned: success
  type: bool
container:
  description: Whether the node is a container, which shares its kernel.
  returned: success
  type: bool
agent_in_container:
  description: Whether an agent in a container (a DaemonSet) serves the node.
  returned: success
  type: bool
virtualization:
  description: >-
    The kind of container or virtual machine, as C(systemd-detect-virt) names it. V(kubernetes) for a pod of an unknown
    runtime, V(unknown) for a container that cannot be identified, V(none) for a physical machine.
  returned: success
  type: str
  sample: kvm
systemd:
  description: Whether systemd runs the node.
  returned: success
  type: bool
services:
  description: The running services that manage links and rules, out of V(NetworkManager), V(systemd-networkd) and
    V(firewalld).
  returned: success
  type: list
  elements: str
  sample: [NetworkManager]
firewalld_backend:
  description: The back end of firewalld, V(nftables) or V(iptables), null if it is not installed.
  returned: success
  type: str
  sample: nftables
swap:
  description: The origins of swap.
  returned: success
  type: dict
  contains:
    active:
      description: Swap areas in use.
      type: list
      elements: str
    fstab:
      description: Swap areas that the file O(fstab) would turn on at the next boot.
      type: list
      elements: str
    units:
      description: Swap units of systemd, and services that make swap, that would start at the next boot.
      type: list
      elements: str
  sample: {active: [/dev/sda2], fstab: [UUID=0b1c], units: []}
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.kubenode.ipvs.plugins.module_utils._confirm.pending import pending
from ansible_collections.kubenode.ipvs.plugins.module_utils._host.agent_in_container import serves
from ansible_collections.kubenode.ipvs.plugins.module_utils._host.facts import digest, survey


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "modules": {
                "type": "list",
                "elements": "str",
                "default": ["ip_vs", "ip_vs_rr", "nf_conntrack|nf_conntrack_ipv4", "dummy", "ip_set", "xt_set"],
            },
            "commands": {"type": "list", "elements": "str", "default": ["ipset", "iptables-restore"]},
            "files": {"type": "list", "elements": "path", "default": []},
            "fstab": {"type": "path", "default": "/etc/fstab"},
        },
        supports_check_mode=True,
    )
    params = module.params
    facts = survey(params["modules"], params["commands"], params["fstab"])
    if "firewalld" in facts["services"]:
        # firewalld 1.3 does so with either back end (its Firewall.flush loops over all_backends)
        does = "removes" if facts["firewalld_backend"] == "iptables" else "may remove"
        module.warn(
            f"firewalld runs with FirewallBackend={facts['firewalld_backend']}: each of its reloads {does} all"
            " chains that iptables shows, also the agent's, until the agent restores them"
        )
    module.exit_json(
        changed=False,
        check_mode=module.check_mode,
        unconfirmed=pending(),
        agent_in_container=serves(),
        files={path: os.path.exists(path) for path in params["files"]},
        contents={path: digest(path) for path in params["files"]},
        **facts,
    )


if __name__ == "__main__":
    main()
