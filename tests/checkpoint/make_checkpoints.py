#!/usr/bin/env python3
"""Makes checkpoints for tests and demonstrations: deterministic, by name.

    make_checkpoints.py --list
    make_checkpoints.py KIND OUT          OUT must not exist
    make_checkpoints.py KIND OUT --bytes 1e9    (llama only) about that size

Needs numpy, ml_dtypes and safetensors (scripts/install-deps installs them).
"""

import argparse
import os
import sys

import block_fp8
import folder
import models
import moe_models
import refused
from weights import BF16, F16, F32

CONVERTIBLE = {
    "llama": lambda: models.llama(shards=3),
    "llama_single": models.llama,
    "llama_even": lambda: models.llama(shards=2, intermediate_size=768),  # blocks that divide
    "llama_tied": lambda: models.llama(tie_word_embeddings=True),
    "llama_duplicate_head": models.llama_duplicate_head,
    "llama_f16": lambda: models.llama(dtype=F16),
    "llama_f32": lambda: models.llama(dtype=F32),
    "llama_edges": lambda: models.llama_edges(BF16),
    "llama_edges_f16": lambda: models.llama_edges(F16),
    "llama_edges_f32": lambda: models.llama_edges(F32),
    "qwen2": models.qwen2,
    "mixtral": moe_models.mixtral,
    "qwen2_moe": moe_models.qwen2_moe,
    "qwen3_moe": moe_models.qwen3_moe,
    "qwen3_moe_even": lambda: moe_models.qwen3_moe(256),
    "llama4": moe_models.llama4,
    "qwen3_vl_moe": moe_models.qwen3_vl_moe,
    "qwen3_5_moe": moe_models.qwen3_5_moe,
    "gpt_oss": moe_models.gpt_oss,
    "granite_moe": moe_models.granite_moe,
    "unknown_stack": moe_models.unknown_stack,
    "deepseek_bf16": moe_models.deepseek_bf16,
    "deepseek_fp8": block_fp8.deepseek_fp8,
    "deepseek_fp8_bf16_scales": lambda: block_fp8.deepseek_fp8("bf16"),
    "deepseek_fp8_ue8m0_f32": lambda: block_fp8.deepseek_fp8("ue8m0_f32"),
    "deepseek_fp8_ue8m0": lambda: block_fp8.deepseek_fp8("ue8m0"),
    "deepseek_fp8_ue8m0_u8": lambda: block_fp8.deepseek_fp8("ue8m0_u8"),
    "deepseek_fp8_scale": lambda: block_fp8.deepseek_fp8("ue8m0", ".scale"),
    "llava": moe_models.llava,
}


def write(path, model, files=None):
    refused.write(
        path, model, files={**folder.SIDE_FILES, **folder.SKIPPED_FILES} if files is None else files
    )


def hub_snapshot(root, model):
    """The Hub's cache: blobs, and a snapshot whose entries are links to them. Returns the snapshot."""
    repository = os.path.join(root, "models--owner--name")
    snapshot = os.path.join(repository, "snapshots", "0123456789abcdef")
    write(snapshot, model)
    blobs = os.path.join(repository, "blobs")
    os.makedirs(blobs)
    for base, _, names in os.walk(snapshot):
        for name in names:
            path = os.path.join(base, name)
            blob = os.path.join(blobs, f"{len(os.listdir(blobs)):040x}")
            os.rename(path, blob)
            os.symlink(os.path.relpath(blob, base), path)
    return snapshot


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", nargs="?")
    parser.add_argument("out", nargs="?")
    parser.add_argument("--bytes", type=float, help="about the size of a llama")
    parser.add_argument("--list", action="store_true", help="print the kinds")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join([*CONVERTIBLE, *refused.REFUSED]))
        return 0
    if not arguments.out:
        parser.error("KIND and OUT are needed")
    if os.path.exists(arguments.out):
        parser.error(f"{arguments.out} exists")
    if arguments.bytes and arguments.kind == "llama":
        write(arguments.out, models.llama_of(arguments.bytes), folder.SIDE_FILES)
    elif arguments.kind in CONVERTIBLE:
        write(arguments.out, CONVERTIBLE[arguments.kind]())
    elif arguments.kind in refused.REFUSED:
        refused.REFUSED[arguments.kind][0](arguments.out)
    else:
        parser.error(f"no kind {arguments.kind}; --list prints them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
