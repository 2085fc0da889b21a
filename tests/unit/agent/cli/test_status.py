# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command status: its text in every state, and how long it waits."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[4]


def test_status_is_readable_in_every_state(tmp_path: Path) -> None:
    answer = {
        "node": "n1", "version": "1", "pid": 7, "waiting": "", "converged": False,
        "summary": "2 virtual servers", "problems": [{"text": "bad"}] * 30,
        "last_full_sync": {"steps": 9, "failed": 0, "seconds": 0.1, "drift": ["+ x"] * 21},
        "draining": [{"seconds": 3, "real_server": "r"}] * 20,
    }  # fmt: skip
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(tmp_path / "agent.sock"))
        agent.listen()
        words = [sys.executable, "-m", "kubenode", "status", "--run-dir", str(tmp_path)]
        environment = {"PYTHONPATH": str(ROOT / "agent/src"), "PATH": "/usr/bin:/bin"}
        asking = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
        with agent.accept()[0] as connection:
            assert json.loads(connection.recv(1000)) == {"command": "status"}
            connection.sendall(json.dumps(answer).encode() + b"\n")
        output = asking.communicate()[0].splitlines()
    assert asking.returncode == 3
    assert output[:3] == [
        "node n1, agent 1, pid 7",
        "not converged: 2 virtual servers",
        "last full comparison: 9 steps done, 0 failed, in 0.1 s",
    ]
    assert output[3:24] == ["  drift healed: + x"] * 20 + ["  ... and 1 more (--format json has all)"]
    assert output[24:] == ["draining for 3 s: r"] * 20 + ["problem: bad"] * 30


def answered(tmp_path: Path, answers: list[dict[str, Any]], *words: str) -> tuple[int, str]:
    """Run ``kubenode status`` beside an agent that gives these answers; return the exit status and the output.

    The agent repeats the last answer.
    """
    base = {
        "node": "n1",
        "version": "1",
        "pid": 7,
        "waiting": "",
        "summary": "",
        "problems": [],
        "warnings": [],
        "draining": [],
    }
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(tmp_path / "agent.sock"))
        agent.listen()
        agent.settimeout(0.1)
        command = [sys.executable, "-m", "kubenode", "status", "--run-dir", str(tmp_path), *words]
        environment = {"PYTHONPATH": str(ROOT / "agent/src"), "PATH": "/usr/bin:/bin"}
        asking = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        left = list(answers)
        while asking.poll() is None:
            try:
                connection = agent.accept()[0]
            except TimeoutError:
                continue
            with connection:
                connection.recv(1000)
                answer = left.pop(0) if len(left) > 1 else left[0]
                connection.sendall(json.dumps({**base, "last_full_sync": None, **answer}).encode() + b"\n")
    return asking.returncode, asking.communicate()[0]


def test_status_ends_waiting_for_a_permanent_problem(tmp_path: Path) -> None:
    blocked = {
        "converged": False,
        "waiting": "the Kubernetes API: x",
        "blocked": "kubeconfig k: certificate-authority-data is empty",
    }
    status, text = answered(tmp_path, [blocked], "--wait", "600")
    assert status == 3
    assert "blocked: kubeconfig k: certificate-authority-data is empty; fix it; waiting does not help" in text


def test_status_continues_waiting_after_a_problem_ends(tmp_path: Path) -> None:
    blocked = {"converged": False, "blocked": "x"}
    answers = [blocked, {"converged": False, "blocked": ""}, {"converged": True}]
    assert answered(tmp_path, answers, "--wait", "600")[0] == 0


def test_status_shows_warnings_about_objects(tmp_path: Path) -> None:
    status, text = answered(tmp_path, [{"converged": True, "warnings": ["Service a/b: x is read as y"]}])
    assert (status, text.splitlines()[-1]) == (0, "warning: Service a/b: x is read as y")
