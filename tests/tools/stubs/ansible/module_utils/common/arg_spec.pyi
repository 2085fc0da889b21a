# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Types of what the collection uses of Ansible's argument specs."""

from collections.abc import Mapping
from typing import Any

class ValidationResult:
    @property
    def error_messages(self) -> list[str]: ...
    @property
    def validated_parameters(self) -> dict[str, Any]: ...

class ArgumentSpecValidator:
    def __init__(self, argument_spec: Mapping[str, Any]) -> None: ...
    def validate(self, parameters: Mapping[str, Any]) -> ValidationResult: ...
