"""The engine's frames, against an obviously right reader of the whole stream."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit.backends.docker.multiplexed import Frames
from sandbox_kit.errors import RemoteProtocolError

frames = st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.binary(max_size=30)), max_size=10)


def packed(stream: str, data: bytes) -> bytes:
    return struct.pack(">BxxxL", {"stdout": 1, "stderr": 2}[stream], len(data)) + data


def joined(pieces: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Neighbours of one stream as one; the order between the streams stays."""
    told: list[tuple[str, bytes]] = []
    for stream, data in pieces:
        if told and told[-1][0] == stream:
            told[-1] = stream, told[-1][1] + data
        elif data:
            told.append((stream, data))
    return told


@given(frames, st.lists(st.integers(0, 1000), max_size=20))
def test_any_chopping_gives_the_same(sent: list[tuple[str, bytes]], cuts: list[int]) -> None:
    whole = b"".join(packed(stream, data) for stream, data in sent)
    places = sorted({0, len(whole), *(cut % (len(whole) + 1) for cut in cuts)})
    reader = Frames()
    got: list[tuple[str, bytes]] = []
    for start, stop in pairwise(places):
        got.extend(reader.feed(whole[start:stop]))
    assert all(data for _, data in got)
    assert joined(got) == joined(sent)


@given(st.integers(0, 255).filter(lambda kind: kind not in (1, 2)), st.binary(min_size=7, max_size=20))
def test_what_is_no_frame_is_an_error(kind: int, rest: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        list(Frames().feed(bytes([kind]) + rest))
