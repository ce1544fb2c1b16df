#!/usr/bin/env python3
"""Oracle for forward passes of the two real checkpoints: sentence-transformers' own embeddings of MiniLM, and transformers on the
dequantised weights of Gemma 3 270M (logits, 32 greedy tokens, loss on the page of text that the project ships). Writes
tests/golden/real_forward/; a model that scripts/fetch_model.sh cannot fetch is left as it is.
"""
import json
import os
import subprocess

import numpy as np
import torch
from safetensors.numpy import save_file

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(ROOT, "tests", "golden", "real_forward")
PAGE = os.path.join(ROOT, "share", "page.txt")
SENTENCES = [
    "Hello world.",
    "Attention is a weighted mean of values, and a mean of means moves every token to the middle.",
    "Der Schnee fällt leise auf die Dächer; 東京の夜は長い. 🙂",
    "a",
    "In 1897, J. J. Thomson measured the ratio of charge to mass of the electron (1.76e11 C/kg).",
]
PROMPT = "The tokens of a deep attention network tend to"
WINDOW = 128


def emit(name, value):
    with open(os.path.join(OUT, name), "w") as f:
        json.dump(value, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")


def minilm(directory):
    import sentence_transformers
    model = sentence_transformers.SentenceTransformer(directory, device="cpu")
    ids = [model.tokenizer(s)["input_ids"] for s in SENTENCES]
    embeddings = model.encode(SENTENCES, convert_to_numpy=True)
    emit("minilm_ids.json", ids)
    with torch.inference_mode():
        hidden = model[0].auto_model(torch.tensor([ids[1]])).last_hidden_state[0].numpy()
    save_file({"sentence_embedding": embeddings.astype(np.float32), "last_hidden_state_1": hidden},
              os.path.join(OUT, "minilm.safetensors"))
    emit("minilm.json", {"made_by": "tests/oracle/make_real_forward_golden.py", "sentences": SENTENCES,
                         "sentence_transformers": sentence_transformers.__version__})


def gemma(path):
    import transformers
    folder, name = os.path.split(path)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name)
    prompt = tokenizer(PROMPT)["input_ids"]
    bos, page = tokenizer.bos_token_id, tokenizer(open(PAGE, encoding="utf-8").read(), add_special_tokens=False)["input_ids"]
    body = WINDOW - 1
    windows = [[bos] + page[at:at + body] for at in range(0, len(page) - body + 1, body)] or [[bos] + page]
    with torch.inference_mode():
        generated = model.generate(torch.tensor([prompt]), max_new_tokens=32, min_new_tokens=32, do_sample=False)[0, len(prompt):]
        logits = model(torch.tensor([prompt])).logits[0]
        nll, count = 0.0, 0
        for window in windows:
            x = torch.tensor([window])
            score = torch.log_softmax(model(x).logits[0].double(), -1)
            nll -= score[torch.arange(len(window) - 1), x[0, 1:]].sum().item()
            count += len(window) - 1
    some = list(range(0, logits.shape[1], 4096))
    emit("gemma3_270m_prompt.json", [prompt])
    emit("gemma3_270m.json", {
        "made_by": "tests/oracle/make_real_forward_golden.py", "transformers": transformers.__version__, "prompt": PROMPT,
        "generated": generated.tolist(), "text": tokenizer.decode(generated), "largest": float(logits.abs().max()),
        "vocabulary_entries": some, "logits": [[float(f"{v:.9g}") for v in row] for row in logits[:, some].tolist()],
        "argmax": logits.argmax(-1).tolist(),
        "page_windows": len(windows), "page_tokens": count, "page_nll": nll / count, "page_perplexity": float(np.exp(nll / count)),
        "page_ids_first": windows[0][:32]})


os.makedirs(OUT, exist_ok=True)
for model_name, make in (("minilm", minilm), ("gemma3-270m", gemma)):
    fetch = subprocess.run([os.path.join(ROOT, "scripts", "fetch_model.sh"), model_name], capture_output=True, text=True)
    if fetch.returncode:
        print(f"{model_name} is left as it is: {fetch.stderr.strip()}")
    else:
        make(fetch.stdout.strip())
