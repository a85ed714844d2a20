"""Inputs that a converter refuses before work, each with the exit code and a part of the message.

3: unreadable, malformed, unsupported or already quantized input, or nothing to quantize.
"""

import json
import os
import struct

import ml_dtypes
import numpy as np

import block_fp8
import folder
import weights
from models import Fate, Model, llama, llama_config

REFUSED = {}


def refused(message, code=3):
    """Decorates a function(path) that writes the folder at path."""

    def add(function):
        REFUSED[function.__name__] = (function, code, message)
        return function

    return add


def write(path, model, **keywords):
    folder.write_model(
        path, [[(t.name, t.make) for t in part] for part in model.split()], model.text(), **keywords
    )


def quantized_llama(path, config, per_linear, files=None):
    """A small Llama whose linear weights are replaced by `per_linear(name, rows, columns)`."""
    model = llama(num_hidden_layers=1)
    model.config.update(config)
    tensors = []
    for tensor in model.tensors:
        if tensor.fate is not Fate.QUANTIZE:
            tensors.append((tensor.name, tensor.make))
            continue
        module = tensor.name.removesuffix(".weight")
        for name, array in per_linear(module, *tensor.shape).items():
            tensors.append((name, lambda array=array: array))
    folder.write_model(path, [tensors], model.text(), files)


def e4m3(rows, columns):
    return np.ones((rows, columns), ml_dtypes.float8_e4m3fn)


def u8(*shape):
    return np.full(shape, 0x5A, np.uint8)


def i32(*shape):
    return np.full(shape, 0x12345678, np.int32)


def f32(*shape):
    return np.full(shape, 0.5, np.float32)


# Other tools' quantized checkpoints.


@refused("AutoFP8")
def autofp8(path):
    config = {
        "quantization_config": {
            "quant_method": "fp8",
            "activation_scheme": "static",
            "ignored_layers": ["lm_head"],
        }
    }
    quantized_llama(
        path,
        config,
        lambda m, r, c: {f"{m}.weight": e4m3(r, c), f"{m}.weight_scale": f32(1), f"{m}.input_scale": f32(1)},
    )


@refused("ModelOpt")
def modelopt(path):
    """Says so in a file of its own only."""
    quant = {
        "producer": {"name": "modelopt", "version": "0.29.0"},
        "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": None, "exclude_modules": ["lm_head"]},
    }
    quantized_llama(
        path,
        {},
        lambda m, r, c: {f"{m}.weight": e4m3(r, c), f"{m}.weight_scale": f32(), f"{m}.input_scale": f32()},
        {"hf_quant_config.json": json.dumps(quant).encode()},
    )


@refused("ModelOpt")
def modelopt_mirrored(path):
    config = {"quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"]}}
    quantized_llama(
        path,
        config,
        lambda m, r, c: {f"{m}.weight": e4m3(r, c), f"{m}.weight_scale": f32(), f"{m}.input_scale": f32()},
    )


@refused("NVFP4")
def nvfp4_modelopt(path):
    config = {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}}
    quantized_llama(
        path,
        config,
        lambda m, r, c: {
            f"{m}.weight": u8(r, c // 2),
            f"{m}.weight_scale": e4m3(r, c // 16),
            f"{m}.weight_scale_2": f32(),
        },
    )


def compressed(format_, weights_):
    return {
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "format": format_,
            "ignore": ["lm_head"],
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights_}},
        }
    }


@refused("compressed-tensors")
def compressed_tensors(path):
    config = compressed("float-quantized", {"num_bits": 8, "type": "float", "strategy": "channel"})
    quantized_llama(path, config, lambda m, r, c: {f"{m}.weight": e4m3(r, c), f"{m}.weight_scale": f32(r, 1)})


@refused("NVFP4")
def nvfp4_compressed(path):
    config = compressed(
        "nvfp4-pack-quantized", {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}
    )
    quantized_llama(
        path,
        config,
        lambda m, r, c: {
            f"{m}.weight_packed": u8(r, c // 2),
            f"{m}.weight_scale": e4m3(r, c // 16),
            f"{m}.weight_global_scale": f32(1),
        },
    )


@refused("GPTQ")
def gptq(path):
    config = {
        "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False}
    }
    quantized_llama(
        path,
        config,
        lambda m, r, c: {
            f"{m}.qweight": i32(c // 8, r),
            f"{m}.qzeros": i32(-(-c // 128), r // 8),
            f"{m}.scales": f32(-(-c // 128), r).astype(np.float16),
            f"{m}.g_idx": i32(c),
        },
    )


@refused("AWQ")
def awq(path):
    config = {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm"}}
    quantized_llama(
        path,
        config,
        lambda m, r, c: {
            f"{m}.qweight": i32(c, r // 8),
            f"{m}.qzeros": i32(-(-c // 128), r // 8),
            f"{m}.scales": f32(-(-c // 128), r).astype(np.float16),
        },
    )


@refused("bitsandbytes")
def bitsandbytes(path):
    config = {
        "quantization_config": {
            "quant_method": "bitsandbytes",
            "load_in_4bit": True,
            "bnb_4bit_quant_type": "nf4",
        }
    }
    quantized_llama(
        path,
        config,
        lambda m, r, c: {
            f"{m}.weight": u8(r * c // 2, 1),
            f"{m}.weight.absmax": f32(r * c // 64),
            f"{m}.weight.quant_map": f32(16),
            f"{m}.weight.quant_state.bitsandbytes__nf4": u8(80),
        },
    )


@refused("MXFP4")
def mxfp4(path):
    config = {
        "model_type": "gpt_oss",
        "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]},
    }
    quantized_llama(
        path, config, lambda m, r, c: {f"{m}_blocks": u8(r, c // 32, 16), f"{m}_scales": u8(r, c // 32)}
    )


@refused("never guessed")
def fp8_without_config(path):
    """Codes with a scale of an unknown name: a guess would make weights 200 times too large."""
    quantized_llama(path, {}, lambda m, r, c: {f"{m}.weight": e4m3(r, c), f"{m}.scale_weight": f32()})


# Block FP8 that cannot be read without a guess.


@refused("weight_scale_inv")
def block_fp8_missing_scale(path):
    model = block_fp8.deepseek_fp8()
    model.tensors = [t for t in model.tensors if t.name != "model.layers.1.self_attn.o_proj.weight_scale_inv"]
    write(path, model)


@refused("weight_scale_inv")
def block_fp8_orphan_scale(path):
    model = block_fp8.deepseek_fp8()
    model.tensors = [t for t in model.tensors if t.name != "model.layers.1.self_attn.o_proj.weight"]
    write(path, model)


@refused("weight_block_size")
def block_fp8_no_block_size(path):
    model = block_fp8.deepseek_fp8()
    del model.config["quantization_config"]["weight_block_size"]
    write(path, model)


@refused("model.layers.1.self_attn.o_proj.weight_scale_inv")
def block_fp8_wrong_scale_shape(path):
    model = block_fp8.deepseek_fp8()
    for t in model.tensors:
        if t.name == "model.layers.1.self_attn.o_proj.weight_scale_inv":
            t.make = lambda make=t.make: make()[:, :1]
    write(path, model)


# What is no folder of safetensors.


@refused("safetensors")
def only_bin(path):
    folder.write_files(
        path,
        {
            "config.json": json.dumps(llama_config()).encode(),
            "pytorch_model.bin": b"PK\x03\x04",
            "pytorch_model.bin.index.json": b"{}",
        },
    )


@refused("safetensors")
def empty_folder(path):
    os.makedirs(path)


@refused("config.json")
def no_config(path):
    write(path, llama())
    os.remove(os.path.join(path, "config.json"))


@refused("config.json")
def config_is_no_json(path):
    write(path, llama())
    folder.write(os.path.join(path, "config.json"), b'{"model_type": "llama",')


@refused("NUL")
def config_ends_in_a_nul(path):
    """Parsers that take it for the end of the text would pass it on to readers that do not."""
    model = llama()
    model.config_text = model.text() + "\0"
    write(path, model)


@refused("appears twice")
def config_with_two_quantizations(path):
    model = llama()
    text = model.text().rstrip().removesuffix("}").rstrip()
    model.config_text = text + ', "quantization_config": null, "quantization_config": null}\n'
    write(path, model)


@refused("at most 64 levels")
def config_that_is_deep(path):
    """A program that prints or compares such a value by calling itself runs out of stack."""
    model = llama()
    text = model.text().rstrip().removesuffix("}").rstrip()
    model.config_text = text + ', "quantization_config": ' + "[" * 200_000 + "]" * 200_000 + "}\n"
    write(path, model)


@refused("UTF-8")
def side_file_with_a_latin1_name(path):
    """rowscale.json could not name it."""
    write(path, llama())
    with open(os.path.join(os.fsencode(path), b"caf\xe9.txt"), "wb") as stream:
        stream.write(b"text")


@refused("the name of \"a\\x1b[2J.txt\" holds a control character")
def side_file_with_an_escape(path):
    """It would be printed while it is copied."""
    write(path, llama(), files={"a\x1b[2J.txt": b"text"})


@refused("the name of \"a\\x1b[2J.safetensors.index.json\" holds a control character")
def index_with_an_escape_in_its_name(path):
    write(path, llama(shards=2))
    name = "model.safetensors.index.json"
    os.rename(os.path.join(path, name), os.path.join(path, name.replace("model", "a\x1b[2J", 1)))


@refused("git lfs pull")
def lfs_pointer(path):
    write(path, llama())
    folder.write(
        os.path.join(path, "model.safetensors"),
        b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 1234\n",
    )


@refused("model.safetensors")
def pickle_named_safetensors(path):
    write(path, llama())
    folder.write(os.path.join(path, "model.safetensors"), b"PK\x03\x04" + bytes(300))


@refused("model-00002-of-00002.safetensors")
def cut_in_half(path):
    write(path, llama(shards=2))
    file = os.path.join(path, "model-00002-of-00002.safetensors")
    os.truncate(file, os.path.getsize(file) // 2)


# Indexes that lie.


def edit_index(path, edit):
    write(path, llama(shards=2))
    file = os.path.join(path, "model.safetensors.index.json")
    with open(file, encoding="utf-8") as stream:
        index = json.load(stream)
    folder.write(file, json.dumps(edit(index) or index).encode())


@refused("model.safetensors.index.json")
def index_is_no_json(path):
    write(path, llama(shards=2))
    folder.write(os.path.join(path, "model.safetensors.index.json"), b"{")


@refused("weight_map")
def index_without_map(path):
    edit_index(path, lambda index: index.pop("weight_map") and None)


@refused("lm_head.weight")
def index_with_numbers(path):
    edit_index(path, lambda index: index["weight_map"].update({"lm_head.weight": 2}))


@refused("model-00009-of-00002.safetensors")
def index_names_a_missing_shard(path):
    edit_index(
        path, lambda index: index["weight_map"].update({"lm_head.weight": "model-00009-of-00002.safetensors"})
    )


@refused("absent.weight")
def index_names_a_missing_tensor(path):
    edit_index(
        path, lambda index: index["weight_map"].update({"absent.weight": "model-00001-of-00002.safetensors"})
    )


@refused("../secret.safetensors")
def index_leaves_the_folder(path):
    edit_index(path, lambda index: index["weight_map"].update({"lm_head.weight": "../secret.safetensors"}))


@refused("sub/model.safetensors")
def index_enters_a_folder(path):
    write(os.path.join(path, "sub"), llama())
    edit_index(path, lambda index: index["weight_map"].update({"lm_head.weight": "sub/model.safetensors"}))


@refused("/etc/model.safetensors")
def index_is_absolute(path):
    edit_index(path, lambda index: index["weight_map"].update({"lm_head.weight": "/etc/model.safetensors"}))


@refused("regular file")
def shard_is_a_folder(path):
    write(path, llama())
    os.remove(os.path.join(path, "model.safetensors"))
    os.makedirs(os.path.join(path, "model.safetensors"))


@refused("regular file")
def shard_is_a_device(path):
    """A link into the system: what it ends in is no regular file."""
    write(path, llama())
    os.remove(os.path.join(path, "model.safetensors"))
    os.symlink("/dev/zero", os.path.join(path, "model.safetensors"))


@refused("model.safetensors")
def shard_is_a_dangling_link(path):
    write(path, llama())
    os.remove(os.path.join(path, "model.safetensors"))
    os.symlink("../../blobs/absent", os.path.join(path, "model.safetensors"))


# Weights that have no FP8 form.


def poisoned(path, value):
    model = llama(shards=2)
    for t in model.tensors:
        if t.name == "model.layers.1.mlp.up_proj.weight":

            def make(make=t.make):
                array = make()
                array[3, 5] = value
                return array

            t.make = make
    write(path, model)


@refused("model.layers.1.mlp.up_proj.weight")
def nan_weight(path):
    poisoned(path, np.nan)


@refused("model.layers.1.mlp.up_proj.weight")
def infinite_weight(path):
    poisoned(path, -np.inf)


@refused("nothing")
def nothing_to_quantize(path):
    model = Model(llama_config())
    model.keep("model.embed_tokens.weight", 512, 256)
    model.keep("model.norm.weight", 256, make=weights.norm)
    write(path, model)


@refused("control characters")
def name_with_an_escape(path):
    write(path, llama())
    header = b'{"a\\u001b[2J":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}'
    folder.write(os.path.join(path, "model.safetensors"), struct.pack("<Q", len(header)) + header + b"\0\0")
