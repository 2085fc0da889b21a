# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measurements as rows, and the page rendered from them: docs/reference/benchmarks.md."""

from __future__ import annotations

import random
import re
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from . import kube_proxy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Row(NamedTuple):
    """One comparison.

    ``ours`` and ``theirs`` are all samples, in ``unit``; ``theirs`` is empty without a peer. With a peer, the bar
    limits the ratio of the medians, else the median of ``ours``. A row with the bar None is only reported. ``turns``
    is the number of turns of ours and theirs, with as many samples in each; 0 if they have one sample each.
    """

    what: str
    against: str
    ours: Sequence[float]
    theirs: Sequence[float] = ()
    bar: float | None = None
    unit: str = "s"
    note: str = ""
    turns: int = 0

    @property
    def result(self) -> float:
        """Value that the bar limits."""
        return median(self.ours) / median(self.theirs) if self.theirs else median(self.ours)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Ends of the interval in which the ratio lies with a probability of 95 %; None without several turns.

        It is a percentile interval of the bootstrap (Efron and Tibshirani, 1993, chapter 13). A turn of ours and the
        one of theirs beside it are drawn together: what slows the machine for some seconds is in both.
        """
        if self.turns < 2:
            return None
        turns = list(zip(_parts(self.ours, self.turns), _parts(self.theirs, self.turns), strict=True))
        dice = random.Random(0)
        ratios = []
        for _ in range(_RESAMPLES):
            ours, theirs = zip(*dice.choices(turns, k=len(turns)), strict=True)
            ratios.append(median(chain.from_iterable(ours)) / median(chain.from_iterable(theirs)))
        ratios.sort()
        return ratios[_RESAMPLES // 40], ratios[-1 - _RESAMPLES // 40]

    @property
    def met(self) -> bool | None:
        """Return true if the bar is met, None without a bar."""
        return None if self.bar is None else self.result <= self.bar

    @property
    def verdict(self) -> str:
        """Cell that tells whether the bar is met; if not, whether chance alone may explain that."""
        if self.met is False and self.interval is not None and self.bar is not None and self.interval[0] <= self.bar:
            return "**no**, within noise"
        return {None: "-", True: "yes", False: "**no**"}[self.met]

    @property
    def cells(self) -> list[str]:
        """Cells of the table's row."""
        unit = "x" if self.theirs else self.unit
        return [
            self.what,
            self.against or "-",
            value(median(self.ours), self.unit),
            value(median(self.theirs), self.unit) if self.theirs else "-",
            f"{self.result:.3g} x{self._ends()}" if self.theirs else "-",
            "-" if self.bar is None else f"≤ {self.bar:g} {unit}",
            self.verdict,
            str(len(self.ours)),
        ]

    def _ends(self) -> str:
        return "" if self.interval is None else " ({:.3g} to {:.3g})".format(*self.interval)


_RESAMPLES = 1000
COMPARED = "Beside kube-proxy"  # heading of the section that measures kube-proxy, too, if the caller has it
KUBE_PROXY = "Beside kube-proxy: another run"  # heading of the last section; a whole run with kube-proxy replaces it
HEAD = ("what", "against", "ours", "theirs", "ratio", "bar", "met?", "samples")


def _parts(samples: Sequence[float], number: int) -> list[Sequence[float]]:
    """Return the samples in parts of equal size."""
    size = len(samples) // number
    return [samples[start : start + size] for start in range(0, size * number, size)]


def value(number: float, unit: str) -> str:
    """Return a number with its unit, with three significant digits."""
    if unit == "s" and number < 0.1:
        return f"{number * 1000:.3g} ms"
    return f"{number:.3g} {unit}" if number < 1000 else f"{number:,.0f} {unit}"


def markdown(rows: Sequence[Row]) -> str:
    """Return rows as a table, with their notes below it."""
    lines = [list(HEAD), ["---"] * len(HEAD), *(row.cells for row in rows)]
    notes = [f"- {row.what}: {row.note}" for row in rows if row.note]
    return (
        "\n".join("| " + " | ".join(line) + " |" for line in lines)
        + "\n"
        + ("\n" + "\n".join(notes) + "\n" if notes else "")
    )


_INTRODUCTION = """\
# Benchmarks

Written by `make bench`; not edited by hand. Peers run on the same node in the same run, \
ours and theirs taking turns, and medians
are compared: on a lab node system calls cost about ten times what they cost on metal, \
so the ratios carry over, the seconds do not.

A ratio of samples from several turns is followed by its interval: the true one lies in it with a probability of 95 %. \
A bar that is
not met *within noise* is in this interval.

"""
_BY_HAND = """\
One section is of another run: [Beside kube-proxy](#beside-kube-proxy-another-run). \
Its figures are comparable with each other, not with those of
the other sections. Rows with `-` under *theirs* have no peer in this run.

"""


def merged(text: str, title: str, rows: Sequence[Row], run: Mapping[str, str], before: Sequence[str]) -> str:
    """Return the page with a section of another run, which replaces the section of this title if there is one.

    Args:
        text: the page.
        title: heading of the section.
        rows: what was measured.
        run: description of that run, name to text.
        before: headings of which the first one on the page follows the section.
    """
    described = "; ".join(f"{name}: {what}" for name, what in run.items())
    section = f"## {title}\n\nOf another run than the other sections. {described}.\n\n{markdown(rows)}\n"
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    kept = [part for part in parts if not part.startswith(f"## {title}\n")]
    places = [index for index, part in enumerate(kept) if part.splitlines()[0][3:] in before] or [len(kept)]
    return "".join([*kept[: places[0]], section, *kept[places[0] :]]).rstrip("\n") + "\n"


def page(machine: Mapping[str, str], sections: Mapping[str, Sequence[Row]]) -> str:
    """Return the whole page.

    Args:
        machine: description of the measured machine, name to text.
        sections: rows by heading.
    """
    compared = _is_compared(sections.get(COMPARED, ()))
    introduction = _INTRODUCTION if compared else _INTRODUCTION + _BY_HAND
    text = introduction + "| | |\n| --- | --- |\n" + "".join(f"| {name} | {what} |\n" for name, what in machine.items())
    for title, rows in sections.items():
        text += f"\n## {title}\n\n{markdown(rows)}"
    return text if compared else f"{text}\n## {KUBE_PROXY}\n\n{kube_proxy.markdown()}"


def _is_compared(rows: Sequence[Row]) -> bool:
    """Return true if kube-proxy was measured, too: then the table that is kept by hand has no place on the page."""
    return any(row.theirs for row in rows)
