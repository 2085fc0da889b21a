# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connection timeouts of IPVS: three numbers for the whole network namespace.

The ledger does not track them: they are no item of any owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...engine.desired.settings import Config


def follow(config: Config) -> None:
    """Set the timeouts of IPVS that the configuration names; 0 keeps the kernel's.

    Raises:
        KernelError: they cannot be read or set.
    """
    desired = [int(seconds) for seconds in (config.tcp_timeout, config.tcp_fin_timeout, config.udp_timeout)]
    if not any(desired):
        return
    from ...engine.kernel.ipvs import control

    present = control.get_timeouts()
    if any(seconds and seconds != now for seconds, now in zip(desired, present)):
        control.set_timeouts(control.Timeouts(*desired))
