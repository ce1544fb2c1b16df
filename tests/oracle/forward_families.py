"""Encoders, decoders and the images and text of Mistral 3 among the cases of make_forward_golden.py."""
import json

import torch
import transformers as T
from double_models import randomise
from forward_cases import case, fresh, golden


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
