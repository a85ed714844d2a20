"""Generated models, and what a converter is expected to do with each of their tensors.

A generator declares the fate of a tensor when it names it, from its knowledge of the architecture; so a
test can compare a converter's table of rules with something that is not that table.
"""

import dataclasses
import enum
import functools
import json

import weights
from weights import BF16


class Fate(enum.Enum):
    QUANTIZE = "quantize"
    KEEP = "keep"
    DROP = "drop"  # a tied duplicate
    PASS = "pass"  # block FP8: codes and scales as they are for fp8-block, requantized otherwise
    SPLIT = "split"  # a stack of experts: becomes `parts`


@dataclasses.dataclass
class Tensor:
    name: str
    shape: tuple
    fate: Fate
    make: object  # () -> array
    fused: str | None = None  # weights of one name here are merged by readers
    parts: object = None  # SPLIT: array -> {name of the output weight: [out, in] array}
    is_linear: bool = False  # readers would expect it quantized, unless `ignore` names it


@dataclasses.dataclass
class Model:
    config: dict
    tensors: list = dataclasses.field(default_factory=list)
    shards: int = 1
    dtype: object = BF16
    config_text: str | None = None

    def add(self, name, shape, fate, make=weights.weight, fused=None, parts=None, dtype=None):
        dtype = dtype or self.dtype
        self.tensors.append(
            Tensor(name, shape, fate, functools.partial(make, name, shape, dtype), fused, parts)
        )

    def linear(self, name, rows, columns, fused=None):
        self.add(name + ".weight", (rows, columns), Fate.QUANTIZE, fused=fused)

    def keep(self, name, *shape, make=weights.weight, dtype=None):
        self.add(name, shape, Fate.KEEP, make, dtype=dtype)

    def leave(self, name, *shape):
        """A linear layer, or what readers take for one, that stays as it is."""
        self.keep(name, *shape)
        self.tensors[-1].is_linear = True

    def norm(self, name, size):
        self.keep(name + ".weight", size, make=weights.norm)

    def text(self):
        return self.config_text if self.config_text is not None else json.dumps(self.config, indent=2) + "\n"

    def split(self):
        """The tensors in `shards` lists of about equal size, in their order."""
        total = sum(size(tensor) for tensor in self.tensors)
        lists, seen = [[] for _ in range(self.shards)], 0
        for tensor in self.tensors:
            lists[min(self.shards - 1, seen * self.shards // max(1, total))].append(tensor)
            seen += size(tensor)
        return [part for part in lists if part]


def size(tensor):
    elements = 1
    for length in tensor.shape:
        elements *= length
    return elements


def llama_config(**changes):
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 256,
        "intermediate_size": 704,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "vocab_size": 512,
        "max_position_embeddings": 2048,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": 1,
        "eos_token_id": [2, 3],
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    return {**config, **changes}


def attention(model, prefix, config, bias=False):
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    head = config.get("head_dim") or hidden // heads
    sizes = {"q": heads * head, "k": config["num_key_value_heads"] * head}
    sizes["v"] = sizes["k"]
    for part, rows in sizes.items():
        model.linear(f"{prefix}.{part}_proj", rows, hidden, fused=f"{prefix}.qkv")
        if bias:
            model.keep(f"{prefix}.{part}_proj.bias", rows, make=weights.norm)
    model.linear(f"{prefix}.o_proj", hidden, heads * head)


def mlp(model, prefix, hidden, inner):
    model.linear(f"{prefix}.gate_proj", inner, hidden, fused=f"{prefix}.gate_up")
    model.linear(f"{prefix}.up_proj", inner, hidden, fused=f"{prefix}.gate_up")
    model.linear(f"{prefix}.down_proj", hidden, inner)


def decoder(config, block, prefix="model", bias=False, **keywords):
    """Embedding, layers of attention and `block(model, layer, prefix)`, norm, head."""
    model = Model(config, **keywords)
    text = config.get("text_config", config)
    hidden = text["hidden_size"]
    model.keep(f"{prefix}.embed_tokens.weight", text["vocab_size"], hidden)
    for layer in range(text["num_hidden_layers"]):
        at = f"{prefix}.layers.{layer}"
        model.norm(f"{at}.input_layernorm", hidden)
        attention(model, f"{at}.self_attn", text, bias)
        model.norm(f"{at}.post_attention_layernorm", hidden)
        block(model, layer, at)
    model.norm(f"{prefix}.norm", hidden)
    if not config.get("tie_word_embeddings"):
        model.leave("lm_head.weight", text["vocab_size"], hidden)
    return model


def llama(shards=1, dtype=BF16, **changes):
    config = llama_config(torch_dtype=dtype.name, **changes)

    def block(model, _, at):
        mlp(model, f"{at}.mlp", config["hidden_size"], config["intermediate_size"])

    return decoder(config, block, shards=shards, dtype=dtype)


def llama_of(size_in_bytes):
    """Untied Llama of about that many bytes, in shards of about 256 MB: wide first, then deep."""
    hidden = 2048 if size_in_bytes >= 300e6 else 512
    shape = {
        "hidden_size": hidden,
        "intermediate_size": hidden * 11 // 4,
        "num_attention_heads": hidden // 128,
        "num_key_value_heads": hidden // 512,
        "vocab_size": 4096,
    }
    layer = hidden * hidden * (2 + 2 * 0.25 + 3 * 2.75) * 2
    fixed = 2 * shape["vocab_size"] * hidden * 2
    layers = max(1, round((size_in_bytes - fixed) / layer))
    return llama(shards=max(1, round(size_in_bytes / 256e6)), num_hidden_layers=layers, **shape)


def llama_duplicate_head():
    """Tied, yet the file holds lm_head too."""
    model = llama(tie_word_embeddings=True)
    table = next(t for t in model.tensors if t.name == "model.embed_tokens.weight")
    model.tensors.append(Tensor("lm_head.weight", table.shape, Fate.DROP, table.make))
    return model


def llama_edges(dtype=BF16):
    """Rows that casts get wrong, shapes that do not divide by 128, and a config nobody may re-format."""
    model = llama(
        dtype=dtype, hidden_size=200, intermediate_size=330, num_attention_heads=5, num_key_value_heads=1
    )
    for tensor in model.tensors:
        if tensor.fate is Fate.QUANTIZE:
            tensor.make = functools.partial(weights.edges, tensor.name, tensor.shape, dtype)
    zero = next(t for t in model.tensors if t.name.endswith("layers.1.self_attn.o_proj.weight"))
    zero.make = lambda make=zero.make: make() * 0
    text = json.dumps(model.config, indent=4, separators=(" ,", ":\t"))
    end = text.rindex("\n}")
    model.config_text = (
        text[:end] + ' ,\r\n  "limit" : Infinity,"odd":NaN , "gr\\u00f6\\u00dfe":1e+2, "x": {"y":[ ]}\r\n}'
    )
    return model


def qwen2():
    config = llama_config(architectures=["Qwen2ForCausalLM"], model_type="qwen2", tie_word_embeddings=True)

    def block(model, _, at):
        mlp(model, f"{at}.mlp", config["hidden_size"], config["intermediate_size"])

    return decoder(config, block, bias=True)
