# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Types of what the collection uses of Ansible's base of lookup plugins."""

from collections.abc import Mapping
from typing import Any

class LookupBase:
    def set_options(self, *, var_options: Any = ..., direct: Mapping[str, Any] | None = ...) -> None: ...
    def get_option(self, option: str) -> Any: ...
    def find_file_in_search_path(
        self, myvars: Mapping[str, Any], subdir: str, needle: str, ignore_missing: bool = ...
    ) -> str | None: ...
