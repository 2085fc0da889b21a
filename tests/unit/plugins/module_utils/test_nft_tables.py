# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of nft_tables that are refused without a kernel."""

from __future__ import annotations

import pytest

from ansible_collections.kubenode.ipvs.plugins.module_utils._tasks.nft_tables import check_braces, check_name
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.errors import EngineError, InputError
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.model.nft_text import TextTableKey

KEY = TextTableKey("inet", "t")


@pytest.mark.parametrize("name", ["", "a b", "a;b", "a\n", "-a", "1a", "a" * 256, '"a"', "a{", "ä"])
def test_name_that_is_no_word_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="name is"):
        check_name("tables[0]", name)


@pytest.mark.parametrize("name", ["a", "_a", ".a", "A.b-c_d/e9", "a" * 255])
def test_name_of_the_language_is_accepted(name: str) -> None:
    check_name("tables[0]", name)


@pytest.mark.parametrize(
    "content",
    ["", "chain c { accept; }", "# }\nchain c { }", 'chain c { accept comment "}"\n}', 'set s { comment "#"; }'],
)  # fmt: skip
def test_braces_that_stay_in_the_table_are_accepted(content: str) -> None:
    check_braces("tables[0].content", KEY, content)


@pytest.mark.parametrize(
    ("content", "line"),
    [("}", 1), ("chain c { }\n}", 2), ('comment "{"\n\n }', 3), ("# {\n}", 2), ('comment "a\n{"\n} table', 3)],
)
def test_brace_that_closes_the_table_is_refused(content: str, line: int) -> None:
    with pytest.raises(EngineError, match=rf"^tables\[0\]\.content line {line} \(inet t\) `}}.*this brace closes"):
        check_braces("tables[0].content", KEY, content)
