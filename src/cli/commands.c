/* commands.c: the commands of the program, as data: what help says of them, and which function of
 * the library each is. */
#include "cli/cli.h"

#include <string.h>

/* ---- what each command is to the library ---- */

static void init_scan(cli_args *args)
{
    rs_scan_settings_init(&args->scan, sizeof args->scan);
    args->scan.hold = true;
}

static rs_status ask_scan(rs_result **out, const cli_args *args, rs_error *err)
{
    rs_scan_settings settings = args->scan;
    settings.others = args->others;
    settings.n_others = args->n_others;
    return rs_scan_checkpoint(out, args->input, &settings, err);
}

/* Its files appear with the result's (cli_run). */
static void init_probe(cli_args *args)
{
    rs_probe_settings_init(&args->probe, sizeof args->probe);
    args->probe.hold = true;
}

static rs_status ask_probe(rs_result **out, const cli_args *args, rs_error *err)
{
    rs_probe_settings settings = args->probe;
    settings.others = args->others;
    settings.n_others = args->n_others;
    return rs_probe_checkpoint(out, args->input, &settings, err);
}

static void init_certify(cli_args *args)
{
    rs_certify_settings_init(&args->certify, sizeof args->certify);
}

static rs_status ask_certify(rs_result **out, const cli_args *args, rs_error *err)
{
    rs_certify_settings settings = args->certify;
    settings.others = args->others;
    settings.n_others = args->n_others;
    return rs_certify_checkpoint(out, args->input, &settings, err);
}

static void init_paths(cli_args *args)
{
    rs_paths_settings_init(&args->paths, sizeof args->paths);
}

static rs_status ask_paths(rs_result **out, const cli_args *args, rs_error *err)
{
    return rs_paths_checkpoint(out, args->input, &args->paths, err);
}

static void init_compare(cli_args *args)
{
    rs_compare_settings_init(&args->compare, sizeof args->compare);
}

static rs_status ask_compare(rs_result **out, const cli_args *args, rs_error *err)
{
    rs_compare_settings settings = args->compare;
    settings.others = args->others;
    settings.n_others = args->n_others;
    return rs_compare_checkpoints(out, args->input, &settings, err);
}

static void init_tokenize(cli_args *args)
{
    rs_tokenize_settings_init(&args->tokenize, sizeof args->tokenize);
}

static rs_status ask_tokenize(rs_result **out, const cli_args *args, rs_error *err)
{
    return rs_tokenize(out, args->input, &args->tokenize, err);
}

static void init_lab(cli_args *args)
{
    rs_lab_settings_init(&args->lab, sizeof args->lab);
}

/* "list", or "run" and the name of an experiment. */
static rs_status ask_lab(rs_result **out, const cli_args *args, rs_error *err)
{
    static const char usage[] =
        "'rankscope lab list' shows the experiments, 'rankscope lab run ID' "
        "does one, 'rankscope lab run all' all";
    bool list = strcmp(args->input, "list") == 0, run = strcmp(args->input, "run") == 0;
    if (!list && !run) return rs_fail(err, RS_E_USAGE, args->input, usage, "lab can list and run");
    if (run && !args->second)
        return rs_fail(err, RS_E_USAGE, "lab run", usage, "needs the name of an experiment");
    if (list && args->second)
        return rs_fail(err, RS_E_USAGE, args->second, usage, "lab list takes no name");
    rs_lab_settings settings = args->lab;
    settings.experiment = args->second;
    return rs_lab(out, &settings, err);
}

static void init_train(cli_args *args)
{
    rs_training_settings_init(&args->training, sizeof args->training);
}

static rs_status ask_train(rs_result **out, const cli_args *args, rs_error *err)
{
    rs_training_settings settings = args->training;
    if (!args->input)
        return rs_fail(err, RS_E_USAGE, "train",
                       "give a task file or the name of a task, such as associative-recall",
                       "needs a task");
    for (size_t i = 0; i < cli_n_options; i++)
        if (strcmp(cli_options[i].name, "seed") == 0) settings.seeded = args->given[i] != NULL;
    cli_show_training(&settings, args);
    return rs_train(out, args->input, &settings, err);
}

static void init_predict(cli_args *args)
{
    rs_predict_settings_init(&args->predict, sizeof args->predict);
}

static rs_status ask_predict(rs_result **out, const cli_args *args, rs_error *err)
{
    return rs_predict(out, args->input, &args->predict, err);
}

static void init_doctor(cli_args *args)
{
    rs_doctor_settings_init(&args->doctor, sizeof args->doctor);
}

static rs_status ask_doctor(rs_result **out, const cli_args *args, rs_error *err)
{
    return rs_doctor(out, &args->doctor, err);
}

static void init_explain(cli_args *args)
{
    rs_explain_settings_init(&args->explain, sizeof args->explain);
}

static rs_status ask_explain(rs_result **out, const cli_args *args, rs_error *err)
{
    rs_explain_settings settings = args->explain;
    settings.word = args->input;
    return rs_explain(out, &settings, err);
}

/* ---- the table ---- */

const cli_command cli_commands[] = {
    {"scan", CLI_SCAN, "PATH...", "rank health of the weights: every head's QK and OV spectrum",
     "Reads a checkpoint and gives, for every layer and head, the singular values of the query-key "
     "product W_Q W_K^T and of the "
     "value-output product W_V W_O (state-space layers: C B^T and in-out), the rank measures that "
     "follow, how balanced the two "
     "factors are (weight decay drives them to balance and then acts as a nuclear-norm penalty), "
     "and what random weights of the "
     "same shape would give.\n"
     "PATH is a Hugging Face directory (config.json with model.safetensors, whole or sharded), one "
     ".safetensors file beside its "
     "config.json, or a .gguf file (any part of a split one). Nothing is loaded whole: files are "
     "mapped and decoded tile by tile.\n"
     "Several PATHs, or the folder of a run (checkpoint-500 checkpoint-1000 ..., or what "
     "'rankscope "
     "train' leaves in DIR/checkpoints) are a series: how each layer's rank goes from one to the "
     "next. What cannot be read of it is named and skipped.\n"
     "Tables: summary, layers, heads, groups (grouped queries), planes (RoPE), ssm (state-space), "
     "energy, "
     "energy_totals, costs and compression "
     "(--energy), matrices (--matrices), tensors, "
     "and the data of the figures: spectra, balance. Of a series: trends, series, checkpoints, "
     "findings_changed, not_compared, series_curves.",
     "rankscope scan ~/models/llama --html report.html # a report to read and share\n"
     "rankscope scan model.gguf --table layers # mean, least and largest of every measure by "
     "layer\n"
     "rankscope scan . --json - | jq '.tables.heads[].effective_rank' # for scripts\n"
     "rankscope scan ckpt --fail-on warn --quiet # exit code 3 when heads have lost rank\n"
     "rankscope scan model/ --energy 0.95 --text page.txt --write small/ # a smaller model, and "
     "its "
     "loss\n"
     "rankscope scan . --matrices all --csv out # every weight, beside WeightWatcher's columns\n"
     "rankscope scan run/ --fail-on warn --html series.html # a run: whose rank falls, and since "
     "when?",
     init_scan, ask_scan},
    {"probe", CLI_PROBE, "PATH...",
     "do a model's tokens collapse? where, and what holds them apart",
     "Runs a model forward over a text, token ids, images, rows of numbers or random inputs and "
     "measures, state by "
     "state, how far apart the tokens still are, and for each head how its attention mixes them. "
     "Takes parts of the model away (skips, MLPs, norms, masks) or changes them, and compares the "
     "variants over the same inputs.\n"
     "PATH is a Hugging Face directory, one .safetensors file beside its config.json, or a .gguf "
     "file; with --init also a config.json or an architecture file, whose weights are then drawn "
     "at random. Several PATHs are run over the same inputs and stand side by side, column path "
     "first.\n"
     "Tables: summary, tokens, attention, loss (language models on --text or --tokens), generate, "
     "attention_maps, texts (of several --text), models (of several PATHs); with --scan those of "
     "scan, its summary as "
     "weights. Layers and heads count "
     "from 0; in table tokens, layer 0 is what enters the first block.",
     "rankscope probe minilm/ --text page.txt --variants dong --html report.html # what holds the "
     "tokens apart?\n"
     "rankscope probe model.gguf --text page.txt --table loss # perplexity, and the tokens by "
     "layer\n"
     "rankscope probe config.json --init default --random 8 --variants all # a model before "
     "training\n"
     "rankscope probe . --tokens ids.npy --output out.safetensors # compare with a reference\n"
     "rankscope probe small/ large/ --text page.txt # two models over one text\n"
     "rankscope probe . --states features.npy # features of speech, a time series\n"
     "rankscope probe . --text page.txt --variants full,half=lambda:0.5 --json - # for scripts",
     init_probe, ask_probe},
    {"certify", CLI_CERTIFY, "PATH...",
     "prove what layers do to these tokens: collapse, or staying apart",
     "Runs a model forward in float64 over a text, token ids, images, rows of numbers or random "
     "inputs and proves, "
     "for each sample and layer, upper and lower bounds of how far apart the tokens are behind it; "
     "from the input and from every measured state on (measure until small, then certify). Beside "
     "them stand the published bounds with the hypothesis that fails, the leading-order prediction "
     "of the next residual matrix, the law by which the tokens collapse, and the skip strengths "
     "that would keep them apart.\n"
     "PATH is what 'rankscope probe' takes; options that edit the model work as there. Several "
     "PATHs stand side by side, column path first.\n"
     "Tables: summary, one row a layer; bounds and lambda, one row a sample and layer; chains; "
     "intervals of lambda; demands, what each statement asks of the skip; proof and proof_numbers "
     "(--steps); texts (of several --text: whose samples are which); models (of several PATHs). "
     "Every column says whether it is measured, predicted, certified or published. Layers count "
     "from 0. docs/certificates.md derives every certified statement.",
     "rankscope certify ~/models/minilm --text page.txt # which layers provably stay apart?\n"
     "rankscope certify minilm/ --text page.txt --fast --html report.html # what hangs on a "
     "condition, too\n"
     "rankscope certify config.json --init default --random 1 --no-skip --no-mlp # proves doubly "
     "exponential collapse: see table chains\n"
     "rankscope certify minilm/ --text page.txt --steps 5:3 --html proof.html # the published "
     "proof on a head, line by line\n"
     "rankscope certify . --tokens ids.npy --json - | jq '.tables.lambda[]' # for scripts",
     init_certify, ask_certify},
    {"paths", CLI_PATHS, "PATH", "the output as a sum over paths through the heads, by length",
     "Every path takes, at each attention, one head or the skip; its length is the number of "
     "heads. "
     "With the attention matrices and norm scales of the full pass, the last state is exactly the "
     "sum over all paths of P_path X W_path and of what MLP outputs and biases become on their way "
     "up; that is checked on every run to 1e-10. The sums over all paths of a length come from "
     "dynamic programming over the layers.\n"
     "PATH is a Hugging Face directory, one .safetensors file beside its config.json, or a .gguf "
     "file; with --init also a config.json or an architecture file.\n"
     "Tables: summary, lengths (what each length adds), truncated (the model with short paths "
     "alone: loss and agreement), paths (single paths), sources (--sources), lesions (--lesions), "
     "combined "
     "(--semantics code), texts (of several --text).",
     "rankscope paths ~/models/minilm --text page.txt --samples 4 # which path lengths matter?\n"
     "rankscope paths model.gguf --text page.txt --samples 1 --table truncated # loss against "
     "length\n"
     "rankscope paths . --tokens ids.npy --max-length 6 --paths 100 --csv out # error bars\n"
     "rankscope paths . --text page.txt --lesions --table lesions # which head matters?\n"
     "rankscope paths . --text page.txt --semantics code # as the published code evaluates paths",
     init_paths, ask_paths},
    {"compare", CLI_COMPARE, "A B...", "what changed between checkpoints of a run, or two models",
     "Sets two checkpoints side by side: every head's products by the measures of 'rankscope "
     "scan', "
     "how far each product moved and in how many directions, how far its leading singular "
     "directions agree, beside random ones, and which findings came or went. Of several, each is "
     "compared with the first. Models may differ: what can be compared is, the rest is named. With "
     "inputs (--text, --tokens, --random ...) both are run on them, and their tokens are compared "
     "state by state.\n"
     "A and B are each a Hugging Face directory, one .safetensors file beside its config.json, or "
     "a "
     ".gguf file. Heads are paired by layer, number and product.\n"
     "Tables: summary, layers, heads, models, findings_changed, not_compared; with inputs tokens "
     "and "
     "loss.",
     "rankscope compare run/checkpoint-500 run/checkpoint-1000 # what did these steps change?\n"
     "rankscope compare base/ tuned/ --table heads --sort change_relative --top 10 # which heads?\n"
     "rankscope compare base/ tuned/ --text page.txt --html report.html # its tokens, too\n"
     "rankscope compare model/ model.gguf # what quantising did to the products\n"
     "rankscope compare before/ after/ --fail-on warn --quiet # exit code 3 when ranks fell",
     init_compare, ask_compare},
    {"tokenize", CLI_TOKENIZE, "PATH", "the token ids that a model sees for a text",
     "Cuts a text into the tokens that the model was trained on: the same ids as the model's own "
     "library gives, each with the "
     "bytes of the text that it stands for.\n"
     "PATH is a directory with tokenizer.json, such a file, or a .gguf file with a tokenizer. The "
     "sections truncation and padding of "
     "a tokenizer.json are not applied: a text is never cut or filled up.\n"
     "Tables: ids, summary.",
     "rankscope tokenize ~/models/llama --text page.txt # a table of tokens\n"
     "rankscope tokenize . --text page.txt --json - | jq '[.tables.ids[].id]' # for scripts",
     init_tokenize, ask_tokenize},
    {"lab", CLI_LAB, "list|run ID",
     "published figures and tables done again: claimed, measured, verdict",
     "'lab list' shows the experiments; 'lab run ID' does one, 'lab run all' all of them. Each "
     "sets "
     "what a paper printed beside what an independent calculation expects and what this run "
     "measures. A verdict is pass, differs_from_paper (not as published, and as expected where "
     "that "
     "is known), no_difference (an order that is not seen either way), fail, or skipped (about "
     "trained weights, where there are none: --model).\n"
     "Tables: claims, one row a claim, and for each experiment its own data; experiments (lab "
     "list).",
     "rankscope lab list # what there is\n"
     "rankscope lab run dong-depth-init --html report.html # BERT at initialisation\n"
     "rankscope lab run dong-paths # the path decomposition\n"
     "rankscope lab run lambda-figure-3 --model mamba2-2.7b # gates and norms of a trained model\n"
     "rankscope lab run dong-depth-pretrained --model PATH,PATH # trained BERT, ALBERT\n"
     "rankscope lab run all --quick --fail-on critical # exit code 3 when a claim fails",
     init_lab, ask_lab},
    {"predict", CLI_PREDICT, "[PATH]", "will an architecture collapse or train? before it is built",
     "Answers eight questions about an architecture that exists only as a file: do tokens stay "
     "apart, does anything explode or vanish, do queries and keys learn, is attention uniform or "
     "condensed, how deep can it go, what one change helps most, does it hold at other sizes, how "
     "far is this to be trusted. Mean-field theory gives squared norms and correlations of tokens "
     "and squared gradients, layer by layer, from the laws by which weights are drawn.\n"
     "PATH is an architecture file (ARCH.json), a Hugging Face config.json or a folder with one; "
     "--preset NAME takes an architecture by name ('--preset list' shows all).\n"
     "Tables: answers, forward (a row a state), backward (a row a layer), remedies (a row a "
     "change), "
     "grid (--grid), budget (--budget), architecture (--explain), presets. docs/predict.md says "
     "what each number is; "
     "docs/theory/mean_field.md derives them.",
     "rankscope predict --preset gpt2 # the eight answers\n"
     "rankscope predict arch.json --table forward,backward # every layer\n"
     "rankscope predict arch.json --html report.html # a report to read and share\n"
     "rankscope predict arch.json --budget 10M # depth against width\n"
     "rankscope predict config.json --init default --seq-len 512 # a published model\n"
     "rankscope predict --preset post-norm-xavier-18 --fail-on critical --quiet # for scripts",
     init_predict, ask_predict},
    {"train", CLI_TRAIN, "[TASK]", "train a small model while its rank is measured",
     "Trains a sequence model on a task whose answers are known (associative recall, sorting, "
     "memorisation, character models and others) and measures, while it learns, how its weights "
     "and its tokens keep or lose their rank.\n"
     "TASK is a task file (JSON, its name has a dot or a slash), or the name of a task with its "
     "published settings: associative-recall, sorting, convex-hull, memorization, circle, "
     "reversal, mqar, markov, entrywise; or of one that reads your files: char-lm, bpe-lm, mlm, "
     "image, series, tokens. The same settings give the same bits for any --threads, and "
     "behind --resume.\n"
     "Tables: log, ranks, layers, alarms, marks; plan and task (--dry-run). Exit code 3: --fail-on "
     "was met, or --stop-on ended the run.",
     "rankscope train associative-recall --dry-run # what would be trained, and how long\n"
     "rankscope train associative-recall --out run --set optimizer.weight_decay.attention=1 # "
     "decay, and the rank it takes\n"
     "rankscope train associative-recall --out run --resume # go on behind a break\n"
     "rankscope scan run # the heads' ranks at the end",
     init_train, ask_train},
    {"doctor", CLI_DOCTOR, NULL,
     "check this machine: CPU, BLAS kernel and its speed, threads, memory",
     "Shows which vector instructions the processor offers, which kernel OpenBLAS chose, and how "
     "fast matrix multiplication runs beside the measured peak of fused multiply-add. Says what to "
     "do when something is off.",
     "rankscope doctor # before timing anything", init_doctor, ask_doctor},
    {"explain", CLI_EXPLAIN, "[WORD]", "what a word, a finding's code or a column of a table means",
     "WORD is a word of the house (state, mixer, null, floor), the name of a variant, the code of "
     "a "
     "finding or a verdict, or a column of any table; quote it where it has blanks. Says what it "
     "means, the rule or formula that gives it with the option that sets it, which commands and "
     "tables have it, and what to do about it. Without WORD: some "
     "names of each group and how many it has; words, variants, findings, verdicts or columns: "
     "every name of that group; 'all': every entry.\n"
     "Needs no model and no network. Tables: words, or names (without WORD).",
     "rankscope explain # what there is to ask for\n"
     "rankscope explain findings # the codes of all findings\n"
     "rankscope explain 'relative residual' # a word of the house\n"
     "rankscope explain dead_head # a finding: its rule, and what to do\n"
     "rankscope explain effective_rank --json - # a column, in every table that has it",
     init_explain, ask_explain},
};
const size_t cli_n_commands = sizeof cli_commands / sizeof *cli_commands;
