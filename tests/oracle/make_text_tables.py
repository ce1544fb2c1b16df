"""Writes src/text/unicode_tables.c: classes of characters as the `tokenizers` package has them.

The package takes them from several crates, each of its own version of Unicode (accents, punctuation
and control characters stand at Unicode 8, others are newer), so that no Unicode library gives the
same answer. The classes are observed: each code point goes through the step that uses the class.
Re-run with the versions of requirements.txt:  python tests/oracle/make_text_tables.py
"""

import pathlib
import sys

from tokenizers import normalizers as N
from tokenizers import pre_tokenizers as P

OUT = pathlib.Path(__file__).resolve().parents[2] / "src" / "text" / "unicode_tables.c"
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def bert(**on):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return N.BertNormalizer(**{**off, **on})


def vanishes(step):
    return [c for c in POINTS if step.normalize_str(chr(c)) == ""]


def splits(step):
    return [c for c in POINTS if len(step.pre_tokenize_str("a" + chr(c) + "a")) == 3]


def stays(decompose):
    """Decomposes in the Unicode of the running Python (at least 14) and yet not in the package."""
    import unicodedata
    form = {N.NFKD: "NFKD", N.NFD: "NFD"}[decompose]
    step = decompose()
    return [c for c in POINTS if step.normalize_str(chr(c)) == chr(c) != unicodedata.normalize(form, chr(c))]


CLASSES = [
    ("control", "BertNormalizer's clean_text removes them", vanishes(bert(clean_text=True))),
    ("accent", "BertNormalizer's strip_accents removes them", vanishes(bert(strip_accents=True))),
    ("mark", "StripAccents removes them", vanishes(N.StripAccents())),
    ("punctuation", "Punctuation and BertPreTokenizer split on them", splits(P.Punctuation())),
    ("numeric", "Digits splits on them", splits(P.Digits(individual_digits=True))),
    ("undecomposed", "newer Unicode decomposes them, the reference does not", sorted(set(stays(N.NFKD)) | set(stays(N.NFD)))),
]


def ranges(points):
    out = []
    for c in points:
        if out and c == out[-1][1] + 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def main():
    lines = ["/* unicode_tables.c: classes of characters; written by tests/oracle/make_text_tables.py. */",
             '#include "text/unicode.h"', ""]
    for name, why, points in CLASSES:
        lines += [f"/* {why}. */", f"static const rs_char_range {name}[] = {{"]
        lines += [f"    {{0x{a:X}, 0x{b:X}}}," for a, b in ranges(points)]
        lines += ["};", ""]
    lines += ["const rs_char_class rs_char_classes[] = {"]
    lines += [f"    [RS_CHAR_{name.upper()}] = {{{name}, sizeof {name} / sizeof *{name}}}," for name, _, _ in CLASSES]
    lines += ["};", ""]
    OUT.write_text("\n".join(lines))


if __name__ == "__main__":
    sys.exit(main())
