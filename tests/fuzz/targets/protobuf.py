# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Protobuf of the Kubernetes API: single watch events and objects, and whole streams of events."""

from __future__ import annotations

from fuzz.choices import Choices
from fuzz.target import Target
from support.agent.recorded_watches import EVENTS, REFUSALS, frame

from kubenode.sources.kubernetes.errors import ApiError
from kubenode.sources.kubernetes.event_stream import raw_events
from kubenode.sources.kubernetes.objects import encode
from kubenode.sources.kubernetes.protobuf import ProtobufError
from kubenode.sources.kubernetes.protobuf_objects import decode_event, decode_object

_WORDS = (
    "k8s\0",
    "v1",
    "Service",
    "EndpointSlice",
    "discovery.k8s.io/v1",
    "Node",
    "Status",
    "ADDED",
    "\x12",
    "\xff\xff",
)


def _event(data: bytes) -> None:
    """Decode an event, or an object."""
    decoder = decode_object if data[:4] == b"k8s\0" else decode_event
    assert encode(decoder(data))


def _stream(data: bytes) -> None:
    """Cut a stream into frames; it arrives in pieces."""
    choices = Choices(data)
    sizes = [1 + choices.below(64) for _ in range(choices.below(8))]
    left = choices.rest()

    def read(most: int) -> bytes:
        nonlocal left
        size = sizes.pop() if sizes else most
        piece, left = left[:size], left[size:]
        return piece

    for event in raw_events(read, is_protobuf=True):
        try:
            assert encode(event.decode())
        except ProtobufError:
            pass


TARGETS = {
    "protobuf": Target(
        _event, [each.protobuf for each in (*EVENTS, *REFUSALS)], (ProtobufError,), _WORDS, longest=2048
    ),
    "frames": Target(
        _stream, [b"\x02\x01\x20" + frame(event.protobuf) * 2 for event in EVENTS], (ApiError,), _WORDS, longest=4096
    ),
}
