# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Render a state as text: in the native tools' formats, and as JSON."""

from __future__ import annotations

from ..errors import InputError
from ..model import ReadState
from . import addresses, documents, ipset, iptables, ipvsadm, nftables

FORMATS = {
    "json": documents.render,
    "ipvsadm": ipvsadm.render,
    "ipset": ipset.render,
    "iptables": iptables.render_4,
    "ip6tables": iptables.render_6,
    "nft": nftables.render,
    "addresses": addresses.render,
}


def render(state: ReadState, fmt: str) -> str:
    """Return a state as text: lines, sorted, each with its newline.

    Args:
        state: the state.
        fmt: one of ``json``, ``ipvsadm`` (as ``ipvsadm -Sn``), ``ipset`` (``ipset save``), ``iptables`` and
            ``ip6tables`` (``iptables-save``), ``nft`` (tables of nftables as ``nft -f`` reads them; see
            ``desired.nft_state``), ``addresses`` (of kube-ipvs0, one ``address/prefix`` a line).

    Raises:
        InputError: there is no such format.
    """
    if fmt not in FORMATS:
        raise InputError("render", "format", fmt, "one of " + ", ".join(FORMATS))
    return FORMATS[fmt](state)
