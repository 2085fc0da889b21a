# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""History of the node: a ring of files with each pass and each change of the desired state.

:mod:`.items` and :mod:`.records` are the spelling of values and records, :mod:`.files` that of files: pure functions.
:mod:`.ring` writes the files, :mod:`.reading` reads them, and :mod:`.replay` works out the desired state of a moment.
"""
