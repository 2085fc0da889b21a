#!/usr/bin/python3
# The fake cluster's API on port 6443: the objects of /var/lib/fake-cluster, with the node's labels as they are at the
# moment.
from __future__ import annotations

import json
import pathlib
import sys
import time

sys.path.insert(0, "/usr/local/lib/fake-cluster")
from support.fakes.apiserver import FakeApiServer

ROOT = pathlib.Path("/var/lib/fake-cluster")
server, labels = FakeApiServer(port=6443), None
items = json.loads((ROOT / "objects.json").read_text())["items"]
for item in items:
    if item["kind"] != "Node":
        server.put(item)
while True:
    read_labels = json.loads((ROOT / "labels.json").read_text())
    if read_labels != labels:
        labels = read_labels
        for item in items:
            if item["kind"] == "Node":
                server.put({**item, "metadata": {**item["metadata"], "labels": labels}})
    time.sleep(0.1)
