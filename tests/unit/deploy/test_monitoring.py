# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules and dashboard of deploy/monitoring: promtool's checks and tests, existing metrics and labels, runbooks."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools import dashboard

from kubenode.daemon.outputs.exposition import Histogram
from kubenode.daemon.outputs.metrics import Metrics

ROOT = Path(__file__).parents[3]
MONITORING = ROOT / "deploy/monitoring"
RULES, DASHBOARD = MONITORING / "rules.yaml", MONITORING / "dashboard.json"
PAGE = (ROOT / "docs/how-to/alerts.md").read_text(encoding="utf-8")
RUNBOOKS = "https://github.com/kubenode/ipvs/blob/main/docs/how-to/alerts.md#"
OF_PROMETHEUS = {"up": {"job", "instance"}}
OF_TARGETS = {"job", "instance"}
SIZES = {"stat": 1, "timeseries": 1}


def samples() -> dict[str, set[str]]:
    """Return the labels of every sample that the agent can have, by its name."""
    found = dict(OF_PROMETHEUS)
    for metric in Metrics("")._all():
        labels = {*metric.labels, *OF_TARGETS}
        found[metric.name] = labels
        if isinstance(metric, Histogram):
            found.update({f"{metric.name}_sum": labels, f"{metric.name}_count": labels})
            found[f"{metric.name}_bucket"] = {*labels, "le"}
    return found


def unknown(expression: str) -> list[str]:
    """Return the metrics of an expression that do not exist, and the labels that none of its metrics has."""
    known = samples()
    text = re.sub(r'"[^"]*"', '""', expression)
    metrics = re.findall(r"\b(?:up|kubenode_\w+|kubeproxy_\w+|process_\w+)\b", text)
    labels = {label for part in re.findall(r"\{([^}]*)\}", text) for label in re.findall(r"(\w+)\s*=", part)}
    labels |= {name.strip() for part in re.findall(r"\bby \(([^)]*)\)", text) for name in part.split(",")}
    existing = set().union(*(known.get(metric, set()) for metric in metrics))
    assert metrics, expression
    return [metric for metric in metrics if metric not in known] + sorted(labels - existing)


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    return [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]


def promtool(*words: str) -> None:
    done = subprocess.run(["promtool", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_accepts_the_rules() -> None:
    promtool("check", "rules", str(RULES))


def test_alerts_fire_and_stay_silent(tmp_path: Path) -> None:
    shutil.copy(RULES, tmp_path)
    shutil.copy(Path(__file__).parent / "rules_test.yaml", tmp_path)
    promtool("test", "rules", str(tmp_path / "rules_test.yaml"))


def test_each_alert_has_its_cases() -> None:
    cases = yaml.safe_load((Path(__file__).parent / "rules_test.yaml").read_text())["tests"]
    names = {rule["alert"] for rule in rules()}
    assert {case["alertname"] for case in cases[0]["alert_rule_test"]} == names
    fired = {sample["labels"] for case in cases[1]["promql_expr_test"] for sample in case["exp_samples"]}
    assert fired == {f'{{alertname="{name}"}}' for name in names}


def test_unknown_metrics_and_labels_are_found() -> None:
    assert unknown('sum by (instance, abut) (kubenode_problem{jb="x"}) + up') == ["kubenode_problem", "abut", "jb"]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_alert_uses_existing_metrics_and_a_runbook(rule: dict[str, Any]) -> None:
    assert unknown(rule["expr"]) == []
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert rule["annotations"]["runbook_url"] == f"{RUNBOOKS}{rule['alert'].lower()}"
    section = PAGE.split(f"\n## {rule['alert']}\n")[1]
    assert section.startswith("\n```console\nkubenode explain --service NS/NAME --port P --from IP\n```\n")


def test_page_has_the_alerts_of_the_rules_only() -> None:
    assert re.findall(r"^## (.*)$", PAGE, re.MULTILINE) == [rule["alert"] for rule in rules()]


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_panel_uses_existing_metrics(panel: dict[str, Any]) -> None:
    assert panel["type"] in SIZES
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert [target["refId"] for target in panel["targets"]] == [chr(65 + n) for n in range(len(panel["targets"]))]
    for target in panel["targets"]:
        assert unknown(target["expr"]) == []
        given = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        assert given <= set(re.findall(r"\w+", target["expr"])) | OF_TARGETS


def test_queries_of_the_dashboard_are_promql(tmp_path: Path) -> None:
    """promtool parses expressions of rules; Grafana's variables get a value first."""
    queries = [target["expr"] for panel in panels() for target in panel["targets"]]
    texts = [query.replace("$__rate_interval", "5m").replace("$instance", ".*") for query in queries]
    listed = [{"record": f"panel:query:{number}", "expr": text} for number, text in enumerate(texts)]
    path = tmp_path / "queries.yaml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": listed}]}))
    promtool("check", "rules", str(path))


def test_dashboard_is_what_its_tool_writes() -> None:
    assert DASHBOARD.read_text(encoding="utf-8") == dashboard.text(), "run: python tests/tools/dashboard.py"


def test_panels_do_not_overlap_and_variables_exist() -> None:
    board = json.loads(DASHBOARD.read_text())
    cells: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        box = panel["gridPos"]
        assert box["x"] + box["w"] <= 24
        own = {(x, y) for x in range(box["x"], box["x"] + box["w"]) for y in range(box["y"], box["y"] + box["h"])}
        assert not cells & own, panel["title"]
        cells |= own
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    names = {variable["name"] for variable in board["templating"]["list"]}
    used = {name for name in re.findall(r"\$\{?(\w+)", json.dumps(board)) if not name.startswith("__")}
    assert used <= names
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]).groups()
            assert label in samples()[metric]
