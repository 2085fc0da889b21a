# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plot of costs over the number of Services, as SVG for the documentation, drawn by matplotlib.

    .venv/bin/python -m bench.proxies.plot    (in tests/, with the samples of the last run)

matplotlib is in a directory of its own (`make bench` installs it): no other part of the project needs it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median
from typing import NamedTuple

from .subjects import AGENTS, PEERS

ROOT = Path(__file__).resolve().parents[3]
LIBRARY = ROOT / ".cache/plot"
SAMPLES = ROOT / ".cache/bench/proxies.json"
PICTURE = ROOT / "docs/images/benchmarks-scale.svg"
_INK = "#808080"  # on white and on black alike
_COLOURS = ("#1f83d6", "#12b5c9", "#e07b00", "#c9a100", "#2a9d5c", "#c2478f")


class Panel(NamedTuple):
    """One of the four diagrams: figure of the samples, title, unit and the factor to it."""

    figure: str
    title: str
    unit: str
    factor: float = 1


class Line(NamedTuple):
    """Medians of a proxy over the numbers of Services."""

    name: str
    services: list[int]
    values: list[float]


PANELS = (
    Panel("cold", "cold start", "s"),
    Panel("event", "an endpoint is added", "ms", 1000),
    Panel("idle", "CPU a minute without changes", "s"),
    Panel("peak", "largest resident memory", "MiB"),
)


def lines(samples: dict[tuple[str, str, int], list[float]], panel: Panel) -> list[Line]:
    """Return the lines of a panel; a logarithmic axis has no room for values that are not positive."""
    made = []
    for subject in (*AGENTS, *PEERS):
        points = [
            (services, median(values) * panel.factor)
            for (figure, name, services), values in sorted(samples.items())
            if (figure, name) == (panel.figure, subject.name) and median(values) > 0
        ]
        if points:
            name = subject.name if subject.is_agent else f"kube-proxy {subject.name}"
            made.append(Line(name.replace("`", ""), [point[0] for point in points], [point[1] for point in points]))
    return made


def draw(samples: dict[tuple[str, str, int], list[float]], to: Path) -> None:
    """Write the picture.

    Raises:
        ImportError: matplotlib is not installed.
    """
    sys.path.append(str(LIBRARY))
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    sizes = sorted({services for _figure, _name, services in samples})
    names = [subject.name for subject in (*AGENTS, *PEERS)]
    labels = {name.replace("`", ""): colour for name, colour in zip(names, _COLOURS, strict=True)}
    style = {
        "svg.fonttype": "none",
        "svg.hashsalt": "kubenode",
        **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _INK),
    }
    with matplotlib.rc_context(style):
        picture, axes = pyplot.subplots(2, 2, figsize=(9, 6), layout="constrained")
        for axis, panel in zip(axes.flat, PANELS, strict=True):
            for line in lines(samples, panel):
                colour = labels[line.name.removeprefix("kube-proxy ")]
                axis.plot(line.services, line.values, marker="o", label=line.name, color=colour)
            axis.set(title=f"{panel.title} [{panel.unit}]", xlabel="Services", xscale="log", yscale="log")
            axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
            axis.minorticks_off()
            axis.grid(visible=True, color=_INK, alpha=0.25)
            axis.patch.set_alpha(0)
        shown, texts = axes.flat[0].get_legend_handles_labels()
        picture.legend(shown, texts, loc="outside lower center", ncols=2, frameon=False)
        to.parent.mkdir(parents=True, exist_ok=True)
        picture.savefig(to, transparent=True, metadata={"Date": None, "Creator": None})
        pyplot.close(picture)


def save(samples: dict[tuple[str, str, int], list[float]]) -> None:
    """Write the samples of a run so far."""
    SAMPLES.parent.mkdir(parents=True, exist_ok=True)
    SAMPLES.write_text(json.dumps([[*key, values] for key, values in samples.items()]))


def load(path: Path) -> dict[tuple[str, str, int], list[float]]:
    """Return the samples of a run."""
    return {(figure, name, services): values for figure, name, services, values in json.loads(path.read_text())}


if __name__ == "__main__":
    draw(load(SAMPLES), PICTURE)
