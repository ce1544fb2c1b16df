"""compression.py make DIR KIND | check DIR OUT RESULT.json TEXT | factors DIR OUT: small models with a tokenizer, and what `scan --energy --text --write` says and
writes of them against transformers in float64 and NumPy's decompositions. PyTorch and transformers."""
import importlib.util
import json
import os
import sys

import numpy as np
import torch
import transformers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))
from letters import LETTERS, windows, write_tokenizer

torch.set_num_threads(1)
SEQ_LEN = 16


def make(folder, kind):
    torch.manual_seed(7)
    t = transformers
    common = dict(vocab_size=len(LETTERS), bos_token_id=None, eos_token_id=None, pad_token_id=None)
    if kind.startswith("gpt2"):
        model = t.GPT2LMHeadModel(t.GPT2Config(n_embd=48, n_head=3, n_layer=2, n_positions=32, **common))
    elif kind in ("llama", "llama_bf16"):
        model = t.LlamaForCausalLM(t.LlamaConfig(hidden_size=48, num_attention_heads=4, num_key_value_heads=2, head_dim=12, intermediate_size=64,
                                                 num_hidden_layers=2, max_position_embeddings=64, attention_bias=True, **common))
    else:
        model = t.AlbertForMaskedLM(t.AlbertConfig(embedding_size=16, hidden_size=48, num_attention_heads=4, intermediate_size=64,
                                                   num_hidden_layers=3, max_position_embeddings=64, vocab_size=len(LETTERS)))
    with torch.no_grad():  # spectra that fall, biases that are there, norms that are not 1
        for name, p in model.named_parameters():
            if p.dim() == 2 and "wte" not in name and "wpe" not in name and "embed" not in name:
                u, s, v = torch.linalg.svd(torch.randn_like(p), full_matrices=False)
                p.copy_(u @ torch.diag(s * 0.93 ** torch.arange(len(s))) @ v * 0.2)
            elif p.dim() == 1:
                p.add_(0.1 * torch.randn_like(p))
            else:
                p.mul_(10)
        if kind == "gpt2_zero":  # a layer whose values are all zero, a head without queries and one without values
            first, second = (block.attn.c_attn.weight for block in model.transformer.h)
            second[:, 96:], first[:, :16], first[:, 112:128] = 0, 0, 0
    model.to(torch.bfloat16 if kind.endswith("bf16") else torch.float64 if kind.startswith("gpt2") else torch.float32)
    model.save_pretrained(folder, max_shard_size="40KB" if kind == "gpt2" else "5GB")
    write_tokenizer(folder)


def load(folder):
    config = json.load(open(f"{folder}/config.json"))
    name = config["architectures"][0]
    return getattr(transformers, name).from_pretrained(folder, dtype=torch.float64).eval()


def nll(model, ids):
    with torch.no_grad():
        logits = model(input_ids=ids).logits
    return torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1)).item(), logits


def parts(model, layer):
    """{name: (module, how its weight maps to [in, out], columns)}, heads, key/value heads, head's width."""
    kind, c = model.config.model_type, model.config
    if kind == "gpt2":
        a, d = model.transformer.h[layer].attn, c.n_embd
        maps = {n: (a.c_attn, lambda w: w, slice(i * d, (i + 1) * d)) for i, n in enumerate(("W_Q", "W_K", "W_V"))}
        return maps | {"W_O": (a.c_proj, lambda w: w, slice(None))}, c.n_head, c.n_head, d // c.n_head
    a = model.model.layers[layer].self_attn
    maps = {n: (m, lambda w: w.T, slice(None)) for n, m in (("W_Q", a.q_proj), ("W_K", a.k_proj), ("W_V", a.v_proj), ("W_O", a.o_proj))}
    return maps, c.num_attention_heads, c.num_key_value_heads, c.head_dim


def spectrum(m, energy):
    s = np.linalg.svd(m, compute_uv=False)
    if s[0] == 0:
        return 0, None
    share = np.cumsum(s**2) / np.sum(s**2)
    k = int(np.argmax(share >= energy * (1 - 1e-12))) + 1
    return k, np.sqrt(np.sum(s[k:] ** 2) / np.sum(s**2))


def truncated(x, m, k):
    """The weighted optimum from the decomposition of XM itself."""
    v = np.linalg.svd(x @ m, full_matrices=False)[2][:k]
    return m @ v.T @ v


def near(what, got, want, tolerance):
    if (got is None) != (want is None) or (want is not None and not abs(got - want) <= tolerance):
        sys.exit(f"{what}: {got!r}, expected {want!r}")


def watcher(seen, key):
    def hook(module, arguments):
        seen[key] = arguments[0].detach().reshape(-1, arguments[0].shape[-1]).numpy()
    return hook


def check(folder, out, result, text):
    tables = json.load(open(result))["tables"]
    rows = {(r["layer"], r["matrix"], r["product"], r["head"]): r for r in tables["energy"]}
    totals, line = {r["way"]: r for r in tables["energy_totals"]}, tables["compression"][0]
    model, ids = load(folder), torch.tensor(windows(open(text).read(), SEQ_LEN))
    seen, handles = {}, []
    layers = model.config.num_hidden_layers
    for layer in range(layers):
        for name, (module, _, _) in parts(model, layer)[0].items():
            handles.append(module.register_forward_pre_hook(watcher(seen, (layer, name))))
    before, _ = nll(model, ids)
    for handle in handles:
        handle.remove()
    cut, exact = load(out), "gpt2" in folder  # stored as F64; transformers turns LLaMA's positions in float32
    saved, changed, energy = 0, {}, line["energy"]
    for layer in range(layers):
        maps, heads, groups, r = parts(model, layer)
        w = {n: turn(m.weight.detach().numpy())[:, cols] for n, (m, turn, cols) in maps.items()}
        new = {n: turn(m.weight.detach().numpy())[:, cols] for n, (m, turn, cols) in parts(cut, layer)[0].items()}
        x, options = seen[layer, "W_Q"], {}
        for n in w:
            k, error = spectrum(seen[layer, n] @ w[n], energy)
            row = rows[layer, n, None, None]
            near(f"{layer} {n} rank", row["weighted_rank"], k, 0)
            near(f"{layer} {n} error", row["weighted_error"], error, 1e-7)
            gain = max(0, w[n].size - k * sum(w[n].shape))
            near(f"{layer} {n} saved", row["weighted_saved"], gain, 0)
            options.setdefault(("qk" if n in ("W_Q", "W_K") else "ov", "matrices"), []).append((gain, n, k))
        share = heads // groups
        for g in range(groups):
            kv, members = slice(g * r, (g + 1) * r), [slice((g * share + j) * r, (g * share + j + 1) * r) for j in range(share)]
            stacks = {"qk": (np.vstack([x @ w["W_Q"][:, m] for m in members]), w["W_K"][:, kv].T, share * w["W_Q"].shape[0]),
                      "ov": (x @ w["W_V"][:, kv], np.hstack([w["W_O"][m] for m in members]), w["W_O"].shape[1] * share)}
            for product, (left, right, _) in stacks.items():
                k, error = spectrum(left @ right, energy)
                row = rows[layer, None, product, g]
                near(f"{layer} {product} {g} rank", row["weighted_rank"], k, 0)
                near(f"{layer} {product} {g} error", row["weighted_error"], error, 1e-7)
                stored = (share + 1) * r * x.shape[1]
                gain = max(0, stored - k * (share + 1) * x.shape[1]) if row["feasible"] else 0
                near(f"{layer} {product} {g} saved", row["weighted_saved"], gain, 0)
                options.setdefault((product, "products"), []).append((gain, g, k))
        for product in ("qk", "ov"):
            ways = {way: [o for o in options.get((product, way), []) if o[0] > 0] for way in ("matrices", "products")}
            best = max(ways, key=lambda way: (sum(o[0] for o in ways[way]), way == "matrices"))
            saved += sum(o[0] for o in ways[best])
            names = ("W_Q", "W_K") if product == "qk" else ("W_V", "W_O")
            want = {n: w[n].copy() for n in names}
            for _, which, k in ways[best]:
                if best == "matrices":
                    want[which] = truncated(seen[layer, which], w[which], k)
                    continue
                kv = slice(which * r, (which + 1) * r)
                members = [slice((which * share + j) * r, (which * share + j + 1) * r) for j in range(share)]
                left = np.vstack([w["W_Q"][:, m] for m in members]) if product == "qk" else w["W_V"][:, kv]
                right = w["W_K"][:, kv].T if product == "qk" else np.hstack([w["W_O"][m] for m in members])
                met = np.vstack([x @ w["W_Q"][:, m] for m in members]) if product == "qk" else x @ left
                v = np.linalg.svd(met @ right, full_matrices=False)[2][:k]
                got = left @ (new["W_K"][:, kv].T if product == "qk" else np.hstack([new["W_O"][m] for m in members]))
                changed[layer, product, which] = np.linalg.norm(got - left @ right @ v.T @ v) / (np.linalg.norm(got) or 1)
                for n in names:
                    want[n] = None
            for n in names:
                if want[n] is not None:
                    changed[layer, n] = np.linalg.norm(new[n] - want[n]) / (np.linalg.norm(want[n]) or 1)
    worst = max(changed.values())
    near("distance of what is written from NumPy's truncation", worst, 0, 1e-9 if exact else 1e-6 if "bf16" not in folder else 1e-2)
    near("saved in all", totals["best"]["weighted_saved"], saved, 0)
    near("left", line["parameters_left"], line["parameters"] - saved, 0)
    after, logits = nll(cut, ids)
    near("loss before", line["nll"], before, 1e-6)
    near("loss of what was written", line["nll_truncated"], after, 1e-5)
    near("change", line["loss_change"], after - before, 1e-5)
    module = loader_of(out)
    if saved == 0:
        sys.exit("nothing was cut: the test says nothing")
    small = module.load(load(folder).to(torch.float32))
    assert any(isinstance(m, module.Pieces) for m in small.modules())
    with torch.no_grad():
        theirs = small(input_ids=ids).logits
    tolerance = 1e-5 if "bf16" not in folder else 0.2
    near("logits by factors", (theirs.double() - logits).abs().max().item() / max(1, logits.abs().max().item()), 0, tolerance)
    held = sum(t.numel() for name, t in module.safetensors(f"{out}/factors/factors.safetensors").items() if "by_" in name)
    size = {id(m): m.weight.numel() for layer in range(layers) for m, _, _ in parts(model, layer)[0].values()}
    touched = {n.rsplit(":", 2)[0] for n in module.safetensors(f"{out}/factors/factors.safetensors")}
    names = {id(m): n for n, m in model.named_modules()}
    stored = sum(n for i, n in size.items() if any(w.startswith(names[i]) or names[i].endswith(w.removesuffix(".weight")) for w in touched))
    near("numbers that the factors hold", held, stored - saved, 0)
    whole = module.dense(f"{out}/factors")
    assert set(whole) == touched, (set(whole), touched)
    for layer in range(layers):
        for name, (m, turn, cols) in parts(cut, layer)[0].items():
            of = whole.get(f"{names[id(parts(model, layer)[0][name][0])]}.weight")
            if of is not None and (layer, name) in changed:
                near(f"{layer} {name} multiplied out", np.abs(of.numpy().T[:, cols] - turn(m.weight.detach().numpy())[:, cols]).max(), 0, 1e-2 if "bf16" in folder else 1e-6)
    print(f"{folder}: {len(changed)} truncations, {worst:.1e} from NumPy's, {before:.6f} -> {after:.6f} nats, {held} numbers in factors")


def loader_of(out):
    spec = importlib.util.spec_from_file_location("load", f"{out}/factors/load.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def as_stored(kind, folder, out, wide):
    """The factors in a model of each type that a checkpoint may have, beside those in F32: logits to the type's own rounding."""
    ids = torch.randint(1, 20, (2, 7), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        right = wide(input_ids=ids)[0].double()
        for dtype, close in ((torch.float64, 1e-4), (torch.bfloat16, 0.5), (torch.float16, 0.15)):
            model = kind.from_pretrained(folder, dtype=dtype).eval()
            plain = model(input_ids=ids)[0]
            found = loader_of(out).load(model)(input_ids=ids)[0]
            assert found.dtype == plain.dtype, (found.dtype, plain.dtype)
            near(f"{folder} by factors in {dtype}", (found.double() - right).abs().max().item() / right.abs().max().item(), 0, close)


def factors(folder, out):
    """Logits, or last states, by the factors put into the source against those of what was written; and the source's own."""
    name = json.load(open(f"{folder}/config.json"))["architectures"][0]
    of = [getattr(transformers, name).from_pretrained(d, dtype=torch.float32).eval() for d in (out, folder, folder)]
    of[1] = loader_of(out).load(of[1])
    as_stored(getattr(transformers, name), folder, out, of[1])
    ids = torch.randint(1, 20, (3, 9), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        written, small, source = (m(input_ids=ids)[0] for m in of)
    size = written.abs().max().item()
    near(f"{folder} by factors", (written - small).abs().max().item() / size, 0, 1e-5)
    if not (written - source).abs().max().item() > 1e-3 * size:
        sys.exit(f"{folder}: the cut changed nothing")


if sys.argv[1] == "factors":
    factors(*sys.argv[2:])
elif sys.argv[1] == "make":
    os.makedirs(sys.argv[2], exist_ok=True)
    make(sys.argv[2], sys.argv[3])
else:
    check(*sys.argv[2:])
