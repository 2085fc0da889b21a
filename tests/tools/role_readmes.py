# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write each role's README from its argument specs; a unit test fails for an outdated README.

python tests/tools/role_readmes.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

ROLES = Path(__file__).resolve().parents[2] / "roles"
_PAGES = "https://github.com/kubenode/ipvs/blob/main/"  # a README links to the pages beside it
_LINK = re.compile(r"\bL\(([^(),]+), (https:[^()]+)\)")
_MARKUP = re.compile(r"\b[OVCPM]\(([^()]*(?:\([^()]*\)[^()]*)*)\)")


def main() -> None:
    """Write all READMEs."""
    for role in sorted(path.parents[1] for path in ROLES.glob("*/meta/argument_specs.yml")):
        (role / "README.md").write_text(readme(role), encoding="utf-8")


def readme(role: Path) -> str:
    """Return the text of a role's README."""
    specs = yaml.safe_load((role / "meta/argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"]
    lines = [
        f"# kubenode.ipvs.{role.name}",
        "",
        "<!-- Written by tests/tools/role_readmes.py from meta/argument_specs.yml. -->",
    ]
    for entry, spec in specs.items():
        if entry != "main":
            lines += ["", f"## `tasks_from: {entry}`"]
        lines += ["", f"{spec['short_description']}.", "", *(plain(text) for text in spec.get("description", [])), ""]
        for page in spec.get("seealso", []):
            lines += [f"[{page['name']}]({page['link'].replace(_PAGES, '../../')}): {plain(page['description'])}", ""]
        lines += ["| Variable | Type | Default | Meaning |", "| --- | --- | --- | --- |"]
        for name, option in spec["options"].items():
            lines.append(f"| `{name}` | {kind(option)} | {default(option)} | {meaning(option)} |")
    return "\n".join(lines) + "\n"


def plain(text: str) -> str:
    """Return a description with Ansible's markup as Markdown."""
    linked = _LINK.sub(lambda match: f"[{match[1]}]({match[2].replace(_PAGES, '../../')})", text)
    return _MARKUP.sub(lambda match: f"`{match[1].partition('#')[0]}`", linked).replace("|", "\\|").replace("\n", " ")


def kind(option: dict[str, Any]) -> str:
    """Return an option's type, for example ``list of str``."""
    return f"{option['type']} of {option['elements']}" if "elements" in option else str(option["type"])


def default(option: dict[str, Any]) -> str:
    """Return an option's default as YAML on one line."""
    return f"`{json.dumps(option['default'])}`".replace("|", "\\|") if "default" in option else ""


def meaning(option: dict[str, Any]) -> str:
    """Return an option's description, with its choices."""
    choices = ", ".join(f"`{choice}`" for choice in option.get("choices", ()))
    return " ".join([plain(text) for text in option["description"]] + ([f"One of {choices}."] if choices else []))


if __name__ == "__main__":
    main()
