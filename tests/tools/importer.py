# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Import the artifact as Ansible Galaxy does when it is published (part of `make lint`).

    python tests/tools/importer.py

galaxy-importer is the program that Galaxy runs. It needs older packages than our tools, and so an environment of its
own, in .cache/importer. Its sanity tests, ansible-lint and flake8 are off: `make sanity` and `make lint` check the
same.
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml
from environments import CheckError, environment, run

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache/importer"
DIST = ROOT / ".cache/dist"  # `make` builds the artifact there
REQUIREMENTS = ROOT / "requirements/importer.txt"
SETTINGS = """\
[galaxy-importer]
CHECK_REQUIRED_TAGS = True
RUN_ANSIBLE_LINT = False
RUN_ANSIBLE_TEST = False
RUN_FLAKE8 = False
"""
# The line with which the importer ends; a line with one of these words before it is a complaint.
PASSED = "Importer processing completed successfully"
COMPLAINTS = ("ERROR", "WARNING", "violation")


def check(artifact: Path) -> str:
    """Import an artifact; return what the importer printed.

    Raises:
        CheckError: Galaxy would refuse it, or has a complaint.
    """
    directory = environment(CACHE, sys.executable, REQUIREMENTS)
    settings = directory / "importer.cfg"
    settings.write_text(SETTINGS)
    command = (directory / "bin/python", "-m", "galaxy_importer.main", artifact)
    printed = run(*command, within=directory, GALAXY_IMPORTER_CONFIG=str(settings))
    if PASSED not in printed or any(word in printed for word in COMPLAINTS):
        raise CheckError(printed)
    return printed


def main() -> int:
    """Import the artifact of the present version; return 1 if the importer complains."""
    version = yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"]
    try:
        check(DIST / f"kubenode-ipvs-{version}.tar.gz")
    except CheckError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
