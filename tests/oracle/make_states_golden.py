"""Writes tests/golden/states/NAME.safetensors: what transformers makes of real-valued sequences in the models of tests/golden/forward/.

    lengths                    tokens of each sample
    input.block                rows [tokens, hidden_size] that a hook puts in the place of what the first block reads
    input.embeddings           rows that are given as inputs_embeds; absent: the family takes none
    block., embeddings.        .state.L what enters the first layer (L = 0) and leaves layer L, before the final norm; .final

All in float64 throughout (double_models.py), sample by sample, without padding. Re-run with the versions of requirements.txt:
python tests/oracle/make_states_golden.py
"""

import shutil

import numpy as np
import torch
import transformers as T
from double_models import all_double
from forward_cases import BLOCKS, OUT, Watch, arr
from safetensors.numpy import save_file

STATES = OUT.parent / "states"
NAMES = ("bert", "albert", "albert_inner", "distilbert", "roberta", "xlnet", "gpt2", "gpt_neox", "llama", "gemma", "gemma2", "gemma3",
         "granite", "granite_hybrid", "falcon_h1", "mamba", "mamba2", "lfm2", "qwen3_next", "vit")
LENGTHS = (5, 1, 3)


class Replace:
    """Puts rows in the place of what the first block reads, before Watch sees it."""

    def __init__(self, model, rows):
        self.rows = rows
        self.hooks = [m.register_forward_pre_hook(self.before, with_kwargs=True)
                      for m in model.modules() if type(m).__name__ in BLOCKS]

    def before(self, _, args, kwargs):
        rows, self.rows = self.rows, None
        if rows is None:
            return None
        return ((rows, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": rows})

    def close(self):
        for h in self.hooks:
            h.remove()


def load(name):
    folder = OUT / name
    config = T.AutoConfig.from_pretrained(folder)
    cls = getattr(T, config.architectures[0])
    config.dtype = None  # the file's is float32, in which parts of the model would be made
    state = cls.from_pretrained(folder).state_dict()
    with all_double():
        model = cls._from_config(config, attn_implementation="eager").eval().double()
        model.load_state_dict({k: v.double() for k, v in state.items()})
    return model


def run(model, rows, block):
    """Numbers of one sample, rows [n, width]."""
    xlnet = model.config.model_type == "xlnet"
    replace = None
    if block:
        replace = Replace(model, rows[:, None] if xlnet else rows[None])
        ids = torch.ones(1, len(rows), dtype=torch.long)
        batch = dict(input_ids=ids)
        if model.config.model_type == "vit":
            c = model.config
            batch = dict(pixel_values=torch.zeros(1, c.num_channels, c.image_size, c.image_size, dtype=torch.float64))
    else:
        batch = dict(inputs_embeds=rows[None])
    watch = Watch(model)
    with torch.no_grad():
        out = model(**batch, output_hidden_states=True, return_dict=True)
    watch.close()
    if replace:
        replace.close()
    got = {f"state.{i}": arr(s)[:, 0] if xlnet else arr(s)[0] for i, s in enumerate(watch.states)}
    got["final"] = arr(out.last_hidden_state if "last_hidden_state" in out else out.hidden_states[-1])[0]
    return got


def golden(name, seed):
    rng = np.random.default_rng(seed)
    model = load(name)
    keep = {"lengths": np.array(LENGTHS, np.int32)}
    widths = {"block": model.config.hidden_size if name != "gpt2" else model.config.n_embd}
    if name != "vit":
        widths["embeddings"] = model.get_input_embeddings().weight.shape[1]
    for kind, width in widths.items():
        rows = rng.standard_normal((sum(LENGTHS), width))
        keep["input." + kind] = rows
        with all_double():
            parts = [run(model, torch.from_numpy(r), kind == "block") for r in np.split(rows, np.cumsum(LENGTHS)[:-1])]
        for key in parts[0]:
            keep[f"{kind}.{key}"] = np.concatenate([p[key] for p in parts])
        assert kind != "block" or (keep["block.state.0"] == rows).all(), name
    assert all(np.isfinite(v).all() for v in keep.values()), name
    save_file({k: np.ascontiguousarray(v) for k, v in keep.items()}, STATES / f"{name}.safetensors")


if __name__ == "__main__":
    T.logging.set_verbosity_error()
    shutil.rmtree(STATES, ignore_errors=True)
    STATES.mkdir()
    for seed, name in enumerate(NAMES):
        golden(name, seed)
    print(sum(f.stat().st_size for f in STATES.iterdir()) // 1024, "kB in", len(NAMES), "cases")
