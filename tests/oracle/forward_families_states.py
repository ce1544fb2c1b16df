"""State-space models, hybrids, short convolutions and delta nets among the cases of make_forward_golden.py."""
import transformers as T
from forward_cases import case
from forward_families import decoder


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
