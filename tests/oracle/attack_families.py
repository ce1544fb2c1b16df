#!/usr/bin/env python3
"""Tries families with state-space mixers in random shapes, against transformers in float64.

attack_families.py build/rankscope [--instances N] [--seed S] [--only NAME,NAME] [--keep DIR]

Each instance draws a configuration, weights (also large and tiny ones) and ragged ids, runs transformers with its casts to
float32 made double, runs `probe --precision f64 --output`, and compares the last hidden state and the logits of each text by
itself. It prints every instance that differs by more than 1e-9 of the largest entry, and exits 1 if there was one.
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers as T
from safetensors.numpy import load_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from make_forward_golden import all_double, randomise  # noqa: E402

TOLERANCE = 1e-9
VOCABULARY = 23


def common(r):
    return dict(vocab_size=VOCABULARY, hidden_size=r.choice((1, 2, 5, 12)), num_hidden_layers=r.randint(1, 3), pad_token_id=0,
                bos_token_id=0, eos_token_id=0, tie_word_embeddings=r.random() < 0.5)


def s6(r):
    return dict(common(r), state_size=r.randint(1, 9), conv_kernel=r.randint(2, 6), expand=r.randint(1, 3),
                time_step_rank=r.randint(1, 5), use_conv_bias=r.random() < 0.7, use_bias=r.random() < 0.3)


def mamba(r):
    return T.MambaForCausalLM, T.MambaConfig(**s6(r))


def falcon_mamba(r):
    return T.FalconMambaForCausalLM, T.FalconMambaConfig(**s6(r), mixer_rms_eps=r.choice((1e-6, 1e-2)))


def limits(r):
    return r.choice(((0.0, float("inf")), (0.05, 0.5), (0.001, float("inf")), (0.3, 0.3)))


def mamba2(r):
    groups, share, dim, expand = r.randint(1, 3), r.randint(1, 3), r.randint(1, 5), r.randint(1, 2)
    inner = groups * share * dim * (expand if (groups * share * dim) % expand == 0 else 1)
    sizes = dict(common(r), hidden_size=inner if expand == 1 else groups * share * dim, expand=expand)
    heads = groups * share
    return T.Mamba2ForCausalLM, T.Mamba2Config(**dict(
        sizes, num_heads=heads, head_dim=sizes["hidden_size"] * expand // heads, n_groups=groups, state_size=r.randint(1, 9),
        conv_kernel=r.randint(2, 6), chunk_size=r.choice((1, 4, 8)), time_step_limit=limits(r), use_bias=r.random() < 0.3,
        use_conv_bias=r.random() < 0.7))


def hybrid(r):
    heads = r.choice((1, 2, 4))
    return dict(common(r), hidden_size=r.choice((16, 32)), intermediate_size=r.randint(1, 11), num_attention_heads=heads,
                num_key_value_heads=r.choice([k for k in (1, 2, 4) if heads % k == 0]), mamba_d_state=r.randint(1, 6),
                mamba_d_conv=r.randint(2, 5))


def ssd_of_hybrid(r, hidden):
    expand = r.choice((1, 2))
    heads = r.choice([h for h in (1, 2, 4, 8) if hidden * expand % h == 0])
    return dict(mamba_expand=expand, mamba_n_heads=heads, mamba_d_head=hidden * expand // heads,
                mamba_n_groups=r.choice([g for g in (1, 2, 4) if heads % g == 0]), mamba_chunk_size=r.choice((1, 4, 8)))


def bamba(r):
    sizes = hybrid(r)
    layers = range(sizes["num_hidden_layers"])
    return T.BambaForCausalLM, T.BambaConfig(**sizes, **ssd_of_hybrid(r, sizes["hidden_size"]), mamba_proj_bias=r.random() < 0.3,
                                             mamba_conv_bias=r.random() < 0.7, attn_layer_indices=[i for i in layers if r.random() < 0.4])


def jamba(r):
    sizes = hybrid(r)
    return T.JambaForCausalLM, T.JambaConfig(**sizes, mamba_expand=r.randint(1, 3), mamba_dt_rank=r.randint(1, 4), num_experts=1,
                                             attn_layer_period=2, attn_layer_offset=r.randint(0, 1), use_mamba_kernels=False)


def granite_hybrid(r):
    sizes = hybrid(r)
    kinds = [r.choice(("linear_attention", "full_attention")) for _ in range(sizes["num_hidden_layers"])]
    return T.GraniteMoeHybridForCausalLM, T.GraniteMoeHybridConfig(
        **sizes, **ssd_of_hybrid(r, sizes["hidden_size"]), num_local_experts=0, shared_intermediate_size=sizes["intermediate_size"],
        layer_types=kinds, embedding_multiplier=r.choice((1.0, 3.0)), logits_scaling=r.choice((1.0, 2.0)),
        residual_multiplier=r.choice((1.0, 0.4)), attention_multiplier=r.choice((1.0, 0.3)),
        position_embedding_type=r.choice((None, "rope")))


FAMILIES = {f.__name__: f for f in (mamba, falcon_mamba, mamba2, bamba, jamba, granite_hybrid)}


def expected(model, ids):
    """Last hidden state behind the final norm, and logits, of one text."""
    with torch.inference_mode():
        out = model(torch.tensor([ids]), output_hidden_states=True, use_cache=False)
    return out.hidden_states[-1][0].double().numpy(), out.logits[0].double().numpy()


def differ(a, b):
    scale = np.abs(b).max()
    return float(np.abs(a - b).max() / scale) if scale > 0 else float(np.abs(a).max())


def attack(program, name, seed, folder):
    r = random.Random(f"{name}{seed}")
    with all_double():
        cls, config = FAMILIES[name](r)
        model = cls(config).double().eval()
        randomise(model, seed, r.choice((0.05, 0.3, 1.0)))
        model.save_pretrained(folder)
        texts = [[r.randrange(1, VOCABULARY) for _ in range(r.choice((1, 2, 7, 20)))] for _ in range(r.randint(1, 3))]
        wanted = [expected(model, ids) for ids in texts]
    tokens, out = os.path.join(folder, "ids.json"), os.path.join(folder, "out.safetensors")
    json.dump(texts, open(tokens, "w"))
    done = subprocess.run([program, "probe", folder, "--tokens", tokens, "--precision", "f64", "--output", out, "--quiet", "--threads", "1"],
                          capture_output=True, text=True)
    if done.returncode:
        return f"refused: {done.stderr.strip()}"
    found = load_file(out)
    worst = 0.0
    for s, (hidden, logits) in enumerate(wanted):
        n = len(texts[s])
        worst = max(worst, differ(found["last_hidden_state"][s, :n], hidden), differ(found["logits"][s, :n], logits))
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--instances", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(FAMILIES))
    parser.add_argument("--keep")
    args = parser.parse_args()
    torch.set_num_threads(1)
    T.logging.set_verbosity_error()
    T.logging.disable_progress_bar()
    wrong = 0
    for name in args.only.split(","):
        worst = 0.0
        for seed in range(args.seed, args.seed + args.instances):
            folder = tempfile.mkdtemp()
            answer = attack(args.program, name, seed, folder)
            bad = isinstance(answer, str) or not answer <= TOLERANCE
            if bad:
                wrong += 1
                print(f"{name} {seed}: {answer}", flush=True)
                if args.keep:
                    shutil.copytree(folder, os.path.join(args.keep, f"{name}-{seed}"), dirs_exist_ok=True)
            else:
                worst = max(worst, answer)
            shutil.rmtree(folder)
        print(f"{name}: {args.instances} instances, worst {worst:.2g}", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
