"""Writes tests/golden/forward_real/{minilm,gemma3_270m}.safetensors: transformers in float32, attention
"eager", on two real models and one sentence (ids only: the tokenizers are tested elsewhere).

MiniLM: states 0, 3 and 6 in full, and the sentence's embedding (mean of the tokens, normalised). Gemma 3
270M from its Q4_K_M file, which transformers dequantises to float32: the first 96 columns of some states,
the final state in full, and for each token the logits of 64 vocabulary entries spread over all, the
log-sum-exp and the largest. A model that scripts/fetch_model.sh cannot fetch is left as it is.
Re-run with the versions of requirements.txt:  python tests/oracle/make_forward_real_golden.py
"""

import os
import pathlib
import subprocess

import numpy as np
import torch
import transformers as T
from safetensors.numpy import save_file

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OUT = ROOT / "tests" / "golden" / "forward_real"
# "Rank collapse: deep attention drives all tokens towards one point, unless skip connections hold them
# apart." as all-MiniLM-L6-v2's and Gemma's tokenizers cut a sentence like it; any ids would do.
MINILM_IDS = [101, 4635, 7859, 1024, 2784, 3086, 9297, 2035, 19204, 2015, 2875, 2028, 2391, 1012, 102]
GEMMA_IDS = [2, 20203, 21832, 236787, 5268, 6150, 14192, 784, 16576, 5706, 886, 1688, 236761]


def states(model, blocks, ids):
    caught = []
    blocks[0].register_forward_pre_hook(lambda m, a, k: caught.append(a[0] if a else k["hidden_states"]), with_kwargs=True)
    for block in blocks:
        block.register_forward_hook(lambda m, a, out: caught.append(out[0] if isinstance(out, tuple) else out))
    with torch.no_grad():
        out = model(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long))
    return [c[0].numpy() for c in caught], out


def minilm(folder):
    model = T.AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    caught, out = states(model, model.encoder.layer, MINILM_IDS)
    mean = out.last_hidden_state[0].mean(0)
    keep = {"ids": np.array(MINILM_IDS, np.int32), "embedding": torch.nn.functional.normalize(mean, dim=0).numpy()}
    keep.update({f"state.{i}": caught[i] for i in (0, 3, 6)})
    save_file({k: np.ascontiguousarray(v) for k, v in keep.items()}, OUT / "minilm.safetensors")


def gemma(path):
    model = T.AutoModelForCausalLM.from_pretrained(os.path.dirname(path), gguf_file=os.path.basename(path), dtype=torch.float32,
                                                   attn_implementation="eager").eval()
    caught, out = states(model, model.model.layers, GEMMA_IDS)
    logits = out.logits[0]
    shown = np.linspace(0, logits.shape[1] - 1, 64).astype(np.int32)
    with torch.no_grad():
        final = model.model.norm(torch.from_numpy(caught[-1]))
    keep = {"ids": np.array(GEMMA_IDS, np.int32), "vocabulary": shown, "logits": logits[:, shown.tolist()].numpy(),
            "log_sum_exp": torch.logsumexp(logits.double(), 1).numpy(), "largest": logits.argmax(1).numpy().astype(np.int32),
            "final": final.numpy()}
    keep.update({f"state.{i}": caught[i][:, :96] for i in (0, 1, 6, 18)})
    save_file({k: np.ascontiguousarray(v) for k, v in keep.items()}, OUT / "gemma3_270m.safetensors")


OUT.mkdir(exist_ok=True)
for name, make in (("minilm", minilm), ("gemma3-270m", gemma)):
    fetch = subprocess.run([ROOT / "scripts" / "fetch_model.sh", name], capture_output=True, text=True)
    if fetch.returncode:
        print(f"{name} is left as it is: {fetch.stderr.strip()}")
    else:
        make(fetch.stdout.strip())
