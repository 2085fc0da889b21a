# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter ``fleet_report``: the report of the playbook verify as text, JSON or HTML."""

from __future__ import annotations

import json
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: fleet_report
short_description: Report the state of nodes as text, JSON or one HTML page
version_added: 0.1.0
description:
  - Used by the playbook C(kubenode.ipvs.verify). Makes a table of nodes and checks from the results of tasks that ran
    in check mode.
  - The page is one self-contained file, follows the light or dark setting of the browser, and escapes all text from
    nodes. It sorts and filters nodes, and makes no request to anywhere.
author:
  - The kubenode.ipvs maintainers (@kubenode)
positional: _input, format, runs, time
options:
  _input:
    description:
      - The collected results by node, an empty dictionary for a node that could not be reached.
      - The results of tasks by the names C(node), C(packages), C(kernel), C(swap), C(files), C(install), C(status),
        C(check), C(plan), C(flows) and C(table). C(prepared) is set if the role P(kubenode.ipvs.prepare#role) ended
        without an error. C(error) has the message of a failure.
    type: dict
    required: true
  format:
    description:
      - The format of the report.
    type: str
    choices: [text, json, html]
    default: text
  runs:
    description:
      - The directory on the controller with the reports of former runs as JSON, named C(20261124T124118Z.json) after
        their time. The report has the changes since the last one, the page also the drift over time.
      - A file of another name is ignored. A file that cannot be read is named in the report, and left out.
    type: str
    default: ""
  time:
    description:
      - The time of this run, for example V(2026-11-24T12:41:18Z).
    type: str
    default: ""
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

FORMATS = ("text", "json", "html")


def fleet_report(collected: Any, format: str = "text", runs: str = "", time: str = "") -> str:
    """Return the report in one of the formats."""
    # Imported here: for any filter, Ansible loads all filters of a collection, in the process of each task.
    from ansible_collections.kubenode.ipvs.plugins.plugin_utils.fleet import FleetError, as_data, fleet
    from ansible_collections.kubenode.ipvs.plugins.plugin_utils.fleet_html import page
    from ansible_collections.kubenode.ipvs.plugins.plugin_utils.fleet_runs import (
        changes_as_data,
        compare,
        present,
        read,
    )
    from ansible_collections.kubenode.ipvs.plugins.plugin_utils.fleet_text import text

    if format not in FORMATS:
        raise AnsibleFilterError(
            f"kubenode.ipvs.fleet_report: format is {format!r}, expected one of {', '.join(FORMATS)}"
        )
    try:
        reports = fleet(collected)
    except FleetError as error:
        raise AnsibleFilterError(f"kubenode.ipvs.fleet_report: {error}") from error
    kept, problems = read(str(runs)) if runs else ([], [])
    if format == "html":
        return page(reports, kept, problems, str(time))
    changes = compare(kept[-1], present(reports, str(time))) if kept else None
    if format == "json":
        data = {"time": str(time), **as_data(reports), "changes": changes_as_data(changes)}
        return json.dumps(data, indent=1) + "\n"
    return text(reports, changes, problems)


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"fleet_report": fleet_report}
