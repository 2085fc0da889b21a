# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write deploy/monitoring/dashboard.json with Grafana's own library, which knows fields, types and defaults.

    python tests/tools/dashboard.py

tests/unit/deploy/test_monitoring.py compares the file with :func:`text`.
"""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    DataSourceRef,
    GridPos,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

PATH = Path(__file__).parents[2] / "deploy/monitoring/dashboard.json"
ALERTS = "https://github.com/kubenode/ipvs/blob/main/docs/how-to/alerts.md"
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
NODES = 'instance=~"$instance"'
SERVICES = f'{NODES}, namespace=~"$namespace"'
OF_SERVICE = "sum by (namespace, service, port)"
PORT = "{{namespace}}/{{service}}:{{port}}"
WIDTH = 24  # columns of a dashboard


class Panel(NamedTuple):
    """One panel: its queries are pairs of an expression and a legend. ``stat`` shows one number, else a plot."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    description: str = ""
    is_stat: bool = False


def _number(title: str, description: str, query: str, legend: str) -> Panel:
    return Panel(title, "short", ((query, legend),), description, True)


def _rate(query: str) -> str:
    return f"rate({query}[$__rate_interval])"


def _quantile(share: float, metric: str, by: str = "le") -> str:
    return f"histogram_quantile({share:g}, sum by ({by}) ({_rate(f'{metric}_bucket{{{NODES}}}')}))"


def _increase(metric: str) -> str:
    return f"sum by (instance) (increase({metric}{{{NODES}}}[$__rate_interval]))"


def _busiest(title: str, unit: str, value: str, description: str = "The ten busiest Service ports.") -> Panel:
    return Panel(title, unit, ((f"topk(10, {OF_SERVICE} ({value}))", PORT),), description)


_TO_KERNEL = "kubeproxy_network_programming_duration_seconds"
_PASSES = "kubeproxy_sync_proxy_rules_duration_seconds"
ROWS: dict[str, tuple[Panel, ...]] = {
    "Agents": (
        _number("Agents", "Agents that answer, by release.",
                f"count by (version) (kubenode_build_info{{{NODES}}})", "{{version}}"),
        _number("Problems", "Objects, settings and steps that could not be used or done. kubenode status names them.",
                f"sum(kubenode_problems{{{NODES}}}) or vector(0)", "problems"),
        _number("Draining real servers", "Real servers that wait for their last connection to end.",
                f"sum(kubenode_draining_real_servers{{{NODES}}})", "draining"),
        _number("Contested virtual servers", "Virtual servers that one Service claims and another one holds.",
                f"sum(kubenode_contested_virtual_servers{{{NODES}}}) or vector(0)", "contested"),
    ),
    "Convergence": (
        Panel("From the API to the kernel", "s",
              ((_quantile(0.5, _TO_KERNEL), "median"), (_quantile(0.99, _TO_KERNEL), "99th percentile")),
              "Time from the change of an endpoint to the kernel."),
        Panel("Duration of passes", "s", ((_quantile(0.99, _PASSES, "le, ip_family"), "{{ip_family}}"),)),
        Panel("Steps", "ops",
              ((f"sum by (kind, verb) ({_rate(f'kubenode_steps_total{{{NODES}}}')})", "{{verb}} {{kind}}"),),
              "Completed steps by kind and verb."),
        Panel("Refused steps and drift", "short",
              ((_increase("kubenode_failed_steps_total"), "refused {{instance}}"),
               (_increase("kubenode_drift_healed_total"), "drift {{instance}}")),
              "Steps that the kernel refused, and changes of other processes that were reverted."),
        Panel("Problems by subject", "short", ((f"sum by (about) (kubenode_problems{{{NODES}}})", "{{about}}"),)),
        Panel("Desired items", "short", ((f"max by (kind) (kubenode_desired_items{{{NODES}}})", "{{kind}}"),),
              "Items of the desired state, the largest node."),
    ),
    "Traffic of Services (metrics.services)": (
        _busiest("Connections", "cps", _rate(f"kubenode_service_connections_total{{{SERVICES}}}")),
        _busiest("Bytes", "Bps", _rate(f"kubenode_service_bytes_total{{{SERVICES}}}")),
        _busiest("Packets", "pps", _rate(f"kubenode_service_packets_total{{{SERVICES}}}")),
        _busiest("Active connections", "short", f"kubenode_service_active_connections{{{SERVICES}}}",
                 "The ten Service ports with the most."),
    ),
    "Cost of the agent": (
        Panel("Processor", "percentunit",
              ((_rate(f'process_cpu_seconds_total{{job="kube-proxy", {NODES}}}'), "{{instance}}"),)),
        Panel("Memory", "bytes",
              ((f'process_resident_memory_bytes{{job="kube-proxy", {NODES}}}', "{{instance}}"),)),
    ),
}  # fmt: skip


def _panel(panel: Panel) -> Any:
    built: Any
    if panel.is_stat:
        built = stat.Panel().reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    else:
        legend = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
        built = timeseries.Panel().legend(legend.show_legend(True))
    built.title(panel.title).description(panel.description).unit(panel.unit).min(0).datasource(SOURCE)
    for letter, (expression, name) in zip("ABC", panel.queries, strict=False):
        query = prometheus.Dataquery().expr(expression).legend_format(name).ref_id(letter).range()
        built.with_target(query.datasource(SOURCE))
    return built


def _variable(name: str, label: str, metric: str) -> Any:
    everything = VariableOption(selected=True, text=["All"], value=["$__all"])
    variable = dashboard.QueryVariable(name).label(label).query(f"label_values({metric}, {name})")
    variable.datasource(SOURCE).refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)
    return variable.multi(True).include_all(True).all_value(".*").current(everything)


def text() -> str:
    """Return the dashboard as JSON."""
    board = dashboard.Dashboard("kubenode: service proxy").uid("kubenode-agent").version(1).editable()
    board.description("Agents, convergence and traffic of Services").tags(["kubenode", "ipvs"])
    board.refresh("30s").timezone("browser").time("now-3h", "now")
    link = dashboard.DashboardLink("Alerts and runbooks").type(DashboardLinkType.LINK).url(ALERTS).target_blank(True)
    board.link(link)
    board.with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    board.with_variable(_variable("instance", "Node", "kubenode_build_info"))
    board.with_variable(_variable("namespace", "Namespace", "kubenode_service_connections_total"))
    numbers, y = count(1), 0
    for title, panels in ROWS.items():
        board.with_row(dashboard.Row(title).id(next(numbers)).grid_pos(GridPos(h=1, w=WIDTH, x=0, y=y)))
        y, x = y + 1, 0
        for panel in panels:
            height, width = (5, 6) if panel.is_stat else (8, 12)
            board.with_panel(_panel(panel).id(next(numbers)).grid_pos(GridPos(h=height, w=width, x=x, y=y)))
            x = (x + width) % WIDTH
            y += 0 if x else height
    return str(JSONEncoder(sort_keys=True, indent=2).encode(board.build())) + "\n"


def main() -> int:
    """Write the file."""
    PATH.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
