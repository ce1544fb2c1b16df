/* words_runs.c: variants, and the codes of findings about a model that runs. */
#include "report/words_lists.h"

#define RS_CODES RS_WORD_FINDING

#define VARIANT(name_, meaning_, rule_)                                                            \
    {                                                                                              \
        .name = name_, .kind = RS_WORD_VARIANT, .commands = "probe|certify|paths",                 \
        .see = "docs/probe.md", .meaning = meaning_, .rule = rule_                                 \
    }

static const rs_word variants[] = {
    VARIANT("full", "The model as it is.", NULL),
    VARIANT("san",
            "Self-attention alone: no skip around the mixer and no MLP block (its norm goes with "
            "it); the mixer's norm stays. The network that Dong et al. 2021 measured.",
            "X ← norm(mixer(X))"),
    VARIANT("san+mlp", "san with the MLP block and its own skip.", NULL),
    VARIANT("san+skip", "san with the skip around the mixer.", "X ← norm(X + mixer(X))"),
    VARIANT("pure",
            "The bare map of the theorem: no skip, no MLP, no norm. Only here does the doubly "
            "exponential law speak of the model itself.",
            "X ← Σ_h P_h X W_h + 1bᵀ"),
    VARIANT("dong",
            "--variants dong runs full, san, san+mlp and san+skip: together they say which "
            "part holds the tokens apart.",
            NULL),
};

static const rs_word tokens[] = {
    PROBE("residual_summary", "info", "a sentence a variant: which layer loses how much", "always",
          NULL),
    PROBE("component_summary", "info",
          "which part holds the tokens apart, in a sentence; table components has the numbers",
          "san was run, and san+skip or san+mlp", NULL),
    PROBE("variant_summary", "info", "a variant of your own beside full", "one was run", NULL),
    PROBE("token_collapse", "warn, critical, info",
          "the tokens are nearly equal: less than a tenth of their size tells them apart; critical "
          "for the model as it is below 1e-3 or at the floor, a note for variants",
          "a state's relative_residual < 0.1 (--threshold token_collapse=X)",
          "--variants dong says what would hold them apart; 'rankscope certify' which skip "
          "provably does"),
    PROBE("sweep_precision", "info",
          "points of a sweep that needed more than the precision asked for: a state grows like the "
          "product of |λ| over the layers, and 20 to the power of 64 is beyond float32",
          "that product, or a model without norms, leaves what float32 or float64 holds",
          "column precision of table sweep_ends says which points"),
    PROBE(
        "sweep_certified", "info",
        "what is proved of a sweep: from which |λ| on every λ keeps the share A of what enters, or "
        "which hypothesis fails; and what the published equation 7 asks for",
        "--sweep; A is its kept=A, 0.9",
        "columns certified_residual and certified_from of table sweep_ends"),
    PROBE("attention_sink", "info",
          "a head gives the first token much of its weight: it parks there what it has nothing to "
          "do with, and such a token often carries very large activations",
          "first_token_weight > w + 0.5 (1 - w), w what uniform attention gives (--threshold "
          "attention_sink=X); not of weights that --init drew, nor of a matrix that was edited",
          "usual in trained models; keep the first token at high precision when you quantise"),
    PROBE("uniform_attention", "warn",
          "a head attends to all tokens alike: it averages them and pulls them together",
          "entropy_ratio > 0.98 (--threshold uniform_attention=X), and logit_variance below a "
          "quarter of what drawn weights give, or there is no such null",
          "look whether its query and key weights have decayed: 'rankscope scan'; --temperature "
          "below 1 shows what larger logits do"),
    PROBE("condensed_attention", "info",
          "a head puts nearly all weight of each query on one key: in training it has almost no "
          "gradient through its softmax",
          "entropy_ratio < 0.05 (--threshold condensed_attention=X), and logit_variance above four "
          "times what drawn weights give",
          "in training, watch the scale of its logits"),
    PROBE(
        "low_rank_attention", "info",
        "a head's matrix has few directions: it takes from few keys, or from the same ones for "
        "every query",
        "effective_rank < 0.25 effective_rank_null (--threshold low_rank_attention=X)",
        "usual in deep layers of trained models; --attention-rank shows which rank the loss needs"),
    PROBE(
        "untrained_attention", "info",
        "heads that go beyond those limits and do what drawn weights do: nothing was learnt there, "
        "and nothing is wrong",
        "of weights that --init drew, all such heads", NULL),
    RUNS("nonfinite_activation", "critical",
         "a state holds NaN or infinity: where it first appears, and which weight of that layer "
         "brings it",
         NULL, "look at that weight, or run with --precision f64"),
    PROBE("lp_centre_open", "warn",
          "--residual-centre lp: a search stopped before its bounds met: worst layer, sample, and "
          "how far apart they are",
          NULL, NULL),
    PROBE("graph_centre", "warn",
          "tokens of a graph in symmetric form collapse to multiples of its right vector u, not to "
          "equal tokens (info where --residual-centre graph measures the distance from them)",
          "u = D^½1 is not constant; its value is ‖u − ū‖/‖u‖, what a complete collapse leaves of "
          "the relative residual about the mean",
          "--residual-centre graph"),
    PROBE("zero_state", "warn",
          "a state's entries are all zero in some samples: no ratio exists there", NULL, NULL),
    PROBE("norm_decay_only", "info",
          "the tokens' spread residual_fro falls only because their norms do: they do not draw "
          "together",
          "least residual_fro behind a layer at most 0.1 of what entered, where relative_residual, "
          "row_normalised_mu and rank1_residual each keep 0.5 of it (--threshold slow_collapse=X)",
          "judge by the three ratios: no scale changes them"),
    PROBE("residual_exactly_zero", "info",
          "--precision residual: the tokens of some samples are exactly equal from this state on",
          NULL, NULL),
    PROBE("residual_beyond_exponents", "info",
          "--precision residual: the residual is not zero, and too small to be counted", NULL,
          "go on from the last state that has a logarithm: it triples from layer to layer"),
    PROBE("size_beyond_doubles", "info",
          "--precision residual: the tokens' own size leaves the range of doubles; it is carried",
          NULL, "read the log10 columns: of the others those that have the tokens' size are null"),
    PROBE("undefined_columns", "info",
          "columns that these inputs cannot fill: one-token samples, one sample, --no-spectral, "
          "samples of more than 512 tokens (ranks of attention), attention of lower rank",
          NULL, NULL),
    PROBE("quadratic_left_out", "info",
          "what costs the square of a sample's length is left out of long ones: column diameter, "
          "table attention, softmax attention in table mixing",
          "a sample has more than 8192 tokens", "--quadratic measures them whatever the length"),
    RUNS(
        "past_embedding", "info",
        "--states enter the first block: the model has learned positions, token types or a norm in "
        "its embedding, which are not applied",
        NULL, "--states-as embeddings, where the rows stand for word vectors"),
    RUNS(
        "no_token_ids", "info",
        "the model predicts next tokens, and --states have no ids: there is no loss of next tokens",
        NULL, NULL),
    RUNS("cross_attention", "info",
         "the model has cross-attention, whose matrices are not measured", NULL, NULL),
    PROBE("unconverged", "warn",
          "an eigenvalue iteration failed; its values are left out of the means", NULL, NULL),
    PROBE("gradient_summary", "info",
          "a sentence a variant: in which layers queries and keys can learn", "--grad",
          "tables gradient_ratios and gradients"),
    PROBE("vanishing_qk_gradient", "warn, info",
          "the query or key weights of a layer get next to no gradient: its attention stays what "
          "it is while the values learn (Noci et al. 2022); a note for variants",
          "gQ/gV or gK/gV < 1e-6, squared norms (--threshold vanishing_qk_gradient=X)",
          "tokens that collapse do this: look at column relative_residual of table tokens; skips "
          "and scaled branches keep it away"),
    PROBE("gradient_imbalance", "warn, info",
          "the gradients of the first and the last layer are of very different size",
          "their norms are more than 1e3 apart (--threshold gradient_imbalance=X)",
          "look at norms, skips and --residual-scale"),
    PROBE("zero_gradient", "warn, info",
          "a parameter's gradient is exactly 0, and why: a residual scale of 0, a softmax that "
          "has no part, ReLUs that let nothing through, one token that sees itself alone",
          "its norm is 0; a note for variants and where --freeze-attention holds it", NULL),
    PROBE("nonfinite_gradient", "critical",
          "the pass is finite and a gradient is not: the first on the way back, its layer and "
          "parameter",
          NULL, "--precision f64"),
    PROBE(
        "relevance_summary", "info",
        "a sentence a variant: whether relevance adds up to what is explained, what biases absorb "
        "of it, whether both ends of a sample have one profile, and whether it beats chance",
        "--relevance", "tables conservation, relevance and removal"),
    PROBE("relevance_leaks", "warn, info",
          "the relevance of tokens, biases and memory does not add up to what is explained, and "
          "where that begins; a note for variants",
          "deviation > 1e-12 of the terms' sizes in f64, 5.4e-4 in f32",
          "--precision f64; where states are not finite, look at nonfinite_activation"),
    PROBE("removal_left_out", "info",
          "--relevance has no table removal, or lacks a method there, and why", NULL,
          "put tokenizer.json, which names [UNK] or [MASK], beside the model"),
    PROBE("generated", "info", "--generate: the ids and their text, a sample each", NULL, NULL),
};

static const rs_word inputs[] = {
    RUNS("beyond_trained_length", "warn",
         "rotary positions: the longest sample (with what is to be generated) is longer than the "
         "configuration's length",
         NULL, "--seq-len cuts the text into shorter windows"),
    RUNS("padding_id", "info",
         "--tokens has ids equal to pad_token_id where transformers counts no position for it "
         "(RoBERTa, XLM-R, CamemBERT)",
         NULL, NULL),
    RUNS("empty_sample", "warn", "samples without tokens are left out of all means", NULL, NULL),
    RUNS("text_left_out", "info", "what of a text fell behind the last whole window", NULL,
         "--seq-len sets the window"),
    RUNS("both_ways", "info",
         "a decoder whose attention is bidirectional: no loss, nothing to generate", NULL, NULL),
    RUNS("two_mixers", "info",
         "layers have a state-space mixer beside their attention (Falcon-H1): mixer_out is the sum "
         "of both, table mixing has each, other tables the matrices of the attention alone",
         NULL, NULL),
    RUNS("gated_norm", "warn",
         "the configuration says that state-space mixers have no norm beside their gate, and one "
         "is stored: it is run",
         NULL, "set mamba_rms_norm to true in config.json"),
    RUNS("no_head", "info", "the checkpoint has no output layer for tokens: no logits", NULL, NULL),
    RUNS("untied_head", "warn",
         "the configuration ties the output layer to the embedding, and both are stored and "
         "differ: which one serves",
         NULL, NULL),
    RUNS("unused_tensor", "warn", "tensors that play no part in the forward pass", NULL, NULL),
    RUNS("dense_module", "warn",
         "modules.json has a Dense module, which is not applied: there is no sentence_embedding",
         NULL, NULL),
    RUNS("pooling_unknown", "warn",
         "modules.json has a pooling other than mean, first token and maximum: there is no "
         "sentence_embedding",
         NULL, NULL),
    RUNS("unread_setting", "info", "a setting that transformers does not compute with", NULL, NULL),
    RUNS("gelu_by_tanh", "info", "Gemma's \"gelu\" means its approximation by tanh", NULL, NULL),
    RUNS("inner_norm_eps", "info",
         "a GGUF file does not say the epsilon of Falcon-Mamba's norms of dt, B and C", NULL, NULL),
    RUNS("unstored_setting", "info",
         "a GGUF file does not say a setting that its model needs: the one named is used", NULL,
         NULL),
    RUNS("sinusoidal_positions", "info", "DistilBERT's positions are sinusoids", NULL, NULL),
    RUNS("padding_outside_vocabulary", "warn",
         "pad_token_id is no id of the vocabulary: no row of the embedding is for padding, and "
         "transformers refuses the model",
         NULL, "correct config.json"),
    RUNS("no_mask", "info", "--no-mask finds nothing to change", NULL, NULL),
    RUNS("no_norm", "info",
         "--no-norm finds nothing to change, or leaves the norms of queries and keys, which are "
         "part of the attention",
         NULL, NULL),
    RUNS("norm_placement", "info",
         "--norm-placement finds no norm of a block that stands elsewhere", NULL, NULL),
    RUNS("mamba2_ungrouped", "info",
         "--compat mamba2-ungrouped finds no gated norm of several groups to run as one", NULL,
         NULL),
    RUNS("dong2021_code", "info",
         "--compat dong2021-code: what the published code left of ALBERT's MLP, or that it changes "
         "nothing for this model",
         NULL, NULL),
};

const rs_word_list rs_words_of_runs[] = {
    RS_WORDS(variants), RS_WORDS(tokens), RS_WORDS(inputs), {NULL, 0}};
