# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON within bounds is decoded unchanged; beyond them it keeps its shape up to the bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenode.manifests.bounded_json import DEEPEST, TOO_DEEP, bounded
from kubenode.manifests.documents import decode

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def depth(value: Any) -> int:
    """Return the levels of lists and mappings, counted without recursion."""
    deepest, left = 0, [(value, 0)]
    while left:
        item, level = left.pop()
        deepest = max(deepest, level)
        inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        left.extend((each, level + 1) for each in inner)
    return deepest


@given(JSON)
def test_json_within_bounds_is_unchanged(value: Any) -> None:
    text = json.dumps(value)
    assert bounded(text) is text
    assert decode(text) == value


@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]"), ('[[],{"b":"]]"},', "]")])
@pytest.mark.parametrize("levels", [100, 1000, 100_000])
def test_deep_nesting_is_cut_and_other_values_kept(opened: str, closed: str, levels: int) -> None:
    text = f'{{"before": "]}}[{{\\"", "deep": {opened * levels}1{closed * levels}, "after": [1, {{}}]}}'
    decoded = decode(text)
    assert (decoded["before"], decoded["after"]) == (']}[{"', [1, {}])
    assert depth(decoded) <= 2 * DEEPEST
    assert TOO_DEEP in json.dumps(decoded)


@given(st.lists(st.sampled_from(["[", "]", "{", "}", '"', "\\", '{"a":', "1", ",", "[" * 70, "]" * 70]), max_size=30))
def test_no_text_raises_anything_but_value_error(parts: list[str]) -> None:
    try:
        decoded = decode("".join(parts))
    except ValueError:
        return
    assert depth(decoded) <= 2 * DEEPEST


@pytest.mark.parametrize("digits", [41, 5000, 1_000_000])
def test_long_number_is_a_text_about_it(digits: int) -> None:
    assert decode(f'{{"a": -{"9" * digits}, "b": 5}}') == {"a": f"-{'9' * 39}... ({digits + 1} digits)", "b": 5}


def test_brackets_in_text_are_no_nesting() -> None:
    text = json.dumps({"a": "[" * 100_000, "b": ["{" * 100_000, {"c": '"' + "[" * 100}]})
    assert bounded(text) is text
