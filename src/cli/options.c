/* options.c: the commands and options of the program, as data. */
#include "cli/cli.h"

#include "base/text.h"

#include <string.h>

#define AT(field) offsetof(cli_args, field)

const cli_option cli_options[] = {
    {"json", "FILE|-", CLI_TEXT, AT(json), CLI_ALL, NULL, NULL,
     "Write the whole result as JSON; '-' is standard output, which then carries nothing else."},
    {"csv", "DIR", CLI_TEXT, AT(csv), CLI_ALL, NULL, NULL,
     "Write every table as DIR/TABLE.csv; the directory is made if it is not there."},
    {"csv-safe", NULL, CLI_FLAG, AT(csv_safe), CLI_ALL, NULL, NULL,
     "With --csv, for files that a spreadsheet opens: text that it would take for a formula (it "
     "begins with = + - @, tab or return) gets a ' before it. Numbers stay as they are. The page "
     "of --html does so whenever it saves a table."},
    {"html", "FILE|-", CLI_TEXT, AT(html), CLI_ALL, NULL, NULL,
     "Write a report that opens in any browser without a network: figures, findings, tables."},
    {"table", "NAME[,NAME]", CLI_TEXT, AT(tables), CLI_ALL, NULL, NULL,
     "Show these tables in the terminal ('all' for every one) instead of the summary alone."},
    {"spectra", NULL, CLI_FLAG, AT(spectra), CLI_SCAN, NULL, NULL,
     "Add every singular value: column singular_values in tables heads and groups, plane_norms in "
     "planes."},
    {"matrices", "attention|all|REGEX", CLI_TEXT, AT(matrices), CLI_SCAN, "attention", NULL,
     "Besides the head products, analyse every 2-D weight ('all') or those whose name matches an "
     "extended regular expression: table matrices, with WeightWatcher's columns by its own "
     "definitions."},
    {"layers", "A-B", CLI_TEXT, AT(layers), CLI_SCAN, "all", NULL,
     "Only layers A to B, counted from 0, both included; a single number is one layer."},
    {"tol", "T", CLI_TEXT, AT(tol), CLI_SCAN, "max(rows, cols) x epsilon", NULL,
     "numerical_rank counts singular values above T times the largest. The default's epsilon is "
     "that of the stored type: float64 for F64, float32 for all others."},
    {"energy", "E[,E...]", CLI_TEXT, AT(energy), CLI_SCAN, NULL, NULL,
     "Table energy: for each fraction E (0 < E <= 1) of the squared singular values, such as "
     "0.9,0.95,0.99, the rank that keeps it and the parameters saved by factorising there: of each "
     "stored matrix by itself (always possible), and of each product in the place of its factors "
     "(column feasible: RoPE or QK-norm between W_Q and W_K forbids it). Table energy_totals: "
     "what either way saves in all."},
    {"fold-norms", NULL, CLI_FLAG, AT(fold_norms), CLI_SCAN, NULL, NULL,
     "Analyse the products as the model applies them: the gain of the norm before a projection "
     "(and LayerNorm's centring) and QK-norm gains are folded in. Default: the stored weights "
     "alone."},
    {"with-bias", NULL, CLI_FLAG, AT(with_bias), CLI_SCAN, NULL, NULL,
     "Append each projection's bias to its weight as one more input feature."},
    {"map", "FILE.json", CLI_TEXT, AT(map), CLI_SCAN, NULL, NULL,
     "Name the tensors of a model that is not recognised; the format is described in docs/map.md."},
    {"lenient", NULL, CLI_FLAG, AT(lenient), CLI_SCAN, NULL, NULL,
     "Accept a safetensors file with bytes behind its last tensor (a warning instead of an "
     "error)."},
    {"threshold", "CODE=X[,CODE=X]", CLI_TEXT, AT(threshold), CLI_SCAN,
     "qk_low_rank=0.5,ov_low_rank=0.5,dead_head=0.05,decay_equilibrium=0.9", NULL,
     "When a finding is raised: qk_low_rank and ov_low_rank where effective_rank is below X times "
     "that of random weights of the same shape; dead_head where the norm is below X times the "
     "layer's median; decay_equilibrium where every head's balance_score is above X."},
    {"text", "FILE", CLI_TEXT, AT(text), CLI_RUNS, NULL, NULL,
     "Feed this text: tokenised once and cut into consecutive windows of --seq-len tokens, with "
     "the model's special tokens in each. All whole windows are used, or the one window that a "
     "shorter text leaves."},
    {"tokens", "FILE", CLI_TEXT, AT(tokens), CLI_RUNS, NULL, NULL,
     "Feed these token ids: .npy of int32 or int64 [samples, n], or JSON [[id, ...], ...] whose "
     "rows may differ in length. No id is taken as padding."},
    {"images", "FILE.npy", CLI_TEXT, AT(images), CLI_RUNS, NULL, NULL,
     "Feed these images: float32 [samples, channels, height, width], normalised as the model wants "
     "them."},
    {"random", "SAMPLES", CLI_COUNT, AT(random), CLI_RUNS, NULL, NULL,
     "Feed samples drawn at random: ids by Zipf's law (the i-th of the vocabulary, the padding id "
     "left out, with probability ~ 1/(i + 2.7)), "
     "pixels from N(0, 1), or what an architecture file's input says."},
    {"seq-len", "N", CLI_COUNT, AT(seq_len), CLI_RUNS, "128", NULL,
     "Tokens of a window or of a random sample, special tokens included."},
    {"samples", "N", CLI_COUNT, AT(samples), CLI_RUNS, "all", NULL,
     "Use the first N rows of --tokens or --images, or the first N windows of --text."},
    {"batch", "N", CLI_COUNT, AT(batch), CLI_PROBE | CLI_CERTIFY,
     "as many samples as 4096 tokens hold", NULL,
     "Samples in one pass; fewer by default where their activations would take more than a "
     "sixteenth of the memory. The JSON's run.batch says what was used."},
    {"encoder-states", "FILE.npy", CLI_TEXT, AT(encoder_states), CLI_RUNS, NULL, NULL,
     "What cross-attention reads: float32 or float64 [samples, m, d]."},
    {"init", "LAW", CLI_TEXT, AT(init), CLI_RUNS, NULL, NULL,
     "Random weights instead of a checkpoint's: PATH is then ARCH.json or config.json (or a folder "
     "with one). LAW is default (what the model's own library does), xavier, orthogonal or "
     "\"normal(0, VARIANCE)\", VARIANCE a formula of fan_in, fan_out, d and L; --seed picks the "
     "draw."},
    {"variants", "LIST", CLI_TEXT, AT(variants), CLI_PROBE, NULL, NULL,
     "Run several models over the same inputs, separated by commas: full as it is; san no skip "
     "around the mixer and no MLP block; san+mlp, san+skip; pure no skip, no MLP, no norm; dong "
     "for the first four; all; or NAME=option,option with options of this list without dashes "
     "(NAME=no-norm,lambda:0.5)."},
    {"no-skip", NULL, CLI_EDIT, 0, CLI_RUNS, NULL, NULL, "Take every skip connection away."},
    {"no-mlp", NULL, CLI_EDIT, 0, CLI_RUNS, NULL, NULL,
     "Take the MLP blocks away, with their norms and skips."},
    {"no-mlp-branch", NULL, CLI_EDIT, 0, CLI_RUNS, NULL, NULL,
     "The MLP gives 0; its skip and norm stay."},
    {"no-norm", NULL, CLI_EDIT, 0, CLI_RUNS, NULL, NULL,
     "Take the norms of the blocks away (not the embedding's, not the final one)."},
    {"no-mask", NULL, CLI_EDIT, 0, CLI_RUNS, NULL, NULL,
     "Every token sees all: causal and sliding masks go."},
    {"no-gate", NULL, CLI_EDIT, 0, CLI_RUNS, NULL, NULL,
     "Take the gates of gated mixers away; refused for a model without any."},
    {"lambda", "[mixer:|mlp:]X[,X...]", CLI_EDIT, 0, CLI_RUNS, "as the model has it", NULL,
     "Skip strength: the state becomes X times itself plus the branch; for all skips, or those "
     "around mixers or MLPs alone; a list has one X a layer. May be repeated."},
    {"residual-scale", "X", CLI_EDIT, 0, CLI_RUNS, "as the model has it", NULL,
     "Scale of every residual branch: a number or a formula of L (layers) and l (layer, from 0), "
     "such as 1/sqrt(L)."},
    {"center-attention", NULL, CLI_EDIT, 0, CLI_RUNS, NULL, NULL,
     "Attention becomes A - U, U uniform over the visible keys (11^T/n; causal 1/i)."},
    {"remove-gap", NULL, CLI_EDIT, 0, CLI_RUNS, NULL, NULL,
     "Remove the spectral gap: the direction that attention averages onto is taken out."},
    {"uniform-attention", NULL, CLI_EDIT, 0, CLI_RUNS, NULL, NULL,
     "Attention becomes uniform over the visible keys."},
    {"shaped", "A,B,C", CLI_EDIT, 0, CLI_RUNS, NULL, NULL,
     "Shaped attention: A I + B P - C U, P the softmax, U uniform over the visible keys."},
    {"attention-rescale", "W", CLI_EDIT, 0, CLI_RUNS, NULL, NULL,
     "Attention becomes (1 + W) P - W U: what differs from the average is strengthened."},
    {"temperature", "X", CLI_EDIT, 0, CLI_RUNS, "1", NULL,
     "Attention logits are divided by X; above 1 attention becomes more uniform."},
    {"depth", "L", CLI_EDIT, 0, CLI_RUNS, "as the model has it", NULL,
     "Run L layers: more than the model has repeats the stack, as in a looped model."},
    {"fusion", "concat|max|gate", CLI_EDIT, 0, CLI_PROBE, NULL, NULL,
     "One more row in table tokens: the states of all layers read together (untrained gates weigh "
     "them equally)."},
    {"compat", "NAME", CLI_TEXT, AT(compat), CLI_PROBE, NULL, NULL,
     "A paper's own definitions: dong2021-code leaves in the ALBERT variants without MLP what the "
     "published code left there, LN(gelu(a) + a)."},
    {"residual-centre", "mean|median|lp", CLI_CHOICE, AT(centre), CLI_PROBE, "mean",
     "mean|median|lp",
     "What the residual subtracts from every token: the mean (Frobenius norm, as published "
     "experiments do), or the minimiser of the 1-norm or of the infinity-norm."},
    {"attention-maps", "L:H[,L:H...]", CLI_TEXT, AT(attention_maps), CLI_PROBE, NULL, NULL,
     "Keep the attention matrices of these layers and heads: table and figure attention_maps "
     "(first sample), and in --taps (all samples)."},
    {"taps", "FILE.safetensors", CLI_TEXT, AT(taps), CLI_PROBE, NULL, NULL,
     "Store every state: layer.L.block_out and layer.L.mixer_out, [samples, n, d], of variant full "
     "or else the first. Layer 0 is what enters the first block; mixer_out is what the mixer's "
     "output map gives, bias included, before a norm of that output (Gemma 2 and 3), the branch's "
     "scale and the skip."},
    {"output", "FILE.safetensors", CLI_TEXT, AT(output), CLI_PROBE, NULL, NULL,
     "Store last_hidden_state (after the final norm), logits where the model has a head, "
     "sentence_embedding where it ships its pooling; of variant full or else the first. Shorter "
     "samples end in zeros, and attention_mask says where."},
    {"generate", "N", CLI_COUNT, AT(generate), CLI_PROBE, NULL, NULL,
     "Continue each sample (of a text: its first window) by N tokens, the most likely each time: "
     "table generate. At most 4096, and with the sample no more than the model's positions."},
    {"no-spectral", NULL, CLI_FLAG, AT(no_spectral), CLI_PROBE, NULL, NULL,
     "Leave out the columns of table tokens that need singular values (the ranks): faster."},
    {"no-attention", NULL, CLI_FLAG, AT(no_attention), CLI_PROBE, NULL, NULL,
     "Leave out table attention, which needs every attention matrix: faster."},
    {"no-loss", NULL, CLI_FLAG, AT(no_loss), CLI_PATHS, NULL, NULL,
     "Do not put the model with short paths alone through its head: no loss and no top-1 agreement "
     "in table truncated, but faster where the vocabulary is large."},
    {"no-loss", NULL, CLI_FLAG, AT(no_loss), CLI_PROBE, NULL, NULL,
     "Leave out table loss, which needs the logits of every token: faster."},
    {"scan", NULL, CLI_FLAG, AT(scan_too), CLI_PROBE, NULL, NULL,
     "Analyse the weights too, as 'rankscope scan' does, into the same result; its summary is "
     "table weights."},
    {"certify", NULL, CLI_FLAG, AT(certify_too), CLI_PROBE, NULL, NULL,
     "Prove bounds too, as 'rankscope certify' does, for the same samples, from the same pass (a "
     "float64 one: f32 gives way) and into the same result; its summary is table certificate. "
     "--rigorous leaves out what hangs on a condition."},
    {"grad", NULL, CLI_FLAG, AT(grad), CLI_PROBE, NULL, NULL,
     "Gradients of the query and key weights; there is no backward pass yet, so it is refused."},
    {"lenient", NULL, CLI_FLAG, AT(lenient), CLI_RUNS, NULL, NULL,
     "Accept a safetensors file with bytes behind its last tensor (a warning instead of an "
     "error)."},
    {"threshold", "CODE=X[,CODE=X]", CLI_TEXT, AT(threshold), CLI_PROBE,
     "0.1, 0.5, 0.98 and 0.05 in the order below", NULL,
     "When a finding is raised: token_collapse where a state's relative residual is below X; "
     "attention_sink where the first token gets more than X of a head's weight; uniform_attention "
     "and condensed_attention where a head's entropy is above or below X of the most possible."},
    {"max-length", "K", CLI_TEXT, AT(max_length), CLI_PATHS, "all", NULL,
     "Tell paths of 0 to K heads apart; longer ones are summed together (the identity is checked "
     "all the same). Less memory and time for deep models."},
    {"paths", "N", CLI_TEXT, AT(paths), CLI_PATHS, "8", NULL,
     "Measure N single paths of each length by themselves, drawn uniformly (all of them where "
     "there are no more; 0: none): table paths, with standard errors and intervals of the median."},
    {"semantics", "theorem|code", CLI_CHOICE, AT(semantics), CLI_PATHS, "theorem", "theorem|code",
     "What a path is. theorem: a term P_path X W_path of the decomposition, with the mixing "
     "matrices and norm scales of the full pass. code: what the published code evaluates, a "
     "network of its own with one head a layer, whose attention comes from its own states, and a "
     "plain LayerNorm behind each; the states of the sampled paths are added up."},
    {"sources", NULL, CLI_FLAG, AT(sources), CLI_PATHS, NULL, NULL,
     "Also what the sources of each layer (MLP, biases, cross-attention) become at the output: "
     "table sources."},
    {"text", "FILE", CLI_TEXT, AT(text), CLI_TOKENIZE, NULL, NULL,
     "The text to tokenise. Bytes that are not UTF-8 become U+FFFD, one for each broken part."},
    {"no-special", NULL, CLI_FLAG, AT(no_special), CLI_TOKENIZE, NULL, NULL,
     "Leave out the tokens that the model puts around a text ([CLS], <bos>); those that the text "
     "spells out are still recognised."},
    {"rigorous", NULL, CLI_FLAG, AT(rigorous), CLI_CERTIFY | CLI_PROBE, NULL, NULL,
     "Leave out, null with its reason, every number that hangs on a condition (columns "
     "..._conditional). Rounding is bounded with or without it: proved error bounds for matrices, "
     "ball arithmetic for what follows from them."},
    {"kept", "A", CLI_TEXT, AT(kept), CLI_CERTIFY, "0.9", NULL,
     "Table lambda: the fraction (0 < A < 1) of the tokens' spread ||X - mean||_F that each mixer "
     "is to leave."},
    {"quick", NULL, CLI_FLAG, AT(quick), CLI_LAB, NULL, NULL,
     "Fewer repetitions and shorter runs; the result says what was left out."},
    {"threads", "N", CLI_NUMBER, AT(threads), CLI_ALL, "all cores, at most 64", NULL,
     "Number of threads."},
    {"memory", "SIZE", CLI_TEXT, AT(memory), CLI_SCAN | CLI_RUNS,
     "the smaller of the control group's limit and what the machine has available", NULL,
     "Memory that the run may take, such as 512M or 8GiB (K, M, G, T are powers of 1024). What it "
     "will hold is added up at the start, and a run that needs more is refused."},
    {"seed", "N", CLI_NUMBER, AT(seed), CLI_ALL, "0", NULL,
     "Seed of every random draw (the baselines by chance); the same for any number of threads."},
    {"precision", "f32|f64|residual", CLI_CHOICE, AT(precision), CLI_SCAN, "f64",
     "f32|f64|residual",
     "Arithmetic of forward passes. scan has none: it accumulates in float64 whatever is asked, "
     "and refuses residual."},
    {"precision", "f64", CLI_CHOICE, AT(precision), CLI_CERTIFY, "f64", "f64",
     "Arithmetic of the forward pass: certificates need float64."},
    {"precision", "f32|f64|residual", CLI_CHOICE, AT(precision), CLI_PROBE, "f32",
     "f32|f64|residual",
     "Arithmetic of the forward pass. f64 computes everything in float64; residual too, and "
     "carries what tells tokens apart by itself, with an exponent of its own: collapse is then "
     "measured "
     "to any depth, where the other two end in rounding (columns log10_...)."},
    {"precision", "f64", CLI_CHOICE, AT(precision), CLI_PATHS, "f64", "f32|f64|residual",
     "Arithmetic: float64 alone."},
    {"progress", "auto|always|never", CLI_CHOICE, AT(progress), CLI_ALL, "auto",
     "auto|always|never",
     "A progress bar on standard error; auto shows it on a terminal for work of over two seconds."},
    {"color", "auto|always|never", CLI_CHOICE, AT(color), CLI_ALL, "auto", "auto|always|never",
     "Colours in the terminal table; auto means on a terminal, unless NO_COLOR is set."},
    {"fail-on", "none|warn|critical", CLI_CHOICE, AT(fail_on), CLI_ALL, "none",
     "none|warn|critical",
     "Exit with 3 when a finding is at least that severe: for scripts that watch a training run."},
    {"quiet", NULL, CLI_FLAG, AT(quiet), CLI_ALL, NULL, NULL,
     "Print no table and no progress; files are still written."},
    {"help", NULL, CLI_FLAG, AT(help), CLI_ALL, NULL, NULL, "Show this text."},
    {"version", NULL, CLI_FLAG, AT(version), CLI_ALL, NULL, NULL, "Show the version."},
};
const size_t cli_n_options = sizeof cli_options / sizeof *cli_options;

const cli_command cli_commands[] = {
    {"scan", CLI_SCAN, "PATH",
     "rank health of a checkpoint's weights: every head's QK and OV spectrum",
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
     "Tables: summary, layers, heads, groups (grouped queries), planes (RoPE), energy and "
     "energy_totals "
     "(--energy), matrices (--matrices), tensors, "
     "and the data of the figures: spectra, balance.",
     "rankscope scan ~/models/llama --html report.html # a report to read and share\n"
     "rankscope scan model.gguf --table layers # mean, least and largest of every measure by "
     "layer\n"
     "rankscope scan . --json - | jq '.tables.heads[].effective_rank' # for scripts\n"
     "rankscope scan ckpt --fail-on warn --quiet # exit code 3 when heads have lost rank\n"
     "rankscope scan . --matrices all --csv out # every weight, beside WeightWatcher's columns",
     "summary|layers|heads|groups|planes|energy|energy_totals|matrices|tensors|spectra|balance",
     cli_scan},
    {"probe", CLI_PROBE, "PATH",
     "run a model and watch its tokens: do they collapse, where, what holds them apart",
     "Runs a model forward over a text, token ids, images or random inputs and measures, state by "
     "state, how far apart the tokens still are, and for each head how its attention mixes them. "
     "Takes parts of the model away (skips, MLPs, norms, masks) or changes them, and compares the "
     "variants over the same inputs.\n"
     "PATH is a Hugging Face directory, one .safetensors file beside its config.json, or a .gguf "
     "file; with --init also a config.json or an architecture file, whose weights are then drawn "
     "at random.\n"
     "Tables: summary, tokens, attention, loss (language models on --text or --tokens), generate, "
     "attention_maps; with --scan those of scan, its summary as weights. Layers and heads count "
     "from 0; in table tokens, layer 0 is what enters the first block.",
     "rankscope probe minilm/ --text page.txt --variants dong --html report.html # what holds the "
     "tokens apart?\n"
     "rankscope probe model.gguf --text page.txt --table loss # perplexity, and the tokens by "
     "layer\n"
     "rankscope probe config.json --init default --random 8 --variants all # a model before "
     "training\n"
     "rankscope probe . --tokens ids.npy --output out.safetensors # compare with a reference\n"
     "rankscope probe . --text page.txt --variants full,half=lambda:0.5 --json - # for scripts",
     ""
     ""
     "summary|tokens|attention|loss|generate|attention_maps|weights|layers|heads|groups|planes|"
     "tensors|spectra|balance|certificate|bounds|chains|lambda|intervals",
     cli_probe},
    {"certify", CLI_CERTIFY, "PATH",
     "prove what a model's layers do to these tokens: collapse, or staying apart",
     "Runs a model forward in float64 over a text, token ids, images or random inputs and proves, "
     "for each sample and layer, upper and lower bounds of how far apart the tokens are behind it; "
     "from the input and from every measured state on (measure until small, then certify). Beside "
     "them stand the published bounds with the hypothesis that fails, the leading-order prediction "
     "of the next residual matrix, the law by which the tokens collapse, and the skip strengths "
     "that would keep them apart.\n"
     "PATH is what 'rankscope probe' takes; options that edit the model work as there, for the one "
     "model that is certified.\n"
     "Tables: summary, one row a layer; bounds and lambda, one row a sample and layer; chains; "
     "intervals of lambda. "
     "Every column says whether it is measured, predicted, certified or published. Layers count "
     "from 0. docs/certificates.md derives every certified statement.",
     "rankscope certify ~/models/minilm --text page.txt # which layers provably stay apart?\n"
     "rankscope certify minilm/ --text page.txt --rigorous --html report.html # nothing that "
     "hangs on a condition\n"
     "rankscope certify config.json --init default --random 1 --no-skip --no-mlp # proves doubly "
     "exponential collapse: see table chains\n"
     "rankscope certify . --tokens ids.npy --json - | jq '.tables.lambda[]' # for scripts",
     "summary|bounds|chains|lambda|intervals", cli_certify},
    {"paths", CLI_PATHS, "PATH",
     "the output as a sum over paths through the heads: which lengths make it",
     "Every path takes, at each attention, one head or the skip; its length is the number of "
     "heads. "
     "With the attention matrices and norm scales of the full pass, the last state is exactly the "
     "sum over all paths of P_path X W_path and of what MLP outputs and biases become on their way "
     "up; that is checked on every run to 1e-10. The sums over all paths of a length come from "
     "dynamic programming over the layers.\n"
     "PATH is a Hugging Face directory, one .safetensors file beside its config.json, or a .gguf "
     "file; with --init also a config.json or an architecture file.\n"
     "Tables: summary, lengths (what each length adds), truncated (the model with short paths "
     "alone: loss and agreement), paths (single paths), sources (--sources), combined (--semantics "
     "code).",
     "rankscope paths ~/models/minilm --text page.txt --samples 4 # which path lengths matter?\n"
     "rankscope paths model.gguf --text page.txt --samples 1 --table truncated # loss against "
     "length\n"
     "rankscope paths . --tokens ids.npy --max-length 6 --paths 100 --csv out # error bars\n"
     "rankscope paths . --text page.txt --semantics code # as the published code evaluates paths",
     "summary|lengths|truncated|paths|sources|combined", cli_paths},
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
     "ids|summary", cli_tokenize},
    {"lab", CLI_LAB, "list|run ID",
     "published figures and tables done again: claimed, measured, verdict",
     "'lab list' shows the experiments; 'lab run ID' does one, 'lab run all' all of them. Each "
     "sets "
     "what a paper printed beside what an independent calculation expects and what this run "
     "measures. A verdict is pass, differs_from_paper (as expected, but not as published), or "
     "fail.\n"
     "Tables: claims, one row a claim, and for each experiment its own data; experiments (lab "
     "list).",
     "rankscope lab list # what there is\n"
     "rankscope lab run dong-depth-init --html report.html # BERT at initialisation, a minute\n"
     "rankscope lab run dong-paths # the path decomposition\n"
     "rankscope lab run all --quick --fail-on critical # exit code 3 when a claim fails",
     "claims|experiments|dong_depth_init|dong_paths", cli_lab},
    {"doctor", CLI_DOCTOR, NULL,
     "check this machine: CPU, BLAS kernel and its speed, threads, memory",
     "Shows which vector instructions the processor offers, which kernel OpenBLAS chose, and how "
     "fast matrix multiplication runs beside the measured peak of fused multiply-add. Says what to "
     "do when something is off.",
     "rankscope doctor # before timing anything", "machine|speed", cli_doctor},
};
const size_t cli_n_commands = sizeof cli_commands / sizeof *cli_commands;

const cli_command *cli_find_command(const char *name)
{
    for (size_t i = 0; i < cli_n_commands; i++)
        if (strcmp(cli_commands[i].name, name) == 0) return &cli_commands[i];
    return NULL;
}

const char *cli_nearest_command(const char *name)
{
    for (size_t i = 0; i < cli_n_commands; i++)
        if (rs_edit_distance(name, cli_commands[i].name) <= 2) return cli_commands[i].name;
    return NULL;
}
