#!/usr/bin/python
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_check
short_description: Tell whether a node is fit for IPVS, and why not
version_added: 0.1.0
description:
  - Looks at a node and reports what IPVS needs of it, what is there and what is not. Changes nothing.
  - Reads files only and starts no process, so that it costs less than gathering facts. The role
    P(kubenode.ipvs.prepare#role) decides by it what is left to do.
author:
  - The kubenode.ipvs maintainers (@kubenode)
extends_documentation_fragment:
  - kubenode.ipvs._attributes.info
  - kubenode.ipvs._attributes.actiongroup_all
options:
  modules:
    description:
      - The kernel modules whose state is reported.
      - Names joined by C(|) are alternatives, one of which must be there.
      - If the command C(iptables) is iptables-nft, C(nft_compat) is added to a list with modules C(xt_...).
    type: list
    elements: str
    default: [ip_vs, ip_vs_rr, 'nf_conntrack|nf_conntrack_ipv4', dummy, ip_set, xt_set]
  commands:
    description:
      - The commands that are looked for.
    type: list
    elements: str
    default: [ipset, iptables-restore]
  files:
    description:
      - Files whose presence and content are reported.
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
- name: Look at the node
  kubenode.ipvs.node_check:
  register: node

- name: Stop on nodes that cannot do IPVS
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
  description: Why the node cannot do IPVS as it is, one sentence each.
  returned: success
  type: list
  elements: str
  sample: ['command ipset is not installed']
refused:
  description:
    - Those of the RV(problems) that no package can solve. The role P(kubenode.ipvs.prepare#role) refuses such a node.
  returned: success
  type: list
  elements: str
  sample: ['Python is 3.6.8, expected 3.9 or newer (ansible_python_interpreter)']
lacks:
  description: What packages may bring.
  returned: success
  type: dict
  contains:
    commands:
      description: Those of O(commands) that are not installed.
      type: list
      elements: str
    modules:
      description: Those of O(modules) that the kernel does not have.
      type: list
      elements: str
    packages:
      description:
        - The packages with those modules that can be installed beside the running kernel. None if another remedy is
          needed, for example a reboot. The RV(problems) have the remedy.
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
        V(reboot) if the kernel was updated and the node was not rebooted, V(file) if C(modules.dep) lists the module
        and a file of it is gone, V(package) if no installed package has the module.
      type: str
    path:
      description: The file that is gone, below C(/lib/modules/RELEASE). Empty for another RV(missing_modules[].cause).
      type: str
    packages:
      description: The packages that have the module and can be installed beside the running kernel.
      type: list
      elements: str
    command:
      description: The command that brings the module, empty if none is known.
      type: str
  sample:
    - entry: ip_set
      needed_for: sets
      cause: package
      path: ""
      packages: [linux-modules-extra-6.8.0-1016-aws]
      command: apt-get install linux-modules-extra-6.8.0-1016-aws
commands:
  description: Where each command is, null if it is nowhere.
  returned: success
  type: dict
  sample: {ipset: /usr/sbin/ipset, ipvsadm: null}
unconfirmed:
  description:
    - Changes of tasks with C(confirm_timeout) that wait for their confirmation. The node undoes them without it.
    - Only root sees them.
  returned: success
  type: list
  elements: dict
  contains:
    owner:
      description: The owner, whose other tasks are refused as long.
      type: str
    path:
      description: The file that waits. Who removes it confirms.
      type: str
    lines:
      description: The lines of the change's plan, the first fifty and how many more.
      type: list
      elements: str
check_mode:
  description: Whether this task ran in check mode, be it by the command line or by the C(check_mode) of a play or a
    task.
  returned: success
  type: bool
files:
  description: Whether each of O(files) is there.
  returned: success
  type: dict
  sample: {/etc/systemd/system/kubenode-agent.service: true}
contents:
  description: The SHA-256 of each of O(files), in hexadecimal, null where there is none.
  returned: success
  type: dict
modules:
  description: >-
    The state of each kernel module, V(loaded), V(builtin), V(loadable), V(absent), or V(unknown) where the kernel does
    not tell (a container, a kernel without modules).
  returned: success
  type: dict
  sample: {ip_vs: loaded, dummy: builtin}
ipvs:
  description: The version of the kernel's IPVS, null if it is not loaded.
  returned: success
  type: str
  sample: 1.2.1
iptables:
  description: The back end of the command C(iptables), V(legacy) or V(nft), null if there is none or it cannot be told.
  returned: success
  type: str
  sample: nft
kernel:
  description: The release of the kernel.
  returned: success
  type: str
  sample: 6.1.0-18-amd64
python:
  description: The version of the Python that modules run on.
  returned: success
  type: str
  sample: 3.11.2
distribution:
  description: The distribution in the words of C(/etc/os-release), with the family that its packages are named after.
  returned: success
  type: dict
  contains:
    id:
      description: The distribution.
      type: str
    version:
      description: Its version, empty for a rolling one.
      type: str
    like:
      description: The distribution and those that it says it is like.
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
virtualization:
  description: >-
    What kind of container or virtual machine the node is, in the words of C(systemd-detect-virt), V(kubernetes) for a
    pod that tells no more, V(unknown) for one that does not tell, V(none) for a real machine.
  returned: success
  type: str
  sample: kvm
systemd:
  description: Whether systemd runs the node.
  returned: success
  type: bool
services:
  description: Which services that meddle with links and rules are running, out of V(NetworkManager),
    V(systemd-networkd) and V(firewalld).
  returned: success
  type: list
  elements: str
  sample: [NetworkManager]
firewalld_backend:
  description: What firewalld writes its rules with, V(nftables) or V(iptables), null where it is not installed.
  returned: success
  type: str
  sample: nftables
swap:
  description: Where swap comes from.
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
      description: Swap units of systemd, and services that make swap, that would do so.
      type: list
      elements: str
  sample: {active: [/dev/sda2], fstab: [UUID=0b1c], units: []}
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.kubenode.ipvs.plugins.module_utils._confirm.pending import pending
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
    found = survey(params["modules"], params["commands"], params["fstab"])
    if "firewalld" in found["services"]:
        # firewalld 1.3 does so with either back end (its Firewall.flush loops over all_backends)
        does = "removes" if found["firewalld_backend"] == "iptables" else "may remove"
        module.warn(
            f"firewalld runs with FirewallBackend={found['firewalld_backend']}: each of its reloads {does} the chains"
            " of all others that iptables shows, ours too, until the agent makes them anew"
        )
    module.exit_json(
        changed=False,
        check_mode=module.check_mode,
        unconfirmed=pending(),
        files={path: os.path.exists(path) for path in params["files"]},
        contents={path: digest(path) for path in params["files"]},
        **found,
    )


if __name__ == "__main__":
    main()
