"""A tokenizer of single letters for models that are made here, and texts in its tokens."""
import json

LETTERS = "abcdefghijklmnopqrstuvwxyzĠĊ"


def write_tokenizer(folder):
    """Byte-level BPE without merges: each letter is a token."""
    bytes_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    json.dump({"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": bytes_level,
               "post_processor": None, "decoder": bytes_level,
               "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                         "fuse_unk": False, "byte_fallback": False, "vocab": {c: i for i, c in enumerate(LETTERS)}, "merges": []}},
              open(f"{folder}/tokenizer.json", "w"))


def windows(text, length):
    """Whole windows of so many tokens."""
    ids = [LETTERS.index({" ": "Ġ", "\n": "Ċ"}.get(c, c)) for c in text]
    return [ids[i:i + length] for i in range(0, len(ids) - length + 1, length)]
