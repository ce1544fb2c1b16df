"""Writes tests/golden/tokenizer: small tokenizers, hard texts, and the ids of reference programs.

  texts.json           the texts, in hexadecimal (some are no UTF-8)
  NAME.json            a tokenizer.json trained by the `tokenizers` package (tokenizer_pipelines.py)
  NAME.ids.json        {"ids": [[...]] with special tokens, "decoded": [...] for the first texts}
  NAME.gguf            a GGUF file with such a tokenizer and nothing else; ids by the `tokenizers`
                       package, or by SentencePiece itself where merges go by score (NAME.ids.json)
  pre_names.gguf       a GGUF file whose merges cross what the pipelines of tokenizer.ggml.pre cut
  pre_names.json       {"texts": more texts, "cases": [{"names", "ids"}]: a hash of the ids of each text by
                       the pipeline of these names, or "refused"; "refused": names not known}
  real_text.txt, real_ids.json   one text for the real models of tests/cli/tokenize.sh

Re-run with the versions of requirements.txt:
  python tests/oracle/make_tokenizer_golden.py [MINILM_TOKENIZER_JSON GEMMA_GGUF]
"""

import io
import json
import pathlib
import struct
import sys

import gguf
import gguf_words
import sentencepiece
import tokenizer_pipelines as pipelines
from tokenizers import Tokenizer, decoders as D, models as M, normalizers as N, pre_tokenizers as P, processors as Q

OUT = pathlib.Path(__file__).resolve().parents[1] / "golden" / "tokenizer"
N_DECODED = 60
KINDS = gguf.TokenType


def dump(path, value):
    path.write_text(json.dumps(value, separators=(",", ":")) + "\n")


def expected(reference, texts):
    ids = [reference.encode(t).ids for t in texts]
    plain = [reference.encode(t, add_special_tokens=False).ids for t in texts[:N_DECODED]]
    return {"ids": ids, "decoded": [reference.decode(i, skip_special_tokens=False) for i in plain]}


def stored(make):
    """The pipeline as it is stored; trained when it is not, since training differs a little from run to run."""
    path = OUT / f"{make.__name__}.json"
    if not path.exists():
        path.write_text(make().to_str() + "\n")
    return Tokenizer.from_file(str(path))


# ---- GGUF ----

def write_gguf(name, model, tokens, types, scores=None, merges=None, **keys):
    w = gguf.GGUFWriter(OUT / f"{name}.gguf", "llama")
    w.add_tokenizer_model(model)
    w.add_token_list(tokens)
    w.add_token_types(types)
    if scores:
        w.add_token_scores(scores)
    if merges:
        w.add_token_merges(merges)
    for key, value in keys.items():
        if isinstance(value, bool):
            w.add_bool(f"tokenizer.ggml.{key}", value)
        elif isinstance(value, int):
            w.add_uint32(f"tokenizer.ggml.{key}", value)
        elif isinstance(value, bytes):
            w.add_array(f"tokenizer.ggml.{key}", value)
        else:
            w.add_string(f"tokenizer.ggml.{key}", value)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


def from_json(name, make, model, **keys):
    """The GGUF form of a pipeline; its reference is the pipeline itself."""
    reference = stored(make)
    data = json.loads(reference.to_str())
    added = {a["id"]: a for a in data["added_tokens"]}
    tokens = dict((i, t) for t, i in data["model"]["vocab"].items())
    tokens.update((i, a["content"]) for i, a in added.items())
    kind = [(KINDS.CONTROL if added[i]["special"] else KINDS.USER_DEFINED) if i in added else KINDS.NORMAL
            for i in range(len(tokens))]
    texts = [tokens[i] for i in range(len(tokens))]
    if model == "bert":  # as the converter spells them: words begin with U+2581, the rest loses its ##
        texts = [t if k != KINDS.NORMAL else t[2:] if t.startswith("##") else pipelines.SPACE + t
                 for t, k in zip(texts, kind)]
    merges = [" ".join(m) for m in data["model"].get("merges", [])]
    write_gguf(name, model, texts, kind, merges=merges, **keys)
    return reference


class SentencePiece:
    """SentencePiece as a reference with the interface of the others."""

    def __init__(self, name, model, before=(), after=(), **options):
        out = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(pipelines.SENTENCES), model_writer=out, minloglevel=2, hard_vocab_limit=False,
            character_coverage=0.98, **options)
        self.sp = sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())
        self.before, self.after = list(before), list(after)
        n = range(self.sp.get_piece_size())
        users = set(options.get("user_defined_symbols", []))
        kind = [KINDS.UNKNOWN if self.sp.is_unknown(i) else KINDS.CONTROL if self.sp.is_control(i)
                else KINDS.BYTE if self.sp.is_byte(i) else KINDS.USER_DEFINED if self.sp.id_to_piece(i) in users
                else KINDS.NORMAL for i in n]
        # As the converter does: blanks of the user's tokens are blanks.
        texts = [self.sp.id_to_piece(i) for i in n]
        texts = [t.replace(pipelines.SPACE, " ") if k == KINDS.USER_DEFINED else t for t, k in zip(texts, kind)]
        keys = dict(unknown_token_id=self.sp.unk_id(), add_bos_token=bool(before), add_eos_token=bool(after),
                    bos_token_id=1, eos_token_id=2, add_space_prefix=options.get("add_dummy_prefix", True))
        if model == "t5":
            charsmap = pipelines.field(pipelines.field(out.getvalue(), 3), 2)
            keys.update(precompiled_charsmap=charsmap, remove_extra_whitespaces=True)
        write_gguf(name, model, texts, kind, scores=[self.sp.get_score(i) for i in n], **keys)

        self.vocab = [(self.sp.id_to_piece(i), self.sp.get_score(i)) for i in n]
        self.charsmap = keys.get("precompiled_charsmap")

    def as_unigram(self):
        """The same in the `tokenizers` package, as T5's own tokenizer.json is; sums are in double precision there
        and in single here, so splits of equal probability are told apart differently."""
        t = Tokenizer(M.Unigram(self.vocab, self.sp.unk_id(), False))
        t.normalizer = N.Precompiled(self.charsmap)
        t.pre_tokenizer, t.decoder = P.Sequence([P.WhitespaceSplit(), P.Metaspace()]), D.Metaspace()
        t.add_special_tokens([pipelines.special(s) for s in ("<unk>", "<s>", "</s>")])
        t.post_processor = Q.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
        return t

    def ids(self, text):
        return self.before + self.sp.encode(text) + self.after


def gguf_cases(texts):
    cases = {
        "gguf_gpt2": from_json("gguf_gpt2", pipelines.gpt2, "gpt2", pre="gpt-2"),
        "gguf_llama3": from_json("gguf_llama3", pipelines.llama3, "gpt2", pre="llama-bpe", bos_token_id=0),
        "gguf_qwen2": from_json("gguf_qwen2", pipelines.qwen2, "gpt2", pre="qwen2"),
        "gguf_bert": from_json("gguf_bert", pipelines.bert, "bert", cls_token_id=2, seperator_token_id=3,
                               unknown_token_id=1),
    }
    for name, reference in cases.items():
        dump(OUT / f"{name}.ids.json", expected(reference, texts))
    rules = OUT / "rules.tsv"
    code = lambda s: " ".join(f"{ord(c):X}" for c in s)
    rules.write_text("".join(f"{code(a)}\t{code(b)}\n" for a, b in pipelines.RULES))
    llama = dict(model_type="bpe", vocab_size=700, byte_fallback=True, normalization_rule_name="identity",
                 remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True)
    pieces = {
        "gguf_llama": SentencePiece("gguf_llama", "llama", before=[1], **llama),
        "gguf_gemma": SentencePiece("gguf_gemma", "llama", before=[1], add_dummy_prefix=False,
                                    user_defined_symbols=["\n\n", "\n\n\n", "\u2581\u2581\u2581", "<b>"], **llama),
        "gguf_t5": SentencePiece("gguf_t5", "t5", after=[2], model_type="unigram", vocab_size=600, byte_fallback=False,
                                 normalization_rule_tsv=str(rules)),
    }
    rules.unlink()
    for name, reference in pieces.items():
        # SentencePiece knows no control tokens in a text, stops at NUL, and takes U+2581 for a blank; null: not
        # compared.
        other = ("<s>", "</s>", "<unk>", "\0", pipelines.SPACE)
        dump(OUT / f"{name}.ids.json", {"ids": [None if any(c in t for c in other) else reference.ids(t) for t in texts],
                                        "decoded": []})
    dump(OUT / "gguf_t5.ids.json", expected(pieces["gguf_t5"].as_unigram(), texts))


# ---- names of tokenizer.ggml.pre ----

def hash_of(ids):
    """FNV-1a of the ids as little-endian int32: a whole list would be long, and there are many."""
    state = 0x811C9DC5
    for byte in struct.pack(f"<{len(ids)}i", *ids):
        state = (state ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"{state:08x}"


def words_cases(texts):
    path, groups = OUT / "pre_names.gguf", {}
    if not path.exists():
        gguf_words.write(path, gguf_words.trained(size=2000), "gpt-2")
    base = gguf_words.read(path)
    for name, row in gguf_words.NAMES.items():
        groups.setdefault(row, []).append(name)
    cases, texts = [], texts + gguf_words.CUTS
    for names in groups.values():
        reference = gguf_words.reference(base, names[0])
        ids = ["refused" if gguf_words.is_open(names[0], t) else hash_of(reference.encode(t).ids) for t in texts]
        cases.append({"names": names, "ids": " ".join(ids)})
    dump(OUT / "pre_names.json", {"texts": [t.encode().hex() for t in gguf_words.CUTS], "cases": cases,
                                  "refused": gguf_words.REFUSED})


# ---- real models ----

def message(*fields):
    """A protocol buffer message of (number, value): int as varint, float as fixed32, bytes with a length."""
    def varint(n):
        return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)

    out = []
    for number, value in fields:
        if isinstance(value, float):
            out.append(varint(number << 3 | 5) + struct.pack("<f", value))
        elif isinstance(value, int):
            out.append(varint(number << 3) + varint(value))
        else:
            out.append(varint(number << 3 | 2) + varint(len(value)) + value)
    return b"".join(out)


def sentencepiece_of(path):
    """SentencePiece's own program on the pieces of a GGUF file (ModelProto of sentencepiece_model.proto)."""
    fields = gguf.GGUFReader(path).fields
    tokens, scores, types = (fields[f"tokenizer.ggml.{k}"].contents() for k in ("tokens", "scores", "token_type"))
    unknown = fields["tokenizer.ggml.unknown_token_id"].contents()
    types[unknown] = int(KINDS.UNKNOWN)
    users = int(KINDS.USER_DEFINED)
    pieces = [(1, message((1, (t.replace(" ", pipelines.SPACE) if k == users else t).encode()), (2, float(s)), (3, k)))
              for t, s, k in zip(tokens, scores, types)]
    bpe = message((3, 2), (35, 1), (40, unknown), (41, 2), (42, 1), (43, 0), (46, b"<bos>"), (47, b"<eos>"), (48, b"<pad>"))
    normal = message((1, b"identity"), (3, 0), (4, 0), (5, 1))
    return sentencepiece.SentencePieceProcessor(model_proto=message(*pieces, (2, bpe), (3, normal)))


def real(minilm, gemma):
    """MiniLM: the `tokenizers` package. Gemma: SentencePiece, so the texts hold no control tokens and no U+2581."""
    decoded = [r.decode(errors="replace") for r in pipelines.fixed_texts()]
    text = "\n".join(t for t in decoded if "\0" not in t and pipelines.SPACE not in t and not set(pipelines.SPELLED) & {t}
                     and not any(c in t for c in ("<pad>", "<unk>", "<mask>", "<start_of_turn>", "<s>", "</s>")))
    (OUT / "real_text.txt").write_bytes(text.encode())
    reference = Tokenizer.from_file(minilm)
    reference.no_truncation()
    reference.no_padding()
    dump(OUT / "real_ids.json", {"minilm": reference.encode(text).ids,
                                 "gemma3-270m": [2] + sentencepiece_of(gemma).encode(text)})


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    raw = pipelines.fixed_texts()
    texts = [r.decode(errors="replace") for r in raw]
    dump(OUT / "texts.json", [r.hex() for r in raw])
    for make in pipelines.PIPELINES:
        dump(OUT / f"{make.__name__}.ids.json", expected(stored(make), texts))
    gguf_cases(texts)
    words_cases(texts)
    if len(sys.argv) > 2:
        real(*sys.argv[1:3])


if __name__ == "__main__":
    sys.exit(main())
