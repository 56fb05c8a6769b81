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

The four-byte arrays come first so that they can be read in place, aligned. There is no
pickle: a frame from a stranger can hold wrong numbers but cannot run anything.
"""

from __future__ import annotations

import json
import struct
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import google_crc32c
import numpy as np

from recollect.canonical import canonical_json
from recollect.errors import CorruptFrame, InvalidRecord, MissingExtra
from recollect.trajectory import Trajectory
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
_CRC_AT = 24
_MAX_BODY = 2**31 - 1

_KINDS = {kind.value: kind for kind in SegmentKind}
_FIELDS = len(fields(Trajectory)) + 1  # a reward is two: its value and its parts
_PLAIN_SEGMENT = 4  # [kind, start, end, text]; calls, call_id and name follow only if any is set


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
    parts += [np.packbits(t.sampled, bitorder="little").data, meta]
    size = sum(memoryview(part).nbytes for part in parts)
    if size > _MAX_BODY:
        raise InvalidRecord("tokens", f"{size:,} bytes do not fit one frame", t.id)
    if compress:
        flags |= _ZSTD
        parts = [_zstandard().ZstdCompressor(level=3).compress(b"".join(parts))]
        size = memoryview(parts[0]).nbytes
    counts = (_MAGIC, _VERSION, flags, t.tokens.size, t.sampled_count, len(meta), size)
    crc = google_crc32c.value(_HEADER.pack(*counts, 0, 0))
    for part in parts:
        crc = google_crc32c.extend(crc, bytes(part))
    return b"".join((_HEADER.pack(*counts, crc, 0), *parts))


def check(frame: bytes) -> None:
    """Raise CorruptFrame unless the frame's lengths and checksum hold."""
    _open(frame)


def belongs(frame: bytes, trajectory: str) -> bool:
    """Tell whether an intact frame is this trajectory's: a damaged index may lead to another."""
    named = f'"id":"{trajectory}","notes":'.encode("utf-8", "replace")
    return named in frame or decode(frame).id == trajectory


def checksum(frame: bytes) -> int:
    """Return the CRC32C that a frame carries (not recomputed)."""
    return int(struct.unpack_from("<I", frame, _CRC_AT)[0])


def decode(frame: bytes) -> Trajectory:
    """Turn a frame back into the trajectory it was made from, bit for bit.

    Raises CorruptFrame where any byte changed or any is missing. A frame that passes was
    validated when it was encoded, so the record is rebuilt without checking it again.
    """
    flags, tokens, sampled, meta_size, body = _open(frame)
    mask_size = (tokens + 7) // 8
    arrays = 4 * (tokens + sampled * (bool(flags & _LOGPROBS) + bool(flags & _ENTROPIES)))
    raw_size = arrays + mask_size + meta_size
    if raw_size > _MAX_BODY:
        raise CorruptFrame(f"it promises {raw_size:,} bytes, more than any frame holds")
    if flags & _ZSTD:
        body = memoryview(_inflate(body, raw_size))
    if len(body) != raw_size:
        raise CorruptFrame(f"body of {len(body)} bytes where {raw_size} were promised")
    offset = 4 * tokens
    values: dict[str, Any] = {
        "tokens": np.frombuffer(body, "<i4", tokens),
        "logprobs": None,
        "entropies": None,
    }
    for name, flag in (("logprobs", _LOGPROBS), ("entropies", _ENTROPIES)):
        if flags & flag:
            values[name] = np.frombuffer(body, "<f4", sampled, offset)
            offset += 4 * sampled
    bits = np.frombuffer(body, np.uint8, mask_size, offset)
    values["sampled"] = np.unpackbits(bits, count=tokens, bitorder="little").view(np.bool_)
    values["sampled"].setflags(write=False)
    if np.count_nonzero(values["sampled"]) != sampled:
        raise CorruptFrame("its mask and its header count the sampled tokens differently")
    try:
        return _rebuild(json.loads(bytes(body[offset + mask_size :])), values)
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFrame(f"metadata cannot be read ({error})") from error
    except InvalidRecord as error:
        raise CorruptFrame(f"metadata cannot be read ({error})") from error


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


def _meta(t: Trajectory) -> dict[str, object]:
    """Collect everything that is not an array, as JSON values."""
    sampling = t.sampling
    return {
        "id": t.id,
        "task": t.task,
        "run": t.run,
        "step": t.step,
        "group": t.group,
        "origin": t.origin.value,
        "policy_version": t.policy_version,
        "segments": [_segment_to_list(s) for s in t.segments],
        "reward": t.reward.value,
        "reward_parts": dict(t.reward.parts),
        "success": t.success,
        "stop": t.stop.value,
        "sampling": None
        if sampling is None
        else [sampling.temperature, sampling.top_p, sampling.top_k, sampling.max_tokens],
        "notes": [[n.note, n.start, n.end] for n in t.notes],
        "tokenizer": t.tokenizer,
        "environment_version": t.environment_version,
        "reward_version": t.reward_version,
        "started": t.started,
        "finished": t.finished,
        "extra": dict(t.extra),
    }


def _segment_to_list(s: Segment) -> list[object]:
    plain: list[object] = [s.kind, s.start, s.end, s.text]
    if s.calls or s.call_id or s.name:
        plain += [[[c.name, c.arguments, c.id] for c in s.calls], s.call_id, s.name]
    return plain


def _rebuild(meta: dict[str, Any], values: dict[str, Any]) -> Trajectory:
    """Make a trajectory from parts that were validated before they were encoded."""
    if len(meta) + len(values) != _FIELDS:
        raise ValueError(f"{len(meta)} fields")
    parts = meta.pop("reward_parts")
    sampling = meta["sampling"]
    meta["segments"] = tuple([_segment_from_list(item) for item in meta["segments"]])
    meta["reward"] = Reward(meta["reward"], parts)
    meta["origin"] = Origin(meta["origin"])
    meta["stop"] = StopReason(meta["stop"])
    meta["sampling"] = None if sampling is None else Sampling(*sampling)
    meta["notes"] = tuple([NoteSpan(*item) for item in meta["notes"]])
    return Trajectory.trusted(**meta, **values)


def _segment_from_list(item: list[Any]) -> Segment:
    if len(item) == _PLAIN_SEGMENT:
        return Segment.trusted(_KINDS[item[0]], item[1], item[2], item[3], (), "", "")
    calls = tuple([ToolCall(*call) for call in item[4]])
    return Segment.trusted(_KINDS[item[0]], item[1], item[2], item[3], calls, item[5], item[6])
