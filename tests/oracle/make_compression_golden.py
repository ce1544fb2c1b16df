"""Writes tests/golden/compression/NAME/: what `rankscope scan --energy --text --write` should say of small random models, and write.

config.json, model.safetensors (F64), tokenizer.json   the model: queries with keys of their own and biases (gpt2), grouped (llama),
                                                       grouped and biased (qwen2)
expected.json     two texts, one of fewer tokens than the model is wide (XᵀX singular) and one of more, each with
    rows          a matrix or a product at an energy: rank and error of M, of X M, and the numbers that are stored for it
    left          the attention parameters that are left where each pair of factors is cut in the way that saves more
    chosen        which way that is
    nll           the loss, of the model and of that with these cuts
    searches      ‖X M − X C‖ / ‖X M‖ of the best C of that rank which a search over its factors finds
expected.safetensors
    TEXT.ENERGY.TENSOR   the tensors that are cut, as NumPy's decomposition of X M cuts them: M V Vᵀ, V the leading right singular vectors
    TEXT.x.LAYER.MAP     X, the rows that a map reads (short text)

The passes are those of transformers in float64 throughout; no Gram is formed anywhere. Ranks that rounding could decide are refused.
Re-run with the versions of requirements.txt:  python tests/oracle/make_compression_golden.py
"""
import json
import pathlib
import shutil

import numpy as np
import scipy.optimize
import torch
import transformers as T
from double_models import all_double
from letters import LETTERS, windows, write_tokenizer
from safetensors.numpy import save_file

OUT = pathlib.Path(__file__).resolve().parent.parent / "golden" / "compression"
WIDTH, LAYERS, ENERGIES = 16, 2, (0.85, 0.98)
TEXTS = {"short": ("abacus dig", 10), "long": ("the quick brown fox jumps over a lazy dog and vexes five wizards who pack my box\n", 16)}
COMMON = dict(vocab_size=len(LETTERS), bos_token_id=None, eos_token_id=None, pad_token_id=None, attn_implementation="eager")
GROUPED = dict(hidden_size=WIDTH, num_attention_heads=4, num_key_value_heads=2, intermediate_size=24, num_hidden_layers=LAYERS,
               max_position_embeddings=32, tie_word_embeddings=False)
CONFIGS = {"gpt2": lambda: T.GPT2Config(n_embd=WIDTH, n_head=2, n_layer=LAYERS, n_positions=32, n_inner=24, **COMMON),
           "llama": lambda: T.LlamaConfig(**GROUPED, **COMMON),
           "qwen2": lambda: T.Qwen2Config(**GROUPED, **COMMON)}
PAIRS = {"qk": ("W_Q", "W_K"), "ov": ("W_V", "W_O")}


def draw(name, seed):
    """Spectra that fall, gains that are not 1, biases that are there."""
    rng = np.random.default_rng(seed)
    with all_double():
        model = T.AutoModelForCausalLM.from_config(CONFIGS[name](), dtype=torch.float64).eval()
    for key, p in sorted(model.named_parameters()):
        if p.ndim == 2 and "attn" in key:
            u, s, v = np.linalg.svd(rng.normal(size=p.shape), full_matrices=False)
            drawn = u * (s * 0.9 ** np.arange(len(s))) @ v
        else:
            drawn = rng.normal(size=p.shape) * (1.0 if p.ndim == 2 else 0.2) + (1.0 if "norm" in key or "ln_" in key else 0.0) * key.endswith("weight")
        p.data = torch.from_numpy(drawn)
    return model


class Map:
    """A matrix [in, out] inside a stored tensor."""

    def __init__(self, module, tensor, turned, columns=slice(None)):
        self.module, self.tensor, self.turned, self.columns = module, tensor, turned, columns

    def of(self, weights):
        whole = weights[self.tensor]
        return (whole.T if self.turned else whole)[:, self.columns]

    def put(self, weights, new):
        (weights[self.tensor].T if self.turned else weights[self.tensor])[:, self.columns] = new


def maps_of(model, layer):
    if model.config.model_type == "gpt2":
        at, attn = f"transformer.h.{layer}.attn", model.transformer.h[layer].attn
        fused = {n: Map(attn.c_attn, f"{at}.c_attn.weight", False, slice(i * WIDTH, (i + 1) * WIDTH)) for i, n in enumerate(("W_Q", "W_K", "W_V"))}
        return fused | {"W_O": Map(attn.c_proj, f"{at}.c_proj.weight", False)}
    at, attn = f"model.layers.{layer}.self_attn", model.model.layers[layer].self_attn
    return {f"W_{n.upper()}": Map(getattr(attn, f"{n}_proj"), f"{at}.{n}_proj.weight", True) for n in "qkvo"}


def run(model, ids):
    """The mean loss, and what each map reads: {(layer, name): [rows, in]}"""
    seen, hooks = {}, []
    for layer in range(LAYERS):
        for name, m in maps_of(model, layer).items():
            def hook(_, inputs, at=(layer, name)):
                seen[at] = inputs[0].reshape(-1, inputs[0].shape[-1]).numpy()
            hooks.append(m.module.register_forward_pre_hook(hook))
    with torch.no_grad(), all_double():
        logits = model(input_ids=torch.tensor(ids)).logits
    for hook in hooks:
        hook.remove()
    log = torch.log_softmax(logits[:, :-1], -1)
    return -log.gather(-1, torch.tensor(ids)[:, 1:, None]).mean().item(), seen


def rank_and_error(m, energy):
    s = np.linalg.svd(m, compute_uv=False)
    share = np.cumsum(s**2) / np.sum(s**2)
    k = int(np.argmax(share >= energy)) + 1
    assert np.abs(share - energy).min() > 1e-4 and (k == len(s) or s[k] < 0.99 * s[k - 1]), (share, energy)
    return k, float(np.sqrt(np.sum(s[k:] ** 2) / np.sum(s**2)))


def projection(m, k):
    """V Vᵀ, V the k leading right singular vectors."""
    v = np.linalg.svd(m, full_matrices=False)[2][:k]
    return v.T @ v


def search(x, m, k, rng):
    """The least of ‖X M − X U V‖² over U [., k], V [k, .] that L-BFGS finds from a dozen starts, relative: nothing here knows of a spectrum."""
    rows, cols, size = m.shape[0], m.shape[1], np.sum((x @ m) ** 2)

    def value(z):
        u, v = z[:rows * k].reshape(rows, k), z[rows * k:].reshape(k, cols)
        left = x @ (u @ v - m)
        slope = 2 / size * x.T @ left
        return np.sum(left**2) / size, np.concatenate([(slope @ v.T).ravel(), (u.T @ slope).ravel()])
    found = [scipy.optimize.minimize(value, rng.normal(size=(rows + cols) * k) * 0.5, jac=True, method="L-BFGS-B",
                                     options=dict(maxiter=20000, maxfun=40000, ftol=0, gtol=1e-11)) for _ in range(12)]
    return float(np.sqrt(min(f.fun for f in found)))


class Product:
    """A head's, or that of a group which shares keys and values: M = left · right, of which `right` is what a cut changes."""

    def __init__(self, product, head, w, heads, groups):
        self.head, self.product = head, product
        share, r = heads // groups, w["W_Q"].shape[1] // heads
        self.own = slice(head * r, (head + 1) * r)
        self.members = [slice((head * share + j) * r, (head * share + j + 1) * r) for j in range(share)]
        if product == "qk":  # the queries of the group one below the other: so do their X stand
            self.copies, self.left, self.right = share, np.vstack([w["W_Q"][:, m] for m in self.members]), w["W_K"][:, self.own].T
        else:
            self.copies, self.left, self.right = 1, w["W_V"][:, self.own], np.hstack([w["W_O"][m] for m in self.members])
        self.numbers = self.left.size + self.right.size

    def reads(self, x):
        return np.kron(np.eye(self.copies), x)

    def put(self, maps, new, right):
        whole = maps[PAIRS[self.product][1]].of(new).copy()
        if self.product == "qk":
            whole[:, self.own] = right.T
        else:
            for m, part in zip(self.members, np.hsplit(right, len(self.members))):
                whole[m] = part
        maps[PAIRS[self.product][1]].put(new, whole)


def row_of(kept, x, m, energy, numbers):
    plain, error = rank_and_error(m, energy)
    rank, weighted = rank_and_error(x @ m, energy)
    row = dict(kept, energy=energy, rank=plain, relative_error=error, weighted_rank=rank, weighted_error=weighted, parameters=numbers)
    return row, numbers - rank * sum(m.shape)


def cut(model, weights, seen, energy, rng):
    """Rows, searches, the ways that were taken, what is saved, and the weights of the cut model, of all layers at one energy."""
    c, new = model.config, {name: w.copy() for name, w in weights.items()}
    heads = c.num_attention_heads
    groups = getattr(c, "num_key_value_heads", heads)
    rows, searches, chosen, saved = [], [], [], 0
    for layer in range(LAYERS):
        maps = maps_of(model, layer)
        w = {name: m.of(weights) for name, m in maps.items()}
        for product, names in PAIRS.items():
            ways = {"matrices": [], "products": []}
            for name in names:
                x, key = seen[layer, name], dict(layer=layer, matrix=name, product=None, head=None)
                row, gain = row_of(key, x, w[name], energy, w[name].size)
                rows.append(row)
                searches.append(dict(key, energy=energy, found=search(x, w[name], row["weighted_rank"], rng)))
                if gain > 0:
                    ways["matrices"].append((gain, name, row["weighted_rank"]))
            for head in range(groups):
                p, key = Product(product, head, w, heads, groups), dict(layer=layer, matrix=None, product=product, head=head)
                x = p.reads(seen[layer, names[0]])
                row, gain = row_of(key, x, p.left @ p.right, energy, p.numbers)
                rows.append(row)
                searches.append(dict(key, energy=energy, found=search(x, p.left @ p.right, row["weighted_rank"], rng)))
                if gain > 0 and not (product == "qk" and c.model_type != "gpt2"):  # positions turn queries against keys
                    ways["products"].append((gain, p, row["weighted_rank"]))
            gains = {way: sum(g for g, _, _ in of) for way, of in ways.items()}
            best = "products" if gains["products"] > gains["matrices"] else "matrices"
            saved += gains[best]
            chosen.append(dict(layer=layer, product=product, way=best))
            for _, what, k in ways[best]:
                if best == "matrices":
                    m, x = w[what], seen[layer, what]
                    maps[what].put(new, m @ projection(x @ m, k))
                else:
                    met = what.reads(seen[layer, names[0]]) @ what.left @ what.right
                    what.put(maps, new, what.right @ projection(met, k))
    return rows, searches, chosen, saved, new


def case(name, seed):
    folder, model = OUT / name, draw(name, seed)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    write_tokenizer(folder)
    weights = {key: w.numpy().copy() for key, w in model.state_dict().items()}
    expected, arrays, rng = {}, {}, np.random.default_rng(seed)
    for which, (text, length) in TEXTS.items():
        ids = windows(text, length)
        before, seen = run(model, ids)
        of = expected[which] = dict(text=text, length=length, nll=before, rows=[], searches=[], cuts=[])
        for energy in ENERGIES:
            rows, searches, chosen, saved, new = cut(model, weights, seen, energy, rng)
            model.load_state_dict({key: torch.from_numpy(w) for key, w in new.items()})
            after, _ = run(model, ids)
            model.load_state_dict({key: torch.from_numpy(w) for key, w in weights.items()})
            changed = {key: w for key, w in new.items() if not np.array_equal(w, weights[key])}
            arrays |= {f"{which}.{energy}.{key}": np.ascontiguousarray(w) for key, w in changed.items()}
            stored = sum(m.of(weights).size for layer in range(LAYERS) for m in maps_of(model, layer).values())
            of["rows"] += rows
            of["searches"] += searches
            of["cuts"].append(dict(energy=energy, parameters=stored, left=stored - saved, nll=after, chosen=chosen))
            print(f"{name} {which} {energy}: {stored} -> {stored - saved}, {before:.6f} -> {after:.6f}, {len(changed)} tensors")
        if which == "short":
            arrays |= {f"{which}.x.{layer}.{m}": x for (layer, m), x in seen.items() if m in ("W_Q", "W_O")}
    json.dump(expected, open(folder / "expected.json", "w"), indent=1)
    save_file(arrays, folder / "expected.safetensors")


if __name__ == "__main__":
    torch.set_num_threads(1)
    T.logging.set_verbosity_error()
    shutil.rmtree(OUT, ignore_errors=True)
    for name, seed in (("gpt2", 40), ("llama", 41), ("qwen2", 43)):
        case(name, seed)
    print(sum(f.stat().st_size for f in OUT.rglob("*")) // 1024, "kB")
