#!/usr/bin/env python3
"""Tries families with state-space mixers in random shapes, against transformers in float64.

attack_families.py build/rankscope [--instances N] [--seed S] [--only NAME,NAME] [--keep DIR] [--f64]

Each instance draws a configuration (draw_hybrids.py has the hybrids'), weights (also large and tiny ones) and ragged ids, saves
them, respells some of what was saved as older releases do, and loads the folder with transformers: once with its casts to
float32 made double, once as shipped. `probe --precision f64 --output --generate` must give the last hidden state and the logits
of each text by itself to 1e-9 of the largest entry and the same greedy ids, `--precision f32` to 1e-4 of what is shipped, or to
ten times by which that misses its own double. Instances that either side refuses are counted apart; so are those that one alone
refuses. Exits 1 if one differs.
"""
import argparse
import json
import logging
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
import draw_hybrids  # noqa: E402
from double_models import all_double, randomise  # noqa: E402

TOLERANCE, SHIPPED, CONTINUED = 1e-9, 1e-4, 3
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


FAMILIES = {f.__name__: f for f in (mamba, falcon_mamba, mamba2, bamba, jamba, granite_hybrid, *draw_hybrids.FAMILIES)}


class Refused(Exception):
    """What a side says instead of numbers."""


def loaded(cls, folder):
    """The folder's model as shipped, and the same weights in a model that is double throughout."""
    model = cls.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    with all_double():
        double = cls._from_config(cls.config_class.from_pretrained(folder), attn_implementation="eager").double().eval()
        double.load_state_dict({k: v.double() for k, v in model.state_dict().items()})
    return model, double


def expected(model, ids):
    """Last hidden state behind the final norm, and logits, of one text."""
    with torch.inference_mode():
        out = model(torch.tensor([ids]), output_hidden_states=True, use_cache=False)
    return out.hidden_states[-1][0].double().numpy(), out.logits[0].double().numpy()


def greedy(model, ids):
    """The likeliest ids, one full pass each, as far as they are clear of the next likely."""
    ids, found = list(ids), []
    for _ in range(CONTINUED):
        logits = expected(model, ids)[1][-1]
        first, second = np.sort(logits)[::-1][:2]
        if not first - second > 1e-7 * np.abs(logits).max():
            break
        found.append(int(logits.argmax()))
        ids.append(found[-1])
    return found


def differ(a, b):
    scale = np.abs(b).max()
    return float(np.abs(a - b).max() / scale) if scale > 0 else float(np.abs(a).max())


def misses(found, wanted):
    """The largest error over the texts."""
    return max(max(differ(found["last_hidden_state"][s, :len(h)], h), differ(found["logits"][s, :len(h)], logits))
               for s, (h, logits) in enumerate(wanted))


def probe(program, folder, precision):
    out = os.path.join(folder, "out.safetensors")
    words = [program, "probe", folder, "--tokens", os.path.join(folder, "ids.json"), "--precision", precision, "--output", out, "--quiet",
             "--threads", "1", "--json", "-", "--generate", str(CONTINUED)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise Refused(done.stderr.strip())
    return load_file(out), json.loads(done.stdout)["tables"]["generate"]


def draw(name, seed, folder):
    """Saves a model; returns its class, the random source, and texts."""
    r = random.Random(f"{name}{seed}")
    cls, config, *edit = FAMILIES[name](r)
    model = cls(config).eval()
    randomise(model, seed, r.choice((0.05, 0.3, 1.0)))
    model.save_pretrained(folder)
    path = os.path.join(folder, "config.json")
    written = json.load(open(path))
    if edit:
        edit[0](written)
    draw_hybrids.leave_out_defaults(r, written, type(config))
    json.dump(written, open(path, "w"), indent=1)
    texts = [[r.randrange(1, VOCABULARY) for _ in range(r.choice((1, 2, 7, 20)))] for _ in range(r.randint(1, 3))]
    json.dump(texts, open(os.path.join(folder, "ids.json"), "w"))
    return cls, texts


def attack(program, name, seed, folder, shipped):
    """Errors in float64 and float32 and whether ids agree, or a text that says what differs."""
    try:
        cls, texts = draw(name, seed, folder)
        model, double = loaded(cls, folder)
        with all_double():
            wanted = [expected(double, ids) for ids in texts]
            ids = [greedy(double, text) for text in texts]
    except Exception as why:  # a configuration that transformers does not take says nothing about ours
        raise Refused(f"transformers: {type(why).__name__}: {str(why).splitlines()[0] if str(why) else ''}") from why
    if not all(np.isfinite(part).all() for pair in wanted for part in pair):
        raise Refused("transformers: not finite")
    found, rows = probe(program, folder, "f64")
    worst = misses(found, wanted)
    if not worst <= TOLERANCE:
        return f"differs by {worst:.3g}"
    told = [row["ids"][:len(own)] for row, own in zip(rows, ids)]
    if told != ids:
        return f"continues with {told}, not {ids}"
    if not shipped:
        return worst, 0.0
    single = [expected(model, ids) for ids in texts]
    own = max(max(differ(a, b) for a, b in zip(one, two)) for one, two in zip(single, wanted))
    error = misses(probe(program, folder, "f32")[0], single)
    return f"differs by {error:.3g} in float32, where transformers misses its own double by {own:.3g}" if error > max(SHIPPED, 10 * own) else (
        worst, error if error <= SHIPPED else 0.0)


def report(args, name):
    """Attacks one family; returns how many differ."""
    wrong, errors, refused = 0, [], {}
    for seed in range(args.seed, args.seed + args.instances):
        folder = tempfile.mkdtemp()
        try:
            answer = attack(args.program, name, seed, folder, not args.f64)
            if isinstance(answer, tuple):
                errors.append(answer)
            else:
                wrong += 1
                print(f"{name} {seed}: {answer}", flush=True)
        except Refused as why:
            theirs = str(why).startswith("transformers")
            key = ("neither takes" if run_refuses(args.program, folder) else "transformers alone refuses") if theirs else "refused"
            refused.setdefault(key, []).append(seed)
            print(f"{name} {seed}: {key}: {why}", flush=True)
        if args.keep:
            shutil.copytree(folder, os.path.join(args.keep, f"{name}-{seed}"), dirs_exist_ok=True)
        shutil.rmtree(folder)
    worst = [f"{max((e[i] for e in errors), default=0):.2g}" for i in (0, 1)]
    print(f"{name}: {args.instances} instances, {len(errors)} agree, worst {worst[0]} in float64, {worst[1]} in float32; {wrong} differ; "
          + ", ".join(f"{len(seeds)} {key}" for key, seeds in refused.items()), flush=True)
    return wrong


def run_refuses(program, folder):
    if not os.path.exists(os.path.join(folder, "ids.json")):
        return True
    try:
        probe(program, folder, "f64")
    except Refused:
        return True
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--instances", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(FAMILIES))
    parser.add_argument("--keep")
    parser.add_argument("--f64", action="store_true", help="leave out float32")
    args = parser.parse_args()
    torch.set_num_threads(1)
    T.logging.set_verbosity_error()
    T.logging.disable_progress_bar()
    logging.disable(logging.WARNING)
    sys.exit(1 if sum(report(args, name) for name in args.only.split(",")) else 0)


if __name__ == "__main__":
    main()
