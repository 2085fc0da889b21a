#!/usr/bin/python
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flow_info
short_description: Explain why connections arrive or do not arrive
version_added: 0.1.0
description:
  - Predicts the way of a connection's first packet from the node's state, compares it with the desired state, and
    returns the first fault with its remedy.
  - Runs the command C(kubenode explain --format json) of the installed agent once for each flow, because the desired
    state needs the agent's configuration and objects. The agent need not run.
  - Changes nothing without O(observe), which adds a table of nftables while the command runs. Sends nothing without
    O(probe).
author:
  - The kubenode.ipvs maintainers (@kubenode)
requirements:
  - The agent on the node, installed by the role P(kubenode.ipvs.agent#role) or by M(kubenode.ipvs.agent_install).
extends_documentation_fragment:
  - kubenode.ipvs._attributes.info
  - kubenode.ipvs._attributes.actiongroup_all
options:
  flows:
    description:
      - The connections to explain. Each has exactly one of O(flows[].destination), O(flows[].service) and
        O(flows[].node_port).
    type: list
    elements: dict
    required: true
    suboptions:
      source:
        description:
          - The address of the client, for example of a pod or of another machine. V(node) is the node itself.
        type: str
        default: node
      protocol:
        description:
          - The protocol, by default V(tcp). Not together with O(flows[].service), whose port has a protocol.
        type: str
        choices: [tcp, udp, sctp]
      destination:
        description:
          - The address to which the client connects. Needs O(flows[].port).
        type: str
      service:
        description:
          - The Service to whose cluster IP the client connects, as V(NAMESPACE/NAME).
        type: str
      port:
        description:
          - The port of O(flows[].destination), or the name or number of a port of O(flows[].service). A Service with
            one port needs none. Not together with O(flows[].node_port).
        type: str
      node_port:
        description:
          - The node port of this node to which the client connects.
        type: int
      in_interface:
        description:
          - The link by which the client's packets arrive. By default the route to the client decides.
        type: str
  observe:
    description:
      - Whether to return the entries and counters that the kernel has for each connection, and a trace of its next
        packets through nftables.
      - For the trace, the command adds a table of nftables. The kernel removes it when the command ends, also after
        C(kill -9). This needs Linux 5.12; an older kernel gives no trace.
      - In check mode there is no trace.
    type: bool
    default: false
  wait:
    description:
      - How many seconds to wait for a packet of each connection, with O(observe) and without O(probe). V(0) gives no
        trace.
    type: int
    default: 2
  probe:
    description:
      - Whether to open one connection for each flow, from the node or from O(netns). A probe also shows a pod that does
        not listen.
      - In check mode the module opens none.
    type: bool
    default: false
  netns:
    description:
      - The network namespace from which to open the connections, as C(ip netns list) prints it. Needs O(probe).
    type: str
  objects:
    description:
      - A directory or file with the Services, EndpointSlices and Nodes of the desired state. By default the configured
        manifests, or the agent's copy of the Kubernetes API's last state.
    type: path
  config:
    description:
      - The agent's configuration. By default C(/etc/kubenode/config.yaml).
    type: path
  command:
    description:
      - The agent's command as a path. Several words run it elsewhere, for example C(kubectl exec POD -- kubenode).
    type: list
    elements: str
    default: [/opt/kubenode/current/bin/kubenode]
notes:
  - The task fails if a flow cannot be, for example with port 0, with addresses of two families, or with an unknown
    Service. RV(flows) then has the other flows. A flow that does not arrive is no failure, see RV(arrives).
seealso:
  - module: kubenode.ipvs.node_check
  - module: kubenode.ipvs.ipvs_services_info
"""

EXAMPLES = r"""
- name: Explain a connection from a pod, and one from outside
  kubenode.ipvs.flow_info:
    flows:
      - {source: 10.244.1.11, protocol: udp, destination: 10.96.0.10, port: 53}
      - {source: 192.0.2.9, node_port: 30080, in_interface: eth0}
  register: explained

- name: Show the faults and their remedies
  ansible.builtin.debug:
    msg: "{{ explained.problems }}"

- name: Explain a connection of the node itself to a Service
  kubenode.ipvs.flow_info:
    flows:
      - {service: shop/web, port: http}
  register: to_service

- name: Fail unless it arrives
  ansible.builtin.assert:
    that: to_service.arrives
    fail_msg: "{{ to_service.problems | join('; ') }}"
"""

RETURN = r"""
arrives:
  description: Whether all connections arrive as the desired state says.
  returned: success
  type: bool
problems:
  description: A sentence for each connection that does not arrive or cannot be judged, with the remedy.
  returned: success
  type: list
  elements: str
  sample:
    - "tcp 10.244.1.11 -> 10.96.10.1:80: rule 1 of chain INPUT drops the packets; remedy: remove the rule"
flows:
  description: The explanations, in the order of O(flows).
  returned: always, after a failure without the flows that cannot be
  type: list
  elements: dict
  contains:
    flow:
      description: The flow in one line.
      type: str
    protocol:
      description: The protocol.
      type: str
    source:
      description: The client's address.
      type: str
    destination:
      description: The address to which the client connects.
      type: str
    port:
      description: The port to which the client connects.
      type: int
    in_interface:
      description: The link by which the client's packets arrive, empty for the node itself.
      type: str
    service:
      description: The Service that has this address and port, empty if none has.
      type: str
    verdict:
      description: The verdict. V(unknown) if the node's state cannot be judged.
      type: str
      choices: [arrives, fault, unknown]
    summary:
      description: The fault or the predicted way, in one sentence.
      type: str
    predicted:
      description: The predicted end of the way, for example V(delivered), V(refused) or V(dropped).
      type: str
    fault:
      description: The fault, null if there is none.
      type: dict
      contains:
        name:
          description: The kind of fault.
          type: str
        text:
          description: The fault in one sentence.
          type: str
        remedy:
          description: The remedy.
          type: str
    decisions:
      description: The decisions on the way to the virtual server, in order.
      type: list
      elements: dict
      contains: &decision
        stage:
          description: The part of the node that decides.
          type: str
        text:
          description: The decision with its evidence, for example a rule or a member of a set.
          type: str
        owner:
          description: The owner of the evidence and its Service, empty if unknown.
          type: str
    targets:
      description: The real servers that may get the connection.
      type: list
      elements: dict
      contains:
        real_server:
          description: Address and port.
          type: str
        weight:
          description: The weight.
          type: int
        client:
          description: The client address that the real server sees.
          type: str
        masqueraded:
          description: Whether the node replaces the client's address by its own.
          type: bool
        link:
          description: The link by which packets leave the node.
          type: str
        problem:
          description: The reason why this real server does not get the connection, or its answer does not return.
          type: str
        endpoint_slice:
          description: The EndpointSlice that lists the real server, empty if none does.
          type: str
        decisions:
          description: The decisions after the virtual server, in order.
          type: list
          elements: dict
          contains: *decision
    draining:
      description: The real servers that get no new connections.
      type: list
      elements: str
    doubts:
      description: The decisions that cannot be predicted.
      type: list
      elements: str
    lacking:
      description: The parts of the node's or the desired state that cannot be read.
      type: list
      elements: str
    observed:
      description:
        - The C(counter) of connections and the result of the C(probe) as texts, and the entries as lists of texts.
        - With O(observe), except in check mode and with O(wait=0), also the C(trace). It has the C(packets), and the
          reasons for missing parts as C(notes). docs/reference/command-line.md describes them.
      type: dict
  sample:
    - flow: tcp 10.244.1.11 -> 10.96.10.1:80
      verdict: fault
      summary: rule 1 of chain INPUT drops the packets
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.kubenode.ipvs.plugins.module_utils._host import agent_flows as _flows


def main() -> None:
    flow: dict[str, Any] = {
        "source": {"type": "str", "default": "node"},
        "protocol": {"type": "str", "choices": ["tcp", "udp", "sctp"]},
        "destination": {"type": "str"},
        "service": {"type": "str"},
        "port": {"type": "str"},
        "node_port": {"type": "int"},
        "in_interface": {"type": "str"},
    }
    ways = ["destination", "service", "node_port"]
    module = AnsibleModule(
        argument_spec={
            "flows": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": flow,
                "mutually_exclusive": [ways, ["node_port", "port"], ["service", "protocol"]],
                "required_one_of": [ways],
                "required_by": {"destination": ["port"]},
            },
            "observe": {"type": "bool", "default": False},
            "wait": {"type": "int", "default": 2},
            "probe": {"type": "bool", "default": False},
            "netns": {"type": "str"},
            "objects": {"type": "path"},
            "config": {"type": "path"},
            "command": {"type": "list", "elements": "str", "default": ["/opt/kubenode/current/bin/kubenode"]},
        },
        required_by={"netns": ["probe"]},
        supports_check_mode=True,
    )
    params = module.params
    path = params["command"][0] if len(params["command"]) == 1 else ""
    if not params["command"] or (path and not os.path.exists(path)):
        module.fail_json(
            msg=f"the agent is not installed: there is no {path or 'command'}. Install it with the role"
            " kubenode.ipvs.agent, or name its file (command)"
        )
    explained, wrong = _flows.explain(module.run_command, params, may_probe=not module.check_mode)
    if wrong:
        module.fail_json(msg="; ".join(wrong), flows=explained)
    module.exit_json(
        changed=False,
        arrives=all(answer["verdict"] == "arrives" for answer in explained),
        problems=[_flows.problem(answer) for answer in explained if answer["verdict"] != "arrives"],
        flows=explained,
    )


if __name__ == "__main__":
    main()
