# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove that check mode predicts the changes of a playbook.

Run it with --check --diff, then with --diff. Both runs must report the same changes of the same tasks.

python tests/tools/foreseen.py argument of ansible-playbook …
"""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

CALLBACKS = Path(__file__).with_name("callback")


def run(arguments: list[str]) -> list[dict[str, Any]]:
    """Run ansible-playbook; return its changes in order. If it fails, exit with its output."""
    with tempfile.NamedTemporaryFile("r", suffix=".changes", encoding="utf-8") as changes:
        environment = {
            **os.environ,
            "CHANGES": changes.name,
            "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS),
            "ANSIBLE_CALLBACKS_ENABLED": "changes",
        }
        done = subprocess.run(
            ["ansible-playbook", *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            sys.exit(f"ansible-playbook {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}")
        return [json.loads(line) for line in changes]


def lines(changes: list[dict[str, Any]], unknown: set[str]) -> list[str]:
    """Return one line for each reported change, sorted by node, so that the nodes' speed does not matter.

    Plan lines about things in ``unknown`` are left out, as are such keys in differences.
    """
    texts = []
    for change in sorted(changes, key=lambda each: str(each["host"])):
        title = f"{change['host']}: {change['task']}"
        said = [line for line in change["lines"] if thing(line) not in unknown]
        texts += [f"{title}: {change['what']}", *(f"{title}: {line}" for line in said)]
        for each in change["diff"]:
            for side in ("before", "after"):
                content = each.get(side, "")
                if isinstance(content, dict):
                    content = {key: value for key, value in content.items() if key not in unknown}
                texts.append(f"{title}: {side} {each.get('before_header', '')}: {json.dumps(content, sort_keys=True)}")
    return texts


def thing(line: str) -> str:
    """Return the subject of a plan line.

    For example ``sysctl net.ipv4.ip_forward`` of ``~ sysctl net.ipv4.ip_forward: 0 -> 1``.
    """
    return line[2:].partition(":")[0]


def unforeseeable(foreseen: list[dict[str, Any]], changed: list[dict[str, Any]]) -> set[str]:
    """Return the subjects that check mode cannot predict: they depend on the effects of earlier tasks.

    They are the parameters of a kernel module that is not loaded yet, and the kernel modules that fall out of use.
    """
    parameters = {thing(line) for change in foreseen for line in change["lines"] if line.startswith("+ sysctl ")}
    return parameters | {
        thing(line) for change in changed for line in change["lines"] if line.startswith("- kernel module ")
    }


def main() -> int:
    """Run both and compare; return 0 if check mode predicted all changes."""
    arguments = sys.argv[1:]
    foreseen = run(["--check", "--diff", *arguments])
    changed = run(["--diff", *arguments])
    unknown = unforeseeable(foreseen, changed)
    both = [lines(changes, unknown) for changes in (foreseen, changed)]
    difference = list(difflib.unified_diff(*both, "foreseen", "changed", lineterm="", n=0))
    for line in difference:
        print(line)
    nodes = sorted({str(each["host"]) for each in foreseen + changed})
    print(f"{len(foreseen)} changed tasks foreseen, {len(changed)} seen; on {', '.join(nodes) or 'no node'}")
    return 1 if difference else 0


if __name__ == "__main__":
    sys.exit(main())
