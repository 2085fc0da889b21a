# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Query the running agent.

The error for an agent that does not run names the commands to use instead.
"""

from __future__ import annotations

from typing import Any

from ..daemon.outputs.control import ask
from ..engine.errors import EngineError


def question(path: str, command: str) -> Any:
    """Return the running agent's answer.

    Raises:
        EngineError: the agent is not running or does not answer, or this user may not open its socket.
    """
    try:
        return ask(path, command)
    except (FileNotFoundError, ConnectionRefusedError):
        raise EngineError(
            f"the agent is not running (no answer at {path}); see systemctl status kubenode-agent, or use kubenode show"
        ) from None
    except PermissionError:
        raise EngineError(f"{path} cannot be opened: expected root or a member of the agent's group") from None
    except TimeoutError:
        raise EngineError(f"the agent does not answer at {path}: it is busy or hangs") from None
    except OSError as error:
        raise EngineError(f"the agent cannot be asked at {path}: {error.strerror or error}") from None
