"""Many random texts through librankscope and the `tokenizers` package: counts the differences.

  python tests/oracle/compare_tokenizers.py PROGRAM [N] [TOKENIZER...]
  python tests/oracle/compare_tokenizers.py PROGRAM N gguf [NAME...]

PROGRAM is tests/oracle/tokenize_lines.c, built against librankscope (see docs/tokenize.md); N texts
(default 20000) for each pipeline of tokenizer_pipelines.py, or for each tokenizer.json named; or for
each name of tokenizer.ggml.pre (gguf_words.py), with a vocabulary trained through its pipeline and with
one whose merges cross all cuts.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import gguf_words
import tokenizer_pipelines as pipelines
from tokenizers import Tokenizer


def run(program, path, raw, *options):
    lines = "".join(r.hex() + "\n" for r in raw)
    done = subprocess.run([program, path, *options], input=lines, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def compare(name, program, path, reference, raw):
    reference.no_truncation()
    reference.no_padding()
    wrong, shown, failed, decoded = 0, 0, 0, 0
    texts = [r.decode(errors="replace") for r in raw]
    for text, line in zip(texts, run(program, path, raw), strict=True):
        ids = [int(i) for i in line.split()] if not line.startswith("error") else line
        try:
            wanted = reference.encode(text).ids
        except BaseException as error:  # the package panics on some texts; nothing to agree with
            failed += 1
            print("  reference fails:", repr(text)[:80], str(error)[:80])
            continue
        if ids != wanted:
            wrong += 1
            if shown < 4:
                shown += 1
                print("  ", repr(text)[:300], "\n     ours", ids, "\n     ref ", wanted)
    shown = 0
    for text, line in zip(texts, run(program, path, raw, "decode"), strict=True):
        wanted = reference.decode(reference.encode(text, add_special_tokens=False).ids, skip_special_tokens=False)
        got = bytes.fromhex(line).decode()
        if got != wanted.split("\0")[0]:
            decoded += 1
            if shown < 2:
                shown += 1
                print("   decode", repr(text)[:200], "\n     ours", repr(got)[:200], "\n     ref ", repr(wanted)[:200])
    print(f"{name}: {len(raw)} texts, {wrong} differ, {decoded} decoded differently, {failed} fail in the reference", flush=True)
    return wrong + decoded


def compare_name(name, program, path, reference, texts):
    """Ids of a GGUF file. A text is refused if and only if it is not known how to normalise it."""
    wrong, refused, shown = 0, 0, 0
    for text, line in zip(texts, run(program, path, [t.encode() for t in texts]), strict=True):
        if line.startswith("error the text is not in NFC"):
            refused += 1
            wrong += not gguf_words.is_open(name, text)
            continue
        ids = line if line.startswith("error") else [int(i) for i in line.split()]
        wanted = reference.encode(text).ids
        if ids != wanted:
            wrong += 1
            if shown < 3:
                shown += 1
                print("  ", repr(text)[:300], "\n     ours", ids, "\n     ref ", wanted)
    print(f"{name}: {len(texts)} texts, {wrong} differ, {refused} refused", flush=True)
    return wrong


def compare_names(program, chosen, raw):
    wrong, bases = 0, {None: gguf_words.trained(size=4000)}
    texts = [r.decode(errors="replace") for r in raw] + gguf_words.CUTS
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "words.gguf")
        for name in chosen or gguf_words.NAMES:
            pipeline = gguf_words.NAMES[name][0]
            if pipeline not in bases:
                bases[pipeline] = gguf_words.trained(pipeline)
            for base in (bases[None], bases[pipeline]):
                gguf_words.write(path, base, name)
                wrong += compare_name(name, program, path, gguf_words.reference(base, name), texts)
    return wrong


def main():
    program, n = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20000
    rng = random.Random(int(os.environ.get("SEED", 1)))
    raw = [pipelines.random_text(rng).encode() for _ in range(n)] + pipelines.fixed_texts()
    if sys.argv[3:4] == ["gguf"]:
        return 1 if compare_names(program, sys.argv[4:], raw) else 0
    wrong = 0
    for path in sys.argv[3:]:
        if path.endswith(".json"):
            wrong += compare(path, program, path, Tokenizer.from_file(path), raw)
    chosen = [p for p in pipelines.PIPELINES if len(sys.argv) < 4 or p.__name__ in sys.argv[3:]]
    with tempfile.TemporaryDirectory() as folder:
        for make in chosen:
            path = str(pathlib.Path(folder) / f"{make.__name__}.json")
            make().save(path)
            wrong += compare(make.__name__, program, path, Tokenizer.from_file(path), raw)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
