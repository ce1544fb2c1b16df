"""The cases of make_forward_golden.py that are GGUF files."""
import numpy as np
import transformers as T
from forward_cases import gguf_case, gguf_states_case
from forward_families import bert, decoder, gpt2
from forward_families_states import SCALED


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
