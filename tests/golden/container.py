"""A safetensors writer whose bytes depend on the content only (the usual one orders metadata freely)."""

import json
import struct

import numpy as np

NAMES = {
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "int32": "I32",
    "uint8": "U8",
}


def serialize(tensors, metadata):
    # Widest element first, so that every tensor is aligned to its element.
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    header, chunks, offset = {"__metadata__": dict(sorted(metadata.items()))}, [], 0
    for name in order:
        data = np.ascontiguousarray(tensors[name]).tobytes()
        header[name] = {
            "dtype": NAMES[tensors[name].dtype.name],
            "shape": list(tensors[name].shape),
            "data_offsets": [offset, offset + len(data)],
        }
        chunks.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=True).encode("ascii")
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(chunks)
