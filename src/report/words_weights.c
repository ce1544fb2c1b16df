/* words_weights.c: the codes of findings about files and weights. */
#include "report/words_lists.h"

#define RS_CODES RS_WORD_FINDING

static const rs_word heads[] = {
    WEIGHTS("qk_low_rank", "warn",
            "a head's query-key product uses few directions: what it can look for has become poor",
            "effective_rank < 0.5 · effective_rank_null (--threshold qk_low_rank=X)",
            "in training, take the attention matrices out of weight decay or lower it there; for "
            "compression, --energy 0.9,0.99 shows how far each matrix can be factorised"),
    WEIGHTS("ov_low_rank", "warn",
            "a head's value-output product uses few directions: what it can move has become poor",
            "effective_rank < 0.5 · effective_rank_null (--threshold ov_low_rank=X)",
            "as for qk_low_rank; this product may take the place of its two factors"),
    WEIGHTS("dead_head", "warn", "the product is so small that the head does next to nothing",
            "frobenius_norm < 0.05 · the layer's median (not for qk under QK-norm, where scale "
            "means nothing), or 0 (--threshold dead_head=X)",
            "prune the head, or in training look whether its gradients vanish"),
    WEIGHTS("decay_equilibrium", "info",
            "a whole layer sits where weight decay holds it: from there on decay acts as a "
            "nuclear-norm penalty on the product, and its rank goes on falling",
            "balance_score > 0.9 in every head of a layer (--threshold decay_equilibrium=X)",
            "where the effective rank falls too, lower the weight decay of the attention matrices"),
    FILES("nonfinite_weights", "critical",
          "NaN or infinity in a weight that the run reads (scan reads those of the products, all "
          "with --matrices all); names the tensor and the first place",
          "an entry that is no finite number",
          "the checkpoint is damaged or training diverged: go back to an earlier one"),
    WEIGHTS("weights_out_of_range", "critical",
            "float64 weights whose products leave the range of float64: the rows are left empty",
            "largest entry beyond 1e±70", "look at how these weights came to be"),
    WEIGHTS("rate_overflow", "critical",
            "exp of entries of A_log overflows: the rates at which states decay are infinite, the "
            "cells of table ssm that need them are null, and no forward pass runs the layer",
            "-exp(A_log) beyond float64", "go back to an earlier checkpoint"),
    WEIGHTS(
        "rest_unknown", "warn",
        "a tensor or a field that a mixer's decay at rest needs is absent or not what it should "
        "be: cells of table ssm are null",
        NULL, "look whether the checkpoint is whole and its config.json its own"),
    WEIGHTS("self_check_failed", "critical",
            "a spectrum misses the trace of its Gram matrices: a defect of this program",
            "tr(XY) ≠ Σσ² beyond 1e-10", "do not use the row; report the checkpoint"),
    SCAN("rank_summary", "info",
         "where the model stands as a whole, one sentence a kind of product", "always", NULL),
    SCAN("compression", "info",
         "what cutting the attention matrices at an energy of --energy leaves of their parameters, "
         "and how much worse the model predicts then",
         "one for each energy", "where the loss hardly changes, --write DIR writes that model"),
    SCAN("written", "info", "where the truncated checkpoint of --write lies, and its small factors",
         "--write DIR was given",
         "in PyTorch, load.load(model) of DIR/factors puts them into the model"),
};

static const rs_word compared[] = {
    COMPARE("rank_fell", "warn",
            "a product lost a good part of its effective rank on the way from A to B",
            "effective_rank_ratio_b / effective_rank_ratio_a - 1 < -0.2 (--threshold rank_fell=X)",
            "in training, take the attention matrices out of weight decay or lower it there"),
    COMPARE("rank_rose", "info", "a product gained effective rank",
            "effective_rank_ratio_b / effective_rank_ratio_a - 1 > 0.2 (--threshold rank_rose=X)",
            NULL),
    COMPARE(
        "turned_away", "info",
        "the leading directions of a product agree as random ones do: of one run, a head learnt "
        "anew; heads of one number in two models need not do the same work",
        "both overlaps are within 3 standard deviations of chance (--threshold turned_away=X)",
        NULL),
    COMPARE(
        "not_compared", "info",
        "products without a counterpart, or whose counterpart has another width: of those, ranks "
        "alone are compared",
        NULL, "table not_compared names them and the reason"),
    COMPARE("findings_went", "info", "what scan or probe find in A and no more in B", NULL,
            "table findings_changed lists them, and what came"),
    COMPARE(
        "tokens_not_compared", "warn",
        "a model could not be run on the inputs, and why; its weights are compared all the same",
        NULL, "give inputs that both can take"),
    COMPARE("other_tokens", "info",
            "the two models read other ids, or the same ids of vocabularies of other sizes",
            "their ids, and their vocabularies' sizes",
            "losses a token are not comparable; relative residuals are"),
};

static const rs_word series[] = {
    SERIES(
        "rank_falls", "warn",
        "from checkpoint to checkpoint a layer's products lose effective rank (the mean over its "
        "heads), more than they ever gained from one checkpoint to a later one",
        "last < (1 - 0.2) highest (--threshold rank_falls=X), by more than 3 standard deviations "
        "of "
        "chance, at least 1.5 times the largest climb in the series and 4 times its noise "
        "(docs/series.md)",
        "compare the checkpoint where it begins with the last; in training, take the attention "
        "matrices out of weight decay or lower it there"),
    SERIES("skipped_checkpoint", "warn",
           "a checkpoint of the series could not be read (missing, half-written, broken, changed "
           "while "
           "it was read), and why; the others are followed all the same",
           NULL, "where it is still being written, run again later"),
    SERIES("newer_checkpoint", "info",
           "checkpoints that appeared in the run's folder while the series was read", NULL,
           "run again"),
    SERIES("repeated_step", "warn",
           "a step comes more than once among the paths, of several runs or of one checkpoint that "
           "was "
           "named twice: they stand in the order in which they were given, and a trend over them "
           "means "
           "little",
           NULL, "scan each run by itself; name each checkpoint once"),
    SERIES("not_in_all", "info",
           "products that some checkpoints lack or have in another shape: they are followed where "
           "they "
           "are",
           NULL, "table not_compared names them and the first checkpoint that differs"),
};

static const rs_word names[] = {
    FILES("guessed_family", "warn",
          "the model's type is unknown and its tensor names are not: its heads are cut out as "
          "that family's are. Names do not tell what turns, what norms multiply by, what stands "
          "between W_V and W_O, and by what scores are scaled",
          "model_type is none of those known",
          "compare with the model's own code, or name its "
          "tensors with --map"),
    FILES("other_stack", "warn",
          "a guess: behind other prefixes stand tensors that look like attention, too; they were "
          "not read",
          NULL, "name them with --map"),
    FILES("layer_left_out", "warn",
          "layers whose shapes are not those that the configuration asks for; the others are "
          "scanned (table tensors has the reason). An error where no layer fits",
          NULL, "look whether config.json belongs to these weights"),
    FILES("unknown_tensor", "info", "tensors that the family has no name for", NULL, NULL),
    FILES("missing_tensor", "info", "tensors of products that are absent", NULL, NULL),
    FILES("product_not_formed", "warn",
          "one side of a product has no tensor, or the model computes no such product (DiffLlama's "
          "OV), so that it is left out everywhere",
          NULL, NULL),
    FILES("extra_layers", "info, warn",
          "the checkpoint holds more layers than the configuration counts: they are not run, as in "
          "transformers",
          NULL, "look whether config.json belongs to these weights"),
    FILES("shared_layers", "info", "blocks that several layers share are reported once", NULL,
          NULL),
    FILES("partial_checkpoint", "warn",
          "the file is one part of a checkpoint: what its own tensors give", NULL,
          "give the folder, or the index file's parts all together"),
    FILES("single_shard", "warn", "one shard of a checkpoint was named: what its own tensors give",
          NULL, "give the folder"),
    FILES("unlisted_tensor", "warn", "a shard holds tensors that the index does not list", NULL,
          "write the checkpoint anew, or look whether the index is older than the shards"),
    FILES("ambiguous_checkpoint", "warn",
          "the folder has the weights both whole and in parts; the whole file is read", NULL,
          "remove those that are not meant"),
    FILES("incomplete_download", "warn", "leavings of a download that did not finish", NULL,
          "run the download again"),
    FILES("skipped_file", "info, warn", "files of the folder that were passed over, and why", NULL,
          NULL),
    FILES("trailing_bytes", "info, warn", "bytes behind the last tensor belong to none", NULL,
          NULL),
    FILES("file_touched", "warn",
          "a weight file's time of change moved while it was read, its size and time of "
          "modification did not (a new hard link, chmod); if those move, or another file takes its "
          "name, the run ends with changed-while-read, exit code 1",
          NULL, NULL),
    FILES("custom_map", "info", "tensors were named by --map", NULL, NULL),
    FILES("rope_form", "info",
          "where the base of rotary positions stands in the configuration: at the top "
          "(rope_theta), in rope_parameters, in both, in neither",
          NULL, NULL),
    FILES("whole_head_rotates", "info",
          "partial_rotary_factor is below 1 in a family whose module does not read it: all of a "
          "head rotates",
          NULL, NULL),
};

const rs_word_list rs_words_of_weights[] = {
    RS_WORDS(heads), RS_WORDS(series), RS_WORDS(compared), RS_WORDS(names), {NULL, 0}};
