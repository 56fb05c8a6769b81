"""The frame: bit for bit there and back, and no single byte can change unnoticed."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import google_crc32c
import numpy as np
import pytest
import zstandard

from factories import LARGE, make_trajectory
from recollect.canonical import canonical_json, strict_json
from recollect.errors import CorruptFrame, InvalidRecord
from recollect.store import codec
from recollect.trajectory import Trajectory
from recollect.types import (
    GroupId,
    Origin,
    Reward,
    RunId,
    Sampling,
    Segment,
    SegmentKind,
    TaskKey,
    TrajectoryId,
)

HEADER = struct.Struct("<4sHHIIIIII")
# magic, version, flags, tokens, sampled, meta, body, crc, reserved
MAGIC, VERSION, FLAGS, TOKENS, SAMPLED, META, BODY, CRC, RESERVED = range(9)


def text_only() -> Trajectory:
    """A demo without tokens: every array is empty."""
    nothing = np.zeros(0, dtype=np.int32)
    return Trajectory(
        id=TrajectoryId("demo"),
        task=TaskKey("t"),
        run=RunId("r"),
        step=0,
        group=GroupId("g"),
        origin=Origin.DEMO,
        policy_version=None,
        tokens=nothing,
        sampled=nothing.astype(np.bool_),
        logprobs=None,
        entropies=None,
        segments=(Segment(SegmentKind.ASSISTANT, 0, 0, "hi"),),
        reward=Reward(0.0),
        success=False,
    )


def golden() -> Trajectory:
    """The one record whose bytes are written down below; never change it."""
    return Trajectory(
        id=TrajectoryId("golden"),
        task=TaskKey("task"),
        run=RunId("run"),
        step=3,
        group=GroupId("group"),
        origin=Origin.FRESH,
        policy_version=2,
        tokens=np.array([1, 2, 65536], dtype=np.int32),
        sampled=np.array([False, True, True]),
        logprobs=np.array([-0.5, -1.0], dtype=np.float32),
        entropies=np.array([0.25, 2.0], dtype=np.float32),
        segments=(Segment(SegmentKind.USER, 0, 1, "ü"), Segment(SegmentKind.ASSISTANT, 1, 3, "b")),
        reward=Reward(0.5, {"goal": 0.5}),
        success=True,
        sampling=Sampling(0.7, 0.9, 5, 64),
        tokenizer="tok",
        started=1.5,
        finished=2.5,
        extra={"k": [1, None]},
    )


GOLDEN = (
    "52434c5401000600030000000200000098000000b50000002cea340d000000000100000002000000000001000000"
    "00bf000080bf0000803e00000040065b22676f6c64656e222c227461736b222c2272756e222c332c2267726f7570"
    "222c226672657368222c322c227561222c5b312c335d2c5b22c3bc222c2262225d2c5b5d2c302e352c7b22676f61"
    "6c223a302e357d2c747275652c22646f6e65222c5b302e372c302e392c352c36345d2c5b5d2c22746f6b222c2231"
    "222c2231222c312e352c322e352c7b226b223a5b312c6e756c6c5d7d5d"
)

SAMPLES: dict[str, Callable[[], Trajectory]] = {
    "small": lambda: make_trajectory(1),
    "no entropies": lambda: make_trajectory(4),
    "guided": lambda: make_trajectory(2, origin=Origin.GUIDED, note="n1"),  # type: ignore[arg-type]
    "demo": lambda: make_trajectory(3, origin=Origin.DEMO),
    "text only": text_only,
    "large": lambda: make_trajectory(5, tokens=LARGE),
    "golden": golden,
}


def sealed(header: list[Any], body: bytes) -> bytes:
    """Make a frame whose checksum holds, whatever it says."""
    header = [*header]
    header[CRC] = 0
    crc = google_crc32c.value(HEADER.pack(*header) + body)
    header[CRC] = crc
    return HEADER.pack(*header) + body


def parts(frame: bytes) -> tuple[list[Any], bytes]:
    return list(HEADER.unpack_from(frame)), frame[HEADER.size :]


def is_refused(frame: bytes) -> bool:
    for read in (codec.decode, codec.check):
        try:
            read(frame)
        except CorruptFrame:
            continue
        return False
    return True


# -- there and back --------------------------------------------------------------------------


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("name", SAMPLES)
def test_round_trip(name: str, compress: bool) -> None:
    row = SAMPLES[name]()
    frame = codec.encode(row, compress)
    codec.check(frame)
    back = codec.decode(frame)
    assert back == row
    assert codec.encode(back, compress) == frame
    assert codec.belongs(frame, row.id)
    assert not codec.belongs(frame, "another")


@pytest.mark.parametrize("compress", [False, True])
def test_what_was_read_is_read_only(compress: bool) -> None:
    back = codec.decode(codec.encode(make_trajectory(1), compress))
    for array in (back.tokens, back.sampled, back.logprobs, back.entropies):
        assert array is not None
        assert not array.flags.writeable


def test_the_frame_is_the_documented_layout() -> None:
    row = golden()
    header, body = parts(codec.encode(row))
    assert header[:BODY] == [b"RCLT", 1, 6, 3, 2, header[META]]
    assert header[BODY] == len(body)
    assert header[RESERVED] == 0
    arrays = row.tokens.tobytes() + row.logprobs.tobytes() + row.entropies.tobytes()  # type: ignore[union-attr]
    assert body[: len(arrays)] == arrays
    assert body[len(arrays)] == 0b110
    meta = strict_json(body[len(arrays) + 1 :])
    assert canonical_json(meta).encode() == body[len(arrays) + 1 :]


def test_the_format_has_not_changed() -> None:
    """Stores written before must stay readable: these bytes are for ever."""
    assert codec.encode(golden()).hex() == GOLDEN
    assert codec.decode(bytes.fromhex(GOLDEN)) == golden()


def test_compression_pays_and_says_so_in_the_flags() -> None:
    row = make_trajectory(6, tokens=LARGE)
    plain, small = codec.encode(row), codec.encode(row, compress=True)
    assert len(small) < len(plain)
    assert parts(small)[0][FLAGS] == parts(plain)[0][FLAGS] | 1


# -- damage ----------------------------------------------------------------------------------


@pytest.mark.parametrize("compress", [False, True])
def test_every_single_byte_flip_is_detected(compress: bool) -> None:
    """All offsets, all eight single bits and some wider patterns."""
    frame = codec.encode(make_trajectory(1), compress)
    patterns = (*(1 << bit for bit in range(8)), 0xFF, 0x5A)
    missed = []
    for offset in range(len(frame)):
        for pattern in patterns:
            damaged = bytearray(frame)
            damaged[offset] ^= pattern
            if not is_refused(bytes(damaged)):
                missed.append((offset, pattern))
    assert missed == []


def test_every_single_byte_flip_of_a_large_frame_is_detected() -> None:
    frame = codec.encode(make_trajectory(5, tokens=LARGE))
    for offset in range(len(frame)):
        damaged = bytearray(frame)
        damaged[offset] ^= 1 + offset % 255
        with pytest.raises(CorruptFrame):
            codec.check(bytes(damaged))


@pytest.mark.parametrize("compress", [False, True])
def test_every_truncation_and_every_extension_is_detected(compress: bool) -> None:
    frame = codec.encode(make_trajectory(1), compress)
    assert all(is_refused(frame[:length]) for length in range(len(frame)))
    assert all(is_refused(frame + extra) for extra in (b"\0", b"\xff", frame, b"\0" * 4096))
    assert all(is_refused(extra + frame) for extra in (b"\0", b"R", frame[:32]))


@pytest.mark.parametrize("frame", [b"", None, "text", 7, memoryview(b"RCLT" * 20)])
def test_what_is_no_frame_at_all(frame: Any) -> None:
    assert is_refused(frame)


# -- frames of strangers: the checksum holds, the content lies ----------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (MAGIC, b"RCLU"),
        (VERSION, 0),
        (VERSION, 2),
        (FLAGS, 6 | 8),
        (FLAGS, 6 | 1 << 15),
        (FLAGS, 6 | 1),  # says zstd, is not
        (FLAGS, 2),  # forgets the entropies
        (TOKENS, 2),
        (TOKENS, 4),
        (TOKENS, 2**32 - 1),
        (SAMPLED, 1),
        (SAMPLED, 4),
        (META, 0),
        (META, 2**32 - 1),
        (BODY, 0),
        (RESERVED, 1),
    ],
)
def test_a_header_that_lies(field: int, value: Any) -> None:
    header, body = parts(codec.encode(golden()))
    header[field] = value
    with pytest.raises(CorruptFrame):
        codec.decode(sealed(header, body))


def test_the_mask_must_count_what_the_header_counts() -> None:
    """Otherwise log-probs would silently belong to other tokens."""
    header, body = parts(codec.encode(golden()))
    at = body.index(b"[") - 1
    assert body[at] == 0b110
    with pytest.raises(CorruptFrame, match="sampled"):
        codec.decode(sealed(header, body[:at] + b"\x02" + body[at + 1 :]))


NAMES = (
    *("id", "task", "run", "step", "group", "origin", "policy_version"),
    *("kinds", "ends", "texts", "tools", "reward", "reward_parts", "success", "stop"),
    *("sampling", "notes", "tokenizer", "environment_version", "reward_version"),
    *("started", "finished", "extra"),
)


def with_meta(change: Callable[[dict[str, Any]], object]) -> bytes:
    """The golden frame with its metadata, by name, changed: to members, any JSON, or bytes."""
    header, body = parts(codec.encode(golden()))
    start = body.index(b"[")
    meta = strict_json(body[start:])
    assert isinstance(meta, list)
    changed = change(dict(zip(NAMES, meta, strict=True)))
    if isinstance(changed, dict):
        changed = list(changed.values())
    text = changed if isinstance(changed, bytes) else canonical_json(changed).encode()
    header[META], header[BODY] = len(text), start + len(text)
    return sealed(header, body[:start] + text)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: {k: v for k, v in m.items() if k != "id"},
        lambda m: {k: v for k, v in m.items() if k != "extra"},
        lambda m: {k: v for k, v in m.items() if k != "reward_parts"},
        lambda m: m | {"surprise": 1},
        lambda m: {k: v for k, v in m.items() if k != "id"} | {"surprise": 1},
        lambda m: m | {"origin": "stolen"},
        lambda m: m | {"stop": 5},
        lambda m: m | {"stop": ["done"]},
        lambda m: m | {"sampling": [1.0, 1.0, 0, 0, 0]},
        lambda m: m | {"sampling": [2.0, 0.0, 0, 0]},
        lambda m: m | {"sampling": [0.7, 0.9, 5.0, 64]},
        lambda m: m | {"sampling": [0.0, 2.0, 0, 0]},
        lambda m: m | {"sampling": []},
        lambda m: m | {"sampling": [[0.7], 0.9, 5, 64]},
        lambda m: m | {"kinds": "uw"},
        lambda m: m | {"kinds": "u"},
        lambda m: m | {"kinds": 3},
        lambda m: m | {"kinds": [["u"], "a"]},
        lambda m: m | {"ends": [1, 2, 3]},
        lambda m: m | {"ends": 3},
        lambda m: m | {"texts": ["x"]},
        lambda m: m | {"tools": [[5, [], "c", "n"]]},
        lambda m: m | {"tools": [[0, [["f"]], "c", "n"]]},
        lambda m: m | {"tools": [[0]]},
        lambda m: m | {"notes": [["n"]]},
        lambda m: m | {"reward": "much"},
        lambda m: m | {"reward": None},
        lambda m: m | {"reward_parts": {"goal": "x"}},
        lambda m: m | {"reward_parts": []} | {"reward": 10**400},
        lambda m: [m],
        lambda m: "x" * len(NAMES),
        lambda m: None,
        lambda m: b"{",
        lambda m: b"\xff\xfe",
        lambda m: b"",
        lambda m: b"[" * 200_000,
        lambda m: canonical_json(list(m.values())).encode().replace(b",0.5,", b",NaN,"),
        lambda m: (
            canonical_json(list((m | {"reward_parts": {}}).values()))
            .encode()
            .replace(b",0.5,", b",NaN,")
        ),
    ],
)
def test_metadata_that_lies(change: Callable[[dict[str, Any]], object]) -> None:
    with pytest.raises(CorruptFrame):
        codec.decode(with_meta(change))


def test_metadata_can_be_exchanged_at_all() -> None:
    """Guards the tests above: the same surgery without a lie gives a readable frame."""
    assert codec.decode(with_meta(lambda m: m)) == golden()
    assert codec.decode(with_meta(lambda m: m | {"id": "other"})).id == "other"


# -- bombs -----------------------------------------------------------------------------------


def test_a_decompression_bomb_stops_at_the_promised_size() -> None:
    header, _ = parts(codec.encode(golden(), compress=True))
    bomb = zstandard.ZstdCompressor(level=19).compress(b"\0" * 2**26)
    assert len(bomb) < 10_000
    header[BODY] = len(bomb)
    with pytest.raises(CorruptFrame, match="size"):
        codec.decode(sealed(header, bomb))


def test_a_bomb_without_a_size_of_its_own_is_refused() -> None:
    header, _ = parts(codec.encode(golden(), compress=True))
    bomb = zstandard.ZstdCompressor(write_content_size=False).compress(b"\0" * 2**24)
    header[BODY] = len(bomb)
    with pytest.raises(CorruptFrame):
        codec.decode(sealed(header, bomb))


def test_a_promise_larger_than_any_frame_allocates_nothing() -> None:
    """Ten bytes that promise 50 GB must not be believed."""
    header, _ = parts(codec.encode(golden(), compress=True))
    size = 4 * (2**32 - 1) + (2**32 + 6) // 8
    body = zstandard.ZstdCompressor(write_content_size=True).compressobj(size=size)
    start = body.compress(b"\0" * 64) + body.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    header[FLAGS], header[TOKENS], header[SAMPLED] = 1, 2**32 - 1, 0
    header[META], header[BODY] = 0, len(start)
    assert zstandard.get_frame_parameters(start).content_size == size
    with pytest.raises(CorruptFrame, match="promises"):
        codec.decode(sealed(header, start))


def test_a_record_too_large_for_a_frame_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "_MAX_BODY", 500)
    for compress in (False, True):
        with pytest.raises(InvalidRecord, match="do not fit"):
            codec.encode(make_trajectory(1), compress)
