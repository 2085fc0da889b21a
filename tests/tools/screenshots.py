# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the pictures of docs/images, and print how fast the browser has a page of 1,000 nodes.

    python tests/tools/screenshots.py [EXPLAIN.html] [NAME.txt ...]

``EXPLAIN.html`` is a page of ``kubenode explain --format html``, for example of a node of the demo. ``NAME.txt`` is
what a terminal of 116 columns got, such as the output of ``script -qc "kubenode top"`` behind a prompt; it becomes
``terminal-NAME.png``. Pictures that are not named stay.
"""

from __future__ import annotations

import re
import sys
import tempfile
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "collection"), str(ROOT / "agent/src")]

from support.browser import Browser
from support.fleet import GOOD, fleet_of

from ansible_collections.kubenode.ipvs.plugins.filter.fleet_report import FilterModule

IMAGES = ROOT / "docs/images"
MOST_BYTES = 150_000
RUNS = 5
fleet_report = FilterModule().filters()["fleet_report"]


def write_fleet(directory: Path, nodes: int) -> Path:
    """Write the page of a fleet that had other faults in former runs."""
    for day in range(12, 24):
        former = fleet_of(nodes, shift=day % 7)
        for name in list(former)[: nodes * (day * 5 % 11) // 11]:
            former[name] = GOOD
        text = fleet_report(former, "json", "", f"2026-11-{day}T06:00:00Z")
        (directory / f"202611{day}T060000Z.json").write_text(text)
    path = directory / f"fleet-{nodes}.html"
    path.write_text(fleet_report(fleet_of(nodes, shift=3), "html", str(directory), "2026-11-24T06:00:00Z"))
    return path


def shoot(browser: Browser, page: Path, name: str, size: tuple[int, int], top: str = "body") -> None:
    """Write one picture, which begins with the element ``top``."""
    browser.resize(*size)
    browser.open(page)
    browser.evaluate(f"document.querySelector('{top}').scrollIntoView()")
    picture = browser.screenshot()
    (IMAGES / name).write_bytes(picture)
    print(f"{name}: {len(picture)} bytes{' TOO LARGE' if len(picture) > MOST_BYTES else ''}")


TERMINAL = """<!doctype html><meta charset=utf-8><style>
body {{ margin: 0; background: #14171c; color: #dfe3e8 }}
pre {{ margin: 0; padding: 14px 16px; width: 116ch; font: 13px/1.4 monospace; white-space: pre-wrap;
  word-break: break-all }}
b {{ font-weight: normal; background: #dfe3e8; color: #14171c }}
</style><pre>{text}</pre>"""


def write_terminal(directory: Path, typescript: Path) -> Path:
    """Write a page that looks like a terminal after the command: its output, or its last full screen."""
    text = typescript.read_bytes().decode().replace("\r", "")
    screen = text.split("\x1b[?1049l")[0].rpartition("\x1b[H")[2]
    marked = escape(screen.rstrip()).replace("\x1b[7m", "<b>").replace("\x1b[m", "</b>")
    path = directory / f"{typescript.stem}.html"
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", marked)
    path.write_text(TERMINAL.format(text=plain), encoding="utf-8")
    return path


def shoot_terminal(browser: Browser, directory: Path, typescript: Path) -> None:
    """Write the picture of a terminal, as large as its text."""
    page = write_terminal(directory, typescript)
    browser.open(page)
    box = browser.evaluate("(box => [box.width, box.height])(document.querySelector('pre').getBoundingClientRect())")
    shoot(browser, page, f"terminal-{typescript.stem}.png", (round(box[0]), round(box[1])))


def main() -> int:
    """Write the pictures and print the measurement."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        browser = Browser(directory / "chromium")
        try:
            (directory / "small").mkdir()
            small = write_fleet(directory / "small", 20)
            shoot(browser, small, "verify.png", (1100, 900))
            browser.prefer("dark")
            shoot(browser, small, "verify-changes.png", (1100, 560), "#changes")
            browser.prefer("light")
            for path in map(Path, sys.argv[1:]):
                if path.suffix == ".txt":
                    shoot_terminal(browser, directory, path)
                else:
                    shoot(browser, path, "explain.png", (1000, 640))
            (directory / "large").mkdir()
            large = write_fleet(directory / "large", 1000)
            for _run in range(RUNS):
                browser.open(large)
                loaded = browser.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
                painted = browser.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
                elements = browser.evaluate("document.querySelectorAll('*').length")
                print(f"1,000 nodes: loaded in {loaded:.0f} ms, painted in {painted or 0:.0f} ms, {elements} elements")
            print(f"{large.stat().st_size} bytes")
        finally:
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
