#!/bin/sh
# findings.sh: the code of every finding and note that the program can raise is explained in the documents.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
python3 - "$RS_SOURCE_DIR" <<'END' || note_failure "codes and documents do not agree"
import glob, re, sys
root = sys.argv[1]
text = "".join(open(p, encoding="utf-8").read() for p in glob.glob(root + "/docs/*.md") + [root + "/README.md"])
word, severity = r'"([a-z0-9_]+)"', r"RS_(?:INFO|WARN|CRITICAL)"
# Where codes are written: behind a severity (notes; the rules' helpers have it the other way), as .code, and as an argument of
# what makes a finding, whose severity may be reckoned, and of helpers that have a severity of their own.
places = [severity + r", ?" + word, r"\bcode = " + word, r"\bcode = [^;,]*?\? " + word + " : " + word, r"\{" + word + ", " + severity,
          r"\bnote\((?:e, )?" + word, r"\b(?:rs_finding_of|rs_scan_finding_for)\([^;]*?" + word + "(?: : " + word + ")?", r"\badd(?:_finding)?\(result, " + word]
# A code that is handed on by one of these helpers is a literal where the helper is called.
handed_on = {"code", "rows[event->kind].code", "rs_alarm_code(event->kind)", "d.verdict.code", "rule->code", "note->code", "kept.code", "f->code"}
codes, failures = {}, []
for path in sorted(glob.glob(root + "/src/**/*.c", recursive=True)):
    source = re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", "", open(path, encoding="utf-8").read(), flags=re.S))
    source = source.replace("( ", "(")
    for place in places:
        for match in re.finditer(place, source):
            for code in filter(None, match.groups()):
                codes.setdefault(code, path)
    calls = re.findall(r"\b(?:rs_notes_say|rs_notes_add|note_group)\([^;{]*?" + severity + r", ?([^,]+),", source)
    calls += re.findall(r"= rs_finding_of\([^;]*?, ([^,;]+)\);", source)
    for written in calls + re.findall(r"\.code = ([^,;}]+)[,;}]", source):
        if not re.search(word, written) and written not in handed_on:
            failures.append(f"{path}: the code {written} is not written where it is raised")
codes.pop("note", None)  # of a finding without a code: report/result.c; none is raised so
for code, path in sorted(codes.items()):
    if f"`{code}`" not in text:
        failures.append(f"{path} raises {code}, which no document explains")
print(len(codes), "codes")
known = "residual_summary zero_state qk_low_rank attention_sink extra_layers dong2021_code skipped_file blas_slow claim_failed long_text".split()
failures += [f"{code} was not found in the source" for code in known if code not in codes]
print("\n".join(failures))
sys.exit(bool(failures))
END
finish
