# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can go wrong between us and the API; every text is meant for people, and none holds a secret."""

from __future__ import annotations


class ApiError(Exception):
    """The API cannot be asked, or does not answer as it must: to be tried again later."""


class UnreachableError(ApiError):
    """Nobody answers where the API should be: it may come back as another one, or as it was before."""


class BrokenOffError(ApiError):
    """A stream ended without its end: the connection did, or somebody between us and the API ended it."""


class AccessError(ApiError):
    """Where the API is, or who we are, cannot be told: kubeconfig, service account, certificates, a credential plugin."""


class RefusedError(ApiError):
    """The API answered with an error.

    Args:
        status: HTTP status.
        reason: the API's word for it, such as ``Expired``; "" if it gave none.
        message: the API's sentence.
        retry_after: seconds that the API wants us to wait; 0 if it said nothing.
    """

    def __init__(self, status: int, reason: str, message: str, retry_after: float = 0.0) -> None:
        super().__init__(f"the API answers {status}{f' {reason}' if reason else ''}: {message}{_ADVICE.get(status, '')}")
        self.status = status
        self.reason = reason
        self.retry_after = retry_after


class ExpiredError(ApiError):
    """What we know is too old to go on from: list again."""


_ADVICE = {
    401: " (are token or certificate of the kubeconfig still valid?)",
    403: " (is the ClusterRole system:node-proxier, or kubenode-agent, bound to this user?)",
}
