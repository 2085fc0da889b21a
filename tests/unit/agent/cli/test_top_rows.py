# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of kubenode top: sums over virtual servers, drift, sorting, filter and width."""

from __future__ import annotations

import pytest

from kubenode.cli.top_rows import COLUMNS, SORTS, Row, Wanted, chosen, rows, short, table
from kubenode.cli.top_screen import printable
from kubenode.engine.kernel.ipvs.statistics import Traffic
from kubenode.engine.kernel.ipvs.usage import RealServerUse
from kubenode.engine.model.ipvs import RealServerKey, VirtualServerKey

VIP = VirtualServerKey("tcp", "10.96.0.10", 80, 4)
NODE_PORT = VirtualServerKey("tcp", "192.0.2.1", 30080, 4)
FOREIGN = VirtualServerKey("udp", "192.0.2.7", 53, 4)
WANTED = {str(key): Wanted("shop/web:http", {"10.244.1.1:8080": 1, "10.244.1.2:8080": 1}) for key in (VIP, NODE_PORT)}


def reals(server: VirtualServerKey, **uses: tuple[int, int, int]) -> dict[RealServerKey, RealServerUse]:
    """Return real servers 10.244.1.N:8080 by rN=(weight, active, inactive)."""
    return {
        RealServerKey(server, f"10.244.1.{name[1:]}", 8080): RealServerUse(*numbers) for name, numbers in uses.items()
    }


def found(*, wanted: dict[str, Wanted] | None = None, **uses: tuple[int, int, int]) -> Row:
    """Return the row of the Service; its cluster IP has these real servers, its node port the desired ones."""
    used = {VIP: reals(VIP, **uses), NODE_PORT: reals(NODE_PORT, r1=(1, 1, 0), r2=(1, 0, 0))}
    counters = {VIP: Traffic(3, 10, 9, 100, 90, 1), NODE_PORT: Traffic(2, 1, 1, 10, 10, 2)}
    (row,) = rows(counters, used, WANTED if wanted is None else wanted)
    return row


def test_row_sums_the_virtual_servers_of_a_service() -> None:
    row = found(r1=(1, 4, 5), r2=(1, 0, 6))
    assert row == Row("shop/web:http", (str(VIP), str(NODE_PORT)), Traffic(5, 11, 10, 110, 100, 3), 5, 11, 2, 0, 0)
    assert row.as_json()["connections"] == 5


def test_draining_real_server_is_no_drift() -> None:
    row = found(r1=(1, 0, 0), r2=(1, 0, 0), r3=(0, 1, 0))
    assert (row.real_servers, row.draining, row.drift) == (3, 1, 0)


@pytest.mark.parametrize(
    ("uses", "drift"),
    [
        ({"r1": (1, 0, 0)}, 1),
        ({"r1": (1, 0, 0), "r2": (7, 0, 0)}, 1),
        ({"r1": (1, 0, 0), "r2": (0, 0, 0)}, 1),
        ({"r1": (1, 0, 0), "r2": (1, 0, 0), "r3": (1, 0, 0)}, 1),
        ({}, 2),
    ],
    ids=["missing", "weight", "weight 0", "surplus", "all missing"],
)
def test_changed_real_server_is_drift(uses: dict[str, tuple[int, int, int]], drift: int) -> None:
    assert found(**uses).drift == drift


def test_missing_virtual_server_is_drift_with_its_real_servers() -> None:
    (row,) = rows({}, {}, {str(VIP): WANTED[str(VIP)]})
    assert (row.drift, row.traffic, row.real_servers) == (3, Traffic(), 0)


def test_virtual_server_without_service_has_its_own_row() -> None:
    (row,) = rows({FOREIGN: Traffic(1)}, {FOREIGN: reals(FOREIGN, r1=(1, 2, 0))}, {})
    assert (row.name, row.service, row.drift, row.active) == ("udp 192.0.2.7:53", "", None, 2)


def many() -> list[Row]:
    return [
        Row(f"ns/s{number}", (f"tcp 10.96.0.{number}:80",), Traffic(connection_rate=number % 3), number, 0, 0, 0, 0)
        for number in range(1, 7)
    ]


def test_rows_sort_by_numbers_then_by_name() -> None:
    assert [row.name for row in chosen(many(), "connections", "")] == [f"ns/s{n}" for n in (2, 5, 1, 4, 3, 6)]
    assert next(row.name for row in chosen(many(), "active", "")) == "ns/s6"
    assert [row.name for row in chosen(many(), "service", "")] == [f"ns/s{n}" for n in range(1, 7)]


def test_filter_matches_services_and_virtual_servers() -> None:
    assert [row.name for row in chosen(many(), "service", "s2")] == ["ns/s2"]
    assert [row.name for row in chosen(many(), "service", "0.3:80")] == ["ns/s3"]


@pytest.mark.parametrize("width", [40, 80, 100, 160])
def test_table_lines_fit_the_terminal(width: int) -> None:
    long = many()[0]._replace(service="namespace/" + "x" * 300)
    lines = table([long, *many()], width)
    assert max(map(len, lines)) <= width
    assert len(lines) == 8


def test_every_column_can_be_sorted_and_shown() -> None:
    header = table([])[0].split()
    assert header == ["SERVICE", *(title for title, _value in COLUMNS.values())]
    for sort in SORTS:
        assert len(chosen(many(), sort, "")) == 6


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (99_999, "99999"), (100_000, "100.0k"), (5_640_000, "5.6M"), (2**64, "18446.7P")]
)
def test_short_number_keeps_its_magnitude(number: int, text: str) -> None:
    assert short(number) == text


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert printable("ns/a\x1b[2Jb\n") == "ns/a?[2Jb?"
