"""Random configurations of hybrids and delta nets for attack_families.py: every switch that the modules of transformers 5.23
read. A function gives the class, the configuration, and an edit of what save_pretrained wrote (older spellings), or None."""
import transformers as T

VOCABULARY = 23
ACTIVATIONS = ("silu", "gelu", "gelu_pytorch_tanh", "relu", "relu2", "gelu_new", "quick_gelu")


def some(r, share):
    return r.random() < share


def divisor(r, n, choices=(1, 2, 3, 4, 8)):
    return r.choice([k for k in choices if n % k == 0])


def rope(r, half, partial=False):
    """rope_parameters; half: pairs of a head."""
    kind = r.choice(("default", "default", "linear", "dynamic", "llama3", "yarn", "longrope"))
    if kind == "longrope" and some(r, 0.8):  # which is refused
        kind = "yarn"
    p = dict(rope_type=kind, rope_theta=r.choice((50.0, 1e4, 1e6)))
    if partial:
        p["partial_rotary_factor"] = r.choice([i / half for i in range(1, half + 1)])
        if some(r, 0.3) and half == 4:
            del p["partial_rotary_factor"]  # 0.25
    if kind in ("linear", "dynamic", "yarn"):
        p["factor"] = r.choice((1.0, 2.0, 3.5))
    if kind in ("yarn", "llama3", "longrope"):
        p["original_max_position_embeddings"] = r.choice((8, 16))
    if kind == "llama3":
        p.update(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)
    if kind == "yarn":
        for key, value in (("attention_factor", 1.3), ("beta_fast", 16.0), ("beta_slow", 2.0), ("truncate", False)):
            if some(r, 0.3):
                p[key] = value
        if some(r, 0.3):
            p.update(mscale=1.2, mscale_all_dim=0.7)
    if kind == "longrope":
        pairs = int(half * p.get("partial_rotary_factor", 1.0))
        p.update(factor=4.0, short_factor=[1.0 + 0.1 * i for i in range(pairs)], long_factor=[2.0 + 0.2 * i for i in range(pairs)])
    return p


def older_rope(r, config):
    """The spelling before transformers 5, or as it is."""
    p = config.get("rope_parameters")
    if p and some(r, 0.3):
        del config["rope_parameters"]
        p = dict(p)
        config["rope_theta"] = p.pop("rope_theta", None)
        if config["rope_theta"] is None:
            del config["rope_theta"]
        if "partial_rotary_factor" in p:
            config["partial_rotary_factor"] = p.pop("partial_rotary_factor")
        if p["rope_type"] != "default":
            config["rope_scaling"] = dict(p, **({"type": p.pop("rope_type")} if some(r, 0.5) else {}))


def spell_limit(r, config, name="time_step_limit"):
    """Infinity as a number that is no JSON, as text, as the object that newer writers make; or no field where it is the default."""
    if name not in config or config[name] is None:
        return
    low, high = config[name]
    high = float("inf") if isinstance(high, dict) else high
    if high == float("inf"):
        config[name] = [low, r.choice((float("inf"), {"__float__": "Infinity"}))]
        if low == 0 and some(r, 0.3):
            del config[name]


def leave_out_defaults(r, written, config_of):
    """Takes some of the fields out whose value is what the class takes where there is none."""
    silent = config_of().to_dict()
    for key in [k for k in written if k not in ("model_type", "architectures") and written[k] == silent.get(k, written)]:
        if some(r, 0.4):
            del written[key]


def decoder(r, head_dim=True):
    heads = r.choice((1, 2, 3, 4))
    dim = r.choice((2, 4, 6, 8))
    sizes = dict(vocab_size=VOCABULARY, num_hidden_layers=r.randint(1, 4), pad_token_id=0, bos_token_id=0, eos_token_id=0,
                 tie_word_embeddings=some(r, 0.5), num_attention_heads=heads, num_key_value_heads=divisor(r, heads),
                 intermediate_size=r.randint(1, 13), hidden_act=r.choice(ACTIVATIONS), attention_bias=some(r, 0.3),
                 rms_norm_eps=r.choice((1e-6, 1e-5, 1e-2)), max_position_embeddings=r.choice((8, 64)))
    if head_dim:
        sizes.update(head_dim=dim, hidden_size=r.choice((3, 8, 16)))
    else:
        sizes.update(hidden_size=heads * dim)
    return sizes, dim


def factor(r):
    return r.choice((1.0, 1.0, 0.3, 1.7, -0.6))


def falcon_h1(r):
    sizes, dim = decoder(r, head_dim=False)
    if some(r, 0.9):
        sizes["hidden_act"] = "silu"  # others are refused
    groups = r.choice((1, 2, 3))
    heads = groups * r.choice((1, 2))
    inner = heads * r.choice((1, 2, 5))
    own = dict(mamba_d_ssm=inner, mamba_n_heads=heads, mamba_d_head=r.choice(("auto", inner // heads)), mamba_n_groups=groups)
    if some(r, 0.2):  # its width by mamba_expand
        d, expand = sizes["hidden_size"], r.choice((1, 2, 3))
        heads = divisor(r, d * expand, (1, 2, 4))
        own = dict(mamba_d_ssm=None, mamba_expand=expand, mamba_n_heads=heads, mamba_n_groups=divisor(r, heads, (1, 2, 4)))
    limit = r.choice(((0.0, float("inf")), (0.05, 0.5), (0.001, float("inf")), (0.3, 0.3), (0.0, 0.1)))
    config = T.FalconH1Config(**sizes, **own, mamba_d_state=r.randint(1, 7), mamba_d_conv=r.randint(2, 5), mamba_chunk_size=r.choice((1, 4, 8)),
                              mamba_conv_bias=some(r, 0.7), mamba_proj_bias=some(r, 0.3), mamba_norm_before_gate=some(r, 0.5),
                              mamba_rms_norm=some(r, 0.5), time_step_limit=limit, projectors_bias=some(r, 0.3), rope_parameters=rope(r, dim // 2),
                              lm_head_multiplier=factor(r), embedding_multiplier=factor(r), key_multiplier=factor(r),
                              mlp_multipliers=r.choice((None, [factor(r), factor(r)])), attention_out_multiplier=factor(r),
                              attention_in_multiplier=factor(r), ssm_multipliers=r.choice((None, [factor(r) for _ in range(5)])),
                              ssm_in_multiplier=factor(r), ssm_out_multiplier=factor(r), mlp_bias=some(r, 0.3))

    def edit(written):
        spell_limit(r, written)
        older_rope(r, written)
    return T.FalconH1ForCausalLM, config, edit


def nemotron_h(r):
    sizes, _ = decoder(r)
    sizes["mlp_hidden_act"] = sizes.pop("hidden_act")
    sizes["layer_norm_epsilon"] = sizes.pop("rms_norm_eps")
    layers = [r.choice(("linear_attention", "linear_attention", "mlp", "full_attention")) for _ in range(sizes.pop("num_hidden_layers") + 1)]
    groups = r.choice((1, 2, 3))
    config = T.NemotronHConfig(**sizes, layers_block_type=layers, n_groups=groups, mamba_num_heads=groups * r.choice((1, 2, 3)),
                               mamba_head_dim=r.randint(1, 5), ssm_state_size=r.randint(1, 7), conv_kernel=r.randint(2, 5), chunk_size=r.choice((1, 4, 8)),
                               time_step_min=r.choice((0.001, 0.1, 0.7)), time_step_limit=r.choice(((0.0, float("inf")), (0.0, 0.2), (0.9, 2.0))),
                               use_conv_bias=some(r, 0.7), use_bias=some(r, 0.3), mlp_bias=some(r, 0.3), mamba_proj_bias=some(r, 0.3),
                               sliding_window=r.choice((None, 3)), residual_in_fp32=some(r, 0.3), expand=r.choice((1, 2)))

    def edit(written):
        spell_limit(r, written)
        if some(r, 0.3):  # as the releases before transformers 5
            letters = {"linear_attention": "M", "mlp": "-", "full_attention": "*"}
            written["hybrid_override_pattern"] = "".join(letters[kind] for kind in layers)
            for key, old in (("n_groups", "mamba_n_groups"), ("conv_kernel", "mamba_d_conv"), ("time_step_min", "mamba_dt_min"),
                             ("use_conv_bias", "mamba_conv_bias"), ("time_step_limit", "mamba_dt_limit")):
                if key in written and some(r, 0.7):
                    written[old] = written.pop(key)
            for key in ("layers_block_type", "layer_types"):
                written.pop(key, None)
    return T.NemotronHForCausalLM, config, edit


def lfm2(r):
    sizes, dim = decoder(r, head_dim=False)
    for key in ("hidden_act", "attention_bias"):
        del sizes[key]
    sizes["norm_eps"] = sizes.pop("rms_norm_eps")
    layers = sizes["num_hidden_layers"]
    kinds = [r.choice(("conv", "full_attention")) for _ in range(layers)]
    which = r.choice((dict(layer_types=kinds), dict(full_attn_idxs=[i for i in range(layers) if some(r, 0.5)]), {}))
    config = T.Lfm2Config(**sizes, **which, conv_bias=some(r, 0.5), conv_L_cache=r.randint(1, 6), block_multiple_of=r.choice((1, 4, 7)),
                          block_ffn_dim_multiplier=r.choice((1.0, 1.3, 0.7)), block_auto_adjust_ff_dim=some(r, 0.5),
                          rope_parameters=rope(r, dim // 2))

    def edit(written):
        older_rope(r, written)
        if some(r, 0.2):
            written["block_ff_dim"] = written.pop("intermediate_size")
        if some(r, 0.2):
            written["tie_embedding"] = written.pop("tie_word_embeddings")
        if "layer_types" not in which and some(r, 0.5):
            written.pop("layer_types", None)
    return T.Lfm2ForCausalLM, config, edit


def linear(r, share=(1, 2, 3)):
    keys = r.choice((1, 2, 3))
    return dict(linear_conv_kernel_dim=r.randint(1, 5), linear_key_head_dim=r.randint(1, 6), linear_value_head_dim=r.randint(1, 7),
                linear_num_key_heads=keys, linear_num_value_heads=keys * r.choice(share))


def kinds_of(r, layers):
    kinds = [r.choice(("linear_attention", "full_attention")) for _ in range(layers)]
    return r.choice((dict(layer_types=kinds), {}, dict(full_attention_interval=r.choice((1, 2, 3)))))


def qwen(r, cls, config_of, **more):
    sizes, dim = decoder(r)
    kinds = kinds_of(r, sizes["num_hidden_layers"])
    config = config_of(**sizes, **kinds, **linear(r), rope_parameters=rope(r, dim // 2, partial=True), **more)

    def edit(written):
        older_rope(r, written)
        if "layer_types" not in kinds and some(r, 0.5):
            written.pop("layer_types", None)
            written.update(kinds)
    return cls, config, edit


def qwen3_5(r):
    return qwen(r, T.Qwen3_5ForCausalLM, T.Qwen3_5TextConfig)


def qwen3_next(r):
    return qwen(r, T.Qwen3NextForCausalLM, T.Qwen3NextConfig,
                **r.choice((dict(num_experts=0), dict(num_experts=4, mlp_only_layers=[0, 1, 2, 3]), dict(num_experts=4, decoder_sparse_step=9))))


def olmo_hybrid(r):
    sizes, dim = decoder(r, head_dim=False)
    sizes["num_hidden_layers"] = layers = r.randint(2, 5)
    kinds = [r.choice(("linear_attention", "full_attention")) for _ in range(layers)]
    kinds[r.randrange(layers)] = "full_attention"
    if "linear_attention" not in kinds:
        kinds[0] = "linear_attention"
    own = {k: v for k, v in linear(r, (1,)).items() if k == "linear_conv_kernel_dim" or some(r, 0.6)}
    if "linear_num_key_heads" in own or "linear_num_value_heads" in own:
        own["linear_num_key_heads"] = r.choice((1, 2, 3))
        own["linear_num_value_heads"] = own["linear_num_key_heads"] * r.choice((1, 2))
    given = r.choice((dict(layer_types=kinds), {}))
    parameters = r.choice((None, dict(rope_type="default", rope_theta=None), rope(r, dim // 2)))
    config = T.OlmoHybridConfig(**sizes, **given, **own, rope_parameters=parameters, linear_allow_neg_eigval=some(r, 0.5))

    def edit(written):
        older_rope(r, written)
        if not given:
            written.pop("layer_types", None)
        if some(r, 0.2):
            written["full_attention_interval"] = 2  # which the module does not read
        for key in ("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim"):
            if key not in own and some(r, 0.5):
                written.pop(key, None)
    return T.OlmoHybridForCausalLM, config, edit


FAMILIES = (falcon_h1, nemotron_h, lfm2, qwen3_5, qwen3_next, olmo_hybrid)
