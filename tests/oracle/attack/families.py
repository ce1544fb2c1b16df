"""Families of checkpoints: for each, what the files hold (configuration and tensors) and the exact layers that they mean.

An Instance is everything that one run of the program reads; layers() derives the layers from it, edits of the command line included.
"""

import dataclasses
import json
import pathlib

import numpy as np

from . import files, rope
from .model import Attention, Branch, Layer, Mlp, Norm

ROTARY = {"llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "olmo2", "granite", "gpt_neox", "falcon"}


@dataclasses.dataclass
class Instance:
    family: str
    config: dict
    tensors: dict
    dtype: str
    samples: int
    n: int
    edits: dict = dataclasses.field(default_factory=dict)
    kept: float = 0.9

    def copy(self):
        return Instance(self.family, json.loads(json.dumps(self.config)), {k: v.copy() for k, v in self.tensors.items()}, self.dtype,
                        self.samples, self.n, dict(self.edits), self.kept)

    def settle(self):
        """Rounds every tensor to what its file can hold."""
        self.tensors = {k: files.stored(v, self.dtype, k) for k, v in self.tensors.items()}
        if self.dtype in files.QUANTISED:  # a GGUF file keeps these as float32
            self.config["rms_norm_eps"] = float(np.float32(self.config["rms_norm_eps"]))
            p = self.config["rope_parameters"]
            p["rope_theta"] = float(np.float32(max(p["rope_theta"], 1.001)))
        return self

    def write(self, folder):
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        quantised = self.dtype in files.QUANTISED
        if quantised:
            for name in ("config.json", "model.safetensors"):
                (folder / name).unlink(missing_ok=True)
            files.write_gguf(folder / "model.gguf", self.config, self.tensors, self.dtype)
        else:
            (folder / "model.gguf").unlink(missing_ok=True)
            (folder / "config.json").write_text(json.dumps(self.config))
        if self.family == "arch":
            return
        if not quantised:
            files.write_safetensors(folder / "model.safetensors", self.tensors, self.dtype)
        if self.family == "vit":
            np.save(folder / "images.npy", self.pixels())
        else:
            ids = np.arange(self.samples * self.n).reshape(self.samples, self.n)
            (folder / "ids.json").write_text(json.dumps(ids.tolist()))

    def path(self):
        return "model.gguf" if self.dtype in files.QUANTISED else "."

    def pixels(self):
        size, patch = self.config["image_size"], self.config["patch_size"]
        rng = np.random.default_rng(self.config["_pixels"])
        return (rng.standard_normal((self.samples, 1, size, size)) * self.config["_spread"]).astype(np.float32)

    def arguments(self):
        out = ["--images", "images.npy"] if self.family == "vit" else ["--tokens", "ids.json"]
        if self.family == "arch":
            out = ["--init", "default", "--random", str(self.samples), "--seed", str(self.tensors["seed"][0].astype(int))]
        for name, value in self.edits.items():
            if value is True:
                out.append("--" + name)
            elif value is not None:
                out += ["--" + name, str(value) if isinstance(value, (str, int)) else ",".join(repr(float(v)) for v in np.atleast_1d(value))]
        return out

    def layers(self):
        return edited(BUILDERS[self.family](self), self.edits)


def edited(layers, edits):
    depth = int(edits["depth"]) if edits.get("depth") else len(layers)
    layers = [dataclasses.replace(layers[i % len(layers)]) for i in range(depth)]
    for layer in layers:
        for name in ("mixer", "mlp"):
            branch = getattr(layer, name)
            if branch is None:
                continue
            branch = dataclasses.replace(branch)
            if edits.get("no-norm"):
                branch.before = branch.inside = branch.after = None
            skip = edits.get("lambda")
            if isinstance(skip, str):  # "mixer:0.5"
                which, skip = skip.split(":")
                skip = float(skip) if which == name else None
            if skip is not None:
                branch.skip = skip
            if edits.get("no-skip"):
                branch.skip = 0.0
            if edits.get("residual-scale") is not None:
                branch.scale = edits["residual-scale"]
            setattr(layer, name, branch)
        if edits.get("no-mlp"):
            layer.mlp = None
        op = dataclasses.replace(layer.mixer.op)
        if edits.get("temperature") is not None:
            op.temperature = edits["temperature"]
        if edits.get("no-mask"):
            op.causal, op.window = False, None
        if edits.get("center-attention"):
            op.mix = (0.0, 1.0, 1.0)
        if edits.get("uniform-attention"):
            op.mix = (0.0, 0.0, -1.0)
        if edits.get("shaped") is not None:
            op.mix = tuple(edits["shaped"])
        if edits.get("attention-rescale") is not None:
            op.mix = (0.0, 1.0 + edits["attention-rescale"], edits["attention-rescale"])
        layer.mixer.op = op
    return layers


def heads_in(w, count):
    """[count * c, d] as stored by a Linear -> [count, d, c]"""
    return np.stack([part.T for part in np.split(w, count)])


def heads_out(w, count):
    """[d, count * c] -> [count, c, d]"""
    return np.stack([part.T for part in np.split(w, count, axis=1)])


def cut(b, count):
    return None if b is None else np.stack(np.split(b, count))


def llama(inst):
    c, t, kind = inst.config, inst.tensors, inst.config["model_type"]
    heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
    width = c["head_dim"]
    eps, plus = c["rms_norm_eps"], kind.startswith("gemma")
    sandwich = kind in ("gemma2", "gemma3_text")
    act = {"silu": "silu", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu", "gelu": "gelu"}[c.get("hidden_activation") or c["hidden_act"]]
    out = []

    def norm(name):
        return Norm("rmsnorm", t[name], None, eps, plus) if name in t else None
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        parameters = dict(c["rope_parameters"])
        window = c.get("sliding_window") if kind == "mistral" else None
        if sandwich:
            sliding = c["layer_types"][i] == "sliding_attention"
            window = c["sliding_window"] if sliding else None
            if kind == "gemma3_text":
                parameters = parameters["sliding_attention" if sliding else "full_attention"]
        a = at + "self_attn."
        attention = Attention(
            heads_in(t[a + "q_proj.weight"], heads), heads_in(t[a + "k_proj.weight"], kv), heads_in(t[a + "v_proj.weight"], kv),
            heads_out(t[a + "o_proj.weight"], heads), cut(t.get(a + "q_proj.bias"), heads), cut(t.get(a + "k_proj.bias"), kv),
            cut(t.get(a + "v_proj.bias"), kv), t.get(a + "o_proj.bias"), inverse_square_scale=c.get("query_pre_attn_scalar", width),
            causal=True, window=window, softcap=c.get("attn_logit_softcapping"), rope=rope.rotation(parameters, width, inst.n, c),
            q_norm=norm(a + "q_norm.weight"), k_norm=norm(a + "k_norm.weight"), norm_whole=kind == "olmo2")
        if kind == "granite":
            attention.inverse_square_scale, attention.multiplier = None, c["attention_multiplier"]
        mlp = Mlp(t[at + "mlp.up_proj.weight"].T, t[at + "mlp.down_proj.weight"].T, act, gate=t[at + "mlp.gate_proj.weight"].T)
        first, second = norm(at + "input_layernorm.weight"), norm(at + "post_attention_layernorm.weight")
        scale = c.get("residual_multiplier", 1.0)
        if sandwich:
            layer = Layer(Branch(attention, first, second), Branch(mlp, norm(at + "pre_feedforward_layernorm.weight"), norm(at + "post_feedforward_layernorm.weight")))
        elif kind == "olmo2":
            layer = Layer(Branch(attention, None, second), Branch(mlp, None, norm(at + "post_feedforward_layernorm.weight")))
        else:
            layer = Layer(Branch(attention, first, scale=scale), Branch(mlp, second, scale=scale))
        out.append(layer)
    return out


def layer_norm(t, name, eps):
    return Norm("layernorm", t[name + ".weight"], t[name + ".bias"], eps)


def linear_attention(t, names, heads, **more):
    q, k, v, o = names
    return Attention(heads_in(t[q + ".weight"], heads), heads_in(t[k + ".weight"], heads), heads_in(t[v + ".weight"], heads),
                     heads_out(t[o + ".weight"], heads), cut(t[q + ".bias"], heads), cut(t[k + ".bias"], heads), cut(t[v + ".bias"], heads),
                     t[o + ".bias"], inverse_square_scale=t[q + ".weight"].shape[0] // heads, **more)


def linear_mlp(t, up, down, act):
    return Mlp(t[up + ".weight"].T, t[down + ".weight"].T, act, t[up + ".bias"], t[down + ".bias"])


ACTS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "relu": "relu", "silu": "silu", "gelu_pytorch_tanh": "gelu_tanh", "quick_gelu": "quick_gelu"}


def bert(inst):
    c, t, out = inst.config, inst.tensors, []
    for i in range(c["num_hidden_layers"]):
        at, eps = f"bert.encoder.layer.{i}.", c["layer_norm_eps"]
        a = at + "attention."
        attention = linear_attention(t, [a + "self.query", a + "self.key", a + "self.value", a + "output.dense"], c["num_attention_heads"])
        mlp = linear_mlp(t, at + "intermediate.dense", at + "output.dense", ACTS[c["hidden_act"]])
        out.append(Layer(Branch(attention, after=layer_norm(t, a + "output.LayerNorm", eps)),
                         Branch(mlp, after=layer_norm(t, at + "output.LayerNorm", eps))))
    return out


def albert(inst):
    c, t = inst.config, inst.tensors
    a, eps = "albert.encoder.albert_layer_groups.0.albert_layers.0.", c["layer_norm_eps"]
    attention = linear_attention(t, [a + "attention." + x for x in ("query", "key", "value", "dense")], c["num_attention_heads"])
    mlp = linear_mlp(t, a + "ffn", a + "ffn_output", ACTS[c["hidden_act"]])
    layer = Layer(Branch(attention, after=layer_norm(t, a + "attention.LayerNorm", eps)), Branch(mlp, after=layer_norm(t, a + "full_layer_layer_norm", eps)))
    return [layer] * c["num_hidden_layers"]


def gpt2(inst):
    c, t, out = inst.config, inst.tensors, []
    heads, eps = c["n_head"], c["layer_norm_epsilon"]
    for i in range(c["n_layer"]):
        at = f"transformer.h.{i}."
        w, b = t[at + "attn.c_attn.weight"], t[at + "attn.c_attn.bias"]
        (wq, wk, wv), (bq, bk, bv) = np.split(w, 3, axis=1), np.split(b, 3)
        attention = Attention(heads_in(wq.T, heads), heads_in(wk.T, heads), heads_in(wv.T, heads), heads_out(t[at + "attn.c_proj.weight"].T, heads),
                              cut(bq, heads), cut(bk, heads), cut(bv, heads), t[at + "attn.c_proj.bias"],
                              inverse_square_scale=wq.shape[1] // heads, causal=True)
        mlp = Mlp(t[at + "mlp.c_fc.weight"], t[at + "mlp.c_proj.weight"], ACTS[c["activation_function"]], t[at + "mlp.c_fc.bias"], t[at + "mlp.c_proj.bias"])
        out.append(Layer(Branch(attention, layer_norm(t, at + "ln_1", eps)), Branch(mlp, layer_norm(t, at + "ln_2", eps))))
    return out


def gpt_neox(inst):
    c, t, out = inst.config, inst.tensors, []
    heads, eps, d = c["num_attention_heads"], c["layer_norm_eps"], c["hidden_size"]
    width = d // heads
    for i in range(c["num_hidden_layers"]):
        at = f"gpt_neox.layers.{i}."
        w, b = t[at + "attention.query_key_value.weight"].reshape(heads, 3, width, d), t[at + "attention.query_key_value.bias"].reshape(heads, 3, width)
        turned = int(width * c["rope_parameters"].get("partial_rotary_factor", 1.0))
        attention = Attention(*(w[:, j].swapaxes(1, 2) for j in range(3)), heads_out(t[at + "attention.dense.weight"], heads),
                              *(b[:, j] for j in range(3)), t[at + "attention.dense.bias"], inverse_square_scale=width, causal=True,
                              rope=rope.rotation(c["rope_parameters"], turned, inst.n, c))
        mlp = linear_mlp(t, at + "mlp.dense_h_to_4h", at + "mlp.dense_4h_to_h", ACTS[c["hidden_act"]])
        out.append(Layer(Branch(attention, layer_norm(t, at + "input_layernorm", eps)), Branch(mlp, layer_norm(t, at + "post_attention_layernorm", eps)),
                         parallel=c["use_parallel_residual"]))
    return out


def falcon(inst):
    """The old form: one key and value head, parallel branches behind one norm."""
    c, t, out = inst.config, inst.tensors, []
    heads, eps, d = c["num_attention_heads"], c["layer_norm_epsilon"], c["hidden_size"]
    width = d // heads
    for i in range(c["num_hidden_layers"]):
        at = f"transformer.h.{i}."
        w = t[at + "self_attention.query_key_value.weight"]
        wq, wk, wv = np.split(w, [heads * width, heads * width + width])
        attention = Attention(heads_in(wq, heads), heads_in(wk, 1), heads_in(wv, 1), heads_out(t[at + "self_attention.dense.weight"], heads),
                              inverse_square_scale=width, causal=True)
        attention.rope = rope.rotation(c["rope_parameters"], width, inst.n, c)
        norm = layer_norm(t, at + "input_layernorm", eps)
        mlp = Mlp(t[at + "mlp.dense_h_to_4h.weight"].T, t[at + "mlp.dense_4h_to_h.weight"].T, ACTS[c["activation"]])
        out.append(Layer(Branch(attention, norm), Branch(mlp, norm), parallel=True))
    return out


def xlnet(inst):
    c, t, out = inst.config, inst.tensors, []
    eps = c["layer_norm_eps"]
    for i in range(c["n_layer"]):
        at = f"transformer.layer.{i}."
        a = at + "rel_attn."
        q, k, v, r = (t[a + x].transpose(1, 0, 2) for x in "qkvr")
        attention = Attention(q, k, v, t[a + "o"].transpose(1, 2, 0), inverse_square_scale=c["d_head"],
                              xlnet=rope.XlnetPositions(r, t[a + "r_w_bias"], t[a + "r_r_bias"]))
        mlp = linear_mlp(t, at + "ff.layer_1", at + "ff.layer_2", ACTS[c["ff_activation"]])
        out.append(Layer(Branch(attention, after=layer_norm(t, a + "layer_norm", eps)), Branch(mlp, after=layer_norm(t, at + "ff.layer_norm", eps))))
    return out


def vit(inst):
    c, t, out = inst.config, inst.tensors, []
    eps = c["layer_norm_eps"]
    for i in range(c["num_hidden_layers"]):
        at = f"encoder.layer.{i}."
        a = at + "attention."
        attention = linear_attention(t, [a + "attention.query", a + "attention.key", a + "attention.value", a + "output.dense"], c["num_attention_heads"])
        mlp = linear_mlp(t, at + "intermediate.dense", at + "output.dense", ACTS[c["hidden_act"]])
        out.append(Layer(Branch(attention, layer_norm(t, at + "layernorm_before", eps)), Branch(mlp, layer_norm(t, at + "layernorm_after", eps))))
    return out


def constant(law, rows, columns):
    """A weight that an architecture file draws without chance."""
    if law == "identity":
        return np.eye(rows, columns)
    return np.full((rows, columns), 0.0 if law == "zero" else float(np.float32(law[len("normal("):].split(",")[0])))


def strength(value, layer, depth):
    value = value[layer] if isinstance(value, list) else value
    return float(value)


def arch(inst):
    c, out = inst.config, []
    heads, kv, d, width, depth = c["heads"], c["kv_heads"], c["d_model"], c["d_head"], c["depth"]
    laws, n = c["init"], inst.n
    norm = Norm("rmsnorm" if c["norm_kind"] == "rmsnorm" else "layernorm", None, None, 1e-5)
    place = c["norm"]
    for i in range(depth):
        attention = Attention(heads_in(constant(laws["wq"], heads * width, d), heads), heads_in(constant(laws["wk"], kv * width, d), kv),
                              heads_in(constant(laws["wv"], kv * width, d), kv), heads_out(constant(laws["wo"], d, heads * width), heads),
                              inverse_square_scale=width, temperature=c["temperature"], causal=c["mask"] != "none",
                              window=int(c["mask"][8:]) if c["mask"].startswith("sliding") else None)
        if c["positions"] == "alibi":
            attention.slopes = rope.slopes(heads)
        if c["positions"] == "rope":
            attention.rope = rope.rotation({"rope_theta": 1e4}, width, n, c)
        kinds = {"softmax": (0.0, 1.0, 0.0), "uniform": (0.0, 0.0, -1.0), "centred": (0.0, 1.0, 1.0), "shaped": tuple(map(float, c["shaped"])),
                 "rescaled": (0.0, 1.0 + c["rescale"], c["rescale"])}
        attention.mix = kinds[c["attention"]]
        where = {"before": norm if place in ("pre", "sandwich") else None, "after": norm if place == "post" else None,
                 "inside": norm if place == "sandwich" else None}
        mixer = Branch(attention, skip=strength(c["skip_mixer"], i, depth), scale=strength(c["branch_mixer"], i, depth), **where)
        mlp = None
        if c["mlp"] != "none":
            f = c["mlp_width"]
            gated = c["mlp"] == "swiglu"
            op = Mlp(constant(laws["w1"], f, d).T, constant(laws["w2"], d, f).T, "silu" if gated else c["mlp"],
                     gate=constant(laws["wg"], f, d).T if gated else None)
            mlp = Branch(op, skip=strength(c["skip_mlp"], i, depth), scale=strength(c["branch_mlp"], i, depth), **where)
        out.append(Layer(mixer, mlp))
    return out


BUILDERS = {"arch": arch, "llama": llama, "bert": bert, "albert": albert, "gpt2": gpt2, "gpt_neox": gpt_neox, "falcon": falcon, "xlnet": xlnet, "vit": vit}
