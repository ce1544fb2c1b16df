/* options.c: the commands and options of the program, as data. */
#include "cli/cli.h"

#include <string.h>

/* Of the union, a member of the one command's settings; `call` and `run` are where all have them
 * (checked below). */
#define AT(field) offsetof(cli_args, field)
#define CALL(field) AT(common.call.field)
#define RUN(field) AT(common.run.field)

const cli_option cli_options[] = {
    {"json", "FILE|-", CLI_TEXT, AT(output.json), CLI_ALL, NULL, NULL,
     .help = "Write the whole result as JSON; '-' is standard output, which then carries nothing "
             "else.",
     .letter = 'j'},
    {"csv", "DIR", CLI_TEXT, AT(output.csv), CLI_ALL, NULL, NULL,
     .help = "Write every table as DIR/TABLE.csv; the directory is made if it is not there."},
    {"csv-safe", NULL, CLI_FLAG, AT(output.csv_safe), CLI_ALL, NULL, NULL,
     .help = "With --csv, for files that a spreadsheet opens: text that it would take for a "
             "formula (it "
             "begins with = + - @, tab or return) gets a ' before it. Numbers stay as they are. "
             "The page "
             "of --html does so whenever it saves a table."},
    {"html", "FILE|-", CLI_TEXT, AT(output.html), CLI_ALL, NULL, NULL,
     .help =
         "Write a report that opens in any browser without a network: figures, findings, tables.",
     .letter = 'o'},
    {"svg", "DIR", CLI_TEXT, AT(output.svg), CLI_ALL, NULL, NULL,
     .help =
         "Write every figure as DIR/FIGURE.svg, for papers and browsers; the directory is made if "
         "it is not there."},
    {"png", "DIR", CLI_TEXT, AT(output.png), CLI_ALL, NULL, NULL,
     .help = "Write every figure as DIR/FIGURE.png. No display and no browser is needed, but Cairo "
             "(libcairo2)."},
    {"table", "NAME[,NAME]", CLI_TEXT, AT(output.tables), CLI_ALL, NULL, NULL,
     .help =
         "Show these tables in the terminal ('all' for every one) instead of the summary alone.",
     .names = CLI_TABLES},
    {"columns", "COL[,COL]", CLI_TEXT, AT(output.columns), CLI_ALL, NULL, NULL,
     .help = "Show these columns of the tables in the terminal, in this order; without it, those "
             "that matter most of what fits. Like --sort, --top, --where and --wide it shapes the "
             "tables of --table, or the summary; files hold everything.",
     .names = CLI_COLUMNS},
    {"sort", "COL[:asc]", CLI_TEXT, AT(output.sort), CLI_ALL, NULL, NULL,
     .help = "Show rows sorted by this column, the largest first, or with ':asc' the least; rows "
             "without a value come last.",
     .names = CLI_COLUMNS},
    {"top", "N", CLI_COUNT, AT(output.top), CLI_ALL, "all", NULL,
     .help = "Show the first N rows of each table, once sorted."},
    {"where", "COND[,COND]", CLI_TEXT, AT(output.where), CLI_ALL, NULL, NULL,
     .help = "Show the rows that meet all conditions, such as 'layer=12,product=qk' or "
             "'effective_rank<8': = != < > <= >= on numbers, = and != on texts, yes and no; '-' is "
             "a cell without a value.",
     .names = CLI_COLUMNS},
    {"wide", NULL, CLI_FLAG, AT(output.wide), CLI_ALL, NULL, NULL,
     .help = "Show all columns, on lines as long as they need."},
    {"verbose", NULL, CLI_FLAG, AT(output.verbose), CLI_ALL, NULL, NULL,
     .help = "Say what is left out otherwise: columns that are the same in every row, findings "
             "that are about the run rather than the model."},
    {"spectra", NULL, CLI_FLAG, AT(scan.spectra), CLI_SCAN, NULL, NULL,
     .help = "Add every singular value: column singular_values in tables heads and groups, "
             "plane_norms in "
             "planes."},
    {"matrices", "attention|all|REGEX", CLI_TEXT, AT(scan.matrices), CLI_SCAN, "attention", NULL,
     .help = "Besides the head products, analyse every 2-D weight ('all') or those whose name "
             "matches an "
             "extended regular expression: table matrices, with WeightWatcher's columns by its own "
             "definitions."},
    {"layers", "A-B", CLI_LAYERS, AT(scan.first_layer), CLI_SCAN, "all", NULL,
     .help = "Only layers A to B, counted from 0, both included; a single number is one layer."},
    {"tol", "T", CLI_TOLERANCE, AT(scan.tolerance), CLI_SCAN, "max(rows, cols) x epsilon", NULL,
     .help = "numerical_rank counts singular values above T times the largest. The default's "
             "epsilon is "
             "that of the stored type: float64 for F64, float32 for all others."},
    {"energy", "E[,E...]", CLI_ENERGIES, AT(scan.energies), CLI_SCAN, NULL, NULL,
     .help =
         "Table energy: for each fraction E (0 < E <= 1) of the squared singular values, such as "
         "0.9,0.95,0.99, the rank that keeps it and the parameters saved by factorising there: of "
         "each "
         "stored matrix by itself (always possible), and of each product in the place of its "
         "factors "
         "(column feasible: RoPE or QK-norm between W_Q and W_K forbids it). Table energy_totals: "
         "what either way saves in all, and the better of the two for each pair of factors. Table "
         "costs: the products, the dearest first."},
    {"text", "FILE|-", CLI_TEXTS, AT(scan.texts), CLI_SCAN, NULL, NULL,
     .help =
         "With --energy: run the model on this text ('-' is standard input). What each matrix "
         "reads there weighs its ranks (columns weighted_... of table energy), and the model is "
         "run again with the truncations inside: table compression has the loss that they cost. "
         "May be repeated."},
    {"seq-len", "N", CLI_COUNT, AT(scan.seq_len), CLI_SCAN, "128", NULL,
     .help = "Tokens of a window of --text, special tokens included."},
    {"samples", "N", CLI_COUNT, AT(scan.samples), CLI_SCAN, "all", NULL,
     .help = "Use the first N windows of each --text."},
    {"write", "DIR", CLI_TEXT, AT(scan.write), CLI_SCAN, NULL, NULL,
     .help =
         "With one --energy: write the truncated checkpoint into this folder, which must be new "
         "or empty, in the layout and types of PATH, and its factors in F32 into DIR/factors with "
         "a loader for PyTorch. A GGUF file is measured, not written."},
    {"fold-norms", NULL, CLI_FLAG, AT(scan.fold_norms), CLI_SCAN, NULL, NULL,
     .help =
         "Analyse the products as the model applies them: the gain of the norm before a projection "
         "(and LayerNorm's centring) and QK-norm gains are folded in. Default: the stored weights "
         "alone."},
    {"with-bias", NULL, CLI_FLAG, AT(scan.with_bias), CLI_SCAN, NULL, NULL,
     .help = "Append each projection's bias to its weight as one more input feature."},
    {"map", "FILE.json", CLI_TEXT, AT(scan.map), CLI_SCAN, NULL, NULL,
     .help = "Name the tensors of a model that is not recognised; the format is described in "
             "docs/map.md."},
    {"lenient", NULL, CLI_FLAG, AT(scan.lenient), CLI_SCAN, NULL, NULL,
     .help = "Accept a safetensors file with bytes behind its last tensor (a warning instead of an "
             "error)."},
    {"threshold", "CODE=X[,CODE=X]", CLI_THRESHOLDS, AT(scan.thresholds), CLI_SCAN,
     "qk_low_rank=0.5,ov_low_rank=0.5,dead_head=0.05,decay_equilibrium=0.9, rank_falls=0.2", NULL,
     .help =
         "When a finding is raised: qk_low_rank and ov_low_rank where effective_rank is below X "
         "times "
         "that of random weights of the same shape; dead_head where the norm is below X times the "
         "layer's median; decay_equilibrium where every head's balance_score is above X; "
         "rank_falls where "
         "a layer's rank in a series lost more than the share X of its highest.",
     .codes = "qk_low_rank|ov_low_rank|dead_head|decay_equilibrium|rank_falls"},
    {"layers", "A-B", CLI_LAYERS, AT(compare.first_layer), CLI_COMPARE, "all", NULL,
     .help = "Only layers A to B, counted from 0, both included; a single number is one layer."},
    {"subspace", "K", CLI_COUNT, AT(compare.subspace), CLI_COMPARE,
     "the effective rank of A's product, rounded up", NULL,
     .help = "Compare the K leading singular directions of each product: columns overlap_left and "
             "overlap_right of table heads. At most the lesser numerical rank of the two.",
     .most = 1 << 30},
    {"tol", "T", CLI_TOLERANCE, AT(compare.tolerance), CLI_COMPARE, "max(rows, cols) x epsilon",
     NULL, .help = "As for scan: numerical_rank counts singular values above T times the largest."},
    {"fold-norms", NULL, CLI_FLAG, AT(compare.fold_norms), CLI_COMPARE, NULL, NULL,
     .help = "Compare the products as the models apply them: gains of the norms are folded in, as "
             "'rankscope scan --fold-norms' does."},
    {"with-bias", NULL, CLI_FLAG, AT(compare.with_bias), CLI_COMPARE, NULL, NULL,
     .help = "Append each projection's bias to its weight as one more input feature."},
    {"threshold", "CODE=X[,CODE=X]", CLI_THRESHOLDS, AT(compare.thresholds), CLI_COMPARE,
     "rank_fell=0.2,rank_rose=0.2,turned_away=3, and those of scan", NULL,
     .help = "When a finding is raised: rank_fell and rank_rose where a product's effective rank, "
             "of chance, fell or rose by more than a share X; turned_away where both overlaps are "
             "within X standard deviations of chance. qk_low_rank, ov_low_rank, dead_head and "
             "decay_equilibrium as for scan, of both.",
     .codes = "rank_fell|rank_rose|turned_away|qk_low_rank|ov_low_rank|dead_head|"
              "decay_equilibrium"},
    {"text", "FILE|-", CLI_TEXTS, RUN(texts), CLI_FED, NULL, NULL,
     .help =
         "Feed this text ('-' is standard input): tokenised once and cut into consecutive windows "
         "of --seq-len tokens, with the model's special tokens in each. All whole windows are "
         "used, or the one window that a shorter text leaves. May be repeated: each text has "
         "windows of its own, one text behind the other, and table texts says whose they are."},
    {"tokens", "FILE", CLI_TEXT, RUN(tokens), CLI_FED, NULL, NULL,
     .help = "Feed these token ids: .npy of int32 or int64 [samples, n], or JSON [[id, ...], ...] "
             "whose "
             "rows may differ in length. No id is taken as padding.",
     .once = "put all rows into one file; --text may be repeated"},
    {"images", "FILE.npy", CLI_TEXT, RUN(images), CLI_FED, NULL, NULL,
     .help = "Feed these images: float32 [samples, channels, height, width], normalised as the "
             "model wants "
             "them.",
     .once = "put all images into one file; --text may be repeated"},
    {"states", "FILE", CLI_TEXT, RUN(states), CLI_FED, NULL, NULL,
     .help =
         "Feed these real-valued sequences, such as features of speech or a time series, to the "
         "first block: .npy of float32 or float64 [samples, n, d], or JSON [[[x, ...], ...], "
         "...] whose samples may differ in length. The rows enter as they are, behind all that "
         "the embedding adds, and its norm.",
     .once = "put all samples into one file; --text may be repeated"},
    {"states-as", "first-block|embeddings", CLI_CHOICE, RUN(states_as), CLI_FED, "first-block",
     "first-block|embeddings",
     .help = "Where --states enter. embeddings: in the place of word embeddings, as transformers' "
             "inputs_embeds do, so that positions, token types, the embedding's norm and its "
             "projection are applied; of a network that is fed rows, in front of its map."},
    {"random", "SAMPLES", CLI_COUNT, RUN(random), CLI_FED, NULL, NULL,
     .help = "Feed samples drawn at random: ids by Zipf's law (the i-th of the vocabulary, the "
             "padding id "
             "left out, with probability ~ 1/(i + 2.7)), "
             "pixels from N(0, 1), or what an architecture file's input says."},
    {"seq-len", "N", CLI_COUNT, RUN(seq_len), CLI_FED, "128", NULL,
     .help = "Tokens of a window or of a random sample, special tokens included."},
    {"samples", "N", CLI_COUNT, RUN(samples), CLI_FED, "all", NULL,
     .help = "Use the first N rows of --tokens, --images or --states, or the first N windows of "
             "each --text."},
    {"batch", "N", CLI_COUNT, RUN(batch), CLI_PROBE | CLI_CERTIFY | CLI_COMPARE,
     "as many samples as 4096 tokens hold", NULL,
     .help = "Samples in one pass; fewer by default where their activations would take more than a "
             "sixteenth of the memory. The JSON's run.batch says what was used."},
    {"encoder-states", "FILE.npy", CLI_TEXT, RUN(encoder_states), CLI_FED, NULL, NULL,
     .help = "What cross-attention reads: float32 or float64 [samples, m, d]."},
    {"init", "LAW", CLI_TEXT, RUN(init), CLI_RUNS, NULL, NULL,
     .help = "Random weights instead of a checkpoint's: PATH is then ARCH.json or config.json (or "
             "a folder "
             "with one). LAW is default (what the model's own library does), xavier, orthogonal or "
             "\"normal(0, VARIANCE)\", VARIANCE a formula of fan_in, fan_out, d and L; --seed "
             "picks the "
             "draw."},
    {"variants", "LIST", CLI_TEXT, AT(probe.variants), CLI_PROBE, NULL, NULL,
     .help =
         "Run several models over the same inputs, separated by commas: full as it is; san no skip "
         "around the mixer and no MLP block; san+mlp, san+skip; pure no skip, no MLP, no norm; "
         "dong "
         "for the first four; all; or NAME=option,option with options of this list without dashes "
         "(NAME=no-norm,lambda:0.5).",
     .names = CLI_VARIANTS},
    {"attention-rank", "K|E%[,...]", CLI_TEXT, AT(probe.attention_rank), CLI_PROBE, NULL, NULL,
     .help =
         "Run the model once more for each entry, every head's softmax replaced by its best "
         "approximation of rank K, or of the least rank that keeps E % of its energy: table "
         "attention_ranks, and the verdict says which least one keeps the loss, without a head the "
         "last state, within 1 % (--threshold attention_rank=X). In f32 or f64."},
    {"sweep", "lambda=LOW:HIGH:N[,gate=...,norm=...,kept=A]", CLI_TEXT, AT(probe.sweep), CLI_PROBE,
     NULL, NULL,
     .help =
         "Run the model at N skip strengths from LOW to HIGH, side by side: tables sweep and "
         "sweep_ends. "
         "lambda=mixer:LOW:HIGH:N is about the skips around mixers alone (mlp: around MLPs). "
         "gate=on|off|both: with the gates of gated mixers or without them; norm=on|off|both: "
         "with the norms of blocks or without. Where the weights prove something of a point, the "
         "tables say what it keeps at least; from which size on every λ is proved to keep A "
         "(0.9) of what enters; and what the published equation 7 asks for."},
    {"no-skip", NULL, CLI_EDIT, RUN(edits), CLI_RUNS, NULL, NULL,
     .help = "Take every skip connection away."},
    {"no-mlp", NULL, CLI_EDIT, RUN(edits), CLI_RUNS, NULL, NULL,
     .help = "Take the MLP blocks away, with their norms and skips."},
    {"no-mlp-branch", NULL, CLI_EDIT, RUN(edits), CLI_RUNS, NULL, NULL,
     .help = "The MLP gives 0; its skip and norm stay."},
    {"no-norm", NULL, CLI_EDIT, RUN(edits), CLI_RUNS, NULL, NULL,
     .help = "Take the norms of the blocks away (not the embedding's, not the final one)."},
    {"no-mask", NULL, CLI_EDIT, RUN(edits), CLI_RUNS, NULL, NULL,
     .help = "Every token sees all: causal and sliding masks go."},
    {"no-gate", NULL, CLI_EDIT, RUN(edits), CLI_RUNS, NULL, NULL,
     .help = "Take the gates of gated mixers away; refused for a model without any."},
    {"no-inner-norm", NULL, CLI_EDIT, RUN(edits), CLI_RUNS, NULL, NULL,
     .help =
         "Take the norms inside of mixers away: Mamba-2's beside its gate, those of dt, B and C, "
         "of queries and keys; refused for a model without any."},
    {"norm-placement", "pre|post", CLI_EDIT, RUN(edits), CLI_RUNS, "as the model has it", NULL,
     .help = "Move the norms of blocks: post puts each behind the sum of skip and branch, as the "
             "theory of skip strengths has it; pre before the branch."},
    {"lambda", "[mixer:|mlp:]X[,X...]", CLI_EDIT, RUN(edits), CLI_RUNS, "as the model has it", NULL,
     .help =
         "Skip strength: the state becomes X times itself plus the branch; for all skips, or those "
         "around mixers or MLPs alone; a list has one X a layer. May be repeated."},
    {"residual-scale", "X", CLI_EDIT, RUN(edits), CLI_RUNS, "as the model has it", NULL,
     .help = "Scale of every residual branch: a number or a formula of L (layers) and l (layer, "
             "from 0), "
             "such as 1/sqrt(L)."},
    {"center-attention", NULL, CLI_EDIT, RUN(edits), CLI_RUNS, NULL, NULL,
     .help = "Attention becomes A - U, U uniform over the visible keys (11^T/n; causal 1/i)."},
    {"remove-gap", NULL, CLI_EDIT, RUN(edits), CLI_RUNS, NULL, NULL,
     .help =
         "Remove the spectral gap: attention becomes A - 11^T/n, in encoders the same as "
         "--center-attention; refused for causal attention, where tokens would see what follows."},
    {"uniform-attention", NULL, CLI_EDIT, RUN(edits), CLI_RUNS, NULL, NULL,
     .help = "Attention becomes uniform over the visible keys."},
    {"shaped", "A,B,C", CLI_EDIT, RUN(edits), CLI_RUNS, NULL, NULL,
     .help = "Shaped attention: A I + B P - C U, P the softmax, U uniform over the visible keys."},
    {"attention-rescale", "W", CLI_EDIT, RUN(edits), CLI_RUNS, NULL, NULL,
     .help = "Attention becomes (1 + W) P - W U: what differs from the average is strengthened."},
    {"temperature", "X", CLI_EDIT, RUN(edits), CLI_RUNS, "1", NULL,
     .help = "Attention logits are divided by X; above 1 attention becomes more uniform."},
    {"ablate", "L:H[,L:H...]", CLI_EDIT, RUN(edits), CLI_PROBE | CLI_PATHS, NULL, NULL,
     .help = "Leave head H of layer L out, both from 0: its output map W_O,h becomes 0, biases "
             "stay. In --variants write ablate:L:H. May be repeated."},
    {"depth", "L", CLI_EDIT, RUN(edits), CLI_RUNS, "as the model has it", NULL,
     .help = "Run L layers: more than the model has repeats the stack, as in a looped model."},
    {"fusion", "concat|max|gate", CLI_EDIT, RUN(edits), CLI_PROBE, NULL, NULL,
     .help =
         "One more row in table tokens: the states of all layers read together (untrained "
         "gates weigh "
         "them equally). A model whose head reads them so has the row unasked, by its weights."},
    {"compat", "NAME", CLI_TEXT, AT(probe.compat), CLI_PROBE, NULL, NULL,
     .help = "A paper's own definitions: dong2021-code leaves in the ALBERT variants without MLP "
             "what the "
             "published code left there, LN(gelu(a) + a); mamba2-ungrouped norms Mamba-2's gated "
             "values over all groups at once, as transformers did once."},
    {"residual-centre", "mean|median|lp|graph", CLI_CHOICE, AT(probe.centre), CLI_PROBE, "mean",
     "mean|median|lp|graph",
     .help = "What the residual subtracts from every token: the mean (Frobenius norm, as published "
             "experiments do), or the minimiser of the 1-norm or of the infinity-norm; graph: the "
             "multiple of its node's entry in the right vector of the mixing matrix (the root of "
             "degrees of a symmetric graph), which message passing leaves."},
    {"attention-maps", "L:H[,L:H...]", CLI_MAPS, AT(probe.maps), CLI_PROBE, NULL, NULL,
     .help =
         "Keep the attention matrices of these layers and heads: table and figure attention_maps "
         "(first sample), and in --taps (all samples)."},
    {"taps", "FILE.safetensors", CLI_TEXT, AT(probe.taps), CLI_PROBE, NULL, NULL,
     .help =
         "Store every state: layer.L.block_out and layer.L.mixer_out, [samples, n, d], of variant "
         "full "
         "or else the first. Layer 0 is what enters the first block; mixer_out is what the mixer's "
         "output map gives, bias included, before a norm of that output (Gemma 2 and 3), the "
         "branch's "
         "scale and the skip."},
    {"output", "FILE.safetensors", CLI_TEXT, AT(probe.output), CLI_PROBE, NULL, NULL,
     .help = "Store last_hidden_state (after the final norm), logits where the model has a head, "
             "sentence_embedding where it ships its pooling; of variant full or else the first. "
             "Shorter "
             "samples end in zeros, and attention_mask says where."},
    {"generate", "N", CLI_COUNT, AT(probe.generate), CLI_PROBE, NULL, NULL,
     .help =
         "Continue each sample (of a text: its first window) by N tokens, the most likely each "
         "time: "
         "table generate. At most 4096, and with the sample no more than the model's positions.",
     .most = 4096},
    {"no-spectral", NULL, CLI_FLAG, AT(probe.no_spectral), CLI_PROBE, NULL, NULL,
     .help =
         "Leave out the columns of table tokens that need singular values (the ranks): faster."},
    {"no-attention", NULL, CLI_FLAG, AT(probe.no_attention), CLI_PROBE, NULL, NULL,
     .help = "Leave out table attention, which needs every attention matrix: faster."},
    {"mixing", NULL, CLI_FLAG, AT(probe.mixing), CLI_PROBE, NULL, NULL,
     .help = "Write table mixing of every mixer, softmax attention included. Without it, a model "
             "of such attention alone has no table mixing."},
    {"no-mixing", NULL, CLI_FLAG, AT(probe.no_mixing), CLI_PROBE, NULL, NULL,
     .help = "Leave out table mixing: faster."},
    {"quadratic", NULL, CLI_FLAG, AT(probe.quadratic), CLI_PROBE, NULL, NULL,
     .help = "Measure what costs the square of a sample's length whatever that is: the column "
             "diameter, table attention, and softmax attention in table mixing, which leave out "
             "samples of more than 8192 tokens."},
    {"null", "random", CLI_TEXT, AT(probe.null), CLI_PROBE, "closed forms", NULL,
     .help = "What heads are compared with (columns ..._null of table attention): 'random' runs an "
             "untrained twin, drawn as the model's library draws it (--seed), over the same "
             "inputs. PATH needs a config.json or is ARCH.json."},
    {"no-loss", NULL, CLI_FLAG, AT(paths.no_loss), CLI_PATHS, NULL, NULL,
     .help = "Do not put the model with short paths alone through its head: no loss and no top-1 "
             "agreement "
             "in table truncated, but faster where the vocabulary is large."},
    {"no-loss", NULL, CLI_FLAG, AT(probe.no_loss), CLI_PROBE, NULL, NULL,
     .help = "Leave out table loss, which needs the logits of every token: faster."},
    {"scan", NULL, CLI_FLAG, AT(probe.scan), CLI_PROBE, NULL, NULL,
     .help =
         "Analyse the weights too, as 'rankscope scan' does, into the same result; its summary is "
         "table weights."},
    {"certify", NULL, CLI_FLAG, AT(probe.certify), CLI_PROBE, NULL, NULL,
     .help =
         "Prove bounds too, as 'rankscope certify' does, for the same samples, from the same pass "
         "(a float64 one: f32 gives way) and into the same result; its summary is table "
         "certificate."},
    {"grad", NULL, CLI_FLAG, AT(probe.grad), CLI_PROBE, NULL, NULL,
     .help = "Gradients of every weight: which queries and keys can learn (tables gradients and "
             "gradient_ratios). About three times the time of a pass."},
    {"loss", "auto|lm|mlm|class|random|norm2", CLI_CHOICE, AT(probe.loss), CLI_PROBE, "auto",
     "auto|lm|mlm|class|random|norm2",
     .help =
         "The loss that --grad differentiates: lm the next token, mlm 15 % of the tokens behind "
         "[MASK] (--seed picks them), class the class of --target, each the mean of -ln p; random "
         "<G, X> with G of N(0, 1), norm2 |X|^2/2, X the last state. auto is lm where the head "
         "predicts the next token, else random."},
    {"loss-at", "auto|state|final", CLI_CHOICE, AT(probe.loss_at), CLI_PROBE, "auto",
     "auto|state|final",
     .help = "Where --loss random and norm2 take X: in front of the final norm (state; auto) or "
             "behind it (final)."},
    {"target", "CLASS[,CLASS...]", CLI_TEXT, AT(probe.target), CLI_PROBE, NULL, NULL,
     .help = "Class that --loss class wants of every sample, or one for each: an output of the "
             "head, from 0, at a sample's first token (its last where the head predicts the next "
             "token). With --relevance: the output, such as a token's id, that is explained."},
    {"freeze-attention", NULL, CLI_FLAG, AT(probe.freeze_attention), CLI_PROBE, NULL, NULL,
     .help = "With --grad, take attention's matrices for constants: queries and keys get no "
             "gradient."},
    {"freeze-norm", NULL, CLI_FLAG, AT(probe.freeze_norm), CLI_PROBE, NULL, NULL,
     .help = "With --grad, take what norms divide by for a constant."},
    {"recompute", NULL, CLI_FLAG, AT(probe.recompute), CLI_PROBE, NULL, NULL,
     .help = "With --grad or --relevance, keep the insides of one layer at a time and run each "
             "layer twice: far "
             "less memory, a third more time, the same digits."},
    {"relevance", NULL, CLI_FLAG, AT(probe.relevance), CLI_PROBE, NULL, NULL,
     .help = "What of an output each token is responsible for, by conservative propagation (tables "
             "relevance, conservation, removal): of every sample's largest output, or --target's. "
             "With f32 or f64; samples one by one, three passes forward and back each."},
    {"lenient", NULL, CLI_FLAG, RUN(lenient), CLI_FED, NULL, NULL,
     .help = "Accept a safetensors file with bytes behind its last tensor (a warning instead of an "
             "error)."},
    {"threshold", "CODE=X[,CODE=X]", CLI_THRESHOLDS, AT(probe.thresholds), CLI_PROBE,
     "0.1, 0.5, 0.5, 0.98, 0.05, 0.25, 0.01, 1e-6 and 1e3 in the order below", NULL,
     .help =
         "When a finding is raised: token_collapse where a state's relative residual is below X; "
         "slow_collapse (the verdict) where less than X of what entered leaves the last layer; "
         "attention_sink where the first token gets more than its share of uniform attention and X "
         "of the rest of a head's weight; uniform_attention and condensed_attention where a head's "
         "entropy is above or below X of the most possible; low_rank_attention where its effective "
         "rank is below X of what random logits give; attention_rank (the verdict) where the loss "
         "rises by a share of X at most; vanishing_qk_gradient where the squared "
         "gradient of queries or keys is below X times that of values; gradient_imbalance where "
         "the gradients of the first and last layer are more than X apart.",
     .codes = "token_collapse|slow_collapse|attention_sink|uniform_attention|"
              "condensed_attention|low_rank_attention|attention_rank|vanishing_qk_gradient|"
              "gradient_imbalance"},
    {"max-length", "K", CLI_WHOLE, AT(paths.max_length), CLI_PATHS, "all", NULL,
     .help = "Tell paths of 0 to K heads apart; longer ones are summed together (the identity is "
             "checked "
             "all the same). Less memory and time for deep models.",
     .most = 1 << 30},
    {"paths", "N", CLI_WHOLE, AT(paths.paths), CLI_PATHS, "8", NULL,
     .help =
         "Measure N single paths of each length by themselves, drawn uniformly (all of them where "
         "there are no more; 0: none): table paths, with standard errors and intervals of the "
         "median.",
     .most = 1 << 20},
    {"semantics", "theorem|code", CLI_CHOICE, AT(paths.semantics), CLI_PATHS, "theorem",
     "theorem|code",
     .help =
         "What a path is. theorem: a term P_path X W_path of the decomposition, with the mixing "
         "matrices and norm scales of the full pass. code: what the published code evaluates, a "
         "network of its own with one head a layer, whose attention comes from its own states, and "
         "a "
         "plain LayerNorm behind each; the states of the sampled paths are added up."},
    {"sources", NULL, CLI_FLAG, AT(paths.sources), CLI_PATHS, NULL, NULL,
     .help =
         "Also what the sources of each layer (MLP, biases, cross-attention) become at the output: "
         "table sources."},
    {"lesions", NULL, CLI_FLAG, AT(paths.lesions), CLI_PATHS, NULL, NULL,
     .help =
         "Also run the model without each head, each mixer and each MLP, and without 2, 4, 8 ... "
         "heads drawn at random (8 draws each): loss and last state, table lesions. Layers below "
         "a lesion are not run again."},
    {"text", "FILE|-", CLI_TEXTS, AT(tokenize.texts), CLI_TOKENIZE, NULL, NULL,
     .help = "The text to tokenise; '-' is standard input. Bytes that are not UTF-8 become U+FFFD, "
             "one for each broken part. May be repeated: the tables then say in column text which "
             "text a row is of."},
    {"no-special", NULL, CLI_FLAG, AT(tokenize.no_special), CLI_TOKENIZE, NULL, NULL,
     .help = "Leave out the tokens that the model puts around a text ([CLS], <bos>); those that "
             "the text "
             "spells out are still recognised."},
    {"rigorous", NULL, CLI_FLAG, AT(certify.rigorous), CLI_CERTIFY, "on", NULL,
     .help = "Leave out, null with its reason, every number that hangs on a condition (columns "
             "..._conditional). Mamba and Mamba-2 are evaluated once more for it, the others cost "
             "nothing. It is on unless --fast is given; given, nobody turns it off."},
    {"fast", NULL, CLI_FLAG, AT(certify.fast), CLI_CERTIFY, NULL, NULL,
     .help =
         "Show what hangs on a condition, too, and mark it (columns ..._conditional): such "
         "numbers are not proved. Mamba and Mamba-2 are not evaluated once more; other rounding "
         "is bounded with or without it."},
    {"rigorous", NULL, CLI_FLAG, AT(probe.rigorous), CLI_PROBE, "on", NULL,
     .help = "Leave out, null with its reason, every number that hangs on a condition (columns "
             "..._conditional). Mamba and Mamba-2 are evaluated once more for it, the others cost "
             "nothing. It is on unless --fast is given; given, nobody turns it off."},
    {"fast", NULL, CLI_FLAG, AT(probe.fast), CLI_PROBE, NULL, NULL,
     .help =
         "Show what hangs on a condition, too, and mark it (columns ..._conditional): such "
         "numbers are not proved. Mamba and Mamba-2 are not evaluated once more; other rounding "
         "is bounded with or without it."},
    {"kept", "A", CLI_FRACTION, AT(certify.kept), CLI_CERTIFY, "0.9", NULL,
     .help = "Table lambda: the fraction (0 < A < 1) of the tokens' spread ||X - mean||_F that "
             "each mixer "
             "is to leave."},
    {"recommend", "KEPT", CLI_FRACTION, AT(certify.recommend), CLI_CERTIFY, NULL, NULL,
     .help =
         "Search the smallest change of the mixers' skip strengths, of either sign (one for all, "
         "then one a layer), that leaves at least KEPT (0 < KEPT < 1) of ||X - mean||_F/||X||_F "
         "behind the last layer, check it by a run, and tell its price: tables recommendation, "
         "recommendation_layers."},
    {"steps", "L:H[,L:H...]", CLI_MAPS, AT(certify.steps), CLI_CERTIFY, NULL, NULL,
     .help = "Go through the published proof of the cubic bound line by line on these layers and "
             "heads (counted from 0, at most 64) and what enters them in the first sample: both "
             "sides of each line, those that fail and what repairs them, tables proof and "
             "proof_numbers; --html explains them in plain words."},
    {"model", "PATH[,PATH...]", CLI_TEXT, AT(lab.model), CLI_LAB, NULL, NULL,
     .help =
         "The checkpoint (directory, .safetensors or .gguf file) that lambda-figure-1, -2 and -3 "
         "run in place of random weights, on 32 windows of 128 random token ids (4 with "
         "--quick), to judge what was published of trained models; whose heads kobayashi-fig4 "
         "measures, and whose paths dong-ensembles looks at; for dong-depth-pretrained up to "
         "three: a BERT, an ALBERT, an XLNet."},
    {"text", "FILE", CLI_TEXT, AT(lab.text), CLI_LAB, NULL, NULL,
     .help =
         "With --model: run it on the first 32 windows (4 with --quick) of this text in place of "
         "random token ids."},
    {"data", "PATH[,PATH]", CLI_TEXT, AT(lab.data), CLI_LAB, NULL, NULL,
     .help =
         "Data of your own for experiments that train on some: a text, or images (an .npy array "
         "whose name ends in x.npy, its labels beside it in y.npy), or one of each. Claims "
         "about data that are not there are skipped."},
    {"preset", "NAME", CLI_TEXT, AT(predict.preset), CLI_PREDICT, NULL, NULL,
     .help = "An architecture by name instead of PATH; 'list' shows the names."},
    {"remedies", "best|all|NAME[,NAME]", CLI_TEXT, AT(predict.remedies), CLI_PREDICT, "best", NULL,
     .help =
         "Run these changes of the architecture, one at a time: table remedies, the best first. "
         "best: all "
         "by theory, and the three that it ranks highest by trials; all and names: all of them by "
         "trials. An architecture file alone can be changed."},
    {"trials", "N", CLI_WHOLE, AT(predict.trials), CLI_PREDICT,
     "as many as 3e11 operations hold, 4 to 100", NULL,
     .help =
         "Draw N networks and run them forward and back; 0: theory alone. Where four would take "
         "more than 1e12 operations, a narrower twin with the same variances times fan_in is "
         "drawn instead.",
     .most = 1 << 20},
    {"grid", "FIELD=LOW:HIGH[:N][,...]", CLI_TEXT, AT(predict.grid), CLI_PREDICT, NULL, NULL,
     .help = "The architecture over one or two of its fields: table grid, a phase diagram. "
             "depth=1:128 takes every whole number, branch_mixer=0:2:21 that many, "
             "branch_mixer=log:0.01:1:9 with equal ratios; d_model=64:512:4 is a check of widths: "
             "flat is healthy. 16 --trials a cell unless asked otherwise."},
    {"budget", "PARAMETERS", CLI_AMOUNT, AT(predict.budget), CLI_PREDICT, NULL, NULL,
     .help = "Depth against width: the architecture in shapes of nearly so many parameters (124M, "
             "1.5B), from one wide layer to many narrow ones, the heads as many: table budget. As "
             "many --trials a shape as 3e11 operations hold, at most 16, none where those are "
             "fewer than 4, unless asked otherwise."},
    {"full-size", NULL, CLI_FLAG, AT(predict.full_size), CLI_PREDICT, NULL, NULL,
     .help = "Draw the network itself, however long that takes."},
    {"explain", NULL, CLI_FLAG, AT(predict.explain), CLI_PREDICT, NULL, NULL,
     .help = "Only print the architecture with every field, also those left to their defaults."},
    {"init", "default|measured|LAW", CLI_TEXT, AT(predict.init), CLI_PREDICT,
     "what the architecture says", NULL,
     .help =
         "Laws of the weights: default (what the architecture file, or the model's own library, "
         "says), measured (normal ones of the mean squares in the checkpoint that PATH is), "
         "xavier, orthogonal or \"normal(0, VARIANCE)\" for all maps."},
    {"seq-len", "N", CLI_COUNT, AT(predict.seq_len), CLI_PREDICT, "the architecture's, or 128",
     NULL, .help = "Tokens of a sample."},
    {"loss-at", "auto|state|final", CLI_CHOICE, AT(predict.loss_at), CLI_PREDICT, "auto",
     "auto|state|final",
     .help =
         "Where the loss <G, X>, whose gradients table backward has, reads the states: in front "
         "of the final norm (state; auto) or behind it (final)."},
    {"threshold", "NAME=X[,NAME=X]", CLI_THRESHOLDS, AT(predict.thresholds), CLI_PREDICT,
     "explosion_decades=3,halving=0.5,power_exponent=1.5,doubly_factor=1.5,doubly_below=0.1,"
     "critical_below=0.01,embedding_ratio=100,condensed=0.5",
     NULL, .help = "Where the verdict changes; docs/predict.md says what each is.",
     .codes = "explosion_decades|halving|power_exponent|doubly_factor|doubly_below|critical_below|"
              "embedding_ratio|condensed"},
    {"out", "DIR", CLI_TEXT, AT(training.out), CLI_TRAIN, NULL, NULL,
     .help = "The folder of the run: checkpoints, log.jsonl, run.db; its model.safetensors and "
             "config.json are the newest checkpoint's, which scan, probe and certify open. "
             "Without it nothing is kept."},
    {"resume", NULL, CLI_FLAG, AT(training.resume), CLI_TRAIN, NULL, NULL,
     .help = "Go on from the newest checkpoint in --out: the weights come out bit for bit as "
             "without the break. Refused where the task's settings are others."},
    {"set", "NAME=VALUE", CLI_SETS, AT(training.sets), CLI_TRAIN, NULL, NULL,
     .help = "Set one field of the task, its names joined by dots: 'optimizer.lr=0.01'. Can be "
             "given again."},
    {"dry-run", NULL, CLI_FLAG, AT(training.dry_run), CLI_TRAIN, NULL, NULL,
     .help = "Only say what the run would be: every field of the task, parameters, operations "
             "and memory of a step, and the time that all steps would take."},
    {"show-loader", NULL, CLI_FLAG, AT(show_loader), CLI_TRAIN, NULL, NULL,
     .help =
         "Only print a program in Python that needs PyTorch alone and computes the outputs of a "
         "trained folder: python loader.py DIR ID...; of the task's mixers, without TASK of "
         "all."},
    {"stop-on", "CODE[,CODE]", CLI_TEXT, AT(training.stop_on), CLI_TRAIN, NULL, NULL,
     .help = "End the run, behind a checkpoint and with exit code 3, when one of these alarms "
             "rings."},
    {"quick", NULL, CLI_FLAG, AT(lab.quick), CLI_LAB, NULL, NULL,
     .help = "Fewer repetitions and shorter runs; the result says what was left out."},
    {"seeds", "N", CLI_COUNT, AT(lab.seeds), CLI_LAB, "all", NULL,
     .help = "Of experiments that train over several seeds, run the first N alone; one seed shows "
             "no order."},
    {"db", "FILE", CLI_TEXT, AT(lab.db), CLI_LAB, NULL, NULL,
     .help = "Keep every finished run of experiments of many training runs (such as "
             "noci-table1-small, gap-training, dong-sorting) in this SQLite file, and take those "
             "that it has instead of training again: what was killed goes on where it was."},
    {"threads", "N", CLI_THREADS, CALL(threads), CLI_ALL, "all cores, at most 64", NULL,
     .help = "Number of threads."},
    {"memory", "SIZE", CLI_BYTES, CALL(memory), CLI_SCAN | CLI_FED | CLI_TRAIN | CLI_PREDICT,
     "the smaller of the control group's limit and what the machine has available", NULL,
     .help = "Memory that the run may take, such as 512M or 8GiB (K, M, G, T are powers of 1024). "
             "What it "
             "will hold is added up at the start, and a run that needs more is refused."},
    {"seed", "N", CLI_SEED, CALL(seed), CLI_ALL, "0", NULL,
     .help = "Seed of every random draw (the baselines by chance; of train the task's own seed, "
             "unless --set seed is given); the same for any number of threads."},
    {"precision", "f32|f64|residual", CLI_CHOICE, AT(scan.precision), CLI_SCAN, "f32",
     "f32|f64|residual",
     .help = "Arithmetic of the passes over --text. Weights are measured in float64 whatever is "
             "asked, and so are sums over tokens.",
     .refusal = {"residual", "scan works in float64, and its passes over --text in f32 or f64",
                 "leave it out"}},
    {"precision", "f64", CLI_CHOICE, AT(no_choice), CLI_CERTIFY, "f64", "f64",
     .help = "Arithmetic of the forward pass: certificates need float64."},
    {"precision", "f32|f64|residual", CLI_CHOICE, AT(probe.precision), CLI_PROBE, "f32",
     "f32|f64|residual",
     .help =
         "Arithmetic of the forward pass. f64 computes everything in float64; residual too, and "
         "carries what tells tokens apart by itself, with an exponent of its own: collapse is then "
         "measured "
         "to any depth, where the other two end in rounding (columns log10_...)."},
    {"precision", "f64", CLI_CHOICE, AT(no_choice), CLI_PATHS, "f64", "f32|f64|residual",
     .help = "Arithmetic: float64 alone.",
     .refusal = {"f32|residual",
                 "paths are summed in float64 alone: their sum must be the output to 1e-10",
                 "leave it out"}},
    {"progress", "auto|always|never", CLI_CHOICE, AT(progress), CLI_ALL, "auto",
     "auto|always|never",
     .help = "A progress bar on standard error; auto shows it on a terminal for work of over two "
             "seconds."},
    {"color", "auto|always|never", CLI_CHOICE, AT(color), CLI_ALL, "auto", "auto|always|never",
     .help = "Colours in the terminal table; auto means on a terminal, unless NO_COLOR is set."},
    {"fail-on", "none|warn|critical", CLI_CHOICE, AT(fail_on), CLI_ALL, "none",
     "none|warn|critical",
     .help = "Exit with 3 when a finding is at least that severe: for scripts that watch a "
             "training run."},
    {"quiet", NULL, CLI_FLAG, AT(quiet), CLI_ALL, NULL, NULL,
     .help = "Print no table and no progress; files are still written.", .letter = 'q'},
    {"help", NULL, CLI_FLAG, AT(help), CLI_ALL, NULL, NULL, .help = "Show this text.",
     .letter = 'h'},
    {"version", NULL, CLI_FLAG, AT(version), CLI_ALL, NULL, NULL, .help = "Show the version.",
     .letter = 'V'},
};
const size_t cli_n_options = sizeof cli_options / sizeof *cli_options;
_Static_assert(sizeof cli_options / sizeof *cli_options <= CLI_MOST_OPTIONS,
               "cli_args.given has a place for each row");

/* CALL and RUN of `common` are those of every command. */
#define SAME_CALL(command)                                                                         \
    _Static_assert(AT(command.call) == AT(common.call) && AT(command.size) == AT(common.size),     \
                   #command " has `call` where the others have it")
#define SAME_RUN(command)                                                                          \
    SAME_CALL(command);                                                                            \
    _Static_assert(AT(command.run) == AT(common.run), #command " has `run` where it should")
SAME_CALL(scan);
SAME_RUN(probe);
SAME_RUN(certify);
SAME_RUN(paths);
SAME_RUN(compare);
SAME_CALL(tokenize);
SAME_CALL(lab);
SAME_CALL(training);
SAME_CALL(predict);
SAME_CALL(doctor);
SAME_CALL(explain);
