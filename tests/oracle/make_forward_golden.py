"""Writes tests/golden/forward/NAME/: what transformers computes for small random models.

NAME/config.json, model.safetensors   the model, saved by transformers (or model.gguf, written here
                                      the way the GGUF converter does)
NAME/golden.safetensors               inputs (ids packed without padding, lengths, images, memory) and
    shipped32.*   transformers in float32, attention "eager"
    shipped64.*   the same model after .double(), kept as float32: its RoPE tables, RMSNorms and
                  softmaxes still work in float32
    double.*      everything in float64: torch.float32 and Tensor.float mean float64 while the model
                  is built and run
    .state.L      what enters the first layer (L = 0) and leaves layer L, before the final norm
    .final, .logits, .attention.LAYER.HEAD (of the first sample; .cross.LAYER.HEAD for cross-attention)

Batches are padded for transformers; only real tokens are kept. All parameters are drawn, none stays at
its default. Re-run with the versions of requirements.txt:  python tests/oracle/make_forward_golden.py
"""

import contextlib
import json
import pathlib
import shutil

import gguf
import gguf_states
import numpy as np
import torch
import transformers as T
from safetensors.numpy import save_file

OUT = pathlib.Path(__file__).resolve().parent.parent / "golden" / "forward"
BLOCKS = {"BertLayer", "RobertaLayer", "XLMRobertaLayer", "CamembertLayer", "TransformerBlock", "AlbertLayer",
          "XLNetLayer", "GPT2Block", "GPTNeoXLayer", "LlamaDecoderLayer", "MistralDecoderLayer", "Qwen2DecoderLayer",
          "Qwen3DecoderLayer", "GemmaDecoderLayer", "Gemma2DecoderLayer", "Gemma3DecoderLayer", "ViTLayer",
          "Phi3DecoderLayer", "OlmoDecoderLayer", "Olmo2DecoderLayer", "FalconDecoderLayer", "GraniteDecoderLayer",
          "MinistralDecoderLayer", "MambaBlock", "Mamba2Block", "FalconMambaBlock",
          "BambaDecoderLayer", "JambaAttentionDecoderLayer", "JambaMambaDecoderLayer", "GraniteMoeHybridDecoderLayer",
          "FalconH1DecoderLayer", "NemotronHBlock",
          "Lfm2DecoderLayer", "Qwen3_5DecoderLayer", "Qwen3NextDecoderLayer", "OlmoHybridAttentionDecoderLayer",
          "OlmoHybridLinearAttentionDecoderLayer"}
STATE_SPACES = {"mamba", "mamba2", "falcon_mamba"}
HYBRIDS = {"bamba", "jamba", "granitemoehybrid", "falcon_h1", "nemotron_h", "lfm2", "qwen3_5_text", "qwen3_next", "olmo_hybrid"}


@contextlib.contextmanager
def all_double():
    """float32 means float64: the islands that models keep in float32 go with the rest."""
    saved = torch.float32, torch.float, torch.Tensor.float
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = saved
        torch.set_default_dtype(saved[0])


def randomise(model, seed, size=0.3):
    g = torch.Generator().manual_seed(seed)
    for name, p in sorted(model.named_parameters()):
        with torch.no_grad():
            gain = p.dim() == 1 and "norm" in name.lower() or ".ln_" in name
            p.copy_(torch.randn(p.shape, generator=g) * size + (1.0 if gain and name.endswith("weight") else 0.0))


class Watch:
    """State 0 and the output of every block in the order of running."""

    def __init__(self, model):
        self.states = []
        self.hooks = []
        for m in model.modules():
            if type(m).__name__ in BLOCKS:
                self.hooks.append(m.register_forward_pre_hook(self.before, with_kwargs=True))
                self.hooks.append(m.register_forward_hook(self.after))
        assert self.hooks

    def before(self, _, args, kwargs):
        if not self.states:
            self.states.append(args[0] if args else kwargs["hidden_states"])

    def after(self, _, args, out):
        self.states.append(out[0] if isinstance(out, tuple) else out)

    def close(self):
        for h in self.hooks:
            h.remove()


def arr(t):
    return t.detach().double().numpy()


def run(model, batch, lengths, xlnet):
    """The packed numbers of one pass."""
    watch = Watch(model)
    with torch.no_grad():
        more = {} if model.config.model_type in STATE_SPACES else dict(output_attentions=True)
        out = model(**batch, output_hidden_states=True, return_dict=True, **more)
    watch.close()

    def pack(x):
        return np.concatenate([arr(x)[s, :n] for s, n in enumerate(lengths)])

    got = {}
    for i, s in enumerate(watch.states):
        got[f"state.{i}"] = pack(s.transpose(0, 1) if xlnet else s)
    got["final"] = pack(out.last_hidden_state if "last_hidden_state" in out else out.hidden_states[-1])
    if "logits" in out:
        got["logits"] = pack(out.logits)
    n = lengths[0]
    for kind, maps in (("attention", out.get("attentions")), ("cross", out.get("cross_attentions"))):
        if not maps or maps[0] is None:
            continue
        last = len(maps) - 1
        hybrid = model.config.model_type in HYBRIDS  # whose list has the layers with attention alone
        types = getattr(model.config, "layers_block_type", None) or getattr(model.config, "layer_types", None)
        at = [i for i, t in enumerate(types) if t in ("attention", "full_attention", "hybrid")] if hybrid else range(len(maps))
        for layer, head in {(0, 0), (last, maps[last].shape[1] - 1)}:
            keys = n if kind == "attention" else int(batch["encoder_attention_mask"][0].sum())
            got[f"{kind}.{at[layer]}.{head}"] = arr(maps[layer])[0, head, :n, :keys]
    return got


def run_each(model, batch, lengths, memory, xlnet):
    """Sample by sample, without padding: a float64 mask overflows in a float32 softmax, and rows of padding,
    which see nothing, would spread NaN."""
    parts = []
    for s, n in enumerate(lengths):
        own = {k: v[s:s + 1] if k == "pixel_values" else v[s:s + 1, :memory[s]] if k.startswith("encoder") else v[s:s + 1, :n]
               for k, v in batch.items()}
        parts.append(run(model, own, [n], xlnet))
    return {k: np.concatenate([p[k] for p in parts]) for k in parts[0] if "." not in k or k.startswith("state")}


def inputs(config, rng, lengths, images, memory, vocab):
    """Arrays to keep, and the padded batch."""
    keep, batch = {}, {}
    if images:
        keep["images"] = rng.standard_normal((len(lengths), *images)).astype(np.float32)
        batch["pixel_values"] = torch.from_numpy(keep["images"])
    else:
        pad = config.pad_token_id if isinstance(getattr(config, "pad_token_id", None), int) else 0
        ids = torch.full((len(lengths), max(lengths)), pad)
        mask = torch.zeros_like(ids)
        for s, n in enumerate(lengths):
            row = rng.integers(0, vocab - 1, n)
            ids[s, :n] = torch.from_numpy(row + (row >= pad))  # never the padding itself
            mask[s, :n] = 1
        batch["input_ids"], batch["attention_mask"] = ids, mask
        keep["ids"] = np.concatenate([ids[s, :n].numpy() for s, n in enumerate(lengths)]).astype(np.int32)
    keep["lengths"] = np.array(lengths, np.int32)
    if memory:
        m = torch.from_numpy(rng.standard_normal((len(memory), max(memory), config.hidden_size)).astype(np.float32))
        seen = torch.zeros(len(memory), max(memory), dtype=torch.long)
        for s, n in enumerate(memory):
            seen[s, :n] = 1
        batch["encoder_hidden_states"], batch["encoder_attention_mask"] = m, seen
        keep["memory"] = np.concatenate([m[s, :n].numpy() for s, n in enumerate(memory)])
        keep["memory_lengths"] = np.array(memory, np.int32)
    return keep, batch


def wide(batch):
    return {k: v.double() if v.is_floating_point() else v for k, v in batch.items()}


def golden(folder, cls, config, state, lengths, images=None, memory=None, seed=1, for64=None, inverse=None):
    """Runs the three precisions of the model with these weights and writes golden.safetensors. for64: what the
    configuration must say for .double() to run at all."""
    rng = np.random.default_rng(seed)
    keep, batch = inputs(config, rng, lengths, images, memory, getattr(config, "vocab_size", 2))
    xlnet = config.model_type == "xlnet"

    def make(**changed):
        torch.manual_seed(0)
        model = cls._from_config(type(config)(**{**config.to_dict(), **changed}), attn_implementation="eager")
        return model.eval()

    def finish(model):
        if inverse is not None:  # what the file holds in float32, in place of the law it was made from
            model.model.rotary_emb.inv_freq = torch.from_numpy(inverse).to(torch.float32)
        return model

    model = make()
    model.load_state_dict(state)
    for name, value in run(finish(model), batch, lengths, xlnet).items():
        if "." not in name or name.startswith("state"):
            keep["shipped32." + name] = value.astype(np.float32)
    model = make(**(for64 or {}))
    model.load_state_dict(state)
    model.double()
    for name, value in run_each(finish(model), wide(batch), lengths, memory, xlnet).items():
        if "." not in name or name.startswith("state"):
            keep["shipped64." + name] = value.astype(np.float32)
    with all_double():
        model = make().double()  # XLNet makes its parameters as FloatTensor
        model.load_state_dict({k: v.double() for k, v in state.items()})
        got = run(finish(model), wide(batch), lengths, xlnet)
    for name, value in got.items():
        keep["double." + name] = value
    # where the reference's own islands move its result further than this, it cannot judge ours
    worst = max(np.abs(v - got[k[10:]]).max() / np.abs(v).max() for k, v in keep.items() if k.startswith("shipped64."))
    islands = 1e-5 if config.model_type in STATE_SPACES | HYBRIDS else 1.5e-6  # scans cast what they read to float32
    assert worst < islands and all(np.isfinite(v).all() for v in keep.values()), (folder, worst)
    save_file({k: np.ascontiguousarray(v) for k, v in keep.items()}, folder / "golden.safetensors")


def fresh(name):
    folder = OUT / name
    folder.mkdir(parents=True)
    return folder


def case(name, cls, config, lengths=(7, 1, 4), seed=1, edit=None, **more):
    folder = fresh(name)
    torch.manual_seed(0)
    model = cls(config)
    randomise(model, seed)
    model.save_pretrained(folder)
    for extra in folder.glob("generation_config.json"):
        extra.unlink()
    if edit:  # what an older release would have written
        path = folder / "config.json"
        written = json.loads(path.read_text())
        edit(written)
        path.write_text(json.dumps(written, indent=1))
    golden(folder, cls, config, model.state_dict(), list(lengths), seed=seed, **more)
    return model


def mistral3(name, config, section):
    """Images and text, saved as the whole that it is; its text model says of tying what `section` says (None: nothing)."""
    folder = fresh(name)
    torch.manual_seed(0)
    text = T.MistralForCausalLM(config)
    randomise(text, 1)
    eye = dict(hidden_size=4, intermediate_size=4, num_hidden_layers=1, num_attention_heads=1, image_size=4, patch_size=2)
    whole = T.Mistral3ForConditionalGeneration(T.Mistral3Config(text_config={**config.to_dict(), "tie_word_embeddings": bool(section)},
                                                                vision_config=eye, tie_word_embeddings=True)).eval()
    whole.model.language_model.load_state_dict(text.model.state_dict())
    ids = torch.tensor([[3, 5, 1, 7]])
    with torch.no_grad():
        assert torch.allclose(whole(input_ids=ids).logits, text.eval()(input_ids=ids).logits, atol=1e-6)
    whole.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    path = folder / "config.json"
    written = json.loads(path.read_text())
    if section is None:
        del written["text_config"]["tie_word_embeddings"]
    path.write_text(json.dumps(written, indent=1))
    golden(folder, T.MistralForCausalLM, config, text.state_dict(), [7, 1, 4])


# ---- GGUF: names, order and metadata as the converter writes them ----

def permute(w, heads):
    """llama: rows of a head from half-split to interleaved pairs."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(w.shape)


DECODER_NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
                 "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
                 "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
                 "input_layernorm": "attn_norm"}
GPT2_NAMES = {"attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
              "ln_1": "attn_norm", "ln_2": "ffn_norm"}
PHI3_NAMES = {"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up"}
PLAIN = {"post_attention_layernorm": "ffn_norm"}
SANDWICH = {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
            "post_feedforward_layernorm": "post_ffw_norm"}
BERT_NAMES = {"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
              "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
              "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}
TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
       "embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
       "transformer.wte": "token_embd", "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm",
       "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm"}


def gguf_name(name, arch):
    module, part = name.rsplit(".", 1)
    if module in TOP:
        return f"{TOP[module]}.{part}"
    layers = {"bert": "encoder.layer.", "gpt2": "transformer.h."}.get(arch, "model.layers.")
    number, rest = module.removeprefix(layers).split(".", 1)
    names = {"bert": BERT_NAMES, "gpt2": GPT2_NAMES}.get(arch)
    if not names:
        names = {**DECODER_NAMES, **PHI3_NAMES, **(SANDWICH if arch in ("gemma2", "gemma3") else PLAIN)}
    return f"blk.{number}.{names[rest]}.{part}"


def write_gguf(folder, arch, config, state, quantise, extra=()):
    """Writes model.gguf; returns the state dict that it holds, dequantised."""
    w = gguf.GGUFWriter(folder / "model.gguf", arch)
    w.add_block_count(config.num_hidden_layers)
    w.add_embedding_length(config.hidden_size)
    w.add_feed_forward_length(4 * config.n_embd if arch == "gpt2" else config.intermediate_size)
    w.add_context_length(config.max_position_embeddings)
    w.add_head_count(config.num_attention_heads)
    if arch == "bert":
        w.add_layer_norm_eps(config.layer_norm_eps)
        w.add_causal_attention(False)
    elif arch == "gpt2":
        w.add_layer_norm_eps(config.layer_norm_epsilon)
    else:
        w.add_layer_norm_rms_eps(config.rms_norm_eps)
        w.add_head_count_kv(config.num_key_value_heads)
        if arch == "phi3":
            w.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
        else:
            w.add_key_length(config.head_dim)
            w.add_value_length(config.head_dim)
        rope = config.rope_parameters
        w.add_rope_freq_base(rope.get("full_attention", rope)["rope_theta"])
    if arch in ("gemma2", "gemma3", "phi3"):
        w.add_sliding_window(config.sliding_window)
    if arch == "gemma2":
        w.add_attn_logit_softcapping(config.attn_logit_softcapping)
        w.add_final_logit_softcapping(config.final_logit_softcapping)
    if arch == "llama":
        w.add_rope_dimension_count(config.head_dim)
        w.add_vocab_size(config.vocab_size)
    held = {}
    for name, tensor in state.items():
        if name.startswith(("pooler.", "cls.")) or (name == "lm_head.weight" and config.tie_word_embeddings):
            held[name] = tensor
            continue
        a = tensor.numpy().astype(np.float32)
        if arch.startswith("gemma") and name.endswith("norm.weight"):
            a = a + np.float32(1)
            held[name] = torch.from_numpy(a - np.float32(1))
        else:
            held[name] = tensor
        if arch == "gpt2" and name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
            a = a.T
        if arch == "llama" and "q_proj" in name:
            a = permute(a, config.num_attention_heads)
        if arch == "llama" and "k_proj" in name:
            a = permute(a, config.num_key_value_heads)
        kind = gguf.GGMLQuantizationType.F32
        if quantise and a.ndim == 2 and "position" not in name and "token_type" not in name:
            kind = gguf.GGMLQuantizationType.Q8_0
            data = gguf.quants.quantize(a, kind)
            back = gguf.quants.dequantize(data, kind).reshape(a.shape)
            if arch == "llama" and ("q_proj" in name or "k_proj" in name):
                heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
                back = back.reshape(heads, back.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(back.shape)
            held[name] = torch.from_numpy(np.ascontiguousarray(back))
            a = data
        w.add_tensor(gguf_name(name, arch), np.ascontiguousarray(a), raw_dtype=kind)
    for name, value in extra:
        w.add_tensor(name, value)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    if config.tie_word_embeddings and "lm_head.weight" in held:
        held["lm_head.weight"] = held["transformer.wte.weight" if arch == "gpt2" else "model.embed_tokens.weight"]
    return held


def gguf_case(name, arch, cls, config, quantise=False, lengths=(7, 1, 4), seed=1, extra=(), inverse=None, size=0.3):
    folder = fresh(name)
    torch.manual_seed(0)
    model = cls(config)
    randomise(model, seed, size)
    held = write_gguf(folder, arch, config, {k: v.clone() for k, v in model.state_dict().items()}, quantise, extra)
    golden(folder, cls, config, held, list(lengths), seed=seed, inverse=inverse)


def gguf_states_case(name, cls, config, quantise=False, lengths=(7, 1, 4)):
    """model.gguf, and config.json and model.safetensors with the same numbers: its twin."""
    folder = fresh(name)
    torch.manual_seed(0)
    for key in gguf_states.SINGLE:
        if hasattr(config, key):
            setattr(config, key, float(np.float32(getattr(config, key))))
    model = cls(config)
    randomise(model, 1)
    held = gguf_states.write(folder, config, {k: v.clone() for k, v in model.state_dict().items()}, quantise)
    config.architectures = [cls.__name__]
    config.save_pretrained(folder)
    golden(folder, cls, config, held, list(lengths))


# ---- the cases ----

def old_rope(written):
    rope = written.pop("rope_parameters")
    written["rope_theta"] = rope.pop("rope_theta")
    written["rope_scaling"] = {"type": rope.pop("rope_type"), **rope}


def old_gemma3(written):
    rope = written.pop("rope_parameters")
    written["rope_theta"] = rope["full_attention"]["rope_theta"]
    written["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
    written["rope_scaling"] = {"rope_type": "linear", "factor": rope["full_attention"]["factor"]}
    written["sliding_window_pattern"] = 2
    del written["layer_types"]


def old_neox(written):
    rope = written.pop("rope_parameters")
    written["rotary_emb_base"], written["rotary_pct"] = rope["rope_theta"], rope["partial_rotary_factor"]


def silent(written):
    """Everything that is the default of the class goes."""
    plain = T.LlamaConfig().to_dict()
    for key in [k for k, v in written.items() if k != "model_type" and k in plain and plain[k] == v]:
        del written[key]

def bert(**k):
    return dict(dict(vocab_size=23, hidden_size=15, num_hidden_layers=2, num_attention_heads=3, intermediate_size=17,
                     max_position_embeddings=14, type_vocab_size=2, layer_norm_eps=1e-5), **k)


def gpt2(**k):
    return T.GPT2Config(**dict(dict(vocab_size=23, n_embd=15, n_layer=2, n_head=3, n_positions=14, n_inner=None,
                                    bos_token_id=0, eos_token_id=0), **k))


def decoder(**k):
    return dict(dict(vocab_size=23, hidden_size=12, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                     head_dim=6, intermediate_size=18, max_position_embeddings=32, bos_token_id=0, eos_token_id=0,
                     pad_token_id=0, tie_word_embeddings=False), **k)


def encoders():
    case("bert", T.BertForMaskedLM, T.BertConfig(**bert()))
    case("bert_relu", T.BertModel, T.BertConfig(**bert(hidden_act="relu", hidden_size=12, num_attention_heads=1)), (4,))
    case("bert_decoder", T.BertLMHeadModel, T.BertConfig(**bert(is_decoder=True, hidden_act="gelu_new")))
    # Untied: the bias that counts is the output layer's own, not the one beside it.
    case("bert_untied", T.BertForMaskedLM, T.BertConfig(**bert(tie_word_embeddings=False, num_hidden_layers=1)), (5,))
    case("bert_cross", T.BertLMHeadModel, T.BertConfig(**bert(is_decoder=True, add_cross_attention=True)), (6, 1, 4),
         memory=[3, 5, 1])
    case("roberta", T.RobertaForMaskedLM, T.RobertaConfig(**bert(type_vocab_size=1, pad_token_id=1)))
    case("xlm_roberta", T.XLMRobertaModel, T.XLMRobertaConfig(**bert(pad_token_id=3, hidden_act="silu")))
    case("camembert", T.CamembertModel, T.CamembertConfig(**bert(pad_token_id=1)))
    distil = dict(vocab_size=23, dim=15, n_layers=2, n_heads=3, hidden_dim=22, max_position_embeddings=14)
    case("distilbert", T.DistilBertForMaskedLM, T.DistilBertConfig(**distil))
    case("distilbert_relu", T.DistilBertModel, T.DistilBertConfig(**distil, activation="relu"))
    albert = bert(embedding_size=6, num_hidden_layers=5, num_hidden_groups=2, inner_group_num=1)
    case("albert", T.AlbertForMaskedLM, T.AlbertConfig(**albert))
    case("albert_inner", T.AlbertModel, T.AlbertConfig(**dict(albert, num_hidden_layers=3, inner_group_num=2,
                                                              hidden_act="gelu")))
    xl = dict(vocab_size=23, d_model=14, n_layer=2, n_head=2, d_inner=18, bos_token_id=1, eos_token_id=2)
    case("xlnet", T.XLNetLMHeadModel, T.XLNetConfig(**xl))
    case("xlnet_uni", T.XLNetModel, T.XLNetConfig(**dict(xl, d_model=10, attn_type="uni", ff_activation="relu")), (9,))
    case("xlnet_clamp", T.XLNetModel, T.XLNetConfig(**dict(xl, d_model=6, clamp_len=3)), (11, 2))
    vit = dict(hidden_size=15, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20, patch_size=3,
               num_channels=2)
    case("vit", T.ViTModel, T.ViTConfig(**vit, image_size=9), (10, 10), images=(2, 9, 9))
    case("vit_wide", T.ViTModel, T.ViTConfig(**dict(vit, num_channels=1), image_size=[7, 11], qkv_bias=False,
                                             hidden_act="quick_gelu"), (7,), images=(1, 7, 11))


def decoders():
    case("gpt2", T.GPT2LMHeadModel, gpt2())
    case("gpt2_scales", T.GPT2LMHeadModel, gpt2(scale_attn_by_inverse_layer_idx=True, reorder_and_upcast_attn=True,
                                                activation_function="relu", n_inner=17, n_layer=3),
         for64=dict(reorder_and_upcast_attn=False))
    case("gpt2_unscaled", T.GPT2Model, gpt2(scale_attn_weights=False, n_head=1, n_embd=12))
    case("gpt2_cross", T.GPT2LMHeadModel, gpt2(add_cross_attention=True), (6, 1), memory=[3, 5])
    neox = dict(vocab_size=23, hidden_size=21, num_hidden_layers=2, num_attention_heads=3, intermediate_size=18,
                max_position_embeddings=32, bos_token_id=0, eos_token_id=0)
    case("gpt_neox", T.GPTNeoXForCausalLM, T.GPTNeoXConfig(**neox, rotary_pct=0.6))
    case("gpt_neox_serial", T.GPTNeoXForCausalLM,
         T.GPTNeoXConfig(**dict(neox, hidden_size=16, num_attention_heads=2), use_parallel_residual=False,
                         rotary_pct=1.0, attention_bias=False, hidden_act="gelu_fast"))
    case("gpt_neox_old_form", T.GPTNeoXForCausalLM,
         T.GPTNeoXConfig(**dict(neox, hidden_size=18), rope_parameters=dict(rope_theta=90.0, partial_rotary_factor=0.35, rope_type="default")),
         (5,), edit=old_neox)
    for name, rope in (("llama", {}), ("llama_linear", dict(rope_type="linear", factor=2.5)),
                       ("llama_llama3", dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                             original_max_position_embeddings=16)),
                       ("llama_yarn", dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=8)),
                       ("llama_yarn_options", dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=8,
                                                   beta_fast=16.0, beta_slow=2.0, mscale=0.7, mscale_all_dim=1.3,
                                                   truncate=False))):
        more = dict(rope_parameters=dict(rope_theta=500.0, **rope)) if rope else {}
        wide_head = dict(head_dim=8, num_key_value_heads=1) if rope else {}
        case(name, T.LlamaForCausalLM, T.LlamaConfig(**decoder(**more, **wide_head)))
    case("llama_dynamic", T.LlamaForCausalLM,
         T.LlamaConfig(**decoder(max_position_embeddings=8, rope_parameters=dict(rope_theta=300.0, rope_type="dynamic", factor=3.0))),
         (13,))
    case("llama_bias_tied", T.LlamaForCausalLM,
         T.LlamaConfig(**decoder(attention_bias=True, mlp_bias=True, tie_word_embeddings=True, hidden_act="gelu",
                                 hidden_size=16, head_dim=None, num_key_value_heads=None)))
    case("llama_one", T.LlamaForCausalLM, T.LlamaConfig(**decoder(num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1)), (1,))
    case("llama_old_form", T.LlamaForCausalLM,
         T.LlamaConfig(**decoder(rope_parameters=dict(rope_theta=500.0, rope_type="linear", factor=4.0), head_dim=10)), edit=old_rope)
    case("llama_silent", T.LlamaForCausalLM, T.LlamaConfig(**decoder(head_dim=2)), (5, 2), edit=silent)
    case("ministral", T.MinistralForCausalLM,
         T.MinistralConfig(**decoder(sliding_window=2, layer_types=["full_attention", "sliding_attention"])))
    case("mistral", T.MistralForCausalLM, T.MistralConfig(**decoder(sliding_window=4)), (13, 2))
    case("mistral_full", T.MistralModel, T.MistralConfig(**decoder(sliding_window=None, num_key_value_heads=1)), (6,))
    mistral3("mistral3", T.MistralConfig(**decoder(sliding_window=None, tie_word_embeddings=True)), False)
    mistral3("mistral3_silent", T.MistralConfig(**decoder(sliding_window=None, tie_word_embeddings=True)), None)
    case("qwen2", T.Qwen2ForCausalLM, T.Qwen2Config(**{k: v for k, v in decoder(hidden_size=16).items() if k != "head_dim"}))
    case("qwen2_window", T.Qwen2ForCausalLM,
         T.Qwen2Config(**decoder(use_sliding_window=True, sliding_window=3, max_window_layers=1, tie_word_embeddings=True)))
    case("qwen3", T.Qwen3ForCausalLM, T.Qwen3Config(**decoder()))
    case("qwen3_bias", T.Qwen3Model, T.Qwen3Config(**decoder(attention_bias=True, num_key_value_heads=1, head_dim=10,
                                                             rope_parameters=dict(rope_theta=1e6))))
    case("gemma", T.GemmaForCausalLM, T.GemmaConfig(**decoder(tie_word_embeddings=True, num_key_value_heads=1)))
    case("gemma2", T.Gemma2ForCausalLM,
         T.Gemma2Config(**decoder(tie_word_embeddings=True, sliding_window=3, query_pre_attn_scalar=9, num_hidden_layers=3,
                                  attn_logit_softcapping=2.0, final_logit_softcapping=3.0)))
    case("gemma3", T.Gemma3ForCausalLM,
         T.Gemma3TextConfig(**decoder(tie_word_embeddings=True, sliding_window=3, sliding_window_pattern=2,
                                      query_pre_attn_scalar=9, num_hidden_layers=3, num_key_value_heads=1)))
    case("gemma3_scaled", T.Gemma3ForCausalLM,
         T.Gemma3TextConfig(**decoder(tie_word_embeddings=True, sliding_window=5, attention_bias=True, num_hidden_layers=2,
                                      layer_types=["full_attention", "sliding_attention"], final_logit_softcapping=4.0,
                                      rope_parameters=dict(full_attention=dict(rope_type="linear", factor=8.0, rope_theta=5e5),
                                                           sliding_attention=dict(rope_type="default", rope_theta=700.0)))))
    both = dict(full_attention=dict(rope_type="linear", factor=8.0, rope_theta=5e5),
                sliding_attention=dict(rope_type="default", rope_theta=700.0))
    case("gemma3_old_form", T.Gemma3ForCausalLM,
         T.Gemma3TextConfig(**decoder(tie_word_embeddings=True, sliding_window=4, sliding_window_pattern=2, rope_parameters=both)),
         edit=old_gemma3)
    case("gemma3_both_ways", T.Gemma3TextModel,
         T.Gemma3TextConfig(**decoder(sliding_window=4, sliding_window_pattern=2, use_bidirectional_attention=True)), (9, 2))
    case("phi3", T.Phi3ForCausalLM, T.Phi3Config(**{k: v for k, v in decoder(hidden_size=16, sliding_window=4).items() if k != "head_dim"}))
    case("olmo", T.OlmoForCausalLM, T.OlmoConfig(**{k: v for k, v in decoder(hidden_size=16).items() if k != "head_dim"}))
    case("olmo2", T.Olmo2ForCausalLM, T.Olmo2Config(**{k: v for k, v in decoder(hidden_size=16).items() if k != "head_dim"}))
    case("granite", T.GraniteForCausalLM,
         T.GraniteConfig(**{k: v for k, v in decoder(hidden_size=16, embedding_multiplier=3.0, logits_scaling=2.0,
                                                     residual_multiplier=0.4, attention_multiplier=0.3).items() if k != "head_dim"}))
    falcon = dict(vocab_size=23, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, bos_token_id=0, eos_token_id=0,
                  pad_token_id=0)
    case("falcon", T.FalconForCausalLM, T.FalconConfig(**falcon, ffn_hidden_size=26))
    case("falcon_new", T.FalconForCausalLM, T.FalconConfig(**falcon, new_decoder_architecture=True, num_kv_heads=2, bias=True))
    case("falcon_old", T.FalconForCausalLM, T.FalconConfig(**falcon, multi_query=False, parallel_attn=False, bias=True,
                                                           activation="gelu_new"))


def state_spaces():
    s6 = dict(vocab_size=23, hidden_size=12, num_hidden_layers=2, state_size=5, conv_kernel=4, pad_token_id=0, bos_token_id=0,
              eos_token_id=0)
    ssd = dict(s6, num_heads=6, head_dim=4, n_groups=2, expand=2, tie_word_embeddings=False)
    case("mamba", T.MambaForCausalLM, T.MambaConfig(**s6, time_step_rank=3), (70, 1, 4))
    case("mamba_biased", T.MambaModel, T.MambaConfig(**dict(s6, conv_kernel=2, state_size=1), use_bias=True, use_conv_bias=False,
                                                     expand=1), (5, 2))
    case("mamba2", T.Mamba2ForCausalLM, T.Mamba2Config(**ssd, chunk_size=8), (70, 1, 4))
    case("mamba2_limits", T.Mamba2ForCausalLM, T.Mamba2Config(**dict(ssd, n_groups=1), time_step_limit=(0.2, 0.9), use_bias=True), (9, 3))
    case("falcon_mamba", T.FalconMambaForCausalLM, T.FalconMambaConfig(**s6, time_step_rank=2, mixer_rms_eps=1e-3), (70, 1, 4))


def auto_head(config):
    config["mamba_d_head"] = "auto"


def old_nemotron(config):
    """What the releases before transformers 5 wrote."""
    config["hybrid_override_pattern"] = "-M*M"
    for key, old in (("n_groups", "mamba_n_groups"), ("conv_kernel", "mamba_d_conv"), ("time_step_min", "mamba_dt_min"),
                     ("use_conv_bias", "mamba_conv_bias")):
        config[old] = config.pop(key)
    del config["layers_block_type"]


SCALED = dict(embedding_multiplier=1.7, lm_head_multiplier=0.6, key_multiplier=0.8, attention_in_multiplier=1.3,
              attention_out_multiplier=0.7, ssm_in_multiplier=1.2, ssm_out_multiplier=0.45, mlp_multipliers=[1.4, 0.55],
              ssm_multipliers=[0.9, 1.1, 1.35, 0.65, 0.75])  # of Falcon-H1


def hybrids():
    own = dict(mamba_d_state=5, mamba_d_conv=4, mamba_expand=2)
    case("bamba", T.BambaForCausalLM,
         T.BambaConfig(**{k: v for k, v in decoder(hidden_size=16, num_hidden_layers=3, **own).items() if k != "head_dim"},
                       mamba_n_heads=4, mamba_d_head=8, mamba_n_groups=2, attn_layer_indices=[1]))
    case("jamba", T.JambaForCausalLM,
         T.JambaConfig(**{k: v for k, v in decoder(hidden_size=16, num_hidden_layers=3, **own).items() if k != "head_dim"},
                       mamba_dt_rank=3, num_experts=1, attn_layer_period=2, attn_layer_offset=1, use_mamba_kernels=False))
    granite = dict({k: v for k, v in decoder(hidden_size=16, num_hidden_layers=3, **own).items() if k != "head_dim"},
                   mamba_n_heads=4, mamba_d_head=8, mamba_n_groups=2, num_local_experts=0, shared_intermediate_size=10,
                   layer_types=["linear_attention", "full_attention", "linear_attention"], embedding_multiplier=3.0,
                   logits_scaling=2.0, residual_multiplier=0.4, attention_multiplier=0.3)
    case("granite_hybrid", T.GraniteMoeHybridForCausalLM, T.GraniteMoeHybridConfig(**granite))
    case("granite_hybrid_rope", T.GraniteMoeHybridForCausalLM,
         T.GraniteMoeHybridConfig(**granite, position_embedding_type="rope"), (5, 3))
    falcon = dict({k: v for k, v in decoder(hidden_size=16, num_hidden_layers=2).items() if k != "head_dim"}, mamba_d_ssm=24,
                  mamba_n_heads=4, mamba_d_head=6, mamba_n_groups=2, mamba_d_state=5, mamba_d_conv=4, mamba_chunk_size=8)
    rope = dict(rope_parameters=dict(rope_theta=1e5, rope_type="default"))
    case("falcon_h1", T.FalconH1ForCausalLM, T.FalconH1Config(**falcon, **SCALED, **rope), (18, 1, 4))
    case("falcon_h1_norm", T.FalconH1ForCausalLM,
         T.FalconH1Config(**dict(falcon, mamba_n_groups=1), **SCALED, mamba_rms_norm=True, time_step_limit=(0.2, 0.9)), (9, 3))
    case("falcon_h1_gate_first", T.FalconH1ForCausalLM,
         T.FalconH1Config(**dict(falcon, mamba_conv_bias=False), mamba_rms_norm=True, mamba_norm_before_gate=False), (9, 3))
    case("falcon_h1_biased", T.FalconH1ForCausalLM,
         T.FalconH1Config(**dict(falcon, tie_word_embeddings=True), **SCALED, attention_bias=True, mlp_bias=True, mamba_proj_bias=True, projectors_bias=True,
                          mamba_rms_norm=True), (9, 3), edit=auto_head)
    nemotron = dict(decoder(hidden_size=16, head_dim=6), mamba_num_heads=4, mamba_head_dim=5, ssm_state_size=5, n_groups=2, conv_kernel=4,
                    chunk_size=8, layer_norm_epsilon=1e-5)
    case("nemotron_h", T.NemotronHForCausalLM,
         T.NemotronHConfig(**nemotron, layers_block_type=["linear_attention", "mlp", "full_attention", "mlp", "linear_attention"]),
         (18, 1, 4))
    case("nemotron_h_steps", T.NemotronHForCausalLM,
         T.NemotronHConfig(**dict(nemotron, n_groups=1), hybrid_override_pattern="-M*M", time_step_min=0.3, use_bias=True, mlp_bias=True,
                           use_conv_bias=False, time_step_limit=(0.0, 0.5)), (9, 3), edit=old_nemotron)


def states_from_gguf():
    def s6(d):
        return dict(vocab_size=23, hidden_size=d, num_hidden_layers=2, state_size=5, conv_kernel=4, time_step_rank=3, pad_token_id=0,
                    bos_token_id=0, eos_token_id=0)

    def hybrid(d, **k):
        own = decoder(hidden_size=d, num_hidden_layers=3, mamba_d_state=5, mamba_d_conv=4, mamba_expand=2, **k)
        return {key: value for key, value in own.items() if key != "head_dim"}

    def ssd(d):
        return dict(mamba_n_heads=4, mamba_d_head=d // 2, mamba_n_groups=2)

    def granite(d, f):
        return hybrid(d, **ssd(d), intermediate_size=f, shared_intermediate_size=f, num_local_experts=0, embedding_multiplier=3.0,
                      layer_types=["linear_attention", "full_attention", "linear_attention"], logits_scaling=2.0,
                      residual_multiplier=0.4, attention_multiplier=0.3, position_embedding_type="nope")

    gguf_states_case("mamba_gguf", T.MambaForCausalLM, T.MambaConfig(**s6(12)))
    gguf_states_case("mamba_q8_0", T.MambaForCausalLM, T.MambaConfig(**s6(32), use_bias=True), True)
    gguf_states_case("falcon_mamba_gguf", T.FalconMambaForCausalLM, T.FalconMambaConfig(**s6(12)))
    two = {k: v for k, v in s6(12).items() if k != "time_step_rank"}
    gguf_states_case("mamba2_gguf", T.Mamba2ForCausalLM,
                     T.Mamba2Config(**two, num_heads=6, head_dim=4, n_groups=2, expand=2, chunk_size=8))
    gguf_states_case("jamba_gguf", T.JambaForCausalLM,
                     T.JambaConfig(**hybrid(16), mamba_dt_rank=3, num_experts=1, attn_layer_period=2, attn_layer_offset=1,
                                   use_mamba_kernels=False))
    for name, share in (("bamba_gguf", 1.0), ("bamba_part_gguf", 0.5)):
        gguf_states_case(name, T.BambaForCausalLM,
                         T.BambaConfig(**hybrid(16, num_attention_heads=2, num_key_value_heads=1), **ssd(16), attn_layer_indices=[1],
                                       rope_parameters=dict(rope_theta=500.0, rope_type="default", partial_rotary_factor=share)))
    gguf_states_case("granite_hybrid_gguf", T.GraniteMoeHybridForCausalLM, T.GraniteMoeHybridConfig(**granite(16, 10)))
    gguf_states_case("granite_hybrid_q8_0", T.GraniteMoeHybridForCausalLM, T.GraniteMoeHybridConfig(**granite(32, 32)), True, (5, 2))
    for kind, d, f, quantise in (("gguf", 16, 10, False), ("q8_0", 32, 32, True)):
        nemotron = dict(decoder(hidden_size=d, head_dim=8, intermediate_size=f), mamba_num_heads=4, mamba_head_dim=5, ssm_state_size=5,
                        n_groups=2, conv_kernel=4, chunk_size=8, layer_norm_epsilon=1e-5)
        gguf_states_case(f"nemotron_h_{kind}", T.NemotronHForCausalLM,
                         T.NemotronHConfig(**nemotron, layers_block_type=["linear_attention", "mlp", "full_attention"]), quantise)
        lfm2 = {k: v for k, v in decoder(hidden_size=d, num_hidden_layers=3).items() if k not in ("head_dim", "intermediate_size", "rms_norm_eps")}
        gguf_states_case(f"lfm2_{kind}", T.Lfm2ForCausalLM,
                         T.Lfm2Config(**lfm2, norm_eps=1e-5, rope_parameters=dict(rope_type="default", rope_theta=5000.0), block_multiple_of=4,
                                      intermediate_size=21 + f // 2, block_ffn_dim_multiplier=1.3, conv_L_cache=3,
                                      layer_types=["conv", "full_attention", "conv"]), quantise)
        linear = dict(linear_conv_kernel_dim=4, linear_key_head_dim=5, linear_value_head_dim=6, linear_num_key_heads=2, linear_num_value_heads=4)
        delta = dict(decoder(hidden_size=d, head_dim=8, intermediate_size=f), num_hidden_layers=3, **linear,
                     layer_types=["linear_attention", "full_attention", "linear_attention"],
                     rope_parameters=dict(rope_type="default", rope_theta=5000.0, partial_rotary_factor=0.5))
        gguf_states_case(f"qwen3_5_{kind}", T.Qwen3_5ForCausalLM, T.Qwen3_5TextConfig(**delta), quantise)
        falcon = dict({k: v for k, v in decoder(hidden_size=d, intermediate_size=f, num_hidden_layers=2 - quantise).items() if k != "head_dim"},
                      mamba_d_ssm=24, mamba_n_heads=4, mamba_d_head=6, mamba_n_groups=2, mamba_d_state=5, mamba_d_conv=4, mamba_chunk_size=8)
        gguf_states_case(f"falcon_h1_{kind}", T.FalconH1ForCausalLM,
                         T.FalconH1Config(**falcon, **SCALED, rope_parameters=dict(rope_theta=1e5, rope_type="default"),
                                          mamba_rms_norm=not quantise, mamba_norm_before_gate=False), quantise, (9, 1, 4))


def short_convolutions():
    own = {k: v for k, v in decoder(hidden_size=16, num_hidden_layers=3).items() if k not in ("head_dim", "intermediate_size", "rms_norm_eps")}
    lfm2 = dict(own, norm_eps=1e-5, rope_parameters=dict(rope_type="default", rope_theta=5000.0), block_multiple_of=4)
    case("lfm2", T.Lfm2ForCausalLM, T.Lfm2Config(**lfm2, intermediate_size=21, block_ffn_dim_multiplier=1.3, conv_L_cache=3,
                                                 layer_types=["conv", "full_attention", "conv"]), (30, 1, 4))
    case("lfm2_biased", T.Lfm2ForCausalLM, T.Lfm2Config(**dict(lfm2, tie_word_embeddings=False), intermediate_size=10, conv_bias=True,
                                                        block_auto_adjust_ff_dim=False, conv_L_cache=6, full_attn_idxs=[1]), (5, 3))

    def older(written):  # the names of the first release
        written["block_ff_dim"] = written.pop("intermediate_size")
        written["tie_embedding"] = written.pop("tie_word_embeddings")
        written.pop("layer_types", None)
        written["full_attn_idxs"] = [2]
        written["rope_theta"] = written.pop("rope_parameters")["rope_theta"]

    case("lfm2_older", T.Lfm2ForCausalLM, T.Lfm2Config(**dict(lfm2, tie_word_embeddings=False), intermediate_size=21,
                                                       full_attn_idxs=[2]), (5, 3), edit=older)


def delta_nets():
    linear = dict(linear_conv_kernel_dim=4, linear_key_head_dim=5, linear_value_head_dim=6, linear_num_key_heads=2,
                  linear_num_value_heads=4)
    layers = dict(num_hidden_layers=3, layer_types=["linear_attention", "full_attention", "linear_attention"])
    base = decoder(hidden_size=16, head_dim=8, **layers, **linear)
    rope = dict(rope_type="default", rope_theta=5000.0, partial_rotary_factor=0.5)
    case("qwen3_5", T.Qwen3_5ForCausalLM, T.Qwen3_5TextConfig(**dict(base, rope_parameters=rope)), (66, 1, 4), seed=8)  # others amplify float32 by lengths of keys near 0
    case("qwen3_next", T.Qwen3NextForCausalLM,
         T.Qwen3NextConfig(**dict(base, rope_parameters=rope, attention_bias=True, linear_conv_kernel_dim=2), num_experts=0), (9, 3))
    olmo = {k: v for k, v in base.items() if k != "head_dim"}
    case("olmo_hybrid", T.OlmoHybridForCausalLM, T.OlmoHybridConfig(**dict(olmo, rope_parameters=dict(rope_type="default", rope_theta=None))), (66, 1, 4))
    case("olmo_hybrid_rope", T.OlmoHybridForCausalLM,
         T.OlmoHybridConfig(**dict(olmo, rope_parameters=dict(rope_type="default", rope_theta=5000.0), attention_bias=True),
                            linear_allow_neg_eigval=False), (5, 3))


def from_gguf():
    base = decoder(hidden_size=12)
    q8 = decoder(hidden_size=32, head_dim=16, num_attention_heads=2, num_key_value_heads=1, intermediate_size=32)
    for kind, sizes, quantise in (("gguf", base, False), ("q8_0", q8, True)):
        gguf_case(f"llama_{kind}", "llama", T.LlamaForCausalLM, T.LlamaConfig(**sizes), quantise)
        gguf_case(f"qwen2_{kind}", "qwen2", T.Qwen2ForCausalLM,
                  T.Qwen2Config(**dict(sizes, tie_word_embeddings=True, rope_parameters=dict(rope_theta=1e6))), quantise)
        gguf_case(f"qwen3_{kind}", "qwen3", T.Qwen3ForCausalLM, T.Qwen3Config(**sizes), quantise)
        gemma = dict(sizes, tie_word_embeddings=True, sliding_window=3, query_pre_attn_scalar=sizes["head_dim"])
        gguf_case(f"gemma2_{kind}", "gemma2", T.Gemma2ForCausalLM,
                  T.Gemma2Config(**gemma, attn_logit_softcapping=2.0, final_logit_softcapping=3.0), quantise)
        gguf_case(f"gemma3_{kind}", "gemma3", T.Gemma3ForCausalLM,
                  T.Gemma3TextConfig(**dict(gemma, num_hidden_layers=2 if quantise else 7)), quantise, size=0.3 if quantise else 0.15,
                  seed=1 if quantise else 2)
        size = 32 if quantise else 15
        gguf_case(f"bert_{kind}", "bert", T.BertModel,
                  T.BertConfig(**bert(hidden_size=size, num_attention_heads=2 if quantise else 3,
                                      intermediate_size=32 if quantise else 17)), quantise)
    gguf_case("gpt2_gguf", "gpt2", T.GPT2LMHeadModel, gpt2())
    gguf_case("gemma_gguf", "gemma", T.GemmaForCausalLM, T.GemmaConfig(**dict(base, tie_word_embeddings=True)))
    gguf_case("phi3_gguf", "phi3", T.Phi3ForCausalLM,
              T.Phi3Config(**{k: v for k, v in decoder(hidden_size=16, sliding_window=4).items() if k != "head_dim"}))
    scaled = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16,
                  rope_theta=500.0)
    config = T.LlamaConfig(**decoder(head_dim=8, rope_parameters=scaled))
    plain = 500.0 ** -(np.arange(0, 8, 2) / 8)
    bent, _ = T.modeling_rope_utils.ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    divisors = (plain / bent.double().numpy()).astype(np.float32)
    gguf_case("llama_freqs_gguf", "llama", T.LlamaForCausalLM, config, extra=[("rope_freqs.weight", divisors)],
              inverse=plain / divisors.astype(np.float64))


if __name__ == "__main__":
    T.logging.set_verbosity_error()
    shutil.rmtree(OUT, ignore_errors=True)
    encoders()
    decoders()
    state_spaces()
    hybrids()
    short_convolutions()
    delta_nets()
    from_gguf()
    states_from_gguf()
    print(sum(f.stat().st_size for f in OUT.rglob("*")) // 1024, "kB in", len(list(OUT.iterdir())), "cases")
