"""Generated mixtures of experts: one weight an expert, or all of a layer stacked in one tensor."""

import dataclasses
import functools

import weights
from models import Fate, Model, decoder, llama_config, mlp


def mixtral():
    config = llama_config(
        architectures=["MixtralForCausalLM"],
        model_type="mixtral",
        num_local_experts=4,
        num_experts_per_tok=2,
        intermediate_size=384,
        sliding_window=None,
    )

    def block(model, _, at):
        hidden, inner = config["hidden_size"], config["intermediate_size"]
        at += ".block_sparse_moe"
        model.leave(f"{at}.gate.weight", 4, hidden)
        for expert in range(4):
            w = f"{at}.experts.{expert}"
            model.linear(f"{w}.w1", inner, hidden, fused=f"{w}.gate_up")
            model.linear(f"{w}.w2", hidden, inner)
            model.linear(f"{w}.w3", inner, hidden, fused=f"{w}.gate_up")

    return decoder(config, block, shards=3)


def qwen_moe_config(model_type, architecture, **changes):
    return llama_config(
        architectures=[architecture],
        model_type=model_type,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=192,
        decoder_sparse_step=1,
        norm_topk_prob=True,
        mlp_only_layers=[],
        head_dim=32,
        **changes,
    )


def qwen2_moe():
    config = qwen_moe_config("qwen2_moe", "Qwen2MoeForCausalLM", shared_expert_intermediate_size=320)

    def block(model, _, at):
        at += ".mlp"
        hidden = config["hidden_size"]
        model.leave(f"{at}.gate.weight", 4, hidden)
        for expert in range(4):
            mlp(model, f"{at}.experts.{expert}", hidden, config["moe_intermediate_size"])
        mlp(model, f"{at}.shared_expert", hidden, config["shared_expert_intermediate_size"])
        model.leave(f"{at}.shared_expert_gate.weight", 1, hidden)

    return decoder(config, block, bias=True, shards=2)


def qwen3_moe(inner=192):
    config = qwen_moe_config("qwen3_moe", "Qwen3MoeForCausalLM")
    config["moe_intermediate_size"] = inner

    def block(model, _, at):
        hidden = config["hidden_size"]
        model.norm(f"{at}.self_attn.q_norm", config["head_dim"])
        model.norm(f"{at}.self_attn.k_norm", config["head_dim"])
        model.leave(f"{at}.mlp.gate.weight", 4, hidden)
        for expert in range(4):
            mlp(model, f"{at}.mlp.experts.{expert}", hidden, config["moe_intermediate_size"])

    return decoder(config, block)


# Stacks: which slice is which weight [out, in], from the architecture's own code.


EXPERTS, INNER = 3, 192


def gate_and_up(at, stack):
    """[E, 2I, H]: all of gate, then all of up."""
    inner = stack.shape[1] // 2
    out = {}
    for e, expert in enumerate(stack):
        out[f"{at}.experts.{e}.gate_proj.weight"] = expert[:inner]
        out[f"{at}.experts.{e}.up_proj.weight"] = expert[inner:]
    return out


def down(at, stack):
    """[E, H, I]"""
    return {f"{at}.experts.{e}.down_proj.weight": expert for e, expert in enumerate(stack)}


def stacks(model, at, hidden, transposed, names=("experts.gate_up_proj", "experts.down_proj")):
    """transposed: in the file each expert is [in, out] (Llama-4, Qwen3-VL-MoE)."""
    for name, parts, shape in (
        (names[0], gate_and_up, (EXPERTS, 2 * INNER, hidden)),
        (names[1], down, (EXPERTS, hidden, INNER)),
    ):
        if transposed:

            def split(array, parts=parts):
                return parts(at, array.transpose(0, 2, 1))

            model.add(f"{at}.{name}", (shape[0], shape[2], shape[1]), Fate.SPLIT, parts=split)
        else:
            model.add(f"{at}.{name}", shape, Fate.SPLIT, parts=functools.partial(parts, at))


def multimodal(architecture, model_type, text, **changes):
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "text_config": text,
        "torch_dtype": "bfloat16",
        **changes,
    }


def llama4():
    text = llama_config(model_type="llama4_text", num_local_experts=EXPERTS, intermediate_size=INNER)
    config = multimodal("Llama4ForConditionalGeneration", "llama4", text)

    def block(model, _, at):
        at, hidden = at + ".feed_forward", text["hidden_size"]
        model.leave(f"{at}.router.weight", EXPERTS, hidden)
        stacks(model, at, hidden, transposed=True)
        mlp(model, f"{at}.shared_expert", hidden, INNER)

    model = decoder(config, block, prefix="language_model.model")
    return rename(model, "lm_head.weight", "language_model.lm_head.weight")


def rename(model, old, new):
    for i, tensor in enumerate(model.tensors):
        if tensor.name == old:
            model.tensors[i] = dataclasses.replace(tensor, name=new)
    return model


def qwen3_vl_moe():
    text = qwen_moe_config("qwen3_vl_moe_text", "Qwen3VLMoeTextModel")
    config = multimodal(
        "Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe", text, tie_word_embeddings=False
    )

    def block(model, _, at):
        at, hidden = at + ".mlp", text["hidden_size"]
        model.leave(f"{at}.gate.weight", EXPERTS, hidden)
        stacks(model, at, hidden, transposed=True)

    model = decoder(config, block, prefix="model.language_model", shards=2)
    vision = "model.visual.blocks.0"
    model.keep("model.visual.patch_embed.proj.weight", 64, 3, 2, 4, 4)
    model.leave(f"{vision}.attn.qkv.weight", 192, 64)
    model.leave(f"{vision}.attn.proj.weight", 64, 64)
    model.leave(f"{vision}.mlp.linear_fc1.weight", 128, 64)
    model.leave("model.visual.merger.linear_fc1.weight", 256, 256)
    return model


def qwen3_5_moe():
    text = qwen_moe_config("qwen3_5_moe_text", "Qwen3_5MoeTextModel")
    config = multimodal("Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe", text, tie_word_embeddings=False)

    def block(model, _, at):
        at, hidden = at + ".mlp", text["hidden_size"]
        model.leave(f"{at}.gate.weight", EXPERTS, hidden)
        stacks(model, at, hidden, transposed=False)

    return decoder(config, block, prefix="model.language_model")


def gpt_oss():
    """Published as MXFP4; fine-tuned ones as bf16 stacks with biases. No reader takes single experts."""
    config = llama_config(
        architectures=["GptOssForCausalLM"],
        model_type="gpt_oss",
        num_local_experts=EXPERTS,
        num_experts_per_tok=2,
        intermediate_size=INNER,
        head_dim=32,
        sliding_window=128,
    )

    def block(model, _, at):
        at, hidden = at + ".mlp", config["hidden_size"]
        model.leave(f"{at}.router.weight", EXPERTS, hidden)
        model.keep(f"{at}.router.bias", EXPERTS, make=weights.norm)
        model.leave(f"{at}.experts.gate_up_proj", EXPERTS, hidden, 2 * INNER)
        model.leave(f"{at}.experts.down_proj", EXPERTS, INNER, hidden)
        model.keep(f"{at}.experts.gate_up_proj_bias", EXPERTS, 2 * INNER, make=weights.norm)
        model.keep(f"{at}.experts.down_proj_bias", EXPERTS, hidden, make=weights.norm)

    return decoder(config, block)


def granite_moe():
    config = llama_config(
        architectures=["GraniteMoeForCausalLM"],
        model_type="granitemoe",
        num_local_experts=EXPERTS,
        num_experts_per_tok=2,
        intermediate_size=INNER,
        tie_word_embeddings=True,
    )

    def block(model, _, at):
        at, hidden = at + ".block_sparse_moe", config["hidden_size"]
        model.leave(f"{at}.router.layer.weight", EXPERTS, hidden)
        names = ("input_linear.weight", "output_linear.weight")
        stacks(model, at, hidden, transposed=False, names=names)

    return decoder(config, block)


def unknown_stack():
    """A type that no table knows, with square experts that a shape cannot tell apart."""
    config = llama_config(architectures=["NovelForCausalLM"], model_type="novel_moe", intermediate_size=128)

    def block(model, _, at):
        at, hidden = at + ".mlp", config["hidden_size"]
        model.leave(f"{at}.gate.weight", EXPERTS, hidden)
        model.leave(f"{at}.experts.gate_up_proj", EXPERTS, hidden, hidden)
        model.leave(f"{at}.experts.down_proj", EXPERTS, 128, hidden)

    return decoder(config, block)


def deepseek_bf16():
    """DeepSeek-V3: MLA, one dense layer, a multi-token-prediction layer behind the last one."""

    def linear(model, name, rows, columns, fused=None):
        model.linear(name, rows, columns, fused)

    def prediction(model, name, rows, columns, fused=None):
        del fused
        model.leave(f"{name}.weight", rows, columns)

    return deepseek(Model(deepseek_config()), linear, prediction)


def deepseek_config(**changes):
    return llama_config(
        architectures=["DeepseekV3ForCausalLM"],
        model_type="deepseek_v3",
        num_hidden_layers=2,
        first_k_dense_replace=1,
        n_routed_experts=4,
        n_shared_experts=1,
        num_experts_per_tok=2,
        moe_intermediate_size=128,
        q_lora_rank=128,
        kv_lora_rank=96,
        qk_rope_head_dim=32,
        qk_nope_head_dim=32,
        v_head_dim=32,
        num_nextn_predict_layers=1,
        n_group=1,
        topk_group=1,
        **changes,
    )


def deepseek(model, linear, prediction):
    """linear and prediction: (model, name, rows, columns, fused) of a layer, and of the prediction layer,
    which targets serve as the source has it."""
    config = model.config
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    model.keep("model.embed_tokens.weight", config["vocab_size"], hidden)
    for layer in range(config["num_hidden_layers"] + 1):
        at = f"model.layers.{layer}"
        if layer == config["num_hidden_layers"]:
            linear = prediction
            model.norm(f"{at}.enorm", hidden)
            model.norm(f"{at}.hnorm", hidden)
            model.leave(f"{at}.eh_proj.weight", hidden, 2 * hidden)
            model.keep(f"{at}.embed_tokens.weight", config["vocab_size"], hidden)
            model.leave(f"{at}.shared_head.head.weight", config["vocab_size"], hidden)
            model.norm(f"{at}.shared_head.norm", hidden)
        model.norm(f"{at}.input_layernorm", hidden)
        a = f"{at}.self_attn"
        linear(model, f"{a}.q_a_proj", 128, hidden, fused=f"{a}.qkv_a")
        linear(model, f"{a}.kv_a_proj_with_mqa", 96 + 32, hidden, fused=f"{a}.qkv_a")
        model.norm(f"{a}.q_a_layernorm", 128)
        model.norm(f"{a}.kv_a_layernorm", 96)
        linear(model, f"{a}.q_b_proj", heads * 64, 128)
        linear(model, f"{a}.kv_b_proj", heads * 64, 96)
        linear(model, f"{a}.o_proj", hidden, heads * 32)
        model.norm(f"{at}.post_attention_layernorm", hidden)
        m = f"{at}.mlp"
        blocks = [(m, 704)]
        if layer >= config["first_k_dense_replace"]:
            model.leave(f"{m}.gate.weight", 4, hidden)
            model.keep(f"{m}.gate.e_score_correction_bias", 4, dtype=weights.F32, make=weights.norm)
            blocks = [(f"{m}.experts.{e}", 128) for e in range(4)] + [(f"{m}.shared_experts", 128)]
        for name, inner in blocks:
            linear(model, f"{name}.gate_proj", inner, hidden, fused=f"{name}.gate_up")
            linear(model, f"{name}.up_proj", inner, hidden, fused=f"{name}.gate_up")
            linear(model, f"{name}.down_proj", hidden, inner)
    model.norm("model.norm", hidden)
    model.leave("lm_head.weight", config["vocab_size"], hidden)
    return model


def llava():
    """A language model, a vision tower and a projector between them."""
    text = llama_config()
    vision = {"model_type": "clip_vision_model", "hidden_size": 64}
    config = multimodal("LlavaForConditionalGeneration", "llava", text, vision_config=vision)

    def block(model, _, at):
        mlp(model, f"{at}.mlp", text["hidden_size"], text["intermediate_size"])

    model = rename(
        decoder(config, block, prefix="language_model.model"),
        "lm_head.weight",
        "language_model.lm_head.weight",
    )
    tower = "vision_tower.vision_model"
    model.keep(f"{tower}.embeddings.class_embedding", 64)
    model.keep(f"{tower}.embeddings.patch_embedding.weight", 64, 3, 14, 14)
    model.keep(f"{tower}.embeddings.position_embedding.weight", 50, 64)
    for part, shape in {"self_attn.q_proj": (64, 64), "mlp.fc1": (128, 64), "mlp.fc2": (64, 128)}.items():
        model.leave(f"{tower}.encoder.layers.0.{part}.weight", *shape)
        model.keep(f"{tower}.encoder.layers.0.{part}.bias", shape[0], make=weights.norm)
    model.leave("multi_modal_projector.linear_1.weight", 256, 64)
    model.leave("multi_modal_projector.linear_2.weight", 256, 256)
    return model
