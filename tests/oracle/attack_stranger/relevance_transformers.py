"""Small models of transformers for attack_relevance_stranger.py: their own code in float64, differentiated with the rules of
docs/theory/gradients.md, 9, put in by replacing softmax, norms and activations. A module: it has no command line.
"""
import math

import torch
import transformers as t
from torch.nn import functional as F

from .relevance_models import Held

RULES = Held()
SOFTMAX, LAYER_NORM, RSQRT, TANH, TSOFTMAX, GELU = F.softmax, F.layer_norm, torch.rsqrt, torch.tanh, torch.softmax, F.gelu
FLOATS = torch.float32, torch.float, torch.Tensor.float
SLOPES = {"GELUActivation": .5, "NewGELUActivation": .5, "PytorchGELUTanh": .5, "GELUTanh": .5, "FastGELUActivation": .5, "QuickGELUActivation": .5,
          "SiLUActivation": .5, "SiLU": .5, "ReLU": 0., "Tanh": 1., "GELU": .5, "ReLUSquaredActivation": 0., "LinearActivation": 1.}
t.models.roberta.modeling_roberta.gelu = lambda x: F.gelu(x)  # imported there before it can be replaced


def layer_norm(x, shape, weight=None, bias=None, eps=1e-5):
    x = x - x.mean(-1, keepdim=True)
    y = x * RULES.const((x.square().mean(-1, keepdim=True) + eps) ** -.5)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


class Put:
    """While it lasts, the library's functions obey RULES."""

    def __enter__(self):
        F.softmax = torch.nn.functional.softmax = lambda x, dim=-1, dtype=None, **_: RULES.const(SOFTMAX(x, dim=dim))
        torch.softmax = lambda x, dim=-1, dtype=None: RULES.const(TSOFTMAX(x, dim))
        F.layer_norm = layer_norm
        torch.rsqrt = lambda x: RULES.const(RSQRT(x))
        torch.tanh = lambda x: RULES.act(TANH, x, 1.)
        F.gelu = lambda x, approximate="none": RULES.act(lambda a: GELU(a, approximate=approximate), x, .5)
        torch.float32, torch.float, torch.Tensor.float = torch.float64, torch.float64, torch.Tensor.double

    def __exit__(self, *_):
        F.softmax, F.layer_norm, torch.rsqrt, torch.tanh, torch.softmax, F.gelu = SOFTMAX, LAYER_NORM, RSQRT, TANH, TSOFTMAX, GELU
        torch.float32, torch.float, torch.Tensor.float = FLOATS


def wrap(model, gated):
    """Activations with phi(a)/a constant; of gated MLPs the whole factor."""
    for module in model.modules():
        if type(module).__name__ in SLOPES:
            plain, slope = module.forward, SLOPES[type(module).__name__]
            if gated and not isinstance(module, torch.nn.Tanh):
                module.forward = lambda a, plain=plain: RULES.const(plain(a))
            else:
                def forward(a, plain=plain, slope=slope):
                    now = torch.tanh, F.gelu
                    torch.tanh, F.gelu = TANH, GELU
                    try:
                        return RULES.act(plain, a, slope)
                    finally:
                        torch.tanh, F.gelu = now
                module.forward = forward


def base(rng, ff="intermediate_size", **more):
    heads = rng.choice([1, 2, 4])
    c = dict(vocab_size=rng.choice([11, 23]), hidden_size=heads * rng.choice([2, 4]), num_hidden_layers=rng.choice([1, 2, 3]), num_attention_heads=heads,
             max_position_embeddings=16, pad_token_id=1, bos_token_id=0, eos_token_id=2, tie_word_embeddings=rng.random() < .5)
    c[ff] = rng.choice([3, 8])
    c.update(more)
    return c


def draw_model(rng):
    """Its name, the model, and which of its parts are what."""
    name = rng.choice(sorted(MODELS))
    torch.manual_seed(rng.randrange(1 << 30))
    torch.set_default_dtype(torch.float32)
    try:
        model, parts = MODELS[name](rng)
    finally:
        torch.set_default_dtype(torch.float64)
    for parameter in model.parameters():
        if parameter.dim() < 2:
            parameter.data = parameter.data + .3 * torch.randn(parameter.shape, dtype=torch.float32)
        else:
            parameter.data = torch.randn(parameter.shape, dtype=torch.float32) * rng.choice([.5, 1.]) / math.sqrt(parameter.shape[-1])
    model.tie_weights()
    return name, model.eval(), parts


def bert(rng, Config=t.BertConfig, Model=t.BertForMaskedLM, **more):
    c = base(rng, hidden_act=rng.choice(["gelu", "relu", "gelu_new"]), type_vocab_size=2, attn_implementation="eager", **more)

    def head(m):
        top = getattr(m, "cls", getattr(m, "lm_head", None))
        return (lambda x: top(x[None])[0]) if top else None
    return Model(Config(**c)), dict(layers=lambda m: getattr(m, m.base_model_prefix, m).encoder.layer, head=head, causal="is_decoder" in more, gated=False,
                                    skip=("embeddings", "pooler"))


def distilbert(rng):
    c = base(rng, "hidden_dim", activation=rng.choice(["gelu", "relu"]), attn_implementation="eager")
    c.update(dim=c.pop("hidden_size"), n_layers=c.pop("num_hidden_layers"), n_heads=c.pop("num_attention_heads"))

    def head(m):
        return lambda x: m.vocab_projector(m.vocab_layer_norm(m.activation(m.vocab_transform(x[None]))))[0]
    return t.DistilBertForMaskedLM(t.DistilBertConfig(**c)), dict(layers=lambda m: m.distilbert.transformer.layer, head=head, causal=False, gated=False,
                                                                  skip=("embeddings",))


def albert(rng):
    c = base(rng, hidden_act=rng.choice(["gelu", "gelu_new", "relu"]), embedding_size=rng.choice([2, 5]), num_hidden_groups=1, inner_group_num=1,
             attn_implementation="eager")
    c["num_hidden_layers"] = 1  # a shared layer's parameters have one gradient here
    return t.AlbertForMaskedLM(t.AlbertConfig(**c)), dict(layers=lambda m: m.albert.encoder.albert_layer_groups, head=lambda m: lambda x: m.predictions(
        x[None])[0], causal=False, gated=False, skip=("embeddings", "embedding_hidden", "pooler"))


def causal(rng, Config, Model, where, norm, gated=True, ff="intermediate_size", head="lm_head", **more):
    model = Model(Config(**base(rng, ff, attn_implementation="eager", **more)))

    def find(m, path):
        for part in path.split("."):
            m = getattr(m, part)
        return m
    cap = more.get("final_logit_softcapping")

    def outputs(m):
        if not head:
            return None
        top, final = m.get_output_embeddings() if head == "lm_head" else find(m, head), find(m, norm) if norm else (lambda x: x)
        return lambda x: (lambda z: cap * torch.tanh(z / cap) if cap else z)(top(final(x[None])) * (1. / getattr(m.config, "logits_scaling", 1.)))[0]
    return model, dict(layers=lambda m: find(m, where), head=outputs, final=None if head else lambda m: find(m, norm), causal=True, gated=gated,
                       skip=("embed", "wte", "wpe"))


def kv(rng, **more):
    return dict(num_key_value_heads=1, head_dim=rng.choice([2, 4]), rms_norm_eps=1e-5, hidden_act="silu", rope_parameters={
        "rope_theta": 1e4, "rope_type": "default"}, **more)


MODELS = {
    "bert": lambda r: bert(r, Model=t.BertModel),
    "bert-mlm": lambda r: bert(r, Model=t.BertForMaskedLM),
    "roberta": lambda r: bert(r, t.RobertaConfig, t.RobertaModel),
    "roberta-mlm": lambda r: bert(r, t.RobertaConfig, t.RobertaForMaskedLM),
    "gpt2": lambda r: causal(r, t.GPT2Config, t.GPT2LMHeadModel, "transformer.h", "transformer.ln_f", False, "n_inner",
                             activation_function=r.choice(["gelu_new", "relu", "gelu"]), scale_attn_by_inverse_layer_idx=r.random() < .3),
    "gpt2-class": lambda r: causal(r, t.GPT2Config, t.GPT2ForSequenceClassification, "transformer.h", "transformer.ln_f", False, "n_inner", head=None),
    "gpt2-cross": lambda r: causal(r, t.GPT2Config, t.GPT2LMHeadModel, "transformer.h", "transformer.ln_f", False, "n_inner", add_cross_attention=True),
    "bert-cross": lambda r: bert(r, Model=t.BertLMHeadModel, is_decoder=True, add_cross_attention=True),
    "llama": lambda r: causal(r, t.LlamaConfig, t.LlamaForCausalLM, "model.layers", "model.norm", **kv(r, attention_bias=r.random() < .5,
                                                                                                      mlp_bias=r.random() < .5)),
    "qwen2": lambda r: causal(r, t.Qwen2Config, t.Qwen2ForCausalLM, "model.layers", "model.norm", **kv(r)),
    "qwen3": lambda r: causal(r, t.Qwen3Config, t.Qwen3ForCausalLM, "model.layers", "model.norm", **kv(r)),
    "mistral": lambda r: causal(r, t.MistralConfig, t.MistralForCausalLM, "model.layers", "model.norm", **kv(r, sliding_window=2)),
    "gemma": lambda r: causal(r, t.GemmaConfig, t.GemmaForCausalLM, "model.layers", "model.norm", **dict(kv(r), hidden_act="gelu_pytorch_tanh")),
    "gemma2": lambda r: causal(r, t.Gemma2Config, t.Gemma2ForCausalLM, "model.layers", "model.norm", **kv(
        r, final_logit_softcapping=r.choice([1., 30.]), attn_logit_softcapping=2., sliding_window=3, query_pre_attn_scalar=5)),
    "olmo2": lambda r: causal(r, t.Olmo2Config, t.Olmo2ForCausalLM, "model.layers", "model.norm", **{
        k: v for k, v in kv(r).items() if k != "head_dim"}),
    "neox": lambda r: causal(r, t.GPTNeoXConfig, t.GPTNeoXForCausalLM, "gpt_neox.layers", "gpt_neox.final_layer_norm", False,
                             hidden_act="gelu", use_parallel_residual=r.random() < .6, rope_parameters={
                                 "rope_theta": 1e4, "rope_type": "default", "partial_rotary_factor": 1.}),
    "olmo": lambda r: causal(r, t.OlmoConfig, t.OlmoForCausalLM, "model.layers", "model.norm", **{
        k: v for k, v in kv(r).items() if k not in ("head_dim", "rms_norm_eps")}),
    "phi3": lambda r: causal(r, t.Phi3Config, t.Phi3ForCausalLM, "model.layers", "model.norm", **{
        k: v for k, v in kv(r).items() if k != "head_dim"}),
    "gemma3": lambda r: causal(r, t.Gemma3TextConfig, t.Gemma3ForCausalLM, "model.layers", "model.norm", **{
        **{k: v for k, v in kv(r).items() if k != "rope_parameters"}, "hidden_activation": "gelu_pytorch_tanh", "sliding_window": 3,
        "rope_parameters": {k: {"rope_type": "default", "rope_theta": 1e4} for k in ("full_attention", "sliding_attention")}, "query_pre_attn_scalar": 5}),
    "granite": lambda r: causal(r, t.GraniteConfig, t.GraniteForCausalLM, "model.layers", "model.norm", **{
        k: v for k, v in kv(r, logits_scaling=r.choice([1., 4.]), residual_multiplier=r.choice([1., .3]), embedding_multiplier=2.,
                            attention_multiplier=.7).items() if k != "head_dim"}),
    "falcon": lambda r: causal(r, t.FalconConfig, t.FalconForCausalLM, "transformer.h", "transformer.ln_f", False, "ffn_hidden_size", bias=r.random() < .5,
                               parallel_attn=r.random() < .6, alibi=False, multi_query=r.random() < .5, new_decoder_architecture=False),
    "distilbert-mlm": lambda r: distilbert(r),
    "albert-mlm": lambda r: albert(r),
}


class Library(Held):
    """A model of transformers as attack_relevance_stranger.Truth wants it."""

    def __init__(self, model, parts):
        self.model, self.parts, self.causal = model.double(), parts, parts["causal"]
        for p in self.model.parameters():
            p.requires_grad_(p.dim() < 2)
        wrap(self.model, parts["gated"])
        for module in self.model.modules():
            for name, buffer in list(module.named_buffers(recurse=False)):
                if name.endswith("inv_freq"):  # as float64 has it
                    half = len(buffer)
                    setattr(module, name, 10000. ** (-torch.arange(half) / half))
            if hasattr(module, "embed_scale"):
                module.embed_scale = torch.tensor(model.config.hidden_size ** .5)
        self.top = parts["head"](self.model)
        self.layers = parts["layers"](self.model)
        last, self.memory = parts.get("final"), None
        self.behind = last and last(self.model)

    def fresh(self, hold):
        RULES.hold = self.hold = hold

    def run(self, ids):
        """States at every cut."""
        seen = []

        def before(module, args, kwargs):
            x = args[0] if args else kwargs["hidden_states"]
            x = x.reshape(len(ids), -1)
            x = x if seen else x.detach().requires_grad_()
            seen.append(x)
            return ((x[None],) + tuple(args[1:]), kwargs) if args else (args, dict(kwargs, hidden_states=x[None]))

        def reads(module, args, kwargs):
            """Each layer's cross-attention reads a memory of its own."""
            leaf = self.memory[None].clone().requires_grad_()
            self.memories.append((self.cross.index(module), leaf))
            return tuple(leaf if a is self.given else a for a in args), {k: leaf if a is self.given else a for k, a in kwargs.items()}

        self.memories, self.cross = [], [m.crossattention for m in self.layers if hasattr(m, "crossattention")]
        hooks = [m.register_forward_pre_hook(reads, with_kwargs=True) for m in self.cross]
        hooks += [m.register_forward_pre_hook(before, with_kwargs=True) for m in self.layers]
        hooks.append(self.layers[-1].register_forward_hook(lambda m, a, out: last.append(out[0] if isinstance(out, tuple) else out)))
        last = []
        try:
            with Put():
                inner = getattr(self.model, self.model.base_model_prefix, self.model)
                places = {"position_ids": torch.arange(len(ids))[None] + 2} if "roberta" in self.model.config.model_type else {}
                if self.memory is not None:
                    self.given = places["encoder_hidden_states"] = self.memory[None]
                out = inner(torch.tensor([ids]), **places, attention_mask=torch.ones(1, len(ids), dtype=torch.long), use_cache=False, output_attentions=True)
        finally:
            for h in hooks:
                h.remove()
        self.maps = [a[0].mean(0) for a in out.attentions]
        return seen + [last[0].reshape(len(ids), -1)]

    def enter(self, ids):
        self.ids = list(ids)
        return torch.zeros(len(ids), 1)

    def states(self, x0):
        return self.run(self.ids)

    def head(self, x):
        if self.top is None:
            return None
        with Put():
            return self.top(x)

    def final(self, x):
        with Put():
            return self.behind(x) if self.behind else x

    def biases(self):
        out = []
        for name, p in self.model.named_parameters():
            if name.endswith("bias") and not any(s in name.split(".layer")[0].split(".h.")[0] for s in self.parts["skip"]):
                at = [int(x) for x in name.split(".") if x.isdigit()]
                out.append((at[0] if at else None, p))
        return out
