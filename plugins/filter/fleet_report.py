# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter ``fleet_report``: the report of the playbook verify as text, JSON or HTML."""

from __future__ import annotations

import json
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ansible_collections.kubenode.ipvs.plugins.plugin_utils.fleet import FleetError, as_data, fleet
from ansible_collections.kubenode.ipvs.plugins.plugin_utils.fleet_html import page
from ansible_collections.kubenode.ipvs.plugins.plugin_utils.fleet_text import text

DOCUMENTATION = r"""
name: fleet_report
short_description: Report the state of nodes as text, JSON or one HTML page
version_added: 0.1.0
description:
  - Used by the playbook C(kubenode.ipvs.verify). Makes a table of nodes and checks from the results of tasks that ran
    in check mode.
  - The page is one self-contained file, follows the light or dark setting of the browser, and escapes all text from
    nodes.
author:
  - The kubenode.ipvs maintainers (@kubenode)
positional: _input, format
options:
  _input:
    description:
      - The collected results by node, an empty dictionary for a node that could not be reached.
      - The results of tasks by the names C(node), C(packages), C(kernel), C(swap), C(files), C(install), C(status),
        C(plan) and C(table). C(prepared) is set if the role P(kubenode.ipvs.prepare#role) ended without an error.
        C(error) has the message of a failure.
    type: dict
    required: true
  format:
    description:
      - The format of the report.
    type: str
    choices: [text, json, html]
    default: text
"""

EXAMPLES = r"""
- name: Show the report
  ansible.builtin.debug:
    msg: "{{ {'node1': {'node': found}} | kubenode.ipvs.fleet_report }}"
"""

RETURN = r"""
_value:
  description: The report.
  type: str
"""

FORMATS: dict[str, Callable[..., str]] = {
    "text": text,
    "json": lambda reports: json.dumps(as_data(reports), indent=1) + "\n",
    "html": page,
}


def fleet_report(collected: Any, format: str = "text") -> str:
    """Return the report in one of the formats."""
    if format not in FORMATS:
        raise AnsibleFilterError(
            f"kubenode.ipvs.fleet_report: format is {format!r}, expected one of {', '.join(FORMATS)}"
        )
    try:
        return FORMATS[format](fleet(collected))
    except FleetError as error:
        raise AnsibleFilterError(f"kubenode.ipvs.fleet_report: {error}") from error


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"fleet_report": fleet_report}
