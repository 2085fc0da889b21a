# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run ansible-playbook in a fork of a process that has imported Ansible.

A run of ansible-playbook computes for a second before its first task, and packs each module anew. A fork has Ansible in
memory, and finds the modules that earlier runs packed. Modules share their bytecode. All else is Ansible's own: the
command line, the workers, the modules' processes. Runs with other ANSIBLE_* variables fork from another process,
because Ansible reads them once.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

# Variables that a test sets to a directory of its own. Each fork reads them again.
_PER_RUN = {"ANSIBLE_LOCAL_TEMP", "ANSIBLE_REMOTE_TEMP"}
_BYTECODE = Path(__file__).parents[2] / "molecule/lab/bytecode"
_servers: dict[str, _Server] = {}


class _Server:
    """Process that has imported Ansible, and forks for each run."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._packed = tempfile.TemporaryDirectory(prefix="playbooks-")
        self._process = subprocess.Popen(
            [sys.executable, __file__, self._packed.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=variables,
            cwd="/",
            text=True,
        )
        atexit.register(self.close)

    def run(self, request: Mapping[str, Any]) -> int:
        """Run the playbook of a request; return the exit status."""
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer, f"the process that runs playbooks ended with status {self._process.wait()}"
        return int(answer)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
        self._packed.cleanup()


def run_playbook(
    words: Sequence[str | Path], cwd: Path, variables: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run ``ansible-playbook`` with these arguments, directory and environment variables, and capture its output."""
    settings = {key: value for key, value in variables.items() if key not in _PER_RUN}
    if "ANSIBLE_CONFIG" not in settings and (cwd / "ansible.cfg").is_file():
        settings["ANSIBLE_CONFIG"] = str(cwd / "ansible.cfg")
    key = json.dumps(sorted((name, value) for name, value in settings.items() if name.startswith("ANSIBLE_")))
    if key not in _servers:
        _servers[key] = _Server(settings)
    arguments = [str(word) for word in words]
    with tempfile.TemporaryDirectory(prefix="playbook-") as directory:
        outputs = [Path(directory, name) for name in ("stdout", "stderr")]
        status = _servers[key].run(
            {
                "arguments": arguments,
                "cwd": str(cwd),
                "variables": dict(variables),
                "outputs": [str(path) for path in outputs],
            }
        )
        stdout, stderr = (path.read_text(encoding="utf-8") for path in outputs)
    return subprocess.CompletedProcess(["ansible-playbook", *arguments], status, stdout, stderr)


def _serve() -> None:
    """Fork for each line of stdin, which is a request, and print the exit status."""
    sys.path[0] = str(Path(sys.executable).parent)  # as for the program ansible-playbook, not this directory
    import ansible.executor.playbook_executor
    import ansible.plugins.callback.default
    import ansible.plugins.strategy.linear  # noqa: F401
    from ansible.cli.playbook import main

    packed = sys.argv[1]
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _become(json.loads(line), packed)
            sys.exit(main())
        _child, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(request: Mapping[str, Any], packed: str) -> None:
    """Make this process one that was started with the request's arguments; packed modules are in a directory."""
    from ansible import constants

    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(cast("dict[str, str]", request["variables"]))
    if sys.pycache_prefix:  # else its files would be in the machine's cache
        os.environ.setdefault("PYTHONPATH", str(_BYTECODE))
    files = [os.open("/dev/null", os.O_RDONLY)]
    files += [os.open(path, os.O_WRONLY | os.O_CREAT, 0o600) for path in request["outputs"]]
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    # Its default is a template of other settings.
    local = constants.config.get_config_value("DEFAULT_LOCAL_TMP", variables=vars(constants))
    constants.DEFAULT_LOCAL_TMP = local
    os.symlink(packed, f"{local}/ansiballz_cache")
    sys.argv = ["ansible-playbook", *request["arguments"]]


if __name__ == "__main__":
    _serve()
