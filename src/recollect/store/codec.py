"""The frame: one trajectory as checksummed bytes, exactly as it was sampled.

Layout, all little-endian, no padding:

    magic       4 bytes  b"RCLT"
    version     uint16   1
    flags       uint16   1 zstd body, 2 has log-probs, 4 has entropies
    tokens      uint32   T
    sampled     uint32   S
    meta        uint32   length of the JSON text before compression
    body        uint32   length of the body as stored
    crc         uint32   CRC32C over everything else in the frame, header included
    (reserved)  uint32   0
    body                 tokens i4[T] | log-probs f4[S] | entropies f4[S] | mask bits | JSON

The four-byte arrays come first so that they can be read in place, aligned. The JSON is one
array; `_meta` lists what stands where in it. There is no pickle: a frame from a stranger can
hold wrong numbers but cannot run anything.
"""

from __future__ import annotations

import json
import math
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import google_crc32c
import numpy as np

from recollect.canonical import canonical_json
from recollect.errors import CorruptFrame, InvalidRecord, MissingExtra
from recollect.store.unchecked import unchecked
from recollect.trajectory import Floats, Mask, Tokens, Trajectory
from recollect.types import (
    NoteSpan,
    Origin,
    Reward,
    Sampling,
    Segment,
    SegmentKind,
    StopReason,
    ToolCall,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

_MAGIC = b"RCLT"
_VERSION = 1
_ZSTD, _LOGPROBS, _ENTROPIES = 1, 2, 4
_KNOWN_FLAGS = _ZSTD | _LOGPROBS | _ENTROPIES
_HEADER = struct.Struct("<4sHHIIIIII")
_FLAGS_AT, _META_AT, _CRC_AT = 6, 16, 24
_MAX_BODY = 2**31 - 1
_I4, _F4, _U1 = np.dtype("<i4"), np.dtype("<f4"), np.dtype(np.uint8)

_ORIGINS = {origin.value: origin for origin in Origin}
_STOPS = {stop.value: stop for stop in StopReason}
_KINDS = {kind.value[0]: kind for kind in SegmentKind}
assert len(_KINDS) == len(SegmentKind)

_trajectory = unchecked(Trajectory)
_segment = unchecked(Segment)
_reward = unchecked(Reward)
_known_sampling = lru_cache(maxsize=64, typed=True)(Sampling)  # a run has one or two

_Arrays: TypeAlias = tuple[Tokens, Mask, "Floats | None", "Floats | None"]


def encode(trajectory: Trajectory, compress: bool = False) -> bytes:
    """Turn a trajectory into a frame. The same trajectory always gives the same bytes."""
    t = trajectory
    meta = canonical_json(_meta(t)).encode("utf-8")
    flags = 0
    parts: list[Buffer] = [t.tokens.data]
    for array, flag in ((t.logprobs, _LOGPROBS), (t.entropies, _ENTROPIES)):
        if array is not None:
            flags |= flag
            parts.append(array.data)
    body = b"".join((*parts, np.packbits(t.sampled, bitorder="little").data, meta))
    if len(body) > _MAX_BODY:
        raise InvalidRecord("tokens", f"{len(body):,} bytes do not fit one frame", t.id)
    if compress:
        flags |= _ZSTD
        body = _zstandard().ZstdCompressor(level=3).compress(body)
    counts = (_MAGIC, _VERSION, flags, t.tokens.size, t.sampled_count, len(meta), len(body))
    crc = google_crc32c.extend(google_crc32c.value(_HEADER.pack(*counts, 0, 0)), body)
    return _HEADER.pack(*counts, crc, 0) + body


def require_zstd() -> None:
    """Raise MissingExtra where frames cannot be compressed here."""
    _zstandard()


def check(frame: bytes) -> None:
    """Raise CorruptFrame unless the frame's lengths and checksum hold."""
    _open(frame)


def belongs(frame: bytes, trajectory: str) -> bool:
    """Tell whether an intact frame is this trajectory's: a damaged index may lead to another."""
    if not struct.unpack_from("<H", frame, _FLAGS_AT)[0] & _ZSTD:
        start = len(frame) - int(struct.unpack_from("<I", frame, _META_AT)[0])
        if frame.startswith(f'["{trajectory}",'.encode("utf-8", "replace"), start):
            return True
    return decode(frame).id == trajectory


def checksum(frame: bytes) -> int:
    """Return the CRC32C that a frame carries (not recomputed)."""
    return int(struct.unpack_from("<I", frame, _CRC_AT)[0])


def decode(frame: bytes) -> Trajectory:
    """Turn a frame back into the trajectory it was made from, bit for bit.

    Raises CorruptFrame where any byte changed or any is missing. A frame that passes was
    validated when it was encoded, so the record is rebuilt without checking it again.
    """
    flags, tokens, sampled, meta_size, body = _open(frame)
    arrays = 4 * (tokens + sampled * (bool(flags & _LOGPROBS) + bool(flags & _ENTROPIES)))
    raw_size = arrays + (tokens + 7) // 8 + meta_size
    if raw_size > _MAX_BODY:
        raise CorruptFrame(f"it promises {raw_size:,} bytes, more than any frame holds")
    if flags & _ZSTD:
        body = memoryview(_inflate(body, raw_size))
    if len(body) != raw_size:
        raise CorruptFrame(f"body of {len(body)} bytes where {raw_size} were promised")
    try:
        meta = json.loads(str(body[raw_size - meta_size :], "utf-8"))
        return _rebuild(meta, _arrays(body, flags, tokens, sampled))
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFrame(f"metadata cannot be read ({error})") from error
    except InvalidRecord as error:
        raise CorruptFrame(f"metadata cannot be read ({error})") from error


def _arrays(body: memoryview, flags: int, tokens: int, sampled: int) -> _Arrays:
    """Return tokens, mask, log-probs and entropies: views of the body, the mask a copy."""
    offset = 4 * tokens
    floats: list[Floats | None] = [None, None]
    for index, flag in enumerate((_LOGPROBS, _ENTROPIES)):
        if flags & flag:
            floats[index] = np.frombuffer(body, _F4, sampled, offset)
            offset += 4 * sampled
    bits = np.frombuffer(body, _U1, (tokens + 7) // 8, offset)
    mask = np.unpackbits(bits, count=tokens, bitorder="little").view(np.bool_)
    mask.setflags(write=False)
    if np.count_nonzero(mask) != sampled:
        raise CorruptFrame("its mask and its header count the sampled tokens differently")
    return np.frombuffer(body, _I4, tokens), mask, floats[0], floats[1]


def _open(frame: bytes) -> tuple[int, int, int, int, memoryview]:
    """Check a frame and return flags, T, S, length of the JSON, and the stored body."""
    if not isinstance(frame, bytes) or len(frame) < _HEADER.size:
        raise CorruptFrame("it is too short for a header")
    magic, version, flags, tokens, sampled, meta, size, crc, reserved = _HEADER.unpack_from(frame)
    if magic != _MAGIC:
        raise CorruptFrame("it does not begin like one")
    body = memoryview(frame)[_HEADER.size :]
    if len(body) != size:
        raise CorruptFrame(f"body of {len(body)} bytes where the header says {size}")
    header = frame[:_CRC_AT] + b"\0\0\0\0" + frame[_CRC_AT + 4 : _HEADER.size]
    if google_crc32c.extend(google_crc32c.value(header), bytes(body)) != crc:
        raise CorruptFrame("its checksum does not match")
    if version != _VERSION or flags & ~_KNOWN_FLAGS or reserved:
        raise CorruptFrame(f"version {version} with flags {flags} is not known here")
    if sampled > tokens:
        raise CorruptFrame("more sampled tokens than tokens")
    return flags, tokens, sampled, meta, body


def _inflate(body: memoryview, raw_size: int) -> bytes:
    """Decompress, never to more than the header promises (a bomb stops there)."""
    zstandard = _zstandard()
    try:
        parameters = zstandard.get_frame_parameters(bytes(body))
        if parameters.content_size != raw_size:
            raise CorruptFrame("compressed size differs from the header's")
        inflated: bytes = zstandard.ZstdDecompressor().decompress(bytes(body))
    except zstandard.ZstdError as error:
        raise CorruptFrame(f"zstd: {error}") from error
    return inflated


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError:
        raise MissingExtra("A compressed frame", "zstd") from None
    return zstandard


def _meta(t: Trajectory) -> list[object]:
    """List everything that is not an array, as JSON values; `_rebuild` reads it."""
    sampling = t.sampling
    return [
        # Origins, stops and kinds are strings as they are; asking for their value is slow.
        *(t.id, t.task, t.run, t.step, t.group, t.origin, t.policy_version),
        # Segments as columns. They tile the tokens, so each starts where the last one ends.
        "".join([s.kind[0] for s in t.segments]),
        [s.end for s in t.segments],
        [s.text for s in t.segments],
        [_tools(n, s) for n, s in enumerate(t.segments) if s.calls or s.call_id or s.name],
        *(t.reward.value, dict(t.reward.parts), t.success, t.stop),
        None
        if sampling is None
        else [sampling.temperature, sampling.top_p, sampling.top_k, sampling.max_tokens],
        [[n.note, n.start, n.end] for n in t.notes],
        *(t.tokenizer, t.environment_version, t.reward_version, t.started, t.finished),
        dict(t.extra),
    ]


def _tools(number: int, s: Segment) -> list[object]:
    return [number, [[c.name, c.arguments, c.id] for c in s.calls], s.call_id, s.name]


def _rebuild(meta: list[Any], arrays: _Arrays) -> Trajectory:
    """Make a trajectory from parts that were validated before they were encoded."""
    id_, task, run, step, group, origin, version, *meta = meta
    kinds, ends, texts, tools, reward, parts, success, stop, sampling, notes, *meta = meta
    tokenizer, environment_version, reward_version, started, finished, extra = meta
    tokens, mask, logprobs, entropies = arrays
    return _trajectory(
        *(id_, task, run, step, group, _ORIGINS[origin], version),
        *(tokens, mask, logprobs, entropies, _segments(kinds, ends, texts, tools)),
        *(_reward_from(reward, parts), success, _STOPS[stop], _sampling_from(sampling)),
        tuple([NoteSpan(*item) for item in notes]),
        *(tokenizer, environment_version, reward_version, started, finished, extra),
    )


def _segments(
    kinds: str, ends: list[int], texts: list[str], tools: list[Any]
) -> tuple[Segment, ...]:
    made, start = [], 0
    for kind, end, text in zip(kinds, ends, texts, strict=True):
        made.append(_segment(_KINDS[kind], start, end, text, (), "", ""))
        start = end
    for number, calls, call_id, name in tools:
        s = made[number]
        named = tuple([ToolCall(*call) for call in calls])
        made[number] = _segment(s.kind, s.start, s.end, s.text, named, call_id, name)
    return tuple(made)


def _reward_from(value: float, parts: dict[str, float]) -> Reward:
    # NaN is valid to Python's JSON parser, so a stranger's frame may hold one.
    if not parts and isinstance(value, float) and math.isfinite(value):
        return _reward(value, parts)
    return Reward(value, parts)


def _sampling_from(values: list[Any] | None) -> Sampling | None:
    if values is None:
        return None
    # 0.0 and -0.0 are one key to a cache but two texts in a frame.
    return _known_sampling(*values) if values[0] else Sampling(*values)
