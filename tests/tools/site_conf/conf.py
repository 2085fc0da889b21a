# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configuration of Sphinx for the documentation site (tests/tools/site)."""

from __future__ import annotations

project = "kubenode.ipvs"
copyright = "the kubenode.ipvs authors"
extensions = ["myst_parser", "sphinx_antsibull_ext"]
html_theme = "furo"  # has a light and a dark form, and fetches nothing
html_title = "kubenode.ipvs"
html_use_index = False
html_copy_source = False
html_show_sphinx = False
myst_heading_anchors = 4  # links to headings as GitHub makes them
# Sphinx has no highlighting for Mermaid, whose text stays readable.
# ref.ref are references into Ansible's own documentation.
suppress_warnings = ["ref.ref", "misc.highlighting_failure"]
highlight_language = "text"
