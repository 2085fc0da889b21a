# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Use the built collection with every ansible-core that it supports (`make matrix`).

Each version has a virtual environment of its own.

python tests/tools/matrix.py ARTIFACT

Each version runs on the oldest Python of this machine that it supports. It installs the artifact, reads the
documentation of all its plugins and roles, checks every playbook's syntax, and runs a play (smoke.yml) that changes
nothing. The version of requirements/dev.txt is not run again: all other tests use it. The environments stay in
.cache/matrix. They cannot reach the checkout.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import junit
from environments import CheckError, environment, run

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache/matrix"
REPORT = ROOT / ".cache/results/matrix/matrix.xml"
PLUGINS = "ansible_collections/kubenode/ipvs"
# One file for each version: its Python packages, with digests.
REQUIREMENTS = ROOT / "requirements/matrix"


class Core(NamedTuple):
    """A version of ansible-core, and the minor versions of Python 3 that run it on a controller."""

    version: str
    oldest: int
    newest: int


CORES = (
    Core("2.16.19", 10, 12),
    Core("2.17.14", 10, 12),
    Core("2.18.19", 11, 13),
    Core("2.20.10", 12, 14),
    Core("2.21.5", 12, 14),
)


def pythons() -> dict[int, str]:
    """Return each Python 3 of this machine: minor version to path."""
    lines = subprocess.run(
        [ROOT / "tests/tools/pythons"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    return {int(version.partition(".")[2]): path for version, path in (line.split(maxsplit=1) for line in lines)}


def check(core: Core, python: str, artifact: Path) -> junit.Case:
    """Check one version."""
    start = time.monotonic()
    name = f"ansible-core {core.version}, {Path(python).name}"
    problem = None
    try:
        directory = CACHE / f"{core.version}-{Path(python).name}"
        use(environment(directory, python, REQUIREMENTS / f"{core.version}.txt"), artifact)
    except CheckError as error:
        problem = str(error)
    seconds = time.monotonic() - start
    print(f"  {'FAILED' if problem else 'ok':7} {name:34} {seconds:5.1f} s", flush=True)
    if problem:
        print(problem, flush=True)
    return junit.Case("matrix", name, seconds, problem)


def use(core: Path, artifact: Path) -> None:
    """Use the artifact with the ansible-core of an environment."""
    shutil.rmtree(core / "collections", ignore_errors=True)
    run(
        "ansible-galaxy",
        "collection",
        "install",
        "--offline",
        "--no-deps",
        "-p",
        core / "collections",
        artifact,
        within=core,
    )
    installed = core / "collections" / PLUGINS
    for kind, names in {
        "module": [path.stem for path in installed.glob("plugins/modules/*.py")],
        "filter": [path.stem for path in installed.glob("plugins/filter/*.py")],
        "lookup": [path.stem for path in installed.glob("plugins/lookup/*.py")],
        "role": [path.parents[1].name for path in installed.glob("roles/*/meta/argument_specs.yml")],
    }.items():
        wanted = {f"kubenode.ipvs.{name}" for name in names if not name.startswith("_")}
        if wanted:
            text = run("ansible-doc", "--json", "--type", kind, *sorted(wanted), within=core)
            if missing := wanted - json.loads(text[text.index("{") :]).keys():
                raise CheckError(f"ansible-doc finds no documentation of {kind} {', '.join(sorted(missing))}")
    playbooks = sorted(f"kubenode.ipvs.{path.stem}" for path in installed.glob("playbooks/*.yml"))
    inventory = ROOT / "tests/tools/smoke.ini"
    run("ansible-playbook", "-i", inventory, "--syntax-check", *playbooks, within=core)
    output = run("ansible-playbook", "-i", inventory, ROOT / "tests/tools/smoke.yml", within=core)
    if not re.search(r"localhost +: ok=[1-9]\d* +changed=0 +unreachable=0 +failed=0", output) or "DEPRECAT" in output:
        raise CheckError(output[-3000:])


def main() -> int:
    """Check every version; return 1 if one fails."""
    artifact, by_minor = Path(sys.argv[1]).resolve(), pythons()
    chosen = []
    for core in CORES:
        fitting = [by_minor[minor] for minor in range(core.oldest, core.newest + 1) if minor in by_minor]
        if fitting:
            chosen.append((core, fitting[0]))
        else:
            print(
                f"  ansible-core {core.version} wants Python 3.{core.oldest} to 3.{core.newest}, which this machine"
                " lacks"
            )
    with ThreadPoolExecutor(max_workers=2) as pool:
        cases = list(pool.map(lambda each: check(*each, artifact), chosen))
    junit.write(REPORT, cases)
    failed = sum(case.problem is not None for case in cases)
    print(f"matrix: {len(cases) - failed} passed, {failed} failed")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
