"""Loads checkpoints with vLLM's own model classes, names the scheme that each layer gets, and compares codes
and scales with the stored ones, bit for bit.

    read_vllm.py FOLDER...

Run by compare.py with the Python of the readers and vLLM's Python code, without vLLM's compiled extension
and without a GPU. Prints the lines of reading.py. vLLM's own are: the parsing of config.json, the match of
names (fused ones, ignored ones), the choice of the scheme, shapes and dtypes of the parameters, the loading.
Pretended is:
- the platform: vLLM's CPU platform, because the package has none for a machine without a device; it says
  that the device is of capability 9.0, by which vLLM chooses schemes as on a Hopper GPU;
- operators of the extension that constructors look up: declared, without a body.
So a kernel is chosen among those for CPUs, and no layer is run.
"""

import collections
import hashlib
import os
import re
import sys
import tempfile

os.environ.update(
    CUDA_VISIBLE_DEVICES="",
    HF_HUB_OFFLINE="1",
    VLLM_CONFIGURE_LOGGING="0",
    VLLM_NO_USAGE_STATS="1",
    VLLM_PLUGINS="",
)

import torch
import vllm.platforms
from compressed_tensors.quantization import QuantizationStrategy
from vllm.platforms.cpu import CpuPlatform
from vllm.platforms.interface import DeviceCapability

from reading import Wrong, read_each, stored

LOOKED_UP = {
    "silu_and_mul": "(Tensor! out, Tensor x) -> ()",
    "fp8_scaled_mm_cpu": "(Tensor x) -> Tensor",
}


class PretendedHopper(CpuPlatform):
    @classmethod
    def get_device_capability(cls, device_id=0):
        return DeviceCapability(9, 0)


operators = torch.library.Library("_C", "FRAGMENT")
for name, signature in LOOKED_UP.items():
    operators.define(name + signature)
vllm.platforms.current_platform = PretendedHopper()

from vllm.config import ModelConfig, VllmConfig, set_current_vllm_config
from vllm.distributed import init_distributed_environment, initialize_model_parallel
from vllm.distributed.parallel_state import destroy_model_parallel
from vllm.model_executor.model_loader.utils import initialize_model

UNQUANTIZED = "unquantized"

# A weight and its scale: shape, hash of the codes, hash of the scales as fp32.
Part = collections.namedtuple("Part", "shape codes scale")


def load(folder):
    # Models in fp32 are served in 16 bits; which ones is not the question here.
    model_config = ModelConfig(model=folder, tokenizer=folder, skip_tokenizer_init=True, dtype="bfloat16")
    config = VllmConfig(model_config=model_config)
    with set_current_vllm_config(config):
        destroy_model_parallel()  # a mixture of experts needs groups that others do not get
        initialize_model_parallel(1, 1)
        torch.set_default_dtype(model_config.dtype)
        model = initialize_model(config)
        model.load_weights(stored(folder))
    return model


def part(codes, scale):
    def digest(tensor):
        return hashlib.sha256(tensor.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()

    return Part(tuple(codes.shape), digest(codes), digest(scale.float().flatten()))


def stored_parts(folder):
    """Every FP8 weight of the folder, by name."""
    tensors = dict(stored(folder))
    return {
        name: part(tensor, tensors[name + "_scale"])
        for name, tensor in tensors.items()
        if tensor.dtype == torch.float8_e4m3fn
    }


def unfused(codes, scale, widths):
    """A layer's weight and scale, cut where vLLM joined several weights of `widths` rows."""
    if scale.numel() == len(widths):
        scales = scale.reshape(len(widths), 1)
    else:
        rows = 1 if scale.shape[0] == codes.shape[0] else 128
        scales = scale.split([-(-width // rows) for width in widths])
    return [part(c, s) for c, s in zip(codes.split(widths), scales)]


def loaded_parts(layer):
    """Every FP8 weight that a layer of vLLM holds."""
    held = dict(layer.named_parameters(recurse=False))
    parts = []
    if "w13_weight" in held:  # a mixture of experts
        for name, joined in (("w13_weight", 2), ("w2_weight", 1)):
            for codes, scale in zip(held[name], held[name + "_scale"]):
                parts += unfused(codes, scale, [codes.shape[0] // joined] * joined)
    else:
        parts += unfused(held["weight"], held["weight_scale"], layer.logical_widths)
    return parts


def scheme_of(layer):
    """The class of the scheme, and what its weights have scales for."""
    scheme = getattr(layer, "scheme", None) or layer.quant_method
    name = type(scheme).__name__
    if name.startswith("Unquantized"):
        return UNQUANTIZED
    strategy = getattr(scheme, "strategy", None) or scheme.weight_quant.strategy
    return f"{name} ({QuantizationStrategy(strategy).value})"


def read(folder):
    layers = {
        name: layer
        for name, layer in load(folder).named_modules()
        if hasattr(layer, "quant_method")
        and {"weight", "w13_weight"} & {held for held, _ in layer.named_parameters(recurse=False)}
    }
    schemes = collections.defaultdict(set)
    for name, layer in layers.items():
        schemes[scheme_of(layer)].add(re.sub(r"^.*\.\d+\.", "", name))
    weights = compare(folder, {n: la for n, la in layers.items() if scheme_of(la) != UNQUANTIZED})
    named = [f"{scheme}: {', '.join(sorted(names))}" for scheme, names in sorted(schemes.items())]
    return f"{'; '.join(named)}; {weights} weights and their scales equal, bit for bit"


def compare(folder, quantized):
    """The number of FP8 weights; throws where vLLM quantizes other layers, or has other bits in them."""
    expected = stored_parts(folder)
    loaded = {name: loaded_parts(layer) for name, layer in quantized.items()}
    left = collections.Counter(p for parts in loaded.values() for p in parts)
    left.subtract(collections.Counter(expected.values()))
    missing = [name for name, p in expected.items() if left[p] < 0]
    foreign = [name for name, parts in loaded.items() if any(left[p] > 0 for p in parts)]
    if missing or foreign:
        raise Wrong(
            f"FP8 weights that no quantized layer holds: {', '.join(missing) or 'none'}; "
            f"quantized layers with other bits: {', '.join(foreign) or 'none'}"
        )
    if not expected:
        raise Wrong("no FP8 weight was compared")
    return len(expected)


def main():
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["VLLM_CACHE_ROOT"] = scratch
        init_distributed_environment(1, 0, f"file://{scratch}/store", 0, backend="gloo")
        read_each(sys.argv[1:], read)


if __name__ == "__main__":
    main()
