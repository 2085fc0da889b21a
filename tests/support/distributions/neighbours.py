# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of the role prepare for NetworkManager, systemd-networkd and firewalld, as Ansible would write them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader

ROLE = Path(__file__).resolve().parents[3] / "roles/prepare"
_FILES = yaml.safe_load((ROLE / "vars/main.yml").read_text())["prepare_neighbour_files"]
PATHS = [entry["path"] for entry in _FILES]
FILES = {re.findall(r"'([\w.]+\.j2)'", entry["text"])[0]: entry["path"] for entry in _FILES}  # template: path
FIREWALLD = ("firewalld_zone.xml.j2", "firewalld_policy.xml.j2")
VARIABLES = {
    "prepare_firewalld_sources": ["10.244.0.0/16", "fd00:244::/32"],
    "prepare_firewalld_addresses": ["10.96.0.0/16", "fd00:96::/108"],
    "prepare_firewalld_ports": ["30000-30100/tcp"],
}


def render(name: str, **variables: Any) -> str:
    """Return the text of a template of the role."""
    environment = Environment(loader=FileSystemLoader(ROLE / "templates"), trim_blocks=True, keep_trailing_newline=True)
    return environment.get_template(name).render(**(variables or VARIABLES))
