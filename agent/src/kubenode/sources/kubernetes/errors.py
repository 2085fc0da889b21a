# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors between the agent and the API.

Every text is meant for operators, and none holds a secret.
"""

from __future__ import annotations


class ApiError(Exception):
    """The API cannot be reached, or its answer is invalid. The caller retries later."""


class TooLargeError(ApiError):
    """The API's answer is larger than the memory limit. The caller requests fewer objects."""


class UnreachableError(ApiError):
    """The API's address does not answer. The API may return as another server, or unchanged."""


class BrokenOffError(ApiError):
    """A stream broke off: the connection ended, or a proxy between the agent and the API ended it."""


class AccessError(ApiError):
    """The API's address or the agent's identity is not available.

    The cause is the kubeconfig, the service account, a certificate or the credential plugin.
    """


class UnusableError(AccessError):
    """The configured access to the API cannot work. Only the operator can fix it, waiting does not help."""


class RefusedError(ApiError):
    """The API answered with an error.

    Args:
        status: HTTP status.
        reason: reason of the API's Status, such as ``Expired``; "" without one.
        message: message of the API's Status.
        retry_after: seconds of the header Retry-After, at most 60; 0 without one.
    """

    def __init__(self, status: int, reason: str, message: str, retry_after: float = 0.0) -> None:
        super().__init__(
            f"the API answers {status}{f' {reason}' if reason else ''}: {message}{_ADVICE.get(status, '')}"
        )
        self.status = status
        self.reason = reason
        self.retry_after = retry_after


class ExpiredError(ApiError):
    """The resource version has expired. The caller lists again."""


_ADVICE = {
    401: " (are token or certificate of the kubeconfig still valid?)",
    403: " (is the ClusterRole system:node-proxier, or kubenode-agent, bound to this user?)",
}
