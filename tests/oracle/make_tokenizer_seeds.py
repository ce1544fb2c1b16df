"""Writes into fuzz/corpus/tokenizer.tar.gz: one tokenizer.json of a few tokens for each kind of step, with a text.

An input is the JSON, the byte 0xFF, and the text (fuzz/fuzz_tokenizer.c). Needs nothing but Python:
  python tests/oracle/make_tokenizer_seeds.py
"""

import base64
import json
import struct

import corpus

SPACE = "\u2581"
ALPHABET = ["a", "b", "c", "e", "t", "h", " ", SPACE, "\u00e9", "\u0120", "1", "##a", "##b", "the", "th"]
TEXT = " The cab\u00e9 [CLS] e\u0301 12 don't\r\n\n \U0001f44d\U0001f3fd \u4f60<both> ".encode() + b"\xff\xc3 a"


def bpe(**more):
    vocab = {t: i for i, t in enumerate(["<unk>", *ALPHABET, *(f"<0x{b:02X}>" for b in range(4))])}
    return {"type": "BPE", "unk_token": "<unk>", "vocab": vocab, "merges": [["t", "h"], "th e"], **more}


WORDPIECE = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 9,
             "vocab": {t: i for i, t in enumerate(["[UNK]", "[CLS]", "[SEP]", *ALPHABET])}}
UNIGRAM = {"type": "Unigram", "unk_id": 0, "byte_fallback": True,
           "vocab": [["<unk>", 0.0], *([t, -1.5 - i / 3] for i, t in enumerate(ALPHABET)), ["<0xC3>", 0]]}


def charsmap():
    """A double array by hand: "e" -> "E". The root's offset is 1, the leaf's too."""
    units = [0] * 256
    units[0] = 1 << 10
    at = 1 ^ ord("e")
    units[at] = ord("e") | 1 << 8 | 2 << 10
    units[at ^ 2] = 1 << 31 | 0
    trie = struct.pack("<256I", *units)
    return base64.b64encode(struct.pack("<I", len(trie)) + trie + b"E\0").decode()


def split(behavior, **pattern):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": False}


def added(text, i, **more):
    return {"id": i, "content": text, "special": False, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, **more}


def steps(kind, *types):
    return {"type": "Sequence", kind: [t if isinstance(t, dict) else {"type": t} for t in types]}


SEEDS = {
    "bert": {"model": WORDPIECE, "normalizer": {"type": "BertNormalizer"}, "pre_tokenizer": {"type": "BertPreTokenizer"},
             "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
             "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
             "added_tokens": [added("[CLS]", 1, special=True), added("<both>", 99, lstrip=True, rstrip=True)]},
    "gpt2": {"model": bpe(), "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True},
             "post_processor": {"type": "ByteLevel"}, "decoder": {"type": "ByteLevel"}},
    "llama": {"model": bpe(byte_fallback=True, fuse_unk=True),
              "normalizer": steps("normalizers", {"type": "Prepend", "prepend": SPACE},
                                  {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}),
              "decoder": steps("decoders", {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
                               "ByteFallback", "Fuse", {"type": "Strip", "content": " ", "start": 1, "stop": 0}),
              "post_processor": {"type": "TemplateProcessing", "pair": [], "special_tokens": {
                  "<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}},
                  "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]}},
    "llama3": {"model": bpe(ignore_merges=True), "pre_tokenizer": steps(
        "pretokenizers", split("Isolated", Regex=r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+"),
        {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False})},
    "clip": {"model": bpe(end_of_word_suffix="</w>", continuing_subword_prefix="##"), "decoder": {"type": "BPEDecoder", "suffix": "</w>"},
             "normalizer": steps("normalizers", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Nmt", "StripAccents",
                                 {"type": "Strip", "strip_left": True, "strip_right": True}),
             "pre_tokenizer": steps("pretokenizers", "Whitespace", "WhitespaceSplit", {"type": "Punctuation"},
                                    {"type": "Digits", "individual_digits": True}, {"type": "CharDelimiterSplit", "delimiter": "a"})},
    "unigram": {"model": UNIGRAM, "normalizer": {"type": "Precompiled", "precompiled_charsmap": charsmap()},
                "pre_tokenizer": {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "first", "split": True},
                "decoder": {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always"}},
    "splits": {"model": bpe(), "normalizer": {"type": "ByteLevel"}, "pre_tokenizer": steps(
        "pretokenizers", split("Removed", String=" "), split("MergedWithPrevious", Regex=r"\d"),
        split("MergedWithNext", Regex=r"[\w]"), split("Contiguous", Regex=r"\S"), split("Isolated", Regex="(?=a)|")),
        "added_tokens": [added("THE", 50, normalized=True, single_word=True), added("the", 51)]},
}


def main():
    with corpus.opened("tokenizer") as seeds:
        for name, seed in SEEDS.items():
            (seeds / name).write_bytes(json.dumps(seed, ensure_ascii=False).encode() + b"\xff" + TEXT)


if __name__ == "__main__":
    main()
