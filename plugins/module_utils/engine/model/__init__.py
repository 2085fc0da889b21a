# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node state as values: each *item* has a kind, a key and a value.

======================  ==========================================  =========================================
kind                    key                                         value
======================  ==========================================  =========================================
``kernel_module``       name with underscores                       ``loaded`` or ``builtin``
``sysctl``              dotted name                                 text
``file``                path                                        text
``link``                interface name                              :class:`~.link.Link`
``set``                 set name                                    :class:`~.ipset.IPSet`
``member``              :class:`~.ipset.MemberKey`                  option text ("" for none)
``chain``               :class:`~.iptables.ChainKey`                tuple of rule texts
``jump``                :class:`~.iptables.JumpKey`                 have: position from 1; want: RulePosition
``nft_table``           :class:`~.nftables.TableKey`                flags, 0 for none
``nft_set``             :class:`~.nftables.SetKey`                  :class:`~.nftables.NftSet`
``nft_element``         :class:`~.nftables.ElementKey`              ``""``
``nft_chain``           :class:`~.nftables.ChainKey`                :class:`~.nftables.NftChain`
``nft_text``            :class:`~.nft_text.TextTableKey`            canonical text of the table
``virtual_server``      :class:`~.ipvs.VirtualServerKey`            :class:`~.ipvs.VirtualServer`
``real_server``         :class:`~.ipvs.RealServerKey`               :class:`~.ipvs.RealServer`
``ipvs_timeout``        ``tcp``, ``tcp_fin`` or ``udp``             seconds
``sync_daemon``         ``master`` or ``backup``                    :class:`~.ipvs.SyncDaemon`
``address``             :class:`~.link.AddressKey`                  ``True``
``route``               :class:`~.link.RouteKey`                    :class:`~.link.Route`
======================  ==========================================  =========================================

A :data:`State` maps kinds to their items. Keys and values are immutable, hashable and canonical: values that the kernel
treats as equal are equal here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

Items = dict[Any, Any]
State = dict[str, Items]
ReadState = Mapping[str, Mapping[Any, Any]]
Keys = Mapping[str, Collection[Any]]  # by kind
