"""The cases of tests/golden/forward/ (make_forward_golden.py): a folder each, with the model and what transformers makes of it in three
precisions."""
import json
import pathlib

import gguf_states
import numpy as np
import torch
from double_models import all_double, randomise
from gguf_softmax import write_gguf
from safetensors.numpy import save_file

OUT = pathlib.Path(__file__).resolve().parent.parent / "golden" / "forward"
BLOCKS = {"BertLayer", "RobertaLayer", "XLMRobertaLayer", "CamembertLayer", "TransformerBlock", "AlbertLayer",
          "XLNetLayer", "GPT2Block", "GPTNeoXLayer", "LlamaDecoderLayer", "MistralDecoderLayer", "Qwen2DecoderLayer",
          "Qwen3DecoderLayer", "GemmaDecoderLayer", "Gemma2DecoderLayer", "Gemma3DecoderLayer", "ViTLayer",
          "Phi3DecoderLayer", "OlmoDecoderLayer", "Olmo2DecoderLayer", "FalconDecoderLayer", "GraniteDecoderLayer",
          "MinistralDecoderLayer", "MambaBlock", "Mamba2Block", "FalconMambaBlock",
          "BambaDecoderLayer", "JambaAttentionDecoderLayer", "JambaMambaDecoderLayer", "GraniteMoeHybridDecoderLayer",
          "FalconH1DecoderLayer", "NemotronHBlock",
          "Lfm2DecoderLayer", "Qwen3_5DecoderLayer", "Qwen3NextDecoderLayer", "OlmoHybridAttentionDecoderLayer",
          "OlmoHybridLinearAttentionDecoderLayer"}
STATE_SPACES = {"mamba", "mamba2", "falcon_mamba"}
HYBRIDS = {"bamba", "jamba", "granitemoehybrid", "falcon_h1", "nemotron_h", "lfm2", "qwen3_5_text", "qwen3_next", "olmo_hybrid"}


class Watch:
    """State 0 and the output of every block in the order of running."""

    def __init__(self, model):
        self.states = []
        self.hooks = []
        for m in model.modules():
            if type(m).__name__ in BLOCKS:
                self.hooks.append(m.register_forward_pre_hook(self.before, with_kwargs=True))
                self.hooks.append(m.register_forward_hook(self.after))
        assert self.hooks

    def before(self, _, args, kwargs):
        if not self.states:
            self.states.append(args[0] if args else kwargs["hidden_states"])

    def after(self, _, args, out):
        self.states.append(out[0] if isinstance(out, tuple) else out)

    def close(self):
        for h in self.hooks:
            h.remove()


def arr(t):
    return t.detach().double().numpy()


def run(model, batch, lengths, xlnet):
    """The packed numbers of one pass."""
    watch = Watch(model)
    with torch.no_grad():
        more = {} if model.config.model_type in STATE_SPACES else dict(output_attentions=True)
        out = model(**batch, output_hidden_states=True, return_dict=True, **more)
    watch.close()

    def pack(x):
        return np.concatenate([arr(x)[s, :n] for s, n in enumerate(lengths)])

    got = {}
    for i, s in enumerate(watch.states):
        got[f"state.{i}"] = pack(s.transpose(0, 1) if xlnet else s)
    got["final"] = pack(out.last_hidden_state if "last_hidden_state" in out else out.hidden_states[-1])
    if "logits" in out:
        got["logits"] = pack(out.logits)
    n = lengths[0]
    for kind, maps in (("attention", out.get("attentions")), ("cross", out.get("cross_attentions"))):
        if not maps or maps[0] is None:
            continue
        last = len(maps) - 1
        hybrid = model.config.model_type in HYBRIDS  # whose list has the layers with attention alone
        types = getattr(model.config, "layers_block_type", None) or getattr(model.config, "layer_types", None)
        at = [i for i, t in enumerate(types) if t in ("attention", "full_attention", "hybrid")] if hybrid else range(len(maps))
        for layer, head in {(0, 0), (last, maps[last].shape[1] - 1)}:
            keys = n if kind == "attention" else int(batch["encoder_attention_mask"][0].sum())
            got[f"{kind}.{at[layer]}.{head}"] = arr(maps[layer])[0, head, :n, :keys]
    return got


def run_each(model, batch, lengths, memory, xlnet):
    """Sample by sample, without padding: a float64 mask overflows in a float32 softmax, and rows of padding,
    which see nothing, would spread NaN."""
    parts = []
    for s, n in enumerate(lengths):
        own = {k: v[s:s + 1] if k == "pixel_values" else v[s:s + 1, :memory[s]] if k.startswith("encoder") else v[s:s + 1, :n]
               for k, v in batch.items()}
        parts.append(run(model, own, [n], xlnet))
    return {k: np.concatenate([p[k] for p in parts]) for k in parts[0] if "." not in k or k.startswith("state")}


def inputs(config, rng, lengths, images, memory, vocab):
    """Arrays to keep, and the padded batch."""
    keep, batch = {}, {}
    if images:
        keep["images"] = rng.standard_normal((len(lengths), *images)).astype(np.float32)
        batch["pixel_values"] = torch.from_numpy(keep["images"])
    else:
        pad = config.pad_token_id if isinstance(getattr(config, "pad_token_id", None), int) else 0
        ids = torch.full((len(lengths), max(lengths)), pad)
        mask = torch.zeros_like(ids)
        for s, n in enumerate(lengths):
            row = rng.integers(0, vocab - 1, n)
            ids[s, :n] = torch.from_numpy(row + (row >= pad))  # never the padding itself
            mask[s, :n] = 1
        batch["input_ids"], batch["attention_mask"] = ids, mask
        keep["ids"] = np.concatenate([ids[s, :n].numpy() for s, n in enumerate(lengths)]).astype(np.int32)
    keep["lengths"] = np.array(lengths, np.int32)
    if memory:
        m = torch.from_numpy(rng.standard_normal((len(memory), max(memory), config.hidden_size)).astype(np.float32))
        seen = torch.zeros(len(memory), max(memory), dtype=torch.long)
        for s, n in enumerate(memory):
            seen[s, :n] = 1
        batch["encoder_hidden_states"], batch["encoder_attention_mask"] = m, seen
        keep["memory"] = np.concatenate([m[s, :n].numpy() for s, n in enumerate(memory)])
        keep["memory_lengths"] = np.array(memory, np.int32)
    return keep, batch


def wide(batch):
    return {k: v.double() if v.is_floating_point() else v for k, v in batch.items()}


def golden(folder, cls, config, state, lengths, images=None, memory=None, seed=1, for64=None, inverse=None):
    """Runs the three precisions of the model with these weights and writes golden.safetensors. for64: what the
    configuration must say for .double() to run at all."""
    rng = np.random.default_rng(seed)
    keep, batch = inputs(config, rng, lengths, images, memory, getattr(config, "vocab_size", 2))
    xlnet = config.model_type == "xlnet"

    def make(**changed):
        torch.manual_seed(0)
        model = cls._from_config(type(config)(**{**config.to_dict(), **changed}), attn_implementation="eager")
        return model.eval()

    def finish(model):
        if inverse is not None:  # what the file holds in float32, in place of the law it was made from
            model.model.rotary_emb.inv_freq = torch.from_numpy(inverse).to(torch.float32)
        return model

    model = make()
    model.load_state_dict(state)
    for name, value in run(finish(model), batch, lengths, xlnet).items():
        if "." not in name or name.startswith("state"):
            keep["shipped32." + name] = value.astype(np.float32)
    model = make(**(for64 or {}))
    model.load_state_dict(state)
    model.double()
    for name, value in run_each(finish(model), wide(batch), lengths, memory, xlnet).items():
        if "." not in name or name.startswith("state"):
            keep["shipped64." + name] = value.astype(np.float32)
    with all_double():
        model = make().double()  # XLNet makes its parameters as FloatTensor
        model.load_state_dict({k: v.double() for k, v in state.items()})
        got = run(finish(model), wide(batch), lengths, xlnet)
    for name, value in got.items():
        keep["double." + name] = value
    # where the reference's own islands move its result further than this, it cannot judge ours
    worst = max(np.abs(v - got[k[10:]]).max() / np.abs(v).max() for k, v in keep.items() if k.startswith("shipped64."))
    islands = 1e-5 if config.model_type in STATE_SPACES | HYBRIDS else 1.5e-6  # scans cast what they read to float32
    assert worst < islands and all(np.isfinite(v).all() for v in keep.values()), (folder, worst)
    save_file({k: np.ascontiguousarray(v) for k, v in keep.items()}, folder / "golden.safetensors")


def fresh(name):
    folder = OUT / name
    folder.mkdir(parents=True)
    return folder


def case(name, cls, config, lengths=(7, 1, 4), seed=1, edit=None, **more):
    folder = fresh(name)
    torch.manual_seed(0)
    model = cls(config)
    randomise(model, seed)
    model.save_pretrained(folder)
    for extra in folder.glob("generation_config.json"):
        extra.unlink()
    if edit:  # what an older release would have written
        path = folder / "config.json"
        written = json.loads(path.read_text())
        edit(written)
        path.write_text(json.dumps(written, indent=1))
    golden(folder, cls, config, model.state_dict(), list(lengths), seed=seed, **more)
    return model


def gguf_case(name, arch, cls, config, quantise=False, lengths=(7, 1, 4), seed=1, extra=(), inverse=None, size=0.3):
    folder = fresh(name)
    torch.manual_seed(0)
    model = cls(config)
    randomise(model, seed, size)
    held = write_gguf(folder, arch, config, {k: v.clone() for k, v in model.state_dict().items()}, quantise, extra)
    golden(folder, cls, config, held, list(lengths), seed=seed, inverse=inverse)


def gguf_states_case(name, cls, config, quantise=False, lengths=(7, 1, 4)):
    """model.gguf, and config.json and model.safetensors with the same numbers: its twin."""
    folder = fresh(name)
    torch.manual_seed(0)
    for key in gguf_states.SINGLE:
        if hasattr(config, key):
            setattr(config, key, float(np.float32(getattr(config, key))))
    model = cls(config)
    randomise(model, 1)
    held = gguf_states.write(folder, config, {k: v.clone() for k, v in model.state_dict().items()}, quantise)
    config.architectures = [cls.__name__]
    config.save_pretrained(folder)
    golden(folder, cls, config, held, list(lengths))
