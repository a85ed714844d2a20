"""Hugging Face folders: writes shards, index, config.json and what lies beside them; reads tensors."""

import json
import os
import struct

import ml_dtypes
import numpy as np
import safetensors.numpy

# Copied byte for byte by a converter; none may be parsed and written again.
SIDE_FILES = {
    "tokenizer.json": b'{"version":"1.0","added_tokens":[]  ,"model":{"type":"BPE"}}\r\n',
    "tokenizer_config.json": b'{\n  "chat_template": "{{ \\u00e4 }}"\n}',
    "generation_config.json": b'{"_from_model_config": true}\n',
    "chat_template.jinja": "{% for m in messages %}{{ m }}\u00e9{% endfor %}".encode(),
    "preprocessor_config.json": b"{}",
    "foo.json": b"not even JSON",
    "modeling_custom.py": b"raise SystemExit('a converter must not run this')\n",
    "LICENSE": b"Apache-2.0\n",
    "README.md": b"---\nlicense: apache-2.0\ntags:\n- generated\n---\n# A generated model\n",
    "empty": b"",
    "assets/deep/picture.bin.txt": bytes(range(256)),
}

# Named in the plan and left out.
SKIPPED_FILES = {
    "pytorch_model.bin": b"PK\x03\x04",
    "model.pt": b"PK\x03\x04",
    "training.pth": b"PK\x03\x04",
    "model.gguf": b"GGUF",
    "onnx/model.onnx": b"\x08\x07",
    "original/consolidated.00.pth": b"PK\x03\x04",
    "original/params.json": b"{}",
    ".git/HEAD": b"ref: refs/heads/main\n",
    ".cache/huggingface/download/config.json.metadata": b"0\n",
}


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as stream:
        stream.write(data)


def write_files(folder, files):
    for name, data in files.items():
        write(os.path.join(folder, name), data)


def write_shard(path, tensors, metadata=None):
    """By the reference implementation. metadata None: a file without __metadata__."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    safetensors.numpy.save_file(tensors, path, metadata)


def write_index(folder, weight_map, total_size):
    index = {"metadata": {"total_size": total_size}, "weight_map": dict(sorted(weight_map.items()))}
    write(os.path.join(folder, "model.safetensors.index.json"), (json.dumps(index, indent=2) + "\n").encode())


def shard_name(number, count):
    return "model.safetensors" if count == 1 else f"model-{number:05d}-of-{count:05d}.safetensors"


def write_model(folder, shards, config_text, files=None):
    """shards: a list of lists of (name, function that makes the tensor), one shard in memory at a time.
    One list makes model.safetensors; more make shards and an index."""
    os.makedirs(folder, exist_ok=True)
    weight_map, total = {}, 0
    for number, shard in enumerate(shards, 1):
        tensors = {name: make() for name, make in shard}
        write_shard(os.path.join(folder, shard_name(number, len(shards))), tensors, {"format": "pt"})
        weight_map.update(dict.fromkeys(tensors, shard_name(number, len(shards))))
        total += sum(tensor.nbytes for tensor in tensors.values())
        del tensors
    if len(shards) > 1:
        write_index(folder, weight_map, total)
    write(os.path.join(folder, "config.json"), config_text.encode())
    write_files(folder, files or {})


DTYPES = {
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E8M0": ml_dtypes.float8_e8m0fnu,
    "U8": np.uint8,
    "I8": np.int8,
    "I32": np.int32,
    "I64": np.int64,
    "BOOL": np.bool_,
}


def files_of(path):
    """Name -> bytes of every file below the folder `path`."""
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


class Shard:
    """One safetensors file, read by the format's description: the header at once, tensors when asked."""

    def __init__(self, path):
        self.path = path
        with open(path, "rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            self.header = json.loads(stream.read(length))
        self.metadata = self.header.pop("__metadata__", None)
        self.start = 8 + length

    def __iter__(self):
        return iter(self.header)

    def __getitem__(self, name):
        entry = self.header[name]
        begin, end = entry["data_offsets"]
        with open(self.path, "rb") as stream:
            stream.seek(self.start + begin)
            data = stream.read(end - begin)
        return np.frombuffer(data, DTYPES[entry["dtype"]]).reshape(entry["shape"])


class Checkpoint:
    """All tensors of a folder, each from the shard that the index names."""

    def __init__(self, folder):
        index = os.path.join(folder, "model.safetensors.index.json")
        if os.path.exists(index):
            with open(index, encoding="utf-8") as stream:
                self.files = json.load(stream)["weight_map"]
        else:
            self.files = dict.fromkeys(Shard(os.path.join(folder, "model.safetensors")), "model.safetensors")
        self.shards = {file: Shard(os.path.join(folder, file)) for file in sorted(set(self.files.values()))}

    def __iter__(self):
        return iter(self.files)

    def __getitem__(self, name):
        return self.shards[self.files[name]][name]
