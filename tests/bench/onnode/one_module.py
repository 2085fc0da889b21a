# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one module once, in a process of its own. Runs on the node.

Argument: the module's name. Standard input: its arguments as JSON. Standard output: JSON with ``seconds`` and the
module's ``result``. The seconds are the module's own: they begin before the collection's code is loaded, and end with
its result. The start of Python and the import of Ansible's code come before: they are the same for every module.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
import time

import ansible.module_utils.basic as basic

sys.dont_write_bytecode = True  # Ansible sends sources, which Python compiles in each run
basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": json.load(sys.stdin)}).encode()
basic._ANSIBLE_PROFILE = "legacy"
output = io.StringIO()
began = time.perf_counter()
with contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
    importlib.import_module(f"ansible_collections.kubenode.ipvs.plugins.modules.{sys.argv[1]}").main()
seconds = time.perf_counter() - began
json.dump({"seconds": seconds, "result": json.loads(output.getvalue())}, sys.stdout)
