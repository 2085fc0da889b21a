# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Print a node's desired state, offline.

Needs no root, no kernel and no cluster. The same objects, configuration and node give the same text, sorted. Compare it
in a pull request, or with a node:

  kubectl get svc,endpointslices,nodes -A -o json >objects.json
  kubenode render --objects objects.json --node node1 --format ipvsadm >want
  ssh node1 ipvsadm -Sn | diff want -

Formats
  json       one object: virtual_servers, sets, iptables, addresses, sysctls
  ipvsadm    as ipvsadm -Sn             ipset      as ipset save
  iptables   as iptables-save           ip6tables  as ip6tables-save
  nft        the same rules and sets as tables of nftables, for nft -f
  addresses  of kube-ipvs0, one address/prefix a line

The node's addresses, zone and pod CIDRs come from its Node object, if it is among the objects. Node ports are served on
the addresses given with --node-address, or else on those of the Node object.

The rules use --random-fully, which iptables knows since 1.6.2 (2018). Use --no-random-fully for an older iptables.

Errors in single objects go to standard error; all other objects are rendered.

Exit status: 0 rendered, 1 objects or configuration cannot be read, 64 wrong usage.
"""

from __future__ import annotations

import argparse

FORMATS = ("json", "ipvsadm", "ipset", "iptables", "ip6tables", "nft", "addresses")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    from .parser import add_objects

    add_objects(parser, required=True)
    parser.add_argument("--node", metavar="NAME", required=True, help="name of the node")
    parser.add_argument("--config", metavar="FILE", help="KubeProxyConfiguration (default: kube-proxy's defaults)")
    parser.add_argument(
        "--node-address",
        metavar="IP",
        action="append",
        default=[],
        help="address of the node, primary address first (repeatable)",
    )
    parser.add_argument("--no-random-fully", action="store_true", help="make rules for an iptables older than 1.6.2")
    parser.add_argument("--format", choices=FORMATS, default="json", help="default: %(default)s")


def run(options: argparse.Namespace) -> int:
    """Print the desired state."""
    import gc
    import sys

    gc.disable()  # a cluster's objects stay in use, and the process ends soon

    from ..engine.desired.node_facts import NodeFacts
    from ..engine.desired.settings import parse
    from ..engine.errors import InputError
    from ..engine.model.net import canonical, family
    from ..engine.render import render
    from .desired import cluster, configuration, manifests

    config = configuration(options) if options.config else parse([])[0]
    try:
        given = [canonical(address) for address in options.node_address]
    except ValueError as error:
        raise InputError("kubenode render", "--node-address", options.node_address, str(error)) from None
    source = manifests(options.objects)
    primary: dict[int, str] = {}
    for address in given:
        primary.setdefault(family(address), address)
    addresses = tuple(("node", address) for address in given)
    facts = NodeFacts(options.node, addresses, tuple(primary.values()), random_fully=not options.no_random_fully)
    desired = cluster(config, facts, source)
    if not given and desired.node is not None:
        desired.set_facts(facts._replace(addresses=tuple(("node", address) for address in desired.node.addresses)))
    state = desired.state()
    if options.format == "nft":
        from ..engine.desired.nft_state import nft_state

        state = nft_state(state)
    sys.stdout.write(render(state, options.format))
    return 0
