"""Writes tests/golden/probe/: what `rankscope probe` should find, by transformers and NumPy.

CASE.json       for small models of tests/golden/forward: the samples (ragged rows of ids) and the columns of
                tables tokens, attention and loss, each computed from full matrices in float64 (SVD, eigenvalues),
                mean over the samples; continuations by model.generate; what --output should hold
minilm.json     all-MiniLM-L6-v2: the same columns of tables tokens and attention, on ragged sentences in float32;
                left as it is when scripts/fetch_model.sh cannot fetch the model

Re-run with the versions of requirements.txt:  python tests/oracle/make_probe_golden.py
"""

import json
import pathlib
import subprocess

import numpy as np
import torch
import transformers as T

from double_models import all_double

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
OUT = GOLDEN / "probe"


def token_measures(x):
    n, d = x.shape
    r = x - x.mean(0)
    norm = np.linalg.norm

    def one_inf(a):
        return np.sqrt(np.abs(a).sum(0).max() * np.abs(a).sum(1).max())

    u = x / norm(x, axis=1, keepdims=True)
    s = np.linalg.svd(x, compute_uv=False)
    p = s[s > 0] / s.sum()
    cosine = (u @ u.T)[~np.eye(n, dtype=bool)].mean() if n > 1 else np.nan
    pairs = [norm(a - b) for i, a in enumerate(x) for b in x[:i]]
    return {
        "norm_fro": norm(x), "residual_fro": norm(r), "relative_residual": norm(r) / norm(x),
        "residual_1inf": one_inf(r), "relative_residual_1inf": one_inf(r) / one_inf(x),
        "row_normalised_mu": norm(u - u.mean(0)) / np.sqrt(n),
        "rank1_residual": np.sqrt((s[1:] ** 2).sum()) / norm(s), "mean_cosine": cosine,
        "one_minus_cosine": 1 - cosine, "diameter": max(pairs, default=0.0),
        "effective_rank": np.exp(-(p * np.log(p)).sum()), "stable_rank": (s**2).sum() / s[0] ** 2,
        "stable_rank_gram": (s**4).sum() / s[0] ** 4,
        "numerical_rank": float((s > max(n, d) * np.finfo(float).eps * s[0]).sum()),
    }


def attention_measures(p, causal):
    n = len(p)
    seen = np.tril(np.ones((n, n), bool)) if causal else np.ones((n, n), bool)
    uniform = seen / seen.sum(1, keepdims=True)
    logs = np.log(np.where(seen, p, 1))
    variance = [np.var(logs[i][seen[i]]) for i in range(n)]  # the logits but for a constant a row
    s = np.linalg.svd(p, compute_uv=False)
    eigenvalues = np.sort(np.abs(np.linalg.eigvals(p)))[::-1]
    centred = np.eye(n) - 1 / n
    entropy = -(p * logs).sum(1).mean()
    most = np.log(seen.sum(1)).mean()
    second = eigenvalues[1] if n > 1 else 0.0
    return {
        "entropy": entropy, "logit_variance": np.mean(variance), "spectral_gap": 1 - second,
        "sigma1": s[0], "sigma2": s[1] if n > 1 else 0.0, "lambda2": second,
        "dobrushin": max((0.5 * np.abs(a - b).sum() for i, a in enumerate(p) for b in p[:i]), default=0.0),
        "distance_to_uniform": np.linalg.norm(p - uniform), "self_weight": np.diag(p).mean(),
        "first_token_weight": p[seen[:, 0], 0].mean(),
        "centred_norm_squared": np.linalg.norm(centred @ p, 2) ** 2,
        "entropy_ratio": entropy / most if most > 0 else np.nan,
    }


class Mixers:
    """Keeps what the output projection of every attention gives."""

    def __init__(self, modules):
        self.kept = []
        self.handles = [m.register_forward_hook(lambda m, i, o: self.kept.append(o)) for m in modules]

    def take(self):
        kept, self.kept = self.kept, []
        return [k[0].detach().numpy() for k in kept]


class Blocks:
    """States 0..L: what enters the first block and leaves each."""

    def __init__(self, blocks):
        self.states = []
        blocks[0].register_forward_pre_hook(
            lambda m, a, k: self.states.append((a[0] if a else k["hidden_states"])), with_kwargs=True)
        for block in blocks:
            block.register_forward_hook(
                lambda m, i, o: self.states.append(o[0] if isinstance(o, tuple) else o))

    def take(self):
        states, self.states = self.states, []
        return [s.reshape(-1, s.shape[-1]).detach().numpy() for s in states]


def mean(rows):
    out = {}
    for key in rows[0]:
        values = np.array([r[key] for r in rows])
        values = values[~np.isnan(values)]
        out[key] = float(values.mean()) if len(values) else None
    return out


def spread(values):
    v = np.array(values)
    return {"relative_residual_std": float(v.std(ddof=1)), "relative_residual_min": float(v.min()),
            "relative_residual_max": float(v.max()), "relative_residual_median": float(np.median(v)),
            "relative_residual_geomean": float(np.exp(np.log(v).mean()))}


def tokens_table(model, blocks, mixers, samples, causal):
    watch, mix = Blocks(blocks), Mixers(mixers)
    rows, matrices, nll, scored = {}, {}, 0.0, 0
    for ids in samples:
        if not ids:
            continue
        with torch.no_grad():
            out = model(input_ids=torch.tensor([ids]), output_attentions=True)
        states, mixed = watch.take(), mix.take()
        for l, state in enumerate(states):
            rows.setdefault((l, "block_out"), []).append(token_measures(state.astype(float)))
            if l:
                x = mixed[l - 1].reshape(-1, mixed[l - 1].shape[-1])
                rows.setdefault((l, "mixer_out"), []).append(token_measures(x.astype(float)))
        for l, a in enumerate(out.attentions):
            for h in range(a.shape[1]):
                matrices.setdefault((l, h), []).append(
                    attention_measures(a[0, h].numpy().astype(float), causal))
        if causal and len(ids) > 1:
            logs = torch.log_softmax(out.logits[0].double(), -1)
            nll -= sum(logs[i, t].item() for i, t in enumerate(ids[1:]))
            scored += len(ids) - 1
    table = {
        "tokens": [{"layer": l, "site": s, **mean(r), **spread([q["relative_residual"] for q in r])}
                   for (l, s), r in rows.items()],
        "attention": [{"layer": l, "head": h, **mean(r)} for (l, h), r in matrices.items()],
    }
    if scored:
        table["loss"] = {"tokens": scored, "nll": nll / scored, "perplexity": float(np.exp(nll / scored))}
    return table


def small(name, samples, causal):
    cls = T.AutoModelForCausalLM if causal else T.AutoModel
    loaded = cls.from_pretrained(GOLDEN / "forward" / name)
    weights = {k: v.double() for k, v in loaded.state_dict().items()}
    with all_double():
        model = cls.from_config(loaded.config, attn_implementation="eager").double().eval()
        model.load_state_dict(weights)
        inner = model.model if causal else model
        blocks = inner.layers if causal else inner.encoder.layer
        mixers = [b.self_attn.o_proj if causal else b.attention.output.dense for b in blocks]
        golden = {"samples": samples, **tokens_table(model, blocks, mixers, samples, causal)}
        if causal:
            ids = samples[0]
            for _ in range(6):
                with torch.no_grad():
                    ids = ids + [int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax())]
            golden["generated"] = ids[len(samples[0]):]
    write(name, golden)


def write(name, golden):
    OUT.mkdir(exist_ok=True)
    (OUT / f"{name}.json").write_text(json.dumps(golden, indent=None, separators=(",", ":")) + "\n")
    print(name, (OUT / f"{name}.json").stat().st_size, "bytes")


SENTENCES = ["A robin sang on the wet fence until the rain came back.",
             "Rank collapse makes every token say the same thing.",
             "Zwei mal drei macht vier, widde widde witt und drei macht neune!",
             "x"]


def minilm(folder):
    tokenizer = T.AutoTokenizer.from_pretrained(folder)
    model = T.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    samples = [tokenizer(s)["input_ids"] for s in SENTENCES]
    blocks = model.encoder.layer
    table = tokens_table(model, blocks, [b.attention.output.dense for b in blocks], samples, False)
    write("minilm", {"samples": samples, "tokens": table["tokens"], "attention": table["attention"][::7]})


small("llama", [[5, 2, 9, 1, 1, 3], [4, 8], [7], [3, 3, 6, 2, 8, 1, 4, 0], []], True)
small("bert", [[5, 2, 9, 1, 7, 3], [4, 8, 2], [7], [3, 3, 6, 2, 8]], False)
fetch = subprocess.run([GOLDEN.parent.parent / "scripts" / "fetch_model.sh", "minilm"], capture_output=True, text=True)
if fetch.returncode:
    print(f"minilm is left as it is: {fetch.stderr.strip()}")
else:
    minilm(fetch.stdout.strip())
