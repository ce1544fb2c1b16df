"""The names of tokenizer.ggml.pre: what the tokenizer.json of their models do, in that file's own
components, and small GGUF files with vocabularies that tell them apart.

Used by make_tokenizer_golden.py and compare_tokenizers.py. The expressions are written as the
models' files write them (Oniguruma's dialect, with classes inside classes), not as the program does.
"""

import json
import random
import unicodedata

import gguf
import tokenizer_pipelines as pipelines
from tokenizers import Regex, Tokenizer, decoders as D, models as M, normalizers as N, pre_tokenizers as P
from tokenizers import processors as Q, trainers as T

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
BLANKS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
CASED = (r"[^\r\n\p{L}\p{N}]?[%s]*[%s]+END|[^\r\n\p{L}\p{N}]?[%s]+[%s]*END" % (UPPER, LOWER, UPPER, LOWER))
SLASHED = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + BLANKS


def cl100k(number):
    return CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|" + number + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|" + BLANKS


def o200k(number):
    return CASED.replace("END", CONTRACTIONS + "?") + "|" + number + SLASHED


NOT_HAN = "&&[^\\p{Han}]]"
KIMI = (r"[\p{Han}]+|" + CASED.replace("[" + UPPER + "]", "[" + UPPER + NOT_HAN).replace("[" + LOWER + "]", "[" + LOWER + NOT_HAN)
        .replace("END", CONTRACTIONS + "?") + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + BLANKS)
BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"
HAN_KANA = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
HANGUL = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
MARKED = ("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
          "| ?[\\p{P}\\p{S}]+")
DEEPSEEK = [0x41, 0x5A, 0x61, 0x7A, 0xB5, 0xB5, 0xC0, 0xD6, 0xD8, 0xF6, 0xF8, 0x1BA, 0x1BC, 0x1BF, 0x1C4, 0x293, 0x295, 0x2AF,
            0x370, 0x373, 0x376, 0x377, 0x37B, 0x37D, 0x37F, 0x37F, 0x386, 0x386, 0x388, 0x38A, 0x38C, 0x38C, 0x38E, 0x3A1,
            0x3A3, 0x3F5, 0x3F7, 0x481, 0x48A, 0x52F, 0x531, 0x556, 0x10A0, 0x10C5, 0x13A0, 0x13F5, 0x13F8, 0x13FD, 0x1C90,
            0x1CBA, 0x1CBD, 0x1CBF, 0x1D00, 0x1D2B, 0x1D6B, 0x1D77, 0x1D79, 0x1D9A, 0x1E00, 0x1F15, 0x1F18, 0x1F1D, 0x1F20,
            0x1F45, 0x1F48, 0x1F4D, 0x1F50, 0x1F57, 0x1F59, 0x1F59, 0x1F5B, 0x1F5B, 0x1F5D, 0x1F5D, 0x1F5F, 0x1F7D, 0x1F80,
            0x1FB4, 0x1FB6, 0x1FBC, 0x1FBE, 0x1FBE, 0x1FC2, 0x1FC4, 0x1FC6, 0x1FCC, 0x1FD0, 0x1FD3, 0x1FD6, 0x1FDB, 0x1FE0,
            0x1FEC, 0x1FF2, 0x1FF4, 0x1FF6, 0x1FFC, 0x2102, 0x2102, 0x2107, 0x2107, 0x210A, 0x2113, 0x2115, 0x2115, 0x2119,
            0x211D, 0x2124, 0x2124, 0x2126, 0x2126, 0x2128, 0x2128, 0x212A, 0x212D, 0x212F, 0x2134, 0x2139, 0x2139, 0x213C,
            0x213F, 0x2145, 0x2149, 0x214E, 0x214E, 0x2183, 0x2184, 0x2C00, 0x2C7B, 0x2C7E, 0x2CE4, 0x2CEB, 0x2CEE, 0x2CF2,
            0x2CF3, 0xA640, 0xA66D, 0xA680, 0xA69B, 0xA722, 0xA76F, 0xA771, 0xA787, 0xA78B, 0xA78E, 0xAB70, 0xABBF, 0xFB00,
            0xFB06, 0xFB13, 0xFB17, 0xFF21, 0xFF3A, 0xFF41, 0xFF5A, 0x10400, 0x1044F, 0x104B0, 0x104D3, 0x104D8, 0x104FB,
            0x10C80, 0x10CB2, 0x10CC0, 0x10CF2, 0x118A0, 0x118DF, 0x1E900, 0x1E943]
CASED_LETTERS = "".join(f"{chr(a)}-{chr(b)}" for a, b in zip(DEEPSEEK[::2], DEEPSEEK[1::2]))
FULLWIDTH = "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"
YOUTU = ("[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+"
         "|[\u3105-\u312f]+|" + HAN_KANA)


def split(expression, behaviour="isolated", invert=False):
    return P.Split(Regex(expression), behaviour, invert)


BYTES = P.ByteLevel(add_prefix_space=False, use_regex=False)
GPT2_BYTES = P.ByteLevel(add_prefix_space=False)
EACH, RUNS = P.Digits(individual_digits=True), P.Digits(individual_digits=False)
PIPELINES = {
    "gpt2": [GPT2_BYTES],
    "digits_gpt2": [EACH, GPT2_BYTES],
    "llama3": [split(cl100k(r"\p{N}{1,3}")), BYTES],
    "qwen2": [split(cl100k(r"\p{N}")), BYTES],
    "ufakzeka": [split(cl100k(r"\p{N}")[len(CONTRACTIONS) + 1:]), BYTES],
    "qwen35": [split(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + BLANKS), BYTES],
    "seed_coder": [split(CONTRACTIONS + "|[^\r\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\r\n]+|\\s*[\r\n]+"
                         r"|\s+(?!\S)|\s+"), BYTES],
    "bailing": [split(r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
                      r"|\s+(?!\S)|\s+"), BYTES],
    "exaone_moe": [split(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?"
                         r"|\s*[\r\n]|\s+(?!\S)|\s+"), BYTES],
    "minicpm5": [split(r"\p{N}{1,3}"), split(cl100k(r"\p{N}+")), BYTES],
    "gpt4o": [split(o200k(r"\p{N}{1,3}"), "removed", True), BYTES],
    "tekken": [split(CASED.replace("END", "") + r"|\p{N}" + SLASHED), BYTES],
    "kimi": [split(KIMI), BYTES],
    "tiny_aya": [split(r"\d{1,3}(?=(?:\d{3})*\b)"), split(o200k(r"\p{N}{1,3}")), BYTES],
    "youtu": [split(YOUTU), split(o200k(r"\p{N}")), BYTES],
    "falcon": [P.Punctuation("contiguous"), GPT2_BYTES, RUNS, split("[0-9][0-9][0-9]")],
    "deepseek_llm": [split("[\r\n]"), split(r"\s?[" + CASED_LETTERS + "]+"), split(FULLWIDTH), split(r"\s+$"), split(HANGUL), EACH,
                     BYTES],
    "deepseek_coder": [split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(HANGUL), EACH, BYTES],
    "deepseek_v3": [split(r"\p{N}{1,3}"), split(HAN_KANA), split(MARKED + "[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"), BYTES],
    "spark": [split(r"\p{N}{1,3}"), split(HAN_KANA), split(MARKED + "|[\r\n]|\\s+(?!\\S)|\\s+"), EACH, BYTES],
    "bloom": [split(BLOOM), BYTES],
    "viking": [split(BLOOM), EACH, BYTES],
    "superbpe": [RUNS, split(r"(?=(\d{3})+(?!\d))"), BYTES],
    "chameleon": [split("<sentinel:[0-9]+>"), split("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"), split(r"([\t\n]|    |  )"), EACH,
                  P.Punctuation("isolated"), GPT2_BYTES],
    "plain": [split(r"[\p{P}\$\+<=>\^~\|]+"), split(GPT2[:GPT2.rindex("|")]), split(r"\p{N}+"), split("[0-9][0-9][0-9]"), BYTES],
}

# name: (pipeline, normaliser, ignore_merges, <bos>); "?": whether NFC is applied is not established.
NAMES = {name: row for names, row in {
    "gpt-2 phi-2 roberta-bpe": ("gpt2", None, False, False),
    "default": ("plain", None, False, False),
    "mpt olmo": ("gpt2", "NFC", False, False),
    "a.x-4.0 exaone4 granite-docling jais mellum modern-bert trillion": ("gpt2", "?", False, False),
    "smollm starcoder refact": ("digits_gpt2", None, False, False),
    "command-r": ("digits_gpt2", "NFC", False, False),
    "codeshell mellum2": ("digits_gpt2", "?", False, False),
    "llama-bpe llama3 llama-v3": ("llama3", None, True, True),
    "jina-v5-nano lfm2 midm-2.0 pixtral": ("llama3", "?", True, True),
    "dbrx smaug-bpe chatglm-bpe glm4": ("llama3", None, False, False),
    "qwen2 deepseek-r1-qwen": ("qwen2", "NFC", False, False),
    "f2llmv2 grok-2 hunyuan kormo megrez solar-open stablelm2": ("qwen2", "?", False, False),
    "ufakzeka": ("ufakzeka", "?", False, False),
    "qwen35": ("qwen35", "NFC", False, False),
    "seed-coder": ("seed_coder", "?", False, False),
    "bailingmoe bailingmoe2 llada-moe": ("bailing", "?", False, False),
    "exaone-moe": ("exaone_moe", "?", False, False),
    "minicpm5": ("minicpm5", "?", True, False),
    "gpt-4o": ("gpt4o", None, False, False),
    "kanana2 llama4 minimax-m2 talkie": ("gpt4o", "?", False, False),
    "granite-embed-multi-97m": ("gpt4o", "?", True, False),
    "tekken": ("tekken", None, True, True),
    "kimi-k2": ("kimi", None, True, False),
    "tiny_aya cohere2moe": ("tiny_aya", "?", False, False),
    "youtu": ("youtu", "?", True, False),
    "falcon": ("falcon", None, False, False),
    "deepseek-llm": ("deepseek_llm", None, False, False),
    "deepseek-coder": ("deepseek_coder", None, False, False),
    "deepseek-v3": ("deepseek_v3", None, False, False),
    "hunyuan-dense hy_v4 joyai-llm": ("deepseek_v3", "?", False, False),
    "spark2_5": ("spark", "?", False, False),
    "bloom": ("bloom", None, False, False),
    "gpt3-finnish poro-chat": ("bloom", "?", False, False),
    "viking": ("viking", "?", False, False),
    "superbpe": ("superbpe", "?", False, False),
    "chameleon": ("chameleon", "?", False, True),
}.items() for name in names.split()}

# Names of llama.cpp's table that stay refused (docs/tokenize.md says why).
REFUSED = """afmoe exaone falcon-h1 falcon3 gemma4 gigachat granite-embed-multi-311m jais-2 jina-de jina-es jina-v1-en jina-v2-code
jina-v2-de jina-v2-es laguna minerva-7b sarvam-moe whitespace""".split()

SPECIALS = ["<|endoftext|>", "<|im_start|>"]
# Words that no merge builds: they are found by ignore_merges alone.
WHOLE = [" attention", " sentence", "12", " 2021", "!!", "\n\n", "the", "a"]
# What the pipelines cut in different ways, so that merges across the cuts are learned.
CUTS = ["don't DON'T we'LL x'S 'S 's's \u2019s isn't5 it's", "a1 12 123 1234 12345 123456 1234567 12,345.67 \u00b2\u00b3 \u0663\u0664\u0665 x2y",
        "ABCdef HTTPServer iPhone aB Ab AB ab \u01c5a \u00c9t\u00e9 \u0416\u0436", "a \n b\n\n  c\r\n\td \r\n\r\n e   f\t\t g \u3000h \u00a0i\u0085j",
        "x.\n y,\n\n z!?\r\n path/to//file a/ /b .../ ?!/\n", "(a) [b] {c} <d> $5 a+b=c ^x ~y |z| `q` #!& @u _v_ -w- *k* \"s\" a_b %",
        "\u4f60\u597d\uff0c\u4e16\u754c\u3002a\u4f60b \u3042\u30a2\u4f60 \u3042a \ud55c\uad6d\uc5b4a \u3105\u3106 \u3131\u3132 \uff01\u2026\u201c\u4f60\u201d\u3001",
        "x\u0301y \u0928\u092e\u0938\u094d\u0924\u0947 \u0939\u093f\u0928\u094d\u0926\u0940\u0964 !\u0301a 1\u0301 \u05e9\u05b8\u05c1\u05dc", "<sentinel:12> IMGIMGABZ IMGIMGAZx IMGIMGABCDEZ",
        "a b c d e f. Two words here. x \u00b5m \u0627\u0644 \u043f\u0440 \u03b1\u03b2 \u0e04\u0e27", "\u0661\u0662\u0663\u0664 1234\u0301 1234a 1234_ 1234 5678 \U0001f600\U0001f44d!?",
        "1999\u0bf2 1999\u00b2 1999\u2460 1999\u2167 1999\u00bd 1999\u203f 1999\u0301 1999\u24b6 12\u0bf2a", "'tis 'Twas the 'same 'really 'Dad's 'llama I'dlike we'verun don'tall", "    four   three  two one\t\ttabs", "end  ", "end\n", "mix12ed34 \uff11\uff12\uff13\uff14 \u2167\u00bd a\u00bdb", "#include !def ?x $var a.b 'q' (x) -y \n#z"]


def texts_to_train(rng=None):
    rng = rng or random.Random(11)
    return pipelines.SENTENCES + CUTS * 3 + [pipelines.random_text(rng) for _ in range(300)]


def trained(pipeline=None, size=900):
    """A vocabulary trained through the pipeline; without one, through none, so that its merges cross
    what any pipeline cuts. With a few words that no merge builds."""
    t = Tokenizer(M.BPE())
    t.pre_tokenizer, t.decoder = P.Sequence(PIPELINES[pipeline] if pipeline else [BYTES]), D.ByteLevel()
    t.train_from_iterator(texts_to_train(), T.BpeTrainer(vocab_size=size, special_tokens=SPECIALS, show_progress=False,
                                                         initial_alphabet=P.ByteLevel.alphabet()))
    data = json.loads(t.to_str())
    vocab = data["model"]["vocab"]
    for word in WHOLE:
        spelled = "".join(piece for piece, _ in BYTES.pre_tokenize_str(word))
        vocab.setdefault(spelled, len(vocab))
    return Tokenizer.from_str(json.dumps(data))


def reference(base, name):
    """The tokenizer that a name stands for, on the vocabulary of `base`."""
    pipeline, form, whole, begins = NAMES[name]
    data = json.loads(base.to_str())
    data["model"]["ignore_merges"] = whole
    t = Tokenizer.from_str(json.dumps(data))
    t.pre_tokenizer = P.Sequence(PIPELINES[pipeline])
    if form == "NFC":
        t.normalizer = N.NFC()
    if begins:
        t.post_processor = Q.TemplateProcessing(single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)])
    return t


def is_open(name, text):
    """Whether a text has to be refused: NFC would change it, and nobody knows whether it is applied."""
    return NAMES[name][1] == "?" and unicodedata.normalize("NFC", text) != text


def write(path, base, name):
    data = json.loads(base.to_str())
    vocab, added = data["model"]["vocab"], {a["id"] for a in data["added_tokens"]}
    tokens = sorted(vocab, key=vocab.get)
    w = gguf.GGUFWriter(path, "llama")
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre(name)
    w.add_token_list(tokens)
    w.add_token_types([gguf.TokenType.CONTROL if vocab[t] in added else gguf.TokenType.NORMAL for t in tokens])
    w.add_token_merges([" ".join(m) for m in data["model"]["merges"]])
    w.add_uint32("tokenizer.ggml.bos_token_id", 0)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


def read(path):
    """The vocabulary that write() put into a file."""
    fields = gguf.GGUFReader(path).fields
    tokens, merges = (fields[f"tokenizer.ggml.{k}"].contents() for k in ("tokens", "merges"))
    t = Tokenizer(M.BPE({t: i for i, t in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges]))
    t.decoder = D.ByteLevel()
    t.add_special_tokens([pipelines.special(s) for s in SPECIALS])
    return t
