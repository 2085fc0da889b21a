# Copyright (c) The kubenode.ipvs maintainers
# SPDX-License-Identifier: GPL-3.0-or-later
"""kubenode-agent: a Kubernetes service proxy in IPVS mode."""
