"""Small tokenizers with the pipelines of real models, and texts that are hard for them.

Used by make_tokenizer_golden.py and compare_tokenizers.py. The tokenizers are trained here, by the
`tokenizers` package, on the sentences below, so their vocabularies are small and ours to ship.
"""

import base64
import io
import json
import random

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders as D, models as M, normalizers as N
from tokenizers import pre_tokenizers as P, processors as Q, trainers as T

SENTENCES = """The model reads a sentence, and every token moves a little closer to the others.
When all tokens point the same way, the attention cannot tell them apart any more.
It isn't the depth that hurts; it's what we've done without skip connections, and they'll show it.
In 2021 the figure was 12,345.67 (about 3%), but by 1999 nobody'd counted: 7 + 8 = 15, x_1 != y_2.
def collapse(x):\n\treturn x - x.mean(axis=0)  # rank one?\n\n\nprint(collapse([1, 2, 3]))
Le café noir coûte 3 €; où êtes-vous né, à Besançon ou à Nîmes? Ça dépend, dit-il.
Die größten Bäume stehen überall; Straße, Mühle, Österreich und Füße.
El niño comió piñas, ¿verdad? ¡Sí, señor! Mañana será otro día.
Привет, мир! Внимание распределяется равномерно, и все слова сливаются. Ёлка йод.
Το μοντέλο διαβάζει μια πρόταση, και όλα τα σημεία συγκλίνουν. Σίσυφος.
注意力机制让所有的词变得相同。模型很深，但是没有残差连接。你好，世界！
注意機構はすべてのトークンを同じ方向に動かす。こんにちは、世界！カタカナとひらがな。
주의 메커니즘은 모든 토큰을 비슷하게 만든다. 안녕하세요 세계!
الانتباه يجعل كل الكلمات متشابهة، والعمق يزيد ذلك. مرحبا بالعالم!
תשומת הלב הופכת את כל המילים לדומות. שלום עולם! שָׁלוֹם
ध्यान सभी शब्दों को एक जैसा बना देता है। नमस्ते दुनिया, हिन्दी में लिखा है।
ความสนใจทำให้คำทั้งหมดเหมือนกัน สวัสดีชาวโลก
கவனம் எல்லா சொற்களையும் ஒரே மாதிரி ஆக்குகிறது. வணக்கம்
Sự chú ý làm cho mọi từ giống nhau. Xin chào thế giới! Đường phố Hà Nội.
emoji 😀 👍🏽 👩‍👩‍👧‍👦 🇫🇷🇩🇪 ❤️ ☃ and symbols ∑∫√ → ← © ® ™ ½ ² ③ № ﬁ ﬂ ㎏ Ⅷ""".split("\n")

BYTES = [f"<0x{b:02X}>" for b in range(256)]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
SPACE = "\u2581"


def special(text, **more):
    return AddedToken(text, special=True, normalized=False, **more)


def field(message, number):
    """The bytes of a length-delimited field of a protocol buffer message."""
    at = 0

    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 2:
            length = varint()
            if key >> 3 == number:
                return message[at:at + length]
            at += length
        elif key & 7 == 0:
            varint()
        else:
            at += 4 if key & 7 == 5 else 8
    raise KeyError(number)


def charsmap(rules=None):
    """A precompiled charsmap made by SentencePiece: of rules [(from, to)], or the whole nmt_nfkc."""
    model, path = io.BytesIO(), "charsmap_rules.tsv"
    options = dict(sentence_iterator=iter(SENTENCES), model_writer=model, vocab_size=420, minloglevel=2,
                   hard_vocab_limit=False, character_coverage=1.0)
    if rules:
        code = lambda s: " ".join(f"{ord(c):X}" for c in s)
        with open(path, "w") as f:
            f.writelines(f"{code(a)}\t{code(b)}\n" for a, b in rules)
        options["normalization_rule_tsv"] = path
    sentencepiece.SentencePieceTrainer.train(**options)
    spec = field(model.getvalue(), 3)  # ModelProto.normalizer_spec
    if rules:
        import os
        os.remove(path)
    return base64.b64encode(field(spec, 2)).decode()  # NormalizerSpec.precompiled_charsmap


RULES = ([(chr(0xFF01 + i), chr(0x21 + i)) for i in range(94)] + [("\u3000", " "), ("\u00a0", " "), ("\u2028", " "),
         ("\u200b", " "), ("\t", " "), ("\n", " "), ("\r", " "), ("\x07", ""), ("\ufb01", "fi"), ("\ufb02", "fl"),
         ("\u338f", "kg"), ("\u2167", "VIII"), ("\u00bd", "1\u20442"), ("\u00b2", "2"), ("\u2462", "3"),
         ("e\u0301", "\u00e9"), ("a\u0300", "\u00e0"), ("n\u0303", "\u00f1"), ("\u2026", "..."), ("\uff76\uff9e", "\u30ac"),
         ("\u2122", "TM"), ("\u2103", "\u00b0C"), ("\u00ad", ""), ("\ufeff", "")])


def wordpiece(normalizer, size=900):
    t = Tokenizer(M.WordPiece(unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer, t.decoder = normalizer, P.BertPreTokenizer(), D.WordPiece()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator(SENTENCES, T.WordPieceTrainer(vocab_size=size, special_tokens=names, show_progress=False))
    t.post_processor = Q.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
                                            special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return t


def byte_bpe(normalizer, pre, specials, size=900, **model):
    t = Tokenizer(M.BPE(**model))
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer, t.decoder = pre, D.ByteLevel()
    t.train_from_iterator(SENTENCES, T.BpeTrainer(vocab_size=size, special_tokens=specials, show_progress=False,
                                                  initial_alphabet=P.ByteLevel.alphabet()))
    return t


def sentencepiece_bpe(size=700):
    """Vocabulary and merges of a SentencePiece-like BPE with byte fallback, as a tokenizer to build on."""
    t = Tokenizer(M.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.pre_tokenizer = P.Metaspace(prepend_scheme="always")
    t.train_from_iterator(SENTENCES, T.BpeTrainer(vocab_size=size, special_tokens=["<unk>", "<s>", "</s>"] + BYTES,
                                                  show_progress=False, limit_alphabet=230))
    data = json.loads(t.to_str())
    data["added_tokens"] = [a for a in data["added_tokens"] if a["id"] < 3]
    return data


def unigram(normalizer, pre, specials, size=700, byte_fallback=False):
    t = Tokenizer(M.Unigram())
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer, t.decoder = pre, D.Metaspace()
    t.train_from_iterator(SENTENCES, T.UnigramTrainer(vocab_size=size, special_tokens=specials, unk_token="<unk>",
                                                      show_progress=False))
    if byte_fallback:
        data = json.loads(t.to_str())
        data["model"]["byte_fallback"] = True
        data["model"]["vocab"] += [[b, 0.0] for b in BYTES]
        t = Tokenizer.from_str(json.dumps(data))
    return t


def bert():
    return wordpiece(N.BertNormalizer())


def bert_cased():
    return wordpiece(N.BertNormalizer(lowercase=False), 700)


def gpt2():
    return byte_bpe(None, P.ByteLevel(add_prefix_space=False), ["<|endoftext|>"])


def roberta():
    t = byte_bpe(None, P.ByteLevel(add_prefix_space=True), ["<s>", "<pad>", "</s>", "<unk>"], 800)
    t.add_special_tokens([special("<mask>", lstrip=True)])
    t.post_processor = Q.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return t


def llama2():
    data = sentencepiece_bpe()
    data["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": SPACE}, {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}]}
    data["pre_tokenizer"] = None
    data["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    t = Tokenizer.from_str(json.dumps(data))
    t.post_processor = Q.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return t


def llama2_first():
    data = json.loads(llama2().to_str())
    data["normalizer"] = None
    data["pre_tokenizer"] = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "first", "split": False}
    return Tokenizer.from_str(json.dumps(data))


def llama3():
    pre = P.Sequence([P.Split(Regex(LLAMA3 % r"\p{N}{1,3}"), "isolated"), P.ByteLevel(False, use_regex=False)])
    t = byte_bpe(None, pre, ["<|begin_of_text|>", "<|eot_id|>"], ignore_merges=True)
    t.post_processor = Q.Sequence([Q.ByteLevel(trim_offsets=False), Q.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", 0)])])
    return t


def qwen2():
    pre = P.Sequence([P.Split(Regex(LLAMA3 % r"\p{N}"), "isolated"), P.ByteLevel(False, use_regex=False)])
    t = byte_bpe(N.NFC(), pre, [])
    t.add_special_tokens([special("<|im_start|>"), special("<|im_end|>")])
    t.add_tokens([AddedToken("<tool_call>", normalized=False)])
    return t


def gemma():
    data = sentencepiece_bpe(800)
    data["normalizer"] = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    data["pre_tokenizer"] = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
                             "invert": False}
    t = Tokenizer.from_str(json.dumps(data))
    t.add_special_tokens([special("<start_of_turn>")])
    t.add_tokens([AddedToken("\n\n", normalized=False), AddedToken("\n\n\n", normalized=False)])
    t.post_processor = Q.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return t


def albert(rules=RULES):
    normal = N.Sequence([N.Replace("``", '"'), N.Replace("''", '"'), N.NFKD(), N.StripAccents(), N.Lowercase(),
                         N.Precompiled(base64.b64decode(charsmap(rules))), N.Replace(Regex(" {2,}"), " ")])
    t = unigram(normal, P.Metaspace(prepend_scheme="always"), ["<pad>", "<unk>", "[CLS]", "[SEP]"])
    t.add_special_tokens([special("[MASK]", lstrip=True)])
    t.post_processor = Q.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return t


def xlm_roberta(rules=RULES):
    t = unigram(N.Precompiled(base64.b64decode(charsmap(rules))), P.Sequence([P.WhitespaceSplit(), P.Metaspace()]),
                ["<s>", "<pad>", "</s>", "<unk>"])
    t.post_processor = Q.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return t


def t5(rules=RULES):
    normal = N.Sequence([N.Nmt(), N.NFKC(), N.Strip(left=False, right=True)])
    t = unigram(normal, P.Metaspace(prepend_scheme="always"), ["<pad>", "</s>", "<unk>"], byte_fallback=True)
    t.post_processor = Q.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return t


def clip():
    pattern = (r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+")
    t = Tokenizer(M.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"))
    t.normalizer = N.Sequence([N.NFC(), N.Replace(Regex(r"\s+"), " "), N.Lowercase()])
    t.pre_tokenizer = P.Sequence([P.Split(Regex(pattern), "removed", invert=True), P.ByteLevel(False)])
    t.decoder = D.BPEDecoder(suffix="</w>")
    t.train_from_iterator(SENTENCES, T.BpeTrainer(vocab_size=900, special_tokens=["<|startoftext|>", "<|endoftext|>"],
                                                  show_progress=False, end_of_word_suffix="</w>",
                                                  initial_alphabet=P.ByteLevel.alphabet()))
    t.post_processor = Q.BertProcessing(("<|endoftext|>", 1), ("<|startoftext|>", 0))
    return t


def char_bpe(pre, normalizer=None, fuse=False):
    """BPE over characters without fallback: what is not in the alphabet is unknown."""
    t = Tokenizer(M.BPE(unk_token="<unk>", fuse_unk=fuse, continuing_subword_prefix="@@"))
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre
    t.train_from_iterator(SENTENCES, T.BpeTrainer(vocab_size=500, special_tokens=["<unk>"], show_progress=False,
                                                  limit_alphabet=150, continuing_subword_prefix="@@"))
    return t


def splits():
    return char_bpe(P.Sequence([
        P.Split(",", "merged_with_previous"), P.Split(Regex(r"[.!?]+"), "merged_with_next"),
        P.Split(Regex(r"\d"), "contiguous"), P.Split("-", "removed"), P.Split(Regex(r"(?=[A-Z])"), "isolated"),
        P.Split(Regex(r"[\p{Han}\p{Hangul}]+"), "isolated", invert=True), P.Split(Regex(r"\S+\s?"), "merged_with_previous", invert=True),
        P.CharDelimiterSplit(";")]), N.Sequence([N.Strip(), N.NFKD()]))


def words():
    t = char_bpe(P.Sequence([P.Whitespace(), P.Punctuation("merged_with_next"), P.Digits(individual_digits=True)]),
                 N.Sequence([N.NFD(), N.StripAccents(), N.Lowercase()]), fuse=True)
    t.add_tokens([AddedToken("ToKeN", normalized=True), AddedToken("deep", single_word=True, normalized=True),
                  AddedToken("<both>", lstrip=True, rstrip=True, normalized=False), AddedToken("é\u0301tat", normalized=True),
                  AddedToken("word", single_word=True, normalized=False), AddedToken("<b", normalized=False)])
    t.add_special_tokens([special("<sep>", rstrip=True)])
    return t


def digits():
    return byte_bpe(None, P.Sequence([P.Split(Regex(r"\p{N}{1,3}"), "isolated"), P.Split(Regex("[一-龥぀-ゟ゠-ヿ]+"), "isolated"),
                                      P.Digits(individual_digits=False), P.Punctuation("contiguous"),
                                      P.ByteLevel(False, use_regex=False)]), ["<s>"], 700)


PIPELINES = [bert, bert_cased, gpt2, roberta, llama2, llama2_first, llama3, qwen2, gemma, albert, xlm_roberta, t5, clip,
             splits, words, digits]

# ---- texts ----

SPELLED = ["[CLS]", "[SEP]", "[MASK]", "<s>", "</s>", "<unk>", "<mask>", " <mask> ", "<|endoftext|>", "<|begin_of_text|>",
           "<|im_start|>", "<tool_call>", "<start_of_turn>", "[UNK]", "<pad>", "<0x41>", "<0xE4>", "ToKeN", "token", "deep",
           "deeper", " deep ", "<both>", "  <both>\t ", "word", "words", "_word", "<sep>  ", "étât", "<b", "[mask]", "\u2581",
           "\u2581\u2581", "@@", "</w>", "##", "``", "''"]
ODD = ["\u0085", "\u2028", "\u2029", "\u00a0", "\u00ad", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\ufffd", "\x00", "\x01",
       "\x07", "\x1b", "\x7f", "\x9f", "\r\n", "\r", "\n\n", "\n\n\n", "\t", "   ", "\u3000", "\u180e", "\ue000", "\U000f0000",
       "e\u0301", "a\u0328\u0301", "q\u0307\u0323", "\u1100\u1161\u11a8", "\uac00\u11a8", "\u1112\u1161\u11ab", "\u0958", "\u2126",
       "\u212b", "\u1e9b\u0323", "\ufdfa", "\U00020000", "\U0002a6d6", "\U0002f800", "\ufb01", "\u0130", "\u01c5", "\u1e9e", "\u017f",
       "\u3099", "\u304b\u3099", "\uff76\uff9e", "\u0cca", "\U0001f468\u200d\U0001f4bb", "\U0001f44d\U0001f3fd", "\U0001f1eb\U0001f1f7",
       "1\ufe0f\u20e3", "\u0301", "\u0300\u0323", "\u0345", "\u0f71\u0f72", "'s", "'LL", "\u2019s", "'\u017f", "don't", "x'D", "...", "!?",
       "123", "4567", "\u0661\u0662", "\u2167", "\u00bd", "\u00b2", "_", "a_b", "A-B", "\u2014", "\uff0c", "\u3002", "\u0964", "\u061f"]
RANGES = [(0x20, 0x7E)] * 6 + [(0xA0, 0x17F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x4FF), (0x590, 0x5FF), (0x600, 0x6FF),
          (0x900, 0x97F), (0xB80, 0xBFF), (0xE00, 0xE7F), (0x1100, 0x11FF), (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2190, 0x22FF),
          (0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFB00, 0xFDFF), (0xFE00, 0xFEFF), (0xFF00, 0xFFEF),
          (0x1D400, 0x1D7FF), (0x1F300, 0x1F64F), (0x20000, 0x2A6DF), (0xE000, 0xE0FF), (0x00, 0x1F), (0x80, 0x9F)]


def pieces_of_words():
    return [w for s in SENTENCES for w in s.split(" ")]


def random_text(rng):
    """A text of words, odd characters, spelled tokens and code points of one script or of all."""
    words, out = pieces_of_words(), []
    for _ in range(rng.choice([1, 2, 5, 12, 30])):
        kind = rng.random()
        if kind < 0.45:
            out.append(rng.choice(words))
        elif kind < 0.65:
            out.append(rng.choice(ODD))
        elif kind < 0.72:
            out.append(rng.choice(SPELLED))
        else:
            low, high = rng.choice(RANGES)
            out.append("".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 6))))
        if rng.random() < 0.5:
            out.append(rng.choice([" ", " ", " ", "  ", "\n", "\t", ""]))
    return "".join(out)


def fixed_texts():
    """Texts that every golden file holds, as bytes (some are no UTF-8)."""
    texts = ["", " ", "  ", "\n", "a", " a", "a ", SPACE, *SENTENCES, *SPELLED, *ODD]
    texts += ["x" * 99, "x" * 100, "x" * 101, "é" * 100, "é" * 101, "the" * 300, " " * 50 + "a" + " " * 50, "\n" * 40, "1" * 37,
              "a\u0301" * 40, "\u0301\u0323" * 30, "한국어 " * 10, "😀" * 20, "".join(SPELLED), " ".join(ODD), "".join(ODD),
              "Hello<mask>there [SEP]word</s>", "<<b<both>b>", "a\r\nb\r\r\n\n c", "\t\tx = 1\n    y", "don't DON'T we'LL I'm they've'd"]
    rng = random.Random(7)
    texts += [random_text(rng) for _ in range(120)]
    raw = [t.encode() for t in texts]
    raw += [b"\xff", b"a\xc3", b"\xc3\x28b", b"\xe2\x82", b"\xe2\x28\xa1", b"\xf0\x9f\x98", b"\xf0\x9f\x98a", b"\xed\xa0\x80x", b"\xc0\xaf",
            b"\xf4\x90\x80\x80", b"\xfe\xfe\xff", b"ok \x80\x80 ok", b"\xf0\x80\x80\xaf", "é".encode("latin-1") + b"t" + "é".encode()]
    return raw
