# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Times on the command line of ``kubenode history``, in milliseconds since the epoch."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_EXPECTED = "expected a time such as 2026-11-24T03:12:07Z, 03:12, 15m (ago) or @1764000000"
_LAST = 253402300799000  # the last moment that a date can name


def moment_of(text: str, now: float) -> int:
    """Return a moment; ``now`` is in seconds since the epoch.

    Raises:
        ValueError: it is none.
    """
    ago = re.fullmatch(r"(\d{1,9})([smhd])", text)
    epoch = re.fullmatch(r"@(\d{1,11}(?:\.\d{1,9})?)", text)
    try:
        if ago:
            moment = now - int(ago[1]) * _UNITS[ago[2]]
        elif epoch:
            moment = float(epoch[1])
        elif re.fullmatch(r"\d\d:\d\d(:\d\d)?", text):
            moment = _of_day(text, now)
        else:
            moment = datetime.fromisoformat(_plain(text)).timestamp()  # one without an offset is local
    except (ValueError, OverflowError, OSError):
        raise ValueError(_EXPECTED) from None
    if not 0 <= moment * 1000 <= _LAST:
        raise ValueError(_EXPECTED)
    return round(moment * 1000)


def _plain(text: str) -> str:
    """Return a date and time as Python 3.9 reads it."""
    text = re.sub(r"Z$", "+00:00", text)
    return re.sub(r"\.(\d{1,9})", lambda match: f".{match[1]:0<6.6}", text)


def _of_day(text: str, now: float) -> float:
    """Return the last moment of this time of the day."""
    hour, minute, second = (*map(int, text.split(":")), 0)[:3]
    local = datetime.fromtimestamp(now)
    day = local.replace(hour=hour, minute=minute, second=second, microsecond=0)
    return (day if day <= local else day - timedelta(days=1)).timestamp()


def shown(moment: int) -> str:
    """Return a moment as the agent's log prints it."""
    if not 0 <= moment <= _LAST:
        return f"@{moment / 1000:.3f}"
    whole = datetime.fromtimestamp(moment // 1000, timezone.utc)
    return whole.strftime("%Y-%m-%dT%H:%M:%S") + f".{moment % 1000:03d}Z"
