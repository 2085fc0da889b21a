#!/usr/bin/python
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_modules
short_description: Converge loaded kernel modules, now and at every boot
version_added: 0.1.0
description:
  - Makes sure that kernel modules are loaded, in one task for many of them, and that they are loaded at the next boot
    through one file of their own, C(/etc/modules-load.d/kubenode-OWNER.conf). Their parameters are kept in
    C(/etc/modprobe.d/kubenode-OWNER.conf).
  - What a kernel has is found out by presence, never by its version. What is built in is as good as loaded.
  - Files of others are never changed.
author:
  - The kubenode.ipvs maintainers (@kubenode)
requirements:
  - The command C(modprobe) on the node, where something must be loaded.
extends_documentation_fragment:
  - kubenode.ipvs._attributes
  - kubenode.ipvs._attributes.actiongroup_converging
  - kubenode.ipvs._ownership
options:
  modules:
    description:
      - The names of the modules that shall be loaded. C(br-netfilter) and C(br_netfilter) are one module.
      - Names joined by C(|) are alternatives. The first that is there already or else can be loaded is taken.
      - A module that this kernel does not have makes the task fail.
    type: list
    elements: str
    default: []
  optional:
    description:
      - As O(modules), but what this kernel does not have is only a warning.
    type: list
    elements: str
    default: []
  absent:
    description:
      - The names of modules that the O(owner) wanted earlier and that shall not be loaded at boot any more.
      - Those that this module loaded, and that nothing uses, are unloaded.
    type: list
    elements: str
    default: []
  parameters:
    description:
      - "Parameters by the module's name, for example V({ip_vs: {conn_tab_bits: 18}})."
      - They take effect when the module is loaded. They are compared with the live ones under C(/sys/module); if the module is
        loaded already with other ones, or built in, the task warns and returns them in RV(differing).
    type: dict
    default: {}
  persist:
    description:
      - Whether the modules shall be loaded at the next boot.
    type: bool
    default: true
  purge:
    description:
      - Whether modules that the same O(owner) wanted earlier and that this task does not name are as if named in O(absent).
      - V(none) leaves them, V(owned) removes them.
    type: str
    choices: [none, owned]
    default: none
notes:
  - Where the kernel does not tell what it has (containers, kernels without modules), the task warns and goes on.
seealso:
  - module: kubenode.ipvs.kernel_modules_info
  - module: kubenode.ipvs.sysctls
  - module: kubenode.ipvs.node_check
"""

EXAMPLES = r"""
- name: What IPVS needs
  kubenode.ipvs.kernel_modules:
    modules:
      - ip_vs
      - ip_vs_rr
      - nf_conntrack|nf_conntrack_ipv4
    optional: [br_netfilter]
    parameters:
      ip_vs: {conn_tab_bits: 15}

- name: Take all back that this owner ever wanted
  kubenode.ipvs.kernel_modules:
    purge: owned
"""

RETURN = r"""
states:
  description: >-
    The state of each named module after the task, V(loaded), V(builtin), V(loadable), V(absent) or V(unknown).
    In check mode, the state before it.
  returned: success
  type: dict
  sample: {ip_vs: loaded, nf_conntrack: builtin, nf_conntrack_ipv4: absent}
differing:
  description: The parameters with which a module is there already and which are not the wanted ones.
  returned: success
  type: list
  elements: dict
  contains:
    module:
      description: The module.
      type: str
    parameter:
      description: The parameter.
      type: str
    live:
      description: What the module runs with.
      type: str
    wanted:
      description: What it is to be loaded with.
      type: str
  sample:
    - {module: ip_vs, parameter: conn_tab_bits, live: "12", wanted: "15"}
plan:
  description: What was done, or in check mode would be done, in this order.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: What kind of thing changes, V(kernel_module) or V(file).
      type: str
    verb:
      description: One of V(create), V(change), V(delete).
      type: str
    key:
      description: What identifies the thing.
      type: raw
    before:
      description: What it was, null for a creation.
      type: raw
    after:
      description: What it becomes, null for a deletion.
      type: raw
  sample:
    - {kind: kernel_module, verb: create, key: ip_vs, before: null, after: loaded conn_tab_bits=15}
lines:
  description: The same plan, one line for each step.
  returned: success
  type: list
  elements: str
  sample: ['+ kernel module ip_vs: loaded conn_tab_bits=15']
failed_steps:
  description: The steps that the kernel refused, as in RV(plan), each with a C(message).
  returned: if the kernel refused something
  type: list
  elements: dict
undone:
  description: The lines of the steps that were taken back.
  returned: if the kernel refused something
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.kubenode.ipvs.plugins.module_utils import _confirm, _files, _kernel_modules
from ansible_collections.kubenode.ipvs.plugins.module_utils._argspec import OWNER, check_owner
from ansible_collections.kubenode.ipvs.plugins.module_utils._converge import (
    Wish,
    carry_out,
    compute,
    failing,
    report,
    surroundings,
)
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.kernel import modules
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.ledger import LASTING


def main():
    module = AnsibleModule(
        argument_spec={
            "modules": {"type": "list", "elements": "str", "default": []},
            "optional": {"type": "list", "elements": "str", "default": []},
            "absent": {"type": "list", "elements": "str", "default": []},
            "parameters": {"type": "dict", "default": {}},
            "persist": {"type": "bool", "default": True},
            "purge": {"type": "str", "choices": ["none", "owned"], "default": "none"},
            **OWNER,
        },
        supports_check_mode=True,
    )
    with failing(module):
        result = converge(module)
    module.exit_json(**result)


def converge(module):
    owner = check_owner(module.params["owner"])
    required, optional, absent, parameters = _kernel_modules.check(module.params)
    named = [name for entry in [*required, *optional] for name in entry]
    load_path, options_path = _kernel_modules.files(owner)
    with surroundings(module.check_mode, owner, LASTING) as around:
        mine = around.owned.get("kernel_module", set())
        text = _files.read(load_path, options_path)
        kept = _kernel_modules.parse_load(text.get(load_path, ""))
        states = modules.states(sorted({*named, *absent, *mine, *kept, *parameters}))
        choice = _kernel_modules.choose(required, optional, states)
        _kernel_modules.require(choice)
        going = set(absent) if module.params["purge"] == "none" else {*mine, *kept, *absent} - set(choice.names)
        removed = _kernel_modules.unloadable(going & mine)

        there = {name: "loaded" for name, state in states.items() if state in (modules.LOADED, modules.BUILTIN)}
        # Steps of one sort keep the order of what is there: users are unloaded before what they use.
        there = {**dict.fromkeys(removed, "loaded"), **there}
        want = {name: f"loaded {parameters.get(name, '')}".strip() for name in choice.names if name not in there}
        want.update((name, there[name]) for name in choice.names if name in mine and name in there)
        lasting = [name for name in kept if name not in going and module.params["purge"] == "none"]
        if module.params["persist"]:
            lasting += [name for name in choice.names if name not in lasting and states[name] != modules.BUILTIN]
        else:
            lasting = [name for name in lasting if name not in choice.names]
        options = _kernel_modules.parse_options(text.get(options_path, "")) if module.params["purge"] == "none" else {}
        options = {name: given for name, given in {**options, **parameters}.items() if name not in going}
        new = {
            load_path: _kernel_modules.render_load(owner, lasting),
            options_path: _kernel_modules.render_options(owner, options if module.params["persist"] else {}),
        }
        wanted = Wish(
            {"kernel_module": want, "file": {path: content for path, content in new.items() if content is not None}},
            {"kernel_module": set(removed), "file": {path for path, content in new.items() if content is None}},
            {},
            {},
        )
        have = {"kernel_module": there, "file": text}
        made = compute(have, wanted, around, {"owner": owner, "purge": "none", "adopt": True})
        if not module.check_mode:
            _confirm.refuse_pending(owner)
            carry_out(made, wanted, have, {"modules": modules.apply, "files": _files.table(module)}, around, owner)
            around.ledger.forget(owner, [("kernel_module", name) for name in sorted(going & mine)])
            states = modules.states(list(states)) if made.steps else states
        result = report(module, made)
    for warning in choice.warnings:
        module.warn(warning)
    differing = []
    for name in sorted(set(parameters) & set(there)):
        for parameter, live, given in _kernel_modules.differing(modules.parameters(name), parameters[name]):
            builtin = states[name] == modules.BUILTIN
            when = f"with {name}.{parameter}={given} on the kernel's command line" if builtin else "at its next load"
            verb = "is built in" if builtin else "is loaded"
            module.warn(f"kernel module {name} {verb} with {parameter}={live}; {given} takes effect {when}")
            differing.append({"module": name, "parameter": parameter, "live": live, "wanted": given})
    named_states = {name: states[name] for name in states if name in named or name in absent}
    return {**result, "states": named_states, "differing": differing}


if __name__ == "__main__":
    main()
