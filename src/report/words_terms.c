/* words_terms.c: the words of the house, in the order in which somebody who begins wants them. */
#include "report/words_lists.h"

#define TERM(name_, also_, see_, meaning_, rule_)                                                  \
    {                                                                                              \
        .name = name_, .kind = RS_WORD_TERM, .also = also_, .see = see_, .meaning = meaning_,      \
        .rule = rule_                                                                              \
    }

/* ---- what is looked at ---- */

static const rs_word subjects[] = {
    TERM("rank collapse", "token collapse|collapse", "docs/theory/collapse.md",
         "The tokens of a sample drift towards one common vector on their way through a model: the "
         "matrix of its states nears rank one, and later layers can no longer tell its tokens "
         "apart.",
         "relative residual → 0"),
    TERM("token", NULL, "docs/tokenize.md",
         "One row of what a model computes with: a piece of text, a patch of an image, or a row of "
         "numbers.",
         NULL),
    TERM("sample", NULL, "docs/probe.md",
         "One sequence that goes through the model by itself: a window of the text, a row of token "
         "ids, an image, or a random draw. Measures are means over the samples.",
         NULL),
    TERM("window", NULL, "docs/probe.md",
         "So many consecutive tokens of a text, with the model's special tokens in each: one "
         "sample. --seq-len sets its length.",
         NULL),
    TERM("block", NULL, "docs/design.md",
         "A mixer and an MLP with their norms and skips; most papers call it a layer of the "
         "transformer, and so do the tables here.",
         NULL),
    TERM("layer", NULL, "docs/contract.md",
         "A block, counted from 0 as tensor names do. In table tokens alone the column counts "
         "states: l is what leaves block number l, 0 what enters the first.",
         NULL),
    TERM("state", NULL, "docs/contract.md",
         "The matrix of the tokens between blocks, a row a token. State 0 enters the first block "
         "(layer 0), state l leaves block number l; a model of L layers has L + 1 states.",
         "X ∈ R^{n × d}"),
    TERM("site", NULL, "docs/probe.md",
         "Where in a block a state is read: block_out, what leaves the block; mixer_out, what the "
         "mixer's output map gives, before its scale and its skip.",
         NULL),
    TERM("head", NULL, "docs/theory/products.md",
         "One of the parallel parts of an attention: it has a mixing matrix of its own. Counted "
         "from 0; with grouped queries several heads share keys and values.",
         NULL),
    TERM("mixer", NULL, "docs/arch.md",
         "The part of a block that moves information between tokens: attention, or what stands in "
         "its place (a state-space layer, a gated recurrence). Everything else treats each token "
         "by itself.",
         "X → Σ_h P_h X W_h"),
    TERM("mixing matrix", "attention matrix", "docs/theory/attention.md",
         "What a head multiplies the tokens with from the left: row i says with which weights "
         "token i reads the others. For softmax attention its rows are positive and sum to 1.",
         "P = softmax(scale · X W_Q W_Kᵀ Xᵀ)"),
    TERM("logit", NULL, "docs/theory/attention.md",
         "A number before a softmax: of attention, how much a query asks for a key; of a language "
         "model's head, how likely a next token is.",
         NULL),
    TERM("MLP", "feed-forward", "docs/arch.md",
         "The part of a block that treats each token by itself: two or three matrices with a "
         "non-linearity between them.",
         NULL),
    TERM("norm", "LayerNorm|RMSNorm", "docs/arch.md",
         "Of a model: what scales each token to a common size (LayerNorm, which also centres it, "
         "or RMSNorm), before a branch (pre), behind the sum (post), or both (sandwich). Of a "
         "matrix: its size.",
         NULL),
    TERM("skip", "skip connection|residual connection", "docs/theory/collapse.md",
         "The way around a branch: the state is added to what the branch makes of it. It is what "
         "holds the tokens of trained models apart.",
         "X ← λ X + branch(X)"),
    TERM("skip strength", "λ|lambda", "docs/certify.md",
         "The factor λ of a skip: 1 in most models, 0 for none. --lambda sets it; certify says "
         "from which λ on the tokens provably stay apart.",
         "X ← λ X + α · branch(X)"),
    TERM("residual scale", "branch scale|α|alpha", "docs/probe.md",
         "The factor α of a branch before it is added to the skip; --residual-scale sets it.",
         "X ← λ X + α · branch(X)"),
    TERM("grouped queries", "GQA|grouped-query attention", "docs/scan.md",
         "Several query heads share the keys and values of one head; query head h reads key head "
         "⌊h · kv_heads / heads⌋.",
         NULL),
    TERM("QK-norm", NULL, "docs/theory/corrections.md",
         "A norm of each query and key before their product: the size of W_Q and W_K then has no "
         "effect, and nothing may be put in the place of their product.",
         NULL),
    TERM("RoPE", "rotary positions", "docs/theory/corrections.md",
         "Positions as rotations of queries and keys: planes of two dimensions each turn with a "
         "frequency of their own. The query-key product is then that of distance 0.",
         NULL),
    TERM("causal", "causal mask", "docs/probe.md",
         "Each token sees itself and those before it alone, as in language models.", NULL),
    TERM("intervention", NULL, "docs/probe.md",
         "A change of the model before it runs (--no-skip, --lambda 0.5): it edits the "
         "description, so that any two can be combined.",
         NULL),
    TERM("variant", NULL, "docs/probe.md",
         "A model with its interventions, run over the same inputs as the others; --variants names "
         "several.",
         NULL),
};

/* ---- tokens ---- */

static const rs_word tokens[] = {
    TERM("residual", NULL, "docs/theory/tokens.md",
         "What tells the tokens of a sample apart: the tokens minus their common centre. It is "
         "zero when all tokens are equal. (The residual stream is another thing: the states "
         "themselves.)",
         "R = X − 1 x̄ᵀ"),
    TERM("relative residual", NULL, "docs/probe.md",
         "How much of the tokens' size tells them apart: 1 when their mean is zero, 0 when all "
         "tokens are equal. The number to look at first.",
         "‖X − 1x̄ᵀ‖_F / ‖X‖_F"),
    TERM("centre", NULL, "docs/probe.md",
         "What a residual subtracts from every token: the mean, or by --residual-centre the "
         "medians of the columns, the centre of the smallest ℓ1 ball around the tokens, or the "
         "multiples of a graph's own right vector.",
         NULL),
    TERM("spread", "μ|mu", "docs/certify.md",
         "The size of the residual, not divided by that of the tokens: what a mixer is to keep.",
         "μ(X) = ‖X − 1x̄ᵀ‖_F"),
    TERM("diameter", NULL, "docs/certificates.md",
         "How far apart the two tokens of a sample are that are furthest from each other.",
         "max ‖X_i − X_j‖₂"),
    TERM("mean cosine", NULL, "docs/probe.md",
         "How alike the directions of the tokens are: 1 when all point the same way.",
         "mean of cos(X_i, X_j) over pairs i ≠ j"),
    TERM("floor", "rounding floor|at floor", "docs/probe.md",
         "Where a number is rounding and no measurement: float32 cannot tell tokens apart below "
         "about 1e-7 of their size, float64 below 1e-15. --precision residual goes on, but for "
         "what a state-space mixer gives.",
         "8 units of roundoff of the precision"),
    TERM("residual precision", "precision residual", "docs/probe.md",
         "An arithmetic that carries the residual by itself, with an exponent of its own, so that "
         "collapse is measured to any depth.",
         NULL),
    TERM("doubly exponential", "cubic law|cubic", "docs/theory/collapse.md",
         "The law of collapse of attention alone: each layer cubes the relative residual (times a "
         "factor), so that its logarithm triples; after L layers the exponent is 3^L, not 3·L.",
         "r_L ≤ c^((3^L − 1)/2) · r_0^(3^L)"),
    TERM("perplexity", "nll", "docs/probe.md",
         "How many tokens the model wavers between when it predicts the next one; the exponential "
         "of its mean loss in nats (nll).",
         "exp(mean of −ln p)"),
};

/* ---- ranks and products ---- */

static const rs_word ranks[] = {
    TERM("product", "qk|ov|qk product|ov product", "docs/scan.md",
         "Two weight matrices of a head that only their product acts through. qk is W_Q W_Kᵀ, what "
         "a head looks for; ov is W_V W_O, what it moves; cb and io take their places in "
         "state-space layers.",
         "A Bᵀ"),
    TERM("singular values", "singular value|spectrum|spectra|sigma|σ", "docs/theory/products.md",
         "The strengths σ of a matrix in the directions that it acts along, largest first. All "
         "ranks here are read off them.",
         NULL),
    TERM("rank", NULL, "docs/scan.md",
         "How many directions a matrix uses. Exactly, how many singular values are not zero; since "
         "trained ones hardly ever are, softer counts say more: effective, stable, pseudo, energy "
         "and numerical rank.",
         NULL),
    TERM("effective rank", NULL, "docs/scan.md",
         "How many directions a matrix really uses: the number of equal singular values that "
         "would have the same entropy.",
         "exp(−Σ p ln p), p = σ/Σσ"),
    TERM("stable rank", NULL, "docs/scan.md",
         "How many times the strongest direction a matrix holds: near 1 when one rules.",
         "‖·‖_F² / σ₁²"),
    TERM("participation ratio", NULL, "docs/scan.md",
         "A count of directions like the effective rank, by squares: strong ones count more.",
         "(Σσ²)² / Σσ⁴"),
    TERM("pseudo-rank", NULL, "docs/scan.md",
         "The share of the inner width that holds 95 % of the nuclear norm.",
         "least k with Σ_{i≤k} σ ≥ 0.95 Σσ, / inner"),
    TERM("energy rank", "energy", "docs/scan.md",
         "How many directions hold 95 % of the squared size; --energy asks for other shares and "
         "says what factorising there saves.",
         "least k with Σ_{i≤k} σ² ≥ 0.95 Σσ²"),
    TERM("numerical rank", NULL, "docs/scan.md",
         "How many singular values rounding cannot explain; quantisation noise raises it.",
         "number of σ > max(rows, cols) · ε · σ₁"),
    TERM("null", "chance|baseline|by chance|null band", "docs/scan.md",
         "What random weights, or attention that looks at nothing, of the same shape would give: "
         "the number to compare with. Columns that end in _null hold it. (A null cell of a table "
         "is another thing: there is no number, and a finding says why.)",
         NULL),
    TERM("nuclear norm", NULL, "docs/theory/products.md",
         "The sum of the singular values. Weight decay on two factors acts as a penalty on that of "
         "their product, and so lowers its rank.",
         "‖A Bᵀ‖_* = Σσ"),
    TERM("equilibrium", "weight-decay equilibrium", "docs/theory/products.md",
         "Where weight decay drives two factors: equally large in every direction (balanced). From "
         "there on it acts on their product as a nuclear-norm penalty.",
         "AᵀA = BᵀB"),
    TERM("balance", "balanced|balance score", "docs/scan.md",
         "How close the two factors of a product are to the equilibrium of weight decay: "
         "balance_score is 1 there and 0 for a random rotation of one factor.",
         "β = 1 − ‖X − Y‖² / (‖X‖² + ‖Y‖² − 2 trX trY / inner), X = AᵀA, Y = BᵀB"),
    TERM("overlap", NULL, "docs/compare.md",
         "How far the leading directions of one product are those of another: the mean squared "
         "cosine "
         "of the angles between the spaces that their k leading singular vectors span. 1 when they "
         "are the same space, k/m for random ones in m dimensions.",
         "‖U_AᵀU_B‖_F² / k"),
    TERM("fold", "fold norms", "docs/scan.md",
         "To multiply a norm's gains into the weights behind it, so that a product is analysed as "
         "the model applies it (--fold-norms).",
         NULL),
    TERM("factorise", "factorising", "docs/scan.md",
         "To store a matrix of low rank as two thin ones; it saves where rank · (rows + cols) < "
         "rows · cols. RoPE or QK-norm between W_Q and W_K forbids it for their product.",
         NULL),
};

/* ---- attention ---- */

static const rs_word attention[] = {
    TERM("attention sink", NULL, "docs/probe.md",
         "A head that gives the first token much of its weight: where it has nothing to add, it "
         "parks its weight there. Usual in trained models.",
         NULL),
    TERM("entropy", NULL, "docs/probe.md",
         "How widely a query spreads its attention: 0 on one key, ln n evenly over n keys.",
         "−Σ_j P_ij ln P_ij, mean over rows, in nats"),
    TERM("uniform", "uniform attention", "docs/probe.md",
         "Attention that weighs all visible keys alike: it averages the tokens, which makes them "
         "equal.",
         "U = 11ᵀ/n; causal: row i is 1/i"),
    TERM("spectral gap", "λ₂|lambda2", "docs/probe.md",
         "How fast repeated mixing makes tokens equal: 1 − |λ₂|, λ₂ the second largest eigenvalue "
         "of the mixing matrix. 1: at once; 0: never.",
         "1 − |λ₂|"),
    TERM("mixing contraction", "τ|tau|dobrushin|dobrushin coefficient", "docs/certificates.md",
         "At most which share of the distance between two tokens a mixing matrix leaves: 0 when "
         "all queries attend alike, 1 when two have no key in common.",
         "τ(P) = ½ max_{i,i'} Σ_j |P_ij − P_i'j|"),
};

/* ---- how sure a number is ---- */

static const rs_word proofs[] = {
    TERM("measured", NULL, "docs/design.md",
         "A number that a run of this program found on these inputs.", NULL),
    TERM("predicted", NULL, "docs/certify.md",
         "A number that a law gives to leading order: close where the law holds, and no bound.",
         NULL),
    TERM("certified", "certificate|proved|at most|at least", "docs/certificates.md",
         "A number that is proved for this model and these inputs, its own rounding included: no "
         "rounding can make it false.",
         NULL),
    TERM("published", NULL, "docs/lab.md",
         "A number or a bound as a paper has it, whether or not its hypotheses hold here; a column "
         "beside it says which one fails.",
         NULL),
    TERM("conditional", "condition|unconditional", "docs/certify.md",
         "A certified number that hangs on something which is not proved; columns ..._conditional "
         "mark it, and --rigorous leaves it out.",
         NULL),
    TERM("vacuous", NULL, "docs/certify.md",
         "A bound that is true and says nothing: the tokens' lengths alone say as much.", NULL),
    TERM("hypothesis", NULL, "docs/certify.md",
         "What a theorem asks for before it says anything; columns ..._failed name the first that "
         "does not hold here.",
         NULL),
    TERM("rate class", "causal_half|linear", "docs/certify.md",
         "By what law a layer's residual shrinks: cubic (attention alone), linear (a factor a "
         "layer), causal_half (half a layer, causal), or none.",
         NULL),
    TERM("consensus", "consensus multiplier", "docs/certificates_lambda.md",
         "All tokens equal. The consensus multiplier says by which factor a layer multiplies a "
         "small residual there: below 1 collapse attracts.",
         NULL),
    TERM("gain", "weights-only gain", "docs/certify.md",
         "How much a part of the model can at most stretch what enters it; weights-only: for every "
         "input, read off the weights alone.",
         NULL),
    TERM("claim", NULL, "docs/lab.md",
         "A statement of a paper in numbers: lab measures it, beside what was published and what "
         "an independent calculation gives.",
         NULL),
};

/* ---- paths ---- */

static const rs_word ways[] = {
    TERM("path", NULL, "docs/paths.md",
         "One way through the model: in each layer either the skip or one head. The output is the "
         "sum of the terms of all paths.",
         "P_path X W_path"),
    TERM("length", "path length", "docs/paths.md",
         "How many heads a path goes through; of L layers with H heads C(L, k) H^k have length k.",
         NULL),
    TERM("source", "sources", "docs/paths.md",
         "What a layer adds that no head mixed: its MLP, its biases, cross-attention. From there "
         "on it takes paths, as the embedding does.",
         NULL),
    TERM("semantics", "semantics code|semantics theorem", "docs/paths.md",
         "What a path is: theorem, a term of the sum with the full pass's mixing matrices; code, "
         "as the published code has it, a network of its own.",
         NULL),
};

const rs_word_list rs_words_of_the_house[] = {
    RS_WORDS(subjects), RS_WORDS(tokens), RS_WORDS(ranks), RS_WORDS(attention),
    RS_WORDS(proofs),   RS_WORDS(ways),   {NULL, 0},
};
