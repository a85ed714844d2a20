#!/usr/bin/env python3
"""Converts generated checkpoints on the CPU and on the GPU: the files must be equal; both are timed.

    convert_models.py --rowscale PROGRAM --out DIR [--mib SIZE]

Small Llama-shaped models in bf16, fp16, fp32 and block FP8, each scheme with each numerics; then a bf16 model of
SIZE MiB (1024), in memory where the machine has /dev/shm, three times on each device. Writes DIR/gpu-convert.csv.

Exit: 0 equal; 1 not; 5 no GPU here. Python's standard library only.
"""

import argparse
import csv
import filecmp
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SCHEMES = ("fp8-dynamic", "fp8-block", "fp8-tensor")
NUMERICS = ("compressed-tensors", "precise")
ROUNDS = 3
BYTES = {"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1}
TORCH = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F8_E4M3": "bfloat16"}


def numbers(source, dtype, count):
    """`count` finite numbers, small and large, little-endian."""
    data = bytearray(source.randbytes(count * BYTES[dtype]))
    if dtype == "F8_E4M3":  # no NaN
        return bytes(data.translate(bytes(b if b & 0x7F != 0x7F else 0x38 for b in range(256))))
    # The byte that holds the sign and most of the exponent: exponents about that of 1.
    exponent = 0x30 if dtype == "F16" else 0x3C
    data[BYTES[dtype] - 1::BYTES[dtype]] = data[BYTES[dtype] - 1::BYTES[dtype]].translate(
        bytes((b & 0x80) | exponent | (b & 3) for b in range(256)))
    return bytes(data)


def scales(source, count):
    """`count` positive fp32 numbers: what the scales of a weight are."""
    data = bytearray(numbers(source, "F32", count))
    data[3::4] = bytes(b & 0x7F for b in data[3::4])
    return bytes(data)


def write_model(folder, dtype, hidden, layers, stored=None):
    """A Llama-shaped model. `stored`: the numbers of every weight come from this many bytes, over and over."""
    source = random.Random(f"{dtype} {hidden}")
    is_fp8 = dtype == "F8_E4M3"
    shapes = {}
    for layer in range(layers):
        for name, rows, columns in (("self_attn.q_proj", hidden, hidden), ("self_attn.k_proj", hidden // 4, hidden),
                                    ("self_attn.v_proj", hidden // 4, hidden), ("self_attn.o_proj", hidden, hidden),
                                    ("mlp.gate_proj", 3 * hidden, hidden), ("mlp.up_proj", 3 * hidden, hidden),
                                    ("mlp.down_proj", hidden, 3 * hidden)):
            shapes[f"model.layers.{layer}.{name}.weight"] = (rows, columns)
    entries, pieces, end = {}, [], 0

    def add(name, kind, shape, data):
        nonlocal end
        entries[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [end, end + len(data)]}
        pieces.append(data)
        end += len(data)

    stock = numbers(source, dtype, (stored or 0) // BYTES[dtype])
    for name, (rows, columns) in shapes.items():
        bytes_wanted = rows * columns * BYTES[dtype]
        if stored:
            data = (stock * (bytes_wanted // len(stock) + 1))[:bytes_wanted]
        else:
            data = numbers(source, dtype, rows * columns)
        add(name, dtype, (rows, columns), data)
        if is_fp8:
            blocks = (-(-rows // 128), -(-columns // 128))
            add(name + "_scale_inv", "F32", blocks, scales(source, blocks[0] * blocks[1]))
    add("model.norm.weight", "BF16" if is_fp8 else dtype, (hidden,),
        numbers(source, "BF16" if is_fp8 else dtype, hidden))
    header = json.dumps({"__metadata__": {"format": "pt"}, **entries}).encode()
    header += b" " * (-len(header) % 8)
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "torch_dtype": TORCH[dtype],
              "hidden_size": hidden, "num_hidden_layers": layers}
    if is_fp8:
        config["quantization_config"] = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
                                         "weight_block_size": [128, 128]}
    os.makedirs(folder)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for data in pieces:
            file.write(data)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=2)


def different_files(left, right):
    names = sorted(set(os.listdir(left)) | set(os.listdir(right)))
    _, mismatch, errors = filecmp.cmpfiles(left, right, names, shallow=False)
    return mismatch + errors


class Converter:
    def __init__(self, rowscale, folder):
        self.rowscale, self.folder = rowscale, folder

    def run(self, model, device, scheme, numerics):
        """(the output's folder, seconds)"""
        out = os.path.join(self.folder, f"out-{device}")
        shutil.rmtree(out, ignore_errors=True)
        begin = time.monotonic()
        done = subprocess.run([self.rowscale, "quantize", model, out, "--scheme", scheme, "--numerics", numerics,
                               "--device", device, "--quiet"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        seconds = time.monotonic() - begin
        if done.returncode != 0:
            print(f"{model} {scheme} {numerics} on {device}: exit {done.returncode}: {done.stdout.strip()}")
            sys.exit(5 if done.returncode == 5 else 1)
        return out, seconds


def main():
    parser = argparse.ArgumentParser(prog="convert_models.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rowscale", required=True, metavar="PROGRAM")
    parser.add_argument("--out", required=True, metavar="DIR")
    parser.add_argument("--mib", type=int, default=1024)
    arguments = parser.parse_args()

    room = "/dev/shm" if os.path.isdir("/dev/shm") else None
    failed, compared = 0, 0
    with tempfile.TemporaryDirectory(dir=room) as folder:
        converter = Converter(arguments.rowscale, folder)
        for dtype in BYTES:
            model = os.path.join(folder, dtype.lower())
            write_model(model, dtype, 384, 2)
            for scheme in SCHEMES:
                for numerics in NUMERICS:
                    outs = [converter.run(model, device, scheme, numerics)[0] for device in ("cpu", "cuda")]
                    compared += 1
                    for name in different_files(*outs):
                        failed += 1
                        print(f"{dtype} {scheme} {numerics}: {name} differs")

        hidden = 4096
        weights = 2 * hidden * hidden * 2 + 2 * (hidden // 4) * hidden * 2 + 3 * 3 * hidden * hidden * 2
        model = os.path.join(folder, "large")
        write_model(model, "BF16", hidden, max(1, (arguments.mib << 20) // weights), stored=(64 << 20) + 2 * 977)
        size = os.path.getsize(os.path.join(model, "model.safetensors"))
        rows = []
        for scheme in SCHEMES:
            seconds = {"cpu": [], "cuda": []}
            for _ in range(ROUNDS):
                outs = []
                for device, times in seconds.items():
                    out, taken = converter.run(model, device, scheme, NUMERICS[0])
                    times.append(taken)
                    outs.append(out)
                compared += 1
                for name in different_files(*outs):
                    failed += 1
                    print(f"large {scheme}: {name} differs")
            for device, times in seconds.items():
                rows.append((scheme, device, size, len(os.sched_getaffinity(0)), f"{statistics.median(times):.3f}",
                             f"{size / statistics.median(times) / 1e9:.3f}"))
    with open(os.path.join(arguments.out, "gpu-convert.csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("scheme", "device", "source_bytes", "cpus", "seconds", "source_gb_per_s"))
        writer.writerows(rows)
    for scheme, device, _, cpus, taken, rate in rows:
        print(f"{scheme:<12} {device:<5} {cpus} CPUs {taken:>8} s {rate:>8} GB/s of the source")
    print(f"{compared} conversions on both devices, {failed} files differ")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
