# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reference pages against the sources, both ways: settings, metrics, log fields, commands, variables, files, ports."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubenode.cli.commands import COMMANDS
from kubenode.cli.parser import parser
from kubenode.daemon.outputs.metrics import Metrics
from kubenode.engine.desired.settings import Config
from kubenode.engine.desired.settings_fields import AGENT_FIELDS, KUBE_PROXY_FIELDS

ROOT = Path(__file__).parents[3]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
AGENT = [path for path in sorted((ROOT / "agent/src/kubenode").rglob("*.py")) if "engine" not in path.parts]
CODE = [
    path
    for part in ("plugins", "roles", "playbooks")
    for path in sorted((ROOT / part).rglob("*.*"))
    if path.suffix in (".py", ".yml", ".j2")
]


def page(name: str) -> str:
    """Return the text of a page."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """Return the text under a heading of a page."""
    return re.split(r"^## ", text.split(f"\n## {heading}\n")[1], flags=re.MULTILINE)[0]


def rows(text: str) -> list[list[str]]:
    """Return the cells of all tables in a text, without their headers."""
    lines = re.sub(r"^\|.*\n\|[-| ]+\|\n", "", text, flags=re.MULTILINE).splitlines()
    return [
        [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in lines
        if line.startswith("|")
    ]


def named(cell: str) -> list[str]:
    """Return the names that a cell has in code spans."""
    return re.findall(r"`([^`\n]+)`", cell)


def everywhere() -> str:
    """Return the text of all pages."""
    return "\n".join(path.read_text(encoding="utf-8") for path in PAGES)


@pytest.mark.parametrize(
    ("heading", "fields"), [("KubeProxyConfiguration", KUBE_PROXY_FIELDS), ("AgentConfiguration", AGENT_FIELDS)]
)
def test_settings_match_the_page(heading: str, fields: dict[str, object]) -> None:
    text = section(page("reference/configuration.md"), heading)
    documented = [name for row in rows(text) for name in named(row[0])]
    assert sorted(documented) == sorted(name for name, field in fields.items() if field is not None)


def spellings(value: object) -> set[str]:
    """Return the spellings of a default that the page may use."""
    if isinstance(value, bool):
        return {f"`{value}`".lower()}
    if isinstance(value, tuple):
        return {f"`{value[0]}:{value[1]}`"} if value else {"none", "all", '`""`'}
    if isinstance(value, (int, float)):
        units = {"s": value, "m": value / 60, "h": value / 3600, "Mi": value / (1 << 20)}
        return {
            f"`{value:g}`",
            f"`{value:.0f}`",
            *(f"`{number:.0f}{unit}`" for unit, number in units.items() if number == int(number)),
        }
    return {f"`{value}`"} if value else {'`""`', "host name"}


@pytest.mark.parametrize(
    ("heading", "fields"), [("KubeProxyConfiguration", KUBE_PROXY_FIELDS), ("AgentConfiguration", AGENT_FIELDS)]
)
def test_the_defaults_of_settings_are_those_of_the_code(heading: str, fields: dict[str, Any]) -> None:
    for names, default, _what in rows(section(page("reference/configuration.md"), heading)):
        given = default.split(", ")
        for number, name in enumerate(named(names)):
            if name != "mode":  # the default of mode is empty, and so is its column
                assert given[min(number, len(given) - 1)] in spellings(getattr(Config(), fields[name].attribute)), name


def test_every_metric_is_on_the_page_with_its_type_and_labels() -> None:
    documented = {
        (named(name)[0], kind, tuple(named(labels)))
        for name, kind, labels, _what in rows(section(page("reference/observe.md"), "Metrics"))
    }
    assert documented == {(metric.name, metric.kind, metric.labels) for metric in Metrics("")._all()}


def test_metrics_that_pages_name_are_measured() -> None:
    measured = {metric.name for metric in Metrics("")._all()}
    assert set(re.findall(r"\bkube(?:proxy|node)_[a-z_]+_(?:total|seconds|info|pending)\b", everywhere())) <= measured


def logged(source: str) -> set[str]:
    """Return the names of the fields in all calls of a log."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    logs = [call for call in calls if re.search(r"\b_?log\.(debug|info|warning|error)$|^say$", ast.unparse(call.func))]
    return {keyword.arg for call in logs for keyword in call.keywords if keyword.arg is not None}


def test_log_fields_match_the_page() -> None:
    documented = {name for row in rows(section(page("reference/observe.md"), "Log")) for name in named(row[0])}
    sources = [path.read_text(encoding="utf-8") for path in AGENT]
    assert {name for source in sources for name in logged(source)} <= documented
    assert [
        name for name in documented if not any(re.search(rf'\b{name}=|"{name}":', source) for source in sources)
    ] == []


def test_every_command_is_on_the_page_with_its_exit_statuses() -> None:
    documented = {named(row[0])[0]: row[3] for row in rows(page("reference/command-line.md")) if len(row) == 4}
    manuals = {name: importlib.import_module(f"kubenode.cli.{name}").__doc__ or "" for name in COMMANDS}
    usage = {
        name: set(re.findall(r"\b\d+\b", manual.split("Exit status:")[1])) - {"64"} for name, manual in manuals.items()
    }
    assert documented == {f"kubenode {name}": ", ".join(sorted(statuses)) for name, statuses in usage.items()}


def commands(text: str) -> list[tuple[str, list[str]]]:
    """Return the calls of ``kubenode`` in blocks and code spans: (command, options)."""
    code = "\n".join([*re.findall(r"^(?: {4}|\t).*$", text, flags=re.MULTILINE), *re.findall(r"`([^`\n]+)`", text)])
    calls = re.findall(r"(?:^|[\s;'\"(])kubenode ([a-z]+)((?: [^\n;|'\"`)]*)?)", code)
    return [(command, re.findall(r"(?<!\S)--[a-z-]+", rest)) for command, rest in calls]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_that_a_page_shows_are_understood(path: Path) -> None:
    for command, options in commands(path.read_text(encoding="utf-8")):
        assert command in COMMANDS
        assert set(options) <= set(parser(command)[0]._option_string_actions), command


def test_a_wrong_command_is_found() -> None:
    assert commands("Say `kubenode plan --adopt` or\n\n    ssh n1 'kubenode state --sync; ls'\n") == [
        ("state", ["--sync"]),
        ("plan", ["--adopt"]),
    ]


def options_of_roles() -> set[str]:
    """Return the variables of all roles."""
    specs = [
        yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]
        for path in ROOT.glob("roles/*/meta/argument_specs.yml")
    ]
    return {name for spec in specs for entry in spec.values() for name in entry["options"]}


def test_variables_that_pages_name_are_there() -> None:
    internal = {
        name for path in ROOT.glob("roles/*/vars/main.yml") for name in yaml.safe_load(path.read_text(encoding="utf-8"))
    }
    playbooks = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("playbooks/*.yml"))
    text = everywhere()
    spans = {
        name
        for span in named(text)
        for name in re.findall(r"^((?:agent|kubeadm|migrate|prepare|kubenode)_[a-z_]+[a-z])(?=\W|$)", span)
    }
    given = set(re.findall(r"-e [\"'{]*([a-z_]+)[\"']?[=:]", text))
    known = (
        options_of_roles()
        | internal
        | {path.stem for path in ROOT.glob("plugins/modules/*.py")}
        | {metric.name for metric in Metrics("")._all()}
    )
    assert {name for name in (spans | given) - known if not re.search(rf"\b{name}\b", playbooks)} == set()


def test_names_of_the_collection_on_pages_exist() -> None:
    files = [
        path
        for part in ("playbooks", "plugins", "roles")
        for path in (ROOT / part).glob("*" if part == "roles" else "**/*")
    ]
    theirs = {"converging", "all", *(path.stem for path in files)}
    assert set(re.findall(r"\bkubenode\.ipvs\.([a-z_]+)", everywhere())) - theirs == set()


def test_files_of_the_repository_that_pages_name_are_there() -> None:
    tops = (
        r"(?:agent|changelogs|cli|daemon|docs|engine|meta|molecule|playbooks|plugins|requirements|roles|sources|tests)"
    )
    paths = {word for span in named(everywhere()) for word in span.split() if re.fullmatch(rf"{tops}/[\w./-]+", word)}
    places = (ROOT, ROOT / "agent/src/kubenode", ROOT / "plugins/module_utils")
    assert [name for name in sorted(paths) if not any((root / name).exists() for root in places)] == []


def test_every_variable_of_the_playbooks_is_on_a_page() -> None:
    pages = page("reference/playbooks.md") + page("how-to/converge.md") + page("how-to/verify.md")
    asked = {
        name
        for path in ROOT.glob("playbooks/*.yml")
        for name in re.findall(r"\b((?:kubenode_|state_)\w+)(?: \| default\(| is defined)", path.read_text())
    }
    internal = {"kubenode_node", "kubenode_table"}  # results of tasks
    assert {
        name
        for name in asked - internal
        if f"`{name}`" not in pages and not re.search(rf"^{name}:", pages, re.MULTILINE)
    } == set()


def files(text: str) -> set[str]:
    """Return the project's paths in a text; OWNER is any owner of a file."""
    paths = re.findall(r"/(?:etc|opt|run|usr|var)/[\w./<>-]*kubenode(?:[\w.-]|\{\w+\})*(?:/[\w.-]+)*", text)
    return {
        re.sub(r"kubenode-(?:OWNER|\{owner\}|ansible|prepare|converge)\.", "kubenode-OWNER.", path.rstrip("."))
        for path in paths
    }


def strange(paths: set[str]) -> set[str]:
    """Return the paths that are neither a documented path, nor below one, nor a parent of one."""
    known = {name for row in rows(section(page("reference/node.md"), "Files")) for name in named(row[0])}
    return {
        path
        for path in paths
        if not any(path == its or path.startswith(f"{its}/") or its.startswith(f"{path}/") for its in known)
    }


def test_every_file_on_a_node_is_on_the_page() -> None:
    paths = {path for file in CODE + AGENT for path in files(file.read_text(encoding="utf-8"))}
    # the user chooses where a completion goes
    assert strange({path for path in paths if "completion" not in path}) == set()


def test_files_that_pages_name_are_those_of_the_code() -> None:
    written = "".join(file.read_text(encoding="utf-8") for file in CODE + AGENT)
    assert strange(files(everywhere())) == set()
    for path in files(section(page("reference/node.md"), "Files")):
        last = path.rpartition("/")[2].replace("OWNER", "{owner}")
        assert last in written, path


def test_messages_quoted_by_troubleshooting_exist() -> None:
    texts = re.sub(r"\s+", " ", "".join(file.read_text(encoding="utf-8") for file in CODE + AGENT))
    programs = (
        "ansible-playbook ",
        "conntrack ",
        "iptables-save ",
        "journalctl ",
        "kubectl ",
        "kubenode ",
        "sysctl ",
        "systemctl ",
    )
    spans = [span for span in named(page("how-to/troubleshoot.md")) if " " in span and not span.startswith(programs)]
    messages = [
        span for span in spans if not re.fullmatch(r"[\w./]+: \w+", span) and span != "nf_conntrack: table full"
    ]
    assert len(messages) >= 8
    assert [part for message in messages for part in message.split("…") if part.strip() not in texts] == []


def test_ports_are_on_the_page() -> None:
    table = [
        row for row in rows(section(page("reference/observe.md"), "Where it listens")) if re.search(r"\d{5}", row[0])
    ]
    wanted = {("healthzBindAddress", str(Config().healthz[1])), ("metricsBindAddress", str(Config().metrics[1]))}
    assert {(named(setting)[0], re.findall(r"\d{5}", where)[0]) for where, _what, setting in table} == wanted
    paths = {path for _where, what, _setting in table for path in named(what)}
    assert paths == set(
        re.findall(r'path == "(/\w+)"', (ROOT / "agent/src/kubenode/daemon/outputs/health.py").read_text())
    )


def test_targets_of_make_match_the_page() -> None:
    targets = set(re.findall(r"^([a-z0-9]+):.*## ", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    shown = {name for text in named(everywhere()) for name in re.findall(r"^make ([a-z0-9]+)", text)}
    assert shown <= targets
    parts = re.findall(r"whole\.py ([a-z -]+)", (ROOT / "Makefile").read_text())[0].replace("--", "").split()
    documented = {
        name
        for row in rows(section(page("how-to/contribute.md"), "The commands"))
        for name in re.findall(r"`make ([a-z0-9]+)`", row[0])
    }
    assert {*parts, "test", "docs", "soak", "clean"} <= documented
