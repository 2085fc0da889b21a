#!/usr/bin/python3
# iptables_mode.py FILE: what kube-proxy does in iptables mode: its chains anew, its jumps where they are missing. What
# else there is stays.
from __future__ import annotations

import json
import pathlib
import shlex
import subprocess
import sys

made = json.loads(pathlib.Path(sys.argv[1]).read_text())
subprocess.run(["iptables-restore", "--noflush"], input=made["rules"], text=True, check=True)
subprocess.run(["ip6tables-restore", "--noflush"], input=made.get("rules6", ""), text=True, check=True)
for table, rule in reversed(made["jumps"]):
    words = shlex.split(rule)[1:]
    if subprocess.run(["iptables", "-t", table, "-C", *words], stderr=subprocess.DEVNULL, check=False).returncode:
        subprocess.run(["iptables", "-t", table, "-I", *words], check=True)
