"""Random command lines: architecture files of odd shapes, checkpoints under tests/golden, options, variants, thresholds."""
import json

from .case import GOLDEN


def draw_architecture(rng, deepest=96):
    heads = rng.choice([1, 1, 2, 3, 4, 6, 8])
    kv_heads = rng.choice([k for k in range(1, heads + 1) if heads % k == 0])
    d_head = rng.choice([1, 2, 3, 4, 8, 16, 32, 64, 128])
    width = heads * d_head if rng.random() < 0.6 and heads * d_head <= 256 else rng.choice([1, 2, 3, 5, 8, 16, 64, 128])
    depth = rng.choice([1, 1, 2, 3, 4, 6, 8, 12, 24, 48, 96]) if width <= 64 else rng.choice([1, 2, 3, 6, 12])
    arch = {"depth": min(depth, deepest), "d_model": width, "heads": heads, "kv_heads": kv_heads, "d_head": d_head,
            "seq_len": rng.choice([1, 2, 3, 5, 7, 8, 9, 16, 32, 64]),
            "norm": rng.choice(["pre", "post", "none", "sandwich"]), "norm_kind": rng.choice(["layernorm", "rmsnorm"]),
            "mlp": rng.choice(["none", "linear", "relu", "gelu", "gelu_tanh", "swiglu"]),
            "mask": rng.choice(["none", "causal", "sliding:%d" % rng.choice([1, 2, 3, 5, 20])]),
            "attention": rng.choice(["softmax"] * 6 + ["uniform", "centred", "shaped", "rescaled"]),
            "temperature": rng.choice([1, 1, 1, 0.1, 0.01, 10, 100])}
    for field in "skip_mixer", "skip_mlp", "branch_mixer", "branch_mlp":
        if rng.random() < 0.3:
            arch[field] = rng.choice([0, 0.5, -0.5, 1.5, 3, "1/sqrt(L)", "1/L"])
    if rng.random() < 0.3:
        arch["vocab"] = rng.choice([2, 10, 100])
    if arch.get("vocab") and rng.random() < 0.5:
        arch["positions"] = "learned"
    elif rng.random() < 0.3:
        arch["positions"] = rng.choice((["rope"] if d_head % 2 == 0 else []) + ["alibi", "relative"])
    if not arch.get("vocab") and rng.random() < 0.4:
        arch["input"] = {"law": "gaussian", "rho": rng.choice([0, 1] if width == 1 else [0, 0.5, 0.9, 0.999, 1]),
                         "norm2": rng.choice(["d", "1", "100*d"])}
    if rng.random() < 0.15:
        arch["init"] = {rng.choice(["wq", "wk", "wv", "wo"]):
                        rng.choice(["orthogonal", "normal(0, 25/fan_in)", "uniform(-0.1, 0.1)", "zero"])}
    if rng.random() < 0.1:  # the spread falls with the norms, unless something draws the tokens together
        arch |= {"norm": "none", "mlp": "none", "skip_mixer": rng.choice([0.1, 0.3, -0.2])}
        arch["init"] = {"wo": rng.choice(["zero", "normal(0, 0.01/fan_in)"])}
    if rng.random() < 0.2:
        for field in "attention", "positions", "mask", "kv_heads", "temperature":
            arch.pop(field, None)
        arch["mixer"] = rng.choice(["mamba", "mamba2", "linear_attention", "s4d", "gated_recurrence", "gated_delta", "short_conv"])
    return arch


def draw_probe_options(rng):
    options = []
    if rng.random() < 0.5:
        options += ["--variants", rng.choice([
            "dong", "dong", "dong", "all", "full", "san", "pure", "full,san", "san,full", "full,half=lambda:0.5", "san,pure",
            "full,san+skip", "x=no-norm,y=no-mlp", "full,a=no-skip,b=no-mlp", "full,san,san+mlp", "san,san+skip,pure"])]
    if rng.random() < 0.2:
        options += rng.choice([["--no-skip"], ["--no-mlp"], ["--no-norm"], ["--no-mask"], ["--lambda", "0.5"],
                               ["--lambda", "mixer:0"], ["--residual-scale", "1/sqrt(L)"], ["--temperature", "0.01"],
                               ["--depth", "5"], ["--no-mlp-branch"], ["--center-attention"], ["--uniform-attention"]])
    if rng.random() < 0.3:
        options += ["--threshold", rng.choice([
            "token_collapse=0.5", "token_collapse=0.01", "token_collapse=0.9,slow_collapse=0.9", "slow_collapse=0.99",
            "slow_collapse=0.1", "uniform_attention=0.5", "condensed_attention=0.5", "attention_sink=0.1",
            "attention_sink=0", "token_collapse=1", "token_collapse=0.000000001"])]
    if rng.random() < 0.35:
        options += ["--precision", rng.choice(["f64", "residual"])]
    if "--no-attention" not in options and rng.random() < 0.15:
        options += ["--null", "random"]
    if rng.random() < 0.5:
        options.append("--no-spectral")
    return options


def checkpoints():
    """Folders of golden models that are read with a config.json; their text or image inputs are drawn."""
    return sorted(p for kind in ("families", "forward") for p in (GOLDEN / kind).iterdir()
                  if (p / "config.json").exists() and list(p.glob("*.safetensors")))


def draw(rng, command, folder):
    seed = ["--seed", str(rng.randrange(1000)), "--threads", "1"]
    if command == "scan":
        args = ["scan", str(rng.choice(checkpoints()))] + (["--fold-norms"] if rng.random() < 0.3 else [])
        if rng.random() < 0.7:
            args += ["--threshold", rng.choice([
                "qk_low_rank=0.99", "ov_low_rank=0.99", "qk_low_rank=0.9,ov_low_rank=0.95", "dead_head=0.9", "dead_head=1",
                "decay_equilibrium=0.1", "qk_low_rank=1.2", "ov_low_rank=0.97,dead_head=0.95"])]
        return args + seed
    if command == "probe" and rng.random() < 0.25:
        args = ["probe", str(rng.choice(checkpoints())), "--random", str(rng.choice([1, 2, 4])), "--seq-len",
                str(rng.choice([1, 2, 6, 8, 12]))]
        return args + draw_probe_options(rng) + seed
    arch = draw_architecture(rng, 96 if command == "probe" else 12)
    (folder / "a.json").write_text(json.dumps(arch))
    args = [command, "a.json", "--init", "default", "--random", str(rng.choice([1, 1, 2, 3, 5]))]
    if command == "probe":
        args += draw_probe_options(rng)
    else:
        args += rng.choice([[], [], [], ["--no-mlp"], ["--no-norm"], ["--lambda", "mixer:0"], ["--no-skip"],
                            ["--lambda", "3"], ["--lambda", "0.1"], ["--no-mlp", "--no-norm"]])
    if command == "certify" and rng.random() < 0.3:
        args.append("--fast")
    if command == "paths" and rng.random() < 0.3:
        args += ["--max-length", str(rng.choice([0, 1, 2, 3]))]
    return args + seed
