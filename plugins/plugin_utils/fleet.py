# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report of the playbook verify as one table: nodes x checks, each cell a verdict with its reasons.

A result is the return value of an Ansible task: ``lines`` lists the steps to do, ``msg`` with ``failed`` is the reason
why none is possible.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

# Columns, in the order of the roles' tasks: a name, and the key of its result in the data that verify collects.
CHECKS = (
    ("node", "node"),
    ("packages", "packages"),
    ("kernel settings", "kernel"),
    ("swap", "swap"),
    ("other files", "files"),
    ("agent installed", "install"),
    ("agent runs", "status"),
    ("state in the kernel", "plan"),
    ("connections", "flows"),
)
_FLOWS = "flows"  # a column only if the playbook got connections to verify
_OF_PREPARE = ("packages", "kernel", "swap", "files")
# Checks by a command (kubenode status, kubenode plan), with its exit status for ok and for drift.
_ASKED = {"status": (0, 3), "plan": (0, 2)}
_KUBECTL_EXEC = re.compile(r"command terminated with exit code \d+$")  # of `kubectl exec`, which also returns it
# From good to bad; a node has the verdict of its worst check.
OK, UNKNOWN, DRIFT, FAILED, UNREACHABLE = VERDICTS = ("ok", "unknown", "drift", "failed", "unreachable")


class Check(NamedTuple):
    """One cell: its verdict, and the steps to do or the reasons of a failure."""

    name: str
    verdict: str
    lines: tuple[str, ...]


class NodeReport(NamedTuple):
    """Row of one node.

    ``facts`` describes the node, ``servers`` counts (virtual servers, real servers, those of weight 0).
    """

    name: str
    verdict: str
    checks: tuple[Check, ...]
    facts: str
    servers: tuple[int, int, int] | None


class FleetError(ValueError):
    """Error for data in another form than the playbook verify collects."""


def fleet(collected: Any) -> list[NodeReport]:
    """Return the rows, in the order given.

    Args:
        collected: by node, the data of verify: results by the keys of ``CHECKS`` (a list if several tasks make up one
            check), ``prepared`` if the role prepare completed, ``error`` with the error that stopped it, ``table`` with
            the result of ipvs_services_info, ``check`` that of kubenode check, ``flows`` that of flow_info. Empty for a
            node that did not answer.

    Raises:
        FleetError: ``collected`` is no mapping of mappings.
    """
    if not isinstance(collected, Mapping):
        raise FleetError(f"reports are {type(collected).__name__}, expected a mapping from nodes to what was collected")
    for name, results in collected.items():
        if results is not None and not isinstance(results, Mapping):
            raise FleetError(f"report of {name} is {type(results).__name__}, expected a mapping")
    with_flows = any((results or {}).get(_FLOWS) is not None for results in collected.values())
    checks = [(title, key) for title, key in CHECKS if with_flows or key != _FLOWS]
    return [_node(str(name), results or {}, checks) for name, results in collected.items()]


def _node(name: str, results: Mapping[str, Any], columns: list[tuple[str, str]]) -> NodeReport:
    node = results.get("node") or {}
    if not node or node.get("unreachable"):
        first, *others = (title for title, _key in columns)
        checks = (Check(first, UNREACHABLE, _words(node.get("msg"))), *(Check(title, UNKNOWN, ()) for title in others))
        return NodeReport(name, UNREACHABLE, checks, "", None)
    checks = tuple(_check(title, key, results) for title, key in columns)
    worst = max((check.verdict for check in checks), key=VERDICTS.index)
    return NodeReport(name, worst, checks, _facts(node), _servers(results.get("table")))


def _check(title: str, key: str, results: Mapping[str, Any]) -> Check:
    registered = results.get(key)
    if key == "node":
        return _about_node(title, results)
    given = [
        result
        for result in (registered if isinstance(registered, list) else [registered])
        if isinstance(result, Mapping)
    ]
    ran = [result for result in given if not result.get("skipped")]
    if key == _FLOWS:
        return _about_flows(title, ran[0]) if ran else Check(title, UNKNOWN, ())
    failed = [word for result in ran if result.get("failed") for word in _words(result.get("msg"))]
    if failed:
        return Check(title, FAILED, tuple(failed))
    if key in _ASKED:
        check = _about_command(title, ran[0], *_ASKED[key]) if ran else Check(title, UNKNOWN, ())
        return _about_agent(check, results.get("check")) if key == "status" else check
    if not ran:  # skipped, as there was nothing to do, if the role completed
        return Check(title, OK if key in _OF_PREPARE and results.get("prepared") else UNKNOWN, ())
    lines = tuple(line for result in ran if result.get("changed") for line in _lines(result))
    return Check(title, DRIFT if lines else OK, lines)


def _about_node(title: str, results: Mapping[str, Any]) -> Check:
    node, error = results["node"], results.get("error")
    refused = tuple(map(str, node.get("refused") or ())) if not node.get("failed") else _words(node.get("msg"))
    if refused:
        return Check(title, FAILED, refused)
    if error and not any(isinstance(result, Mapping) and result.get("failed") for result in results.values()):
        return Check(title, FAILED, _words(error))
    problems = tuple(map(str, node.get("problems") or ()))
    return Check(title, DRIFT if problems else OK, problems)


def _about_agent(check: Check, asked: Any) -> Check:
    """Return the verdict on the agent's status with what ``kubenode check`` refuses, such as kube-proxy beside it."""
    lines = _words(asked.get("stdout")) if isinstance(asked, Mapping) else ()
    refused = tuple(line.partition("FAIL")[2].strip() for line in lines if line.startswith("FAIL "))
    return check._replace(verdict=FAILED, lines=refused + check.lines) if refused else check


def _about_command(title: str, result: Mapping[str, Any], good: int, drift: int) -> Check:
    """Judge a command's result by its exit status and its standard error.

    ``good`` is the status for nothing to do, ``drift`` that for something to do. Any other status is a failure.
    """
    complaints = tuple(line for line in _words(result.get("stderr")) if not _KUBECTL_EXEC.match(line))
    if result.get("rc") == good:
        return Check(title, FAILED if complaints else OK, complaints)
    if result.get("rc") == drift:
        return Check(title, FAILED if complaints else DRIFT, complaints + _words(result.get("stdout")))
    return Check(
        title, FAILED, complaints or _words(result.get("msg")) or (f"it ended with exit status {result.get('rc')}",)
    )


def _about_flows(title: str, result: Mapping[str, Any]) -> Check:
    """Judge the result of flow_info: a connection with a fault fails, one that cannot be judged is unknown."""
    explained = [flow for flow in result.get("flows") or () if isinstance(flow, Mapping)]
    faults = tuple(
        f"{flow['flow']}: {flow['fault']['text']}; remedy: {flow['fault']['remedy']}"
        for flow in explained
        if flow.get("fault")
    )
    if result.get("failed"):
        # The module's message has one part for each flow that cannot be.
        return Check(title, FAILED, (*re.split(r"; (?=flows\[\d+\]: )", str(result.get("msg") or "")), *faults))
    if faults:
        return Check(title, FAILED, faults)
    doubtful = tuple(
        f"{flow['flow']}: cannot be judged: {'; '.join((*flow['doubts'], *flow['lacking'])) or flow['summary']}"
        for flow in explained
        if flow.get("verdict") != "arrives"
    )
    arriving = tuple(f"{flow['flow']}: {flow['summary']}" for flow in explained if flow.get("verdict") == "arrives")
    return Check(title, UNKNOWN, doubtful) if doubtful else Check(title, OK, arriving)


def _lines(result: Mapping[str, Any]) -> list[str]:
    """Return the lines of a changed result: its own lines, its loop's changed items, or its file."""
    items = [
        item.get("item") for item in result.get("results", ()) if isinstance(item, Mapping) and item.get("changed")
    ]
    about = [str(item.get("path", item)) if isinstance(item, Mapping) else str(item) for item in items]
    return [
        str(line) for line in result.get("lines") or about or [result.get("dest") or result.get("path") or "differs"]
    ]


def _words(text: Any) -> tuple[str, ...]:
    return tuple(line.strip() for line in str(text or "").splitlines() if line.strip())


def _facts(node: Mapping[str, Any]) -> str:
    system = node.get("distribution") or {}
    virtual = node.get("virtualization")
    words = [
        f"{system.get('id', '')} {system.get('version', '')}".strip(),
        f"kernel {node.get('kernel', '?')}",
        f"iptables {node['iptables']}" if node.get("iptables") else "",
        str(virtual) if virtual not in (None, "none") else "",
    ]
    return ", ".join(word for word in words if word)


def _servers(table: Any) -> tuple[int, int, int] | None:
    if not isinstance(table, Mapping) or not isinstance(table.get("services"), list):
        return None
    weights = [real.get("weight", 1) for service in table["services"] for real in service.get("real_servers", ())]
    return len(table["services"]), len(weights), sum(weight == 0 for weight in weights)


def as_data(reports: list[NodeReport]) -> dict[str, Any]:
    """Return the table as data for JSON."""
    return {
        "nodes": [
            {
                "name": report.name,
                "verdict": report.verdict,
                "facts": report.facts,
                "virtual_servers": report.servers[0] if report.servers else None,
                "real_servers": report.servers[1] if report.servers else None,
                "draining": report.servers[2] if report.servers else None,
                "checks": [
                    {"name": check.name, "verdict": check.verdict, "lines": list(check.lines)}
                    for check in report.checks
                ],
            }
            for report in reports
        ],
        "summary": {verdict: sum(report.verdict == verdict for report in reports) for verdict in VERDICTS},
    }
