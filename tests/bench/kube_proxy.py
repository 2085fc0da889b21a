# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Comparison with kube-proxy's three modes, measured by hand in one run on one node.

The figures are kept here for the page of benchmarks.

`make bench` has no kube-proxy and measures the agent alone. Figures of the two runs must not be compared with each
other.
"""

from __future__ import annotations

HEAD = ("what", "Services", "kubenode-agent", "kube-proxy ipvs", "kube-proxy nftables", "kube-proxy iptables")
ROWS = (
    ("cold start to everything in place", "202", "0.57 s", "6.9 s", "2.0 s", "1.1 s"),
    ("", "1,002", "1.04 s", "40.9 s", "3.0 s", "2.6 s"),
    ("", "5,000", "7.1 s", "-", "14.7 s", "-"),
    ("an endpoint is added, until the kernel has it", "202", "26 ms", "0.47 s", "0.13 s", "65 ms"),
    ("", "1,002", "26 ms", "1.3 s", "0.43 s", "0.47 s"),
    ("", "5,000", "27 ms", "-", "2.5 s", "-"),
    (
        "CPU in a minute in which nothing changes (node without a proxy: 0.07 s)",
        "202",
        "0.10 s",
        "3.9 s",
        "0.07 s",
        "-",
    ),
    ("", "1,002", "0.14 s", "5.0 s", "0.05 s", "-"),
    ("", "5,000", "0.50 s", "-", "0.06 s", "-"),
    ("10 changes a second: median, 99th percentile", "1,002", "25, 29 ms", "2.0, 3.9 s", "0.7, 1.5 s", "-"),
    ("the same: CPU in 30 s", "1,002", "0.9 s", "27 s", "28 s", "-"),
    ("resident memory", "202", "31 MiB", "63 MiB", "59 MiB", "-"),
    ("", "1,002", "43 MiB", "77 MiB", "72 MiB", "-"),
    ("", "5,000", "94 MiB", "-", "136 MiB", "-"),
    ("new connections a second through the last Service (direct: 4,707 to 4,875)", "1,002", "4,655", "-", "4,596", "-"),
    ("failed new connections when a pod dies at the moment of its removal", "-", "1", "22", "12 to 21", "3"),
    ("bytes from the API server: start; churn", "5,000", "0.6; 0.48 MB", "-", "5.5; 0.24 MB", "-"),
)
_INTRODUCTION = """\
Not measured by `make bench`: one run by hand in November 2026, in which the agent and kube-proxy 1.36.2 served \
the same clusters on the same
node (user-mode Linux 6.1, one CPU), with a real kube-apiserver. Values are medians. \
Each Service has 5 endpoints. kube-proxy's
nftables mode ran with `minSyncPeriod: 1ms`. `-`: not measured.

"""
_BEHIND = """
Where the agent is behind:

- Its CPU in a minute without changes grows with the number of Services: 0.50 s at 5,000. \
That of the nftables mode stays at that of a node
  without a proxy.
- Its lead at a cold start over the nftables mode shrinks from 3.5 times at 202 Services to 2 times at 5,000.
- In this run, a watch of changes brought twice the bytes from the API server: JSON, where kube-proxy reads protobuf. \
The agent reads protobuf, too, since then: 300 changes
  of slices with 5 endpoints are 0.25 MB instead of 0.50 MB.
- A start costs the API server 0.40 to 0.43 s of CPU instead of 0.25 to 0.32 s.
"""


def markdown() -> str:
    """Return the section's text, without its heading."""
    lines = [list(HEAD), ["---"] * len(HEAD), *map(list, ROWS)]
    return _INTRODUCTION + "".join("| " + " | ".join(line) + " |\n" for line in lines) + _BEHIND
