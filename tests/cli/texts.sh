#!/bin/sh
# texts.sh: several texts: --text given more than once. Each has samples of its own, which are those of a run on it alone.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
golden=$RS_SOURCE_DIR/tests/golden
rm -rf spoken ./*.json ./*.txt csv*
mkdir -p spoken
cat >spoken/config.json <<'END'
{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 12, "intermediate_size": 18, "num_hidden_layers": 2,
 "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "vocab_size": 1000, "max_position_embeddings": 32,
 "rms_norm_eps": 1e-6, "hidden_act": "silu", "rope_theta": 10000.0, "tie_word_embeddings": false}
END
cp "$golden/tokenizer/llama3.json" spoken/tokenizer.json
chmod u+w spoken/tokenizer.json
printf 'A lighthouse that nobody needs has 300 steps, and one lamp.' >a.txt
printf 'Go.' >b.txt # one window, shorter than the others
printf 'The keeper counts them every evening: up, and down again.' >c.txt
: >empty.txt

run() { # COMMAND JSON ARGUMENTS...: on the drawn model, windows of 6 tokens
    command=$1 json=$2
    shift 2
    expect 0 "$RANKSCOPE" "$command" spoken --init default --seq-len 6 --seed 3 --quiet --json "$json" "$@"
}
for threads in 1 2; do
    for command in probe certify paths; do
        more=
        [ $command != probe ] || more="--generate 2 --precision f64 --certify --batch 1"
        [ $command != paths ] || more="--sources --paths 3"
        [ $command != certify ] || more="--batch 1" # what is in one pass changes rounding
        # shellcheck disable=SC2086  # several words
        [ $threads = 2 ] || for text in a b c; do
            run $command "$command.$text.json" --text $text.txt --threads 1 $more
        done
        # shellcheck disable=SC2086
        run $command $command.$threads.json --text a.txt --text=b.txt --text c.txt --threads $threads $more
    done
done
python3 - <<'END' || note_failure "several texts"
import json
read = lambda name: json.load(open(name + ".json"))
numbered = {"probe": ["generate", "bounds", "lambda", "intervals"], "certify": ["bounds", "lambda", "intervals"],
            "paths": ["lengths", "truncated", "paths", "sources"]}
text_of = lambda row: json.dumps(row, sort_keys=True)
for command, tables in numbered.items():
    whole, other = read(command + ".1"), read(command + ".2")
    assert whole["tables"] == other["tables"] and whole["findings"] == other["findings"], f"{command}: threads change it"
    alone = [read(f"{command}.{text}") for text in "abc"]
    assert not any("texts" in one["tables"] for one in alone), "one text needs no such table"
    texts, first = whole["tables"]["texts"], 0
    assert len(texts) == 3
    for i, (row, one) in enumerate(zip(texts, alone)):
        inputs = one["inputs"]
        wanted = {"text": i, "file": "abc"[i] + ".txt", "first_sample": first, "samples": inputs["samples"], "tokens": inputs["tokens"]}
        assert {key: row[key] for key in wanted} == wanted, (row, wanted)
        assert command != "probe" or row["tokens_in_text"] == inputs["tokens_in_text"], row
        assert row["samples"] == 1 if i == 1 else row["samples"] > 1, row
        first += row["samples"]
    assert whole["inputs"]["samples"] == first and whole["inputs"]["tokens"] == sum(row["tokens"] for row in texts)
    assert command != "probe" or whole["inputs"]["tokens_in_text"] == sum(row["tokens_in_text"] for row in texts)
    assert whole["args"]["text"] == ["a.txt", "b.txt", "c.txt"] and alone[0]["args"]["text"] == "a.txt"
    # Every row of a sample is the row that a run on its text alone has, and none is more or less.
    for name in tables:
        rows = []
        for row, one in zip(texts, alone):
            rows += [dict(r, sample=r["sample"] + row["first_sample"]) for r in one["tables"][name] if r["sample"] is not None]
        got = [r for r in whole["tables"][name] if r["sample"] is not None]
        assert rows and sorted(map(text_of, got)) == sorted(map(text_of, rows)), f"{command}: {name}"
    left = [f["message"] for f in whole["findings"] if f["code"] == "text_left_out"]
    assert left and ".txt: " in left[0], left
# Means are over the samples of all texts, which weigh alike.
whole, alone = read("probe.1")["tables"], [read(f"probe.{text}") for text in "abc"]
compared = 0
for i, row in enumerate(whole["tokens"]):
    parts = [(one["inputs"]["samples"], one["tables"]["tokens"][i]["mean_cosine"]) for one in alone]
    mean = sum(n * value for n, value in parts) / sum(n for n, _ in parts)
    assert abs(row["mean_cosine"] - mean) < 1e-12, (row["mean_cosine"], mean)
    compared += 1
assert compared >= 3
assert [row["sample"] for row in whole["generate"]] == [row["first_sample"] for row in whole["texts"]]
END

# The windows are the ids that tokenize gives, cut one behind the other with the special token in front of each.
echo '[]' >windows.json
for text in a b c; do
    expect 0 "$RANKSCOPE" tokenize spoken --text $text.txt --quiet --json ids.json
    python3 - <<'END' || note_failure "ids of $text.txt"
import json
rows, windows = json.load(open("ids.json"))["tables"]["ids"], json.load(open("windows.json"))
special, *body = [row["id"] for row in rows]
assert rows[0]["begin"] == rows[0]["end"] and len(body) > 1
for at in range(0, max(len(body) - 4, 1), 5):
    windows.append([special] + body[at:at + 5])
json.dump(windows, open("windows.json", "w"))
END
done
expect 0 "$RANKSCOPE" certify spoken --init default --seed 3 --quiet --json windows.out.json --tokens windows.json --batch 1
python3 - <<'END' || note_failure "the windows are not the tokens of the texts in turn"
import json
texts, windows = (json.load(open(name + ".json"))["tables"] for name in ("certify.1", "windows.out"))
assert texts["bounds"] == windows["bounds"] and len(texts["bounds"]) > 6
END

# --samples takes the first windows of each; one text may be given twice; standard input may be one of them.
run certify some.json --text a.txt --text c.txt --text a.txt --samples 1
"$RANKSCOPE" certify spoken --init default --seq-len 6 --seed 3 --quiet --json piped.json --text a.txt --text - --text a.txt --samples 1 <c.txt ||
    note_failure "standard input cannot be one of several texts"
sed "" c.txt | "$RANKSCOPE" certify spoken --init default --seq-len 6 --quiet --json alone.json --text - --samples 1 ||
    note_failure "standard input cannot be read"
python3 - <<'END' || note_failure "--samples, a text given twice, or standard input among texts"
import json
some, piped, alone = (json.load(open(name + ".json")) for name in ("some", "piped", "alone"))
assert [row["samples"] for row in some["tables"]["texts"]] == [1, 1, 1]
rows = [[dict(row, sample=0) for row in some["tables"]["bounds"] if row["sample"] == sample] for sample in range(3)]
assert rows[0] == rows[2] != rows[1]
assert piped["tables"]["bounds"] == some["tables"]["bounds"]
assert [row["file"] for row in piped["tables"]["texts"]] == ["a.txt", "/dev/stdin", "a.txt"]
assert piped["args"]["text"] == ["a.txt", "-", "a.txt"] and alone["args"]["text"] == "-"
END
expect 0 "$RANKSCOPE" probe spoken --init default --seq-len 6 --text a.txt --text b.txt --table texts --csv csv
says out "b.txt"
says csv/texts.csv "0,a.txt,0,"

# What is wrong is named, before anything is run.
for command in probe certify paths; do
    refused_by "$command" not-found "nowhere.txt" spoken --init default --text a.txt --text nowhere.txt --json made.json
    refused_by "$command" input-format "empty.txt: the text is empty" spoken --init default --text a.txt --text empty.txt --json made.json
    refused_by "$command" usage "one kind of input is enough" spoken --text a.txt --text b.txt --tokens ids.json
    refused_by "$command" usage "standard input can be read once, and two texts are '-' and '-'" spoken --text - --text a.txt --text -
    refused_by "$command" usage "two texts are '-' and '/dev/stdin'" spoken --text /dev/stdin --text -
    refused_by "$command" usage "--images: is given twice" spoken --images a.npy --images b.npy
done
refused_by tokenize usage "two texts are '-' and '-'" spoken --text - --text -
refused_by tokenize not-found "nowhere.txt" spoken --text a.txt --text nowhere.txt
refused_by probe would-overwrite-input "b.txt" spoken --init default --text a.txt --text b.txt --json b.txt
refused_by tokenize would-overwrite-input "b.txt" spoken --text a.txt --text b.txt --json b.txt
[ ! -e made.json ] || note_failure "a run that was refused left a file"
many=$(python3 -c "print('--text a.txt ' * 1025)")
# shellcheck disable=SC2086
refused_by tokenize bad-option "at most 1024 texts" spoken $many

# tokenize: the rows of each, one behind the other.
for text in a empty c; do
    expect 0 "$RANKSCOPE" tokenize spoken --text $text.txt --quiet --json $text.json
done
expect 0 "$RANKSCOPE" tokenize spoken --text a.txt --text empty.txt --text c.txt --json all.json
says out "in 3 texts are"
python3 - <<'END' || note_failure "tokenize"
import json
whole, alone = json.load(open("all.json")), [json.load(open(name + ".json")) for name in ("a", "empty", "c")]
for table in ("ids", "summary"):
    rows = [dict(row, text=i) for i, one in enumerate(alone) for row in one["tables"][table]]
    got = [{key: value for key, value in row.items() if key != "file"} for row in whole["tables"][table]]
    assert got == rows, table
assert [row["file"] for row in whole["tables"]["summary"]] == ["a.txt", "empty.txt", "c.txt"]
assert whole["verdict"]["value"] == sum(one["verdict"]["value"] for one in alone)
END
finish
