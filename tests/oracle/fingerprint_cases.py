"""What fingerprint.py runs: every command of the program over the small models of tests/golden, and over inputs that are made here.

inputs(folder) fills a folder with those inputs; cases() lists the command lines, whose paths start at a folder that holds `golden` (tests/golden) and
`made` (that folder). Names of cases are COMMAND/MODEL/WHAT; they must not change, since files of fingerprints are compared by them.
"""

import array
import json
import pathlib
import random
import re
import struct
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
ALL_OUTPUTS = ("json", "csv", "html", "terminal")

EDITS = {
    "no_skip": "no-skip", "no_mlp": "no-mlp", "no_mlp_branch": "no-mlp-branch", "no_norm": "no-norm", "no_mask": "no-mask",
    "attention_alone": "no-skip,no-mlp", "bare": "no-skip,no-mlp,no-norm", "lambda": "lambda:0.5", "negative": "lambda:mlp:-0.5",
    "mixer_lambda": "lambda:mixer:0.25", "scale": "residual-scale:1/sqrt(L)", "centred": "center-attention", "gap": "remove-gap",
    "uniform": "uniform-attention", "shaped": "shaped:0.5:2:0.25", "rescale": "attention-rescale:0.5", "hot": "temperature:2",
    "deep": "no-mlp,depth:5",
}
EDITED = ("albert", "bert", "gemma3", "gpt2", "gpt_neox", "llama", "xlnet", "qwen3", "vit", "gemma2_gguf")

SMALL = {"depth": 3, "d_model": 16, "heads": 2, "seq_len": 6, "mlp_width": 24}
ARCHITECTURES = {
    "plain": {}, "bare": {"norm": "none", "mlp": "none", "skip_mixer": 0, "depth": 6}, "deep": {"norm": "none", "mlp": "none", "depth": 40},
    "causal": {"mask": "causal"}, "sliding": {"mask": "sliding:2"}, "learned": {"vocab": 11, "positions": "learned", "mask": "causal"},
    "rope": {"positions": "rope"}, "alibi": {"positions": "alibi", "mask": "causal"}, "relative": {"positions": "relative"},
    "uniform": {"attention": "uniform"}, "centred": {"attention": "centred"}, "rescaled": {"attention": "rescaled", "rescale": 0.5},
    "shaped": {"attention": "shaped", "shaped": [1, 1, 0.5], "temperature": 1.5}, "post": {"norm": "post"}, "sandwich": {"norm": "sandwich"},
    "rms": {"norm_kind": "rmsnorm", "mlp": "swiglu"}, "linear": {"mlp": "linear", "init": {"wq": "orthogonal"}},
    "relu": {"mlp": "relu", "skip_mlp": "1/sqrt(L)"}, "tanh": {"mlp": "gelu_tanh", "branch_mixer": "1/(l+1)"},
    "merged": {"init": {"wo": "none", "wv": "uniform(-1, 1)"}}, "grouped": {"kv_heads": 1, "skip_mixer": [1, 0.5, 2]},
    "alike": {"input": {"law": "gaussian", "rho": 0.99, "norm2": "d/2"}, "heads": 1},
    "large": {"depth": 2, "d_model": 192, "heads": 3, "seq_len": 70, "vocab": 300, "mask": "causal", "positions": "rope", "mlp_width": 400},
}
LAWS = {"xavier": "xavier", "orthogonal": "orthogonal", "normal": "normal(0, 1/fan_in)"}
TEXT = "A lighthouse that nobody needs has 300 steps. It isn\u2019t lit.\n\n= 2 \u2603 caf\u00e9s\n" * 3
PROJECTIONS = {part: f"model.layers.{{i}}.self_attn.{part}_proj.weight" for part in "qkvo"}
MAP = {"heads": 4, "kv_heads": 2, "head_dim": 6, **PROJECTIONS, "norm": "model.layers.{i}.input_layernorm.weight", "norm_kind": "rmsnorm",
       "rope": "half"}
LLAMA, ONE = "golden/forward/llama", ["--random", "1"]
REFUSED = {
    "no_command": ["sacn"], "no_input": ["scan"], "misspelt": ["scan", LLAMA, "--spectre"], "absent": ["scan", "nowhere"],
    "no_layer": ["scan", LLAMA, "--layers", "7"], "memory": ["scan", LLAMA, "--memory", "1K"], "table": ["scan", LLAMA, "--table", "hats"],
    "blocks": ["scan", "golden/gguf/blocks.gguf"], "split": ["scan", "golden/gguf/split/model-00002-of-00003.gguf"],
    "no_feed": ["probe", LLAMA], "grad": ["probe", LLAMA, *ONE, "--grad"], "no_map": ["probe", LLAMA, *ONE, "--attention-maps", "9:0"],
    "nonsense": ["probe", LLAMA, *ONE, "--variants", "x"], "far_id": ["probe", LLAMA, "--tokens", "made/far.json"],
    "no_law": ["probe", f"{LLAMA}/config.json", "--init", "xaver", *ONE], "f32": ["certify", LLAMA, *ONE, "--precision", "f32"],
    "kept": ["certify", LLAMA, *ONE, "--kept", "1"], "formula": ["paths", LLAMA, *ONE, "--lambda", "1+"],
    "code_sources": ["paths", LLAMA, *ONE, "--semantics", "code", "--sources"], "field": ["paths", "made/misspelt.json", "--init", "default", *ONE],
    "overflow": ["paths", "made/arch/plain.json", "--init", "default", *ONE, "--lambda", "1e200"],
    "no_tokenizer": ["tokenize", LLAMA, "--text", "made/text.txt"], "no_experiment": ["lab", "run", "dong-depth-int"],
}


class Case(NamedTuple):
    name: str
    words: tuple
    outputs: tuple = ("json",)
    tensors: tuple = ()  # options that write a safetensors file
    environment: tuple = ()
    threaded: bool = True


# ---- inputs ----


def read_safetensors(data):
    """{name: (dtype, shape, bytes)} and the metadata of a safetensors file."""
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__", {})
    body = data[8 + size:]
    return {name: (e["dtype"], e["shape"], body[slice(*e["data_offsets"])]) for name, e in header.items()}, metadata


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def write_npy(path, descr, shape, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def integers(tensor):
    return list(array.array("i", tensor[2]))


def write_feed(path, folder):
    """What golden.safetensors of a model was made with: ids or images, and states for cross-attention (a sample has as many as the fewest)."""
    tensors, _ = read_safetensors((folder / "golden.safetensors").read_bytes())
    if "images" in tensors:
        write_npy(path.with_suffix(".npy"), "<f4", tensors["images"][1], tensors["images"][2])
        return
    ids, rows = integers(tensors["ids"]), []
    for length in integers(tensors["lengths"]):
        rows.append(ids[:length])
        ids = ids[length:]
    path.with_suffix(".json").write_text(json.dumps(rows))
    if "memory" not in tensors:
        return
    lengths, (_, (_, d), data) = integers(tensors["memory_lengths"]), tensors["memory"]
    fewest, kept = min(lengths), b""
    for length in lengths:
        kept, data = kept + data[:fewest * d * 4], data[length * d * 4:]
    write_npy(path.with_suffix(".memory.npy"), "<f4", (len(lengths), fewest, d), kept)


def cast(data, dtype):
    """float32 values as F64, F16 or BF16 (cut)."""
    values = struct.unpack(f"<{len(data) // 4}f", data)
    if dtype == "BF16":
        return b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4))
    return struct.pack(f"<{len(values)}{'d' if dtype == 'F64' else 'e'}", *values)


def write_copies(folder):
    """The small llama in other forms: other types, two shards, NaN weights, bytes behind the last tensor, one file without its folder."""
    source = GOLDEN / "forward" / "llama"
    tensors, _ = read_safetensors((source / "model.safetensors").read_bytes())
    copies = {f"llama_{dtype.lower()}": {name: (dtype, shape, cast(data, dtype)) for name, (_, shape, data) in tensors.items()}
              for dtype in ("F64", "F16", "BF16")}
    nan, at = struct.pack("<f", float("nan")), "model.layers.1.mlp.up_proj.weight"
    copies["llama_nan"] = {**tensors, at: (*tensors[at][:2], nan + tensors[at][2][4:])}
    copies["llama_zero"] = {name: (dtype, shape, bytes(len(data))) for name, (dtype, shape, data) in tensors.items()}
    copies["llama_trailing"] = tensors
    for name, copy in copies.items():
        write_safetensors(folder / name / "model.safetensors", copy)
    with (folder / "llama_trailing" / "model.safetensors").open("ab") as file:
        file.write(b"xyz")
    names = list(tensors)
    shards = {f"model-0000{i + 1}-of-00002.safetensors": names[i::2] for i in range(2)}
    for shard, held in shards.items():
        write_safetensors(folder / "llama_shards" / shard, {name: tensors[name] for name in held})
    index = {"metadata": {}, "weight_map": {name: shard for shard, held in shards.items() for name in held}}
    (folder / "llama_shards" / "model.safetensors.index.json").write_text(json.dumps(index))
    for name in (*copies, "llama_shards"):
        (folder / name / "config.json").write_bytes((source / "config.json").read_bytes())


def write_large(folder):
    """A llama wide enough for the routes that small matrices do not take: tiles, blocked and threaded BLAS."""
    d, kv, mlp, vocab, draw = 320, 160, 500, 150, random.Random(7)

    def tensor(*shape):
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        return "F32", list(shape), array.array("f", [draw.random() * 0.2 - 0.1 for _ in range(count)]).tobytes()

    tensors = {"model.embed_tokens.weight": tensor(vocab, d), "model.norm.weight": tensor(d)}
    for i in range(2):
        at = f"model.layers.{i}."
        shapes = {"self_attn.q_proj": (d, d), "self_attn.k_proj": (kv, d), "self_attn.v_proj": (kv, d), "self_attn.o_proj": (d, d),
                  "mlp.gate_proj": (mlp, d), "mlp.up_proj": (mlp, d), "mlp.down_proj": (d, mlp),
                  "input_layernorm": (d,), "post_attention_layernorm": (d,)}
        tensors.update({at + name + ".weight": tensor(*shape) for name, shape in shapes.items()})
    write_safetensors(folder / "large" / "model.safetensors", tensors)
    (folder / "large" / "config.json").write_text(json.dumps({
        "model_type": "llama", "hidden_size": d, "intermediate_size": mlp, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 80, "vocab_size": vocab, "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "hidden_act": "silu",
        "tie_word_embeddings": True}))


def write_spoken(folder):
    """Models that read text: a configuration beside a tokenizer, and an encoder that ships its pooling."""
    (folder / "spoken").mkdir()
    config = json.loads((GOLDEN / "forward" / "llama" / "config.json").read_text())
    (folder / "spoken" / "config.json").write_text(json.dumps({**config, "vocab_size": 1000}))
    (folder / "spoken" / "tokenizer.json").write_bytes((GOLDEN / "tokenizer" / "llama3.json").read_bytes())
    pooled = folder / "pooled"
    (pooled / "1_Pooling").mkdir(parents=True)
    for name in ("config.json", "model.safetensors"):
        (pooled / name).write_bytes((GOLDEN / "forward" / "bert" / name).read_bytes())
    (pooled / "modules.json").write_text('[{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]')
    (pooled / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    (folder / "text.txt").write_text(TEXT)
    texts, more = (json.loads((GOLDEN / "tokenizer" / name).read_text()) for name in ("texts.json", "pre_names.json"))
    (folder / "texts.txt").write_bytes(b"\n".join(bytes.fromhex(text) for text in texts + more["texts"]))


def inputs(folder, given=()):
    """Fills a folder with what cases() names `made/...`; given: paths of further checkpoints."""
    assert sys.byteorder == "little"
    (folder / "feed").mkdir(parents=True)
    for source in sorted((GOLDEN / "forward").iterdir()):
        write_feed(folder / "feed" / source.name, source)
    (folder / "arch").mkdir()
    for name, fields in ARCHITECTURES.items():
        (folder / "arch" / f"{name}.json").write_text(json.dumps({**SMALL, **fields}))
    write_copies(folder)
    write_large(folder)
    write_spoken(folder)
    (folder / "map.json").write_text(json.dumps(MAP))
    (folder / "ids.json").write_text("[[5,2,9,1],[4,8],[],[3]]")
    (folder / "far.json").write_text("[[1],[2,99]]")
    (folder / "misspelt.json").write_text('{"depth": 2, "d_model": 4, "widht": 3}')
    write_npy(folder / "ids.npy", "<i8", (2, 3), struct.pack("<6q", 5, 2, 9, 1, 1, 3))
    (folder / "given").mkdir()
    for path in given:
        (folder / "given" / pathlib.Path(path).name).symlink_to(pathlib.Path(path).resolve())


# ---- command lines ----


def model_path(kind, folder):
    gguf = "/model.gguf" if (folder / "model.gguf").exists() else ""
    return f"golden/{kind}/{folder.name}{gguf}"


def folders(*kinds):
    return [(kind, folder) for kind in kinds for folder in sorted((GOLDEN / kind).iterdir()) if folder.is_dir()]


def scan_cases():
    for kind, folder in folders("families", "families_gguf", "guesses", "forward"):
        words = ("scan", model_path(kind, folder), "--spectra")
        yield Case(f"scan/{kind}/{folder.name}/all", (*words, "--matrices", "all", "--energy", "0.9,0.95,0.99"), ALL_OUTPUTS)
        yield Case(f"scan/{kind}/{folder.name}/folded", (*words, "--fold-norms", "--with-bias"))
    for name in ("llama_f64", "llama_f16", "llama_bf16", "llama_shards", "llama_nan", "llama_zero", "large"):
        yield Case(f"scan/made/{name}/all", ("scan", f"made/{name}", "--matrices", "all", "--spectra", "--energy", "0.9,1"), ALL_OUTPUTS)
    options = {"default": [], "layer": ["--layers", "1"], "tol": ["--tol", "0.3"], "regex": ["--matrices", "mlp|embed"], "seed": ["--seed", "5"],
               "warn": ["--fail-on", "warn", "--threshold", "qk_low_rank=1.5,dead_head=0.9,decay_equilibrium=0.01"],
               "f32": ["--precision", "f32"], "colour": ["--color", "always"], "csv_safe": ["--csv-safe"],
               "map": ["--map", "made/map.json", "--fold-norms"]}
    for name, more in options.items():
        yield Case(f"scan/forward/llama/{name}", ("scan", "golden/forward/llama/model.safetensors", *more), ("json", "csv", "summary"))
    for name, more in {"strict": [], "lenient": ["--lenient"]}.items():
        yield Case(f"scan/made/llama_trailing/{name}", ("scan", "made/llama_trailing", *more), ("json", "summary"))
    yield Case("scan/forward/llama/ascii", ("scan", "golden/forward/llama", "--table", "heads,planes"), ("terminal",), (), (("LC_ALL", "C"),))


def feed(name):
    """The options that feed a model of golden/forward what write_feed wrote."""
    if name.startswith("vit"):
        return "--images", f"made/feed/{name}.npy"
    memory = ("--encoder-states", f"made/feed/{name}.memory.npy") if name.endswith("_cross") else ()
    return "--tokens", f"made/feed/{name}.json", *memory


def forward_cases(name, path, fed, config):
    """The commands that run one model."""
    at, probe = f"forward/{name}", ("probe", path, *fed)
    taps = ("--taps", "--output")
    yield Case(f"probe/{at}/f32", (*probe, "--variants", "all", "--fusion", "concat"), ALL_OUTPUTS, taps)
    yield Case(f"probe/{at}/f64", (*probe, "--precision", "f64", "--variants", "full,san", "--residual-centre", "median"), ("json",), taps)
    yield Case(f"probe/{at}/residual", (*probe, "--precision", "residual", "--variants", "dong", "--residual-centre", "lp"), ("json",), taps)
    yield Case(f"probe/{at}/plain_kernels", (*probe, "--no-spectral", "--no-attention"), ("json",), ("--output",), (("RS_KERNELS", "plain"),))
    both = (*probe, "--scan", "--certify", "--rigorous", "--attention-maps", "0:0", "--fusion", "gate")
    yield Case(f"probe/{at}/together", both, ALL_OUTPUTS, ("--taps",))
    yield Case(f"probe/{at}/generate", (*probe, "--generate", "4", "--no-attention", "--no-spectral", "--batch", "1"), ("json", "summary"))
    if config:
        yield Case(f"probe/{at}/init", ("probe", f"{path}/config.json", "--init", "default", "--random", "2", "--seq-len", "5"))
    certify = ("certify", path, *fed)
    yield Case(f"certify/{at}/default", certify, ALL_OUTPUTS)
    yield Case(f"certify/{at}/rigorous", (*certify, "--rigorous", "--kept", "0.5"))
    paths = ("paths", path, *fed)
    yield Case(f"paths/{at}/theorem", (*paths, "--sources", "--paths", "4"), ALL_OUTPUTS)
    yield Case(f"paths/{at}/code", (*paths, "--semantics", "code", "--paths", "3"))
    yield Case(f"paths/{at}/short", (*paths, "--max-length", "1", "--no-loss", "--paths", "0"))


def family_cases():
    """Models that were made for scan: those that a forward pass is known for, and how the others are refused."""
    for kind, folder in folders("families", "guesses", "families_gguf"):
        path, random_ids = model_path(kind, folder), ("--random", "2", "--seq-len", "6")
        yield Case(f"probe/{kind}/{folder.name}/f32", ("probe", path, *random_ids), ("json", "summary"), ("--output",))
        yield Case(f"certify/{kind}/{folder.name}/rigorous", ("certify", path, *random_ids, "--rigorous"), ("json", "summary"))
        yield Case(f"paths/{kind}/{folder.name}/theorem", ("paths", path, *random_ids), ("json", "summary"))


def options_of(edit):
    """An edit as --variants writes it, as options."""
    for word in edit.split(","):
        name, _, value = word.partition(":")
        if value and name == "shaped":
            value = value.replace(":", ",")
        yield from (f"--{name}", value) if value else (f"--{name}",)


def variants_of(name):
    """Every variant that the oracle made of a model, which are those that its wiring allows, each under a name after its options."""
    golden = GOLDEN / "edit" / f"{name}.safetensors"
    if not golden.exists():
        return "all"
    names = sorted(name for name in read_safetensors(golden.read_bytes())[0] if not name.startswith("compat:"))
    edits = [name.partition("=")[2] for name in names if "=" in name]
    return ",".join([name for name in names if "=" not in name] + [f"my-{re.sub('[^a-z0-9]+', '-', edit)}={edit}" for edit in edits])


def edited_cases():
    for name in EDITED:
        path, fed = model_path("forward", GOLDEN / "forward" / name), feed(name)
        for precision in ("f32", "f64"):
            words = ("probe", path, *fed, "--variants", variants_of(name), "--precision", precision)
            yield Case(f"probe/forward/{name}/edited_{precision}", words, ("json",), ("--taps",))
        words = ("probe", path, *fed, "--no-spectral")
        yield Case(f"probe/forward/{name}/vector_kernels", words, ("json",), ("--output",), (("RS_KERNELS", "vector"),))
        for what, edit in EDITS.items():
            options = tuple(options_of(edit))
            yield Case(f"probe/forward/{name}/residual_{what}", ("probe", path, *fed, "--precision", "residual", *options))
            yield Case(f"certify/forward/{name}/{what}", ("certify", path, *fed, *(["--rigorous"] if len(what) % 2 else []), *options))
            yield Case(f"paths/forward/{name}/{what}", ("paths", path, *fed, "--sources", *options))


def architecture_cases():
    for name in ARCHITECTURES:
        path, fed = f"made/arch/{name}.json", ("--init", "default", "--random", "1" if name == "large" else "3")
        yield Case(f"probe/arch/{name}/f32", ("probe", path, *fed, "--variants", "full,san"), ("json", "summary"), ("--taps",))
        yield Case(f"probe/arch/{name}/residual", ("probe", path, *fed, "--precision", "residual"))
        yield Case(f"certify/arch/{name}/default", ("certify", path, *fed))
        yield Case(f"certify/arch/{name}/rigorous", ("certify", path, *fed, "--rigorous"))
        yield Case(f"paths/arch/{name}/theorem", ("paths", path, *fed, "--sources"))
        yield Case(f"paths/arch/{name}/code", ("paths", path, *fed, "--semantics", "code"))
    for name, law in LAWS.items():
        for model in ("bert", "llama", "gpt2"):
            words = ("probe", f"golden/forward/{model}/config.json", "--init", law, "--random", "2", "--seed", "3")
            yield Case(f"probe/forward/{model}/init_{name}", words)
        yield Case(f"probe/arch/plain/init_{name}", ("probe", "made/arch/plain.json", "--init", law, "--random", "2"))


def option_cases():
    """Options of probe, certify and paths that the cases above leave out."""
    llama, ids = "golden/forward/llama", ("--tokens", "made/ids.json")
    options = {"gap": ids, "npy": ("--tokens", "made/ids.npy"), "random": ("--random", "4", "--seq-len", "7", "--seed", "9"),
               "samples": (*ids, "--samples", "1"), "gate": (*ids, "--no-gate"), "maps": (*ids, "--attention-maps", "0:0,1:3"),
               "long": ("--random", "1", "--seq-len", "32", "--depth", "24", "--fusion", "max", "--variants", "all"),
               "bare": (*ids, "--no-loss", "--no-spectral"),
               "own": (*ids, "--variants", "full,san,mine=no-norm,lambda:0.5:2"), "same": (*ids, "--compat", "dong2021-code"),
               "threshold": (*ids, "--threshold", "token_collapse=0.99,attention_sink=0.1", "--fail-on", "warn")}
    for name, words in options.items():
        yield Case(f"probe/forward/llama/{name}", ("probe", llama, *words), ("json", "summary"))
    albert = ("probe", "golden/forward/albert", "--random", "2", "--seq-len", "5", "--compat", "dong2021-code", "--variants", "dong")
    yield Case("probe/forward/albert/compat", albert, ("json", "summary"))
    for name in ("llama_f64", "llama_f16", "llama_bf16", "llama_shards", "llama_nan", "llama_zero"):
        for command in ("probe", "certify", "paths"):
            yield Case(f"{command}/made/{name}/default", (command, f"made/{name}", *ids), ("json", "summary"))
    yield Case("probe/made/pooled/f32", ("probe", "made/pooled", "--random", "3", "--seq-len", "5"), ("json",), ("--output",))
    for command in ("probe", "certify", "paths"):
        spoken = (command, "made/spoken", "--init", "default", "--text", "made/text.txt", "--seq-len", "12", "--samples", "2")
        yield Case(f"{command}/made/spoken/text", spoken, ("json", "summary"))
    large = ("made/large", "--random", "2", "--seq-len", "96")
    yield Case("probe/made/large/f32", ("probe", *large, "--variants", "full,san"), ("json",), ("--taps", "--output"))
    yield Case("probe/made/large/f64", ("probe", *large, "--precision", "f64", "--batch", "1"), ("json",), ("--output",))
    yield Case("certify/made/large/rigorous", ("certify", "made/large", "--random", "1", "--seq-len", "24", "--rigorous"))
    yield Case("paths/made/large/theorem", ("paths", "made/large", "--random", "1", "--seq-len", "24"))


def tokenizer_cases():
    golden = GOLDEN / "tokenizer"
    spoken = [path for path in golden.glob("*.json") if (golden / f"{path.stem}.ids.json").exists()]
    for name in sorted(path.name for path in [*spoken, *golden.glob("*.gguf")]):
        words = ("tokenize", f"golden/tokenizer/{name}", "--text", "made/texts.txt")
        yield Case(f"tokenize/tokenizer/{name}/texts", words, ALL_OUTPUTS)
        yield Case(f"tokenize/tokenizer/{name}/no_special", (*words, "--no-special", "--csv-safe"), ("csv", "summary"))


def other_cases(experiments):
    for name in experiments:
        yield Case(f"lab/{name}/quick", ("lab", "run", name, "--quick"), ALL_OUTPUTS)
    yield Case("lab/list/list", ("lab", "list"), ALL_OUTPUTS)
    for name, words in REFUSED.items():
        yield Case(f"refused/{words[0]}/{name}", tuple(words), ("summary",))
    for command in ("", "scan", "probe", "certify", "paths", "tokenize", "lab", "doctor", "explain"):
        yield Case(f"help/{command or 'rankscope'}/help", (*([command] if command else []), "--help"), ("summary",), threaded=False)
    for shell in ("bash", "zsh", "fish"):
        yield Case(f"help/completion/{shell}", ("--completion", shell), ("summary",), threaded=False)
    yield Case("help/man/man", ("--man",), ("summary",), threaded=False)


def given_cases(given):
    """Real checkpoints that were named on the command line."""
    for path in given:
        name = pathlib.Path(path).name
        at, text = f"made/given/{name}", ("--random", "2", "--seq-len", "64")
        yield Case(f"scan/given/{name}/all", ("scan", at, "--matrices", "all", "--spectra", "--energy", "0.9,0.99"), ALL_OUTPUTS)
        for precision in ("f32", "f64", "residual"):
            words = ("probe", at, *text, "--variants", "full,san", "--precision", precision)
            yield Case(f"probe/given/{name}/{precision}", words, ("json",), ("--output",))
        yield Case(f"certify/given/{name}/rigorous", ("certify", at, "--random", "1", "--seq-len", "16", "--rigorous"), ALL_OUTPUTS)
        yield Case(f"paths/given/{name}/theorem", ("paths", at, "--random", "1", "--seq-len", "16"), ALL_OUTPUTS)


def cases(experiments, given=()):
    """The longest first, so that no process is left alone with one at the end."""
    found = [*other_cases(experiments), *given_cases(given), *option_cases(), *architecture_cases(), *edited_cases()]
    for _, folder in folders("forward"):
        path = model_path("forward", folder)
        found += forward_cases(folder.name, path, feed(folder.name), not path.endswith(".gguf"))
    found += [*scan_cases(), *family_cases(), *tokenizer_cases()]
    assert len({case.name for case in found}) == len(found)
    return found
