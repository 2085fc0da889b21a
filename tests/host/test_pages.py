# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pages of verify and of ``kubenode explain`` in a browser: 1,000 nodes, filter, sort, colours, narrow screens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agent.explanation import answer
from support.browser import Browser
from support.fleet import EVIL, fleet_of

from ansible_collections.kubenode.ipvs.plugins.filter.fleet_report import FilterModule
from kubenode.cli import explain_html

fleet_report = FilterModule().filters()["fleet_report"]
NODES = 1000
BAD = 300  # nodes of fleet_of(1000) that are not ok
# Elements of a node: its row, and its article if it needs attention. Bytes of the page for one node.
MOST_ELEMENTS, MOST_BYTES = 40, 6_000
NARROW, WIDE = (360, 740), (1400, 900)
BACKGROUNDS = {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    started = Browser(tmp_path_factory.mktemp("chromium"))
    yield started
    started.close()


@pytest.fixture(scope="module")
def fleet_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page of 1,000 nodes after two kept runs."""
    directory = tmp_path_factory.mktemp("report")
    for day in (22, 23):
        text = fleet_report(fleet_of(NODES, shift=day), "json", "", f"2026-11-{day}T06:00:00Z")
        (directory / f"202611{day}T060000Z.json").write_text(text)
    path = directory / "fleet.html"
    path.write_text(fleet_report(fleet_of(NODES), "html", str(directory), "2026-11-24T06:00:00Z"))
    return path


@pytest.fixture(scope="module")
def explain_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("explain") / "explain.html"
    path.write_text(explain_html.page(answer(flow=f"tcp {EVIL}")))
    return path


@pytest.fixture(params=["fleet_page", "explain_page"])
def page(request: pytest.FixtureRequest) -> Path:
    path: Path = request.getfixturevalue(request.param)
    return path


@pytest.fixture
def fleet(browser: Browser, fleet_page: Path) -> Browser:
    browser.resize(*WIDE)
    browser.open(fleet_page)
    return browser


def visible(browser: Browser) -> list[str]:
    """Return the names of the shown rows, in their order."""
    rows = "[...document.querySelectorAll('.nodes tbody tr')].filter(row => !row.hidden)"
    names: list[str] = browser.evaluate(f"{rows}.map(row => row.dataset.node)")
    return names


def shown_articles(browser: Browser) -> int:
    return int(browser.evaluate("[...document.querySelectorAll('article')].filter(each => !each.hidden).length"))


def find(browser: Browser, text: str) -> None:
    browser.evaluate(
        "(() => { const field = document.querySelector('#find');"
        f" field.value = {json.dumps(text)}; field.dispatchEvent(new Event('input')); }})()"
    )


def click(browser: Browser, selector: str) -> None:
    browser.evaluate(f"document.querySelector({json.dumps(selector)}).click()")


def test_page_requests_only_itself_without_errors(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.evaluate("document.readyState") == "complete"
    assert browser.requests == [page.resolve().as_uri()]
    assert browser.problems == []


def test_policy_of_the_page_stops_other_scripts(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<img src=\"https://192.0.2.1/\" onerror=\"window.evil = 1\">');"
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.evil = 1'}))"
    )
    assert browser.evaluate("window.evil") is None
    assert any("Content Security Policy" in problem for problem in browser.problems)


@pytest.mark.parametrize("scheme", BACKGROUNDS)
def test_page_follows_light_and_dark(browser: Browser, fleet_page: Path, explain_page: Path, scheme: str) -> None:
    browser.prefer(scheme)
    colours = []
    for path in (fleet_page, explain_page):
        browser.open(path)
        colours.append(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert colours[0] == BACKGROUNDS[scheme]
    assert sum(map(int, colours[1][4:-1].split(","))) > 600 or scheme == "dark"
    text = browser.evaluate("getComputedStyle(document.body).color")
    assert (sum(map(int, text[4:-1].split(","))) > 600) is (scheme == "dark")


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])
def test_page_needs_no_horizontal_scrolling(browser: Browser, page: Path, size: tuple[int, int]) -> None:
    browser.resize(*size)
    browser.open(page)
    assert browser.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert browser.evaluate("document.documentElement.clientWidth") == size[0]


def test_page_of_1000_nodes_is_bounded(fleet: Browser, fleet_page: Path) -> None:
    assert len(visible(fleet)) == NODES
    assert shown_articles(fleet) == BAD
    assert fleet.evaluate("document.querySelectorAll('*').length") <= MOST_ELEMENTS * NODES
    assert fleet_page.stat().st_size <= MOST_BYTES * NODES
    assert fleet.evaluate("document.querySelector('.find output').textContent") == "1000 of 1000 nodes"


def test_filter_finds_names_reasons_and_verdicts(fleet: Browser) -> None:
    find(fleet, "node-0042")
    assert visible(fleet) == ["node-0042"]
    find(fleet, "no SUCH thing")
    assert (visible(fleet), shown_articles(fleet)) == ([], 0)
    find(fleet, "kernel refuses")  # a reason of the failed nodes
    failed = visible(fleet)
    assert len(failed) == shown_articles(fleet) == 50
    find(fleet, "")
    click(fleet, ".tiles button[value=failed]")
    assert visible(fleet) == failed
    assert fleet.evaluate("document.querySelector('.tiles button[value=failed]').ariaPressed") == "true"
    click(fleet, ".tiles button[value=failed]")
    assert len(visible(fleet)) == NODES


def test_columns_sort_both_ways(fleet: Browser) -> None:
    names = sorted(visible(fleet))
    head = ".nodes thead th:nth-child({}) button"
    click(fleet, head.format(1))
    assert visible(fleet) == names
    click(fleet, head.format(1))
    assert visible(fleet) == names[::-1]
    click(fleet, head.format(2))  # verdict: the worst first
    order = fleet.evaluate("[...document.querySelectorAll('.nodes td.verdict')].map(cell => cell.textContent)")
    assert order == ["unreachable"] * 50 + ["failed"] * 50 + ["drift"] * 200 + ["ok"] * 700
    servers = "[...document.querySelectorAll('.nodes tbody tr')].map(row => Number(row.cells[{}].textContent))"
    column = fleet.evaluate("document.querySelector('.nodes thead tr').cells.length") - 4  # virtual servers
    click(fleet, head.format(column + 1))
    numbers = fleet.evaluate(servers.format(column))
    assert numbers == sorted(numbers, reverse=True)
    assert fleet.evaluate("document.querySelectorAll('.nodes th[aria-sort]').length") == 1
    find(fleet, "node-0042")
    assert visible(fleet) == ["node-0042"]


def test_plot_and_changes_are_drawn(fleet: Browser) -> None:
    assert fleet.evaluate("document.querySelectorAll('.plot g').length") == 3
    bars = fleet.evaluate("[...document.querySelectorAll('.plot rect')].map(bar => bar.getBoundingClientRect().height)")
    assert len(bars) == 9
    assert min(bars) > 0
    assert fleet.evaluate("document.querySelectorAll('.changes > li').length") > 0
