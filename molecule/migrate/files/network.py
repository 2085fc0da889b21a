#!/usr/bin/python3
# network.py POD...: a network of pods with these addresses, and the recorded node's own addresses, if it is a recorded
# one.
from __future__ import annotations

import json
import pathlib
import subprocess
import sys

MADE = json.loads(pathlib.Path("/var/lib/fake-cluster/made.json").read_text())


def batch(*words, text):
    subprocess.run(["ip", *words, "-batch", "-"], input=text, text=True, check=True)


links = (
    "netns add pods\nlink add cni0 address 02:00:00:00:00:01 type veth peer name eth0 netns pods\nlink set cni0 up\n"
)
links += "route add 10.244.0.0/16 dev cni0\nlink add recorded type dummy\nlink set recorded up\n"
for link in json.loads(MADE.get("node", "[]")):
    for item in link["addr_info"] if link["ifname"] == "vec0" else ():
        if item["scope"] == "global":
            nodad = " nodad" if item["family"] == "inet6" else ""
            links += f"addr add {item['local']}/{item['prefixlen']} dev recorded{nodad}\n"
batch(text=links)
pods = "link set lo up\nlink set eth0 up\naddr add 10.244.255.2/16 dev eth0\n"
pods += "neigh add 169.254.0.1 lladdr 02:00:00:00:00:01 dev eth0 nud permanent\n"
pods += "route add default via 169.254.0.1 dev eth0 onlink\n"
batch("-n", "pods", text=pods + "".join(f"addr add {address}/16 dev eth0\n" for address in sys.argv[1:]))
