#!/usr/bin/python3
# Put a recorded state of kube-proxy into this node's kernel, with the recorded node's addresses and the pods of one virtual server.
from __future__ import annotations

import json
import subprocess
import sys

with open(sys.argv[1]) as file:
    recording = json.load(file)
state, server = recording["state"], sys.argv[2]


def sh(*words, text=None):
    subprocess.run(words, input=text, text=True, check=True)


links = "link add recorded type dummy\nlink set recorded up\nlink add kube-ipvs0 type dummy\n"
links += "netns add pods\nlink add cni0 address 02:00:00:00:00:01 type veth peer name eth0 netns pods\nlink set cni0 up\n"
links += "route add 10.244.0.0/16 dev cni0\n"
for link in json.loads(state["node"]):
    for item in link["addr_info"] if link["ifname"] == "vec0" else ():
        if item["scope"] == "global":
            links += f"addr add {item['local']}/{item['prefixlen']} dev recorded" + (
                " nodad\n" if item["family"] == "inet6" else "\n"
            )
for link in json.loads(state["addr"]):
    links += "".join(f"addr add {item['local']}/{item['prefixlen']} dev kube-ipvs0\n" for item in link["addr_info"])
sh("ip", "-batch", "-", text=links)
pods = "link set lo up\nlink set eth0 up\naddr add 10.244.255.2/16 dev eth0\n"
pods += (
    "neigh add 169.254.0.1 lladdr 02:00:00:00:00:01 dev eth0 nud permanent\nroute add default via 169.254.0.1 dev eth0 onlink\n"
)
for line in state["ipvs"].splitlines():
    if line.startswith(f"-a -t {server} "):
        pods += f"addr add {line.split()[4].rpartition(':')[0]}/16 dev eth0\n"
sh("ip", "-n", "pods", "-batch", "-", text=pods)
sh("ipset", "restore", text=state["ipset"])
sh("iptables-restore", text=state["v4"])
sh("ip6tables-restore", text=state["v6"])
sh("ipvsadm", "-R", text=state["ipvs"])
