#!/usr/bin/env python3
"""Makes one sign or factor of the way back wrong in the source, builds the tests that answer for it, and expects one to fail.

    python3 tests/oracle/mutate_gradients.py SCRATCH [PART ...]

SCRATCH and what is printed are as in mutate_certificates.py. PART: walk, sums, dense, squares, norm, slope, mlp, attention, head, embed,
loss, output, hold, cuts, removal; without one all are made.
"""
import mutate_certificates

WALK, SUMS, TAPE = "src/engine/backward.c", "src/engine/gradients.c", "src/engine/forward.c"
DENSE, SQUARES, ROWS = "src/engine/back_dense_real.inc", "src/engine/back_squares_real.inc", "src/engine/back_rows_real.inc"
MLP, TILES, AROUND = "src/engine/back_mlp_real.inc", "src/engine/back_attention_tiles_real.inc", "src/engine/back_attention_real.inc"
ENDS, PLAIN, VECTOR = "src/engine/back_ends_real.inc", "src/engine/kernels_plain.inc", "src/engine/kernels_vector.inc"
FORWARD = "src/engine/attention_real.inc"
G = ["test_gradients_golden", "test_gradients", "test_gradients_edges"]
K = ["test_kernels", *G]
S = ["test_session_gradients", *G]
OUTPUT, SSD, S6, LINEAR, DELTA = (f"src/engine/back_{name}_real.inc" for name in ("output", "ssd", "s6", "linear", "delta"))
CUTS, REMOVAL, HEADS, ROLLOUT = (f"src/observe/{name}.c" for name in ("relevance_cuts", "removal", "head_outputs", "rollout"))
R, O = ["test_relevance_engine"], ["test_relevance"]

# part, what, file, text as it stands (its first occurrence), mutated text, tests that must find it out (any one of them)
MUTATIONS = [
    ("walk", "the branch's scale on its derivative", WALK, "&tape->d_out, &tape->d, branch->scale", "&tape->d_out, &tape->d, 1.05 * branch->scale", G),
    ("walk", "the skip on the running derivative", WALK, "&tape->d, &tape->d, branch->skip", "&tape->d, &tape->d, 1.05 * branch->skip", G),
    ("walk", "the skip's own derivative", WALK, "float single = (float)sum;", "sum *= 1.05;\n    float single = (float)sum;", G),
    ("walk", "a parallel branch's input", WALK, "joins ? &tape->states[run->layer] : x, err));", "x, err));", G),
    ("walk", "a parallel branch's derivative", WALK, "return joins ? add_joined(run, err)", "return joins ? RS_OK", G),
    ("walk", "two parallel branches' derivatives", WALK, "if (tape->joined) return", "if (tape->joined && false) return", G),
    ("walk", "the norm inside a branch", WALK, "back->norm(run, &tape->d_out, &run->record->out", "back->norm(run, &tape->d_out, &tape->d_out", G),
    ("walk", "the norm behind the sum", WALK, "back->norm(run, &tape->d, &record->sum", "back->norm(run, &tape->d, x", G),
    ("walk", "the final norm", WALK, "return behind ? back->norm", "return behind && 0 ? back->norm", G),
    ("walk", "the state kept for recomputation", WALK, "&run->x, &run->tape->states[run->layer], err));", "&run->x, &run->tape->states[0], err));", G),
    ("walk", "the scale's derivative where it is 0", TAPE, ": run_unheard(run, layer, b, in, err);", ": RS_OK;", G),
    ("sums", "uses of one tensor are added", SUMS, "if (at->shared < 0 || view->form == RS_GRADIENT_ZERO) return RS_OK;", "if (at->shared < 0 || view->form == RS_GRADIENT_ZERO || g->sums[at->shared].sum) return RS_OK;", S),
    ("sums", "batches are added", SUMS, "if (!g->plan.several) return complete", "if (!g->plan.several || at->own) return complete", S),
    ("dense", "stretches of a fused map add up", DENSE, "        beta = 1;\n", "        beta = 0;\n", G),
    ("dense", "a derivative that is added", DENSE, "REAL beta = adds ? 1 : 0;", "REAL beta = 0;", G),
    ("dense", "the bias of a map", DENSE, "chunks[k * width + c] += d[i * ldd + c];", "chunks[k * width + c] += (REAL)0.95 * d[i * ldd + c];", G),
    ("dense", "the factors of a configuration", DENSE, "(bias ? factor.bias : factor.weight)", "(bias ? factor.weight : factor.bias)", [*G, "test_gradients_chunked"]),
    ("dense", "the later chunks of rows", DENSE, "for (int64_t k = 0; k < (rows + SUM_ROWS - 1) / SUM_ROWS; k++)\n        for (int64_t c = 0; c < width; c++)\n            sums[c] +=", "for (int64_t k = 0; k < 1; k++)\n        for (int64_t c = 0; c < width; c++)\n            sums[c] +=", G),
    ("squares", "pairs of rows off the diagonal", SQUARES, "if (i != j) job->sums[t] *= 2", "if (i != j) job->sums[t] *= 1.9", G),
    ("squares", "parts of the outputs", SQUARES, "d + p * width, ldd", "d, ldd", G),
    ("norm", "the mean of the derivative", PLAIN, "sum = kind == RS_NORM_LAYERNORM ? sum / (double)n : 0;", "sum = 0;", G),
    ("norm", "the derivative along the row", PLAIN, "along = hold ? 0 : along / (double)n;", "along = hold ? 0 : 0.95 * along / (double)n;", G),
    ("norm", "its sign", PLAIN, "(g - sum - y * along)", "(g - sum + y * along)", G),
    ("norm", "the gain's derivative", PLAIN, "(double)gain_sum[i] + d * y", "(double)gain_sum[i] + 0.95 * d * y", G),
    ("norm", "the bias's derivative", PLAIN, "bias_sum[i] += dy[i];", "bias_sum[i] -= dy[i];", G),
    ("norm", "1 + gain", PLAIN, "double g = gain ? d * (one + (double)gain[i]) : d;\n        sum +=", "double g = gain ? d * (double)gain[i] : d;\n        sum +=", G),
    ("norm", "a held factor", PLAIN, "along = hold ? 0 :", "along = 0 ? 0 :", G),
    ("norm", "in float, along the row", VECTOR, "store(dx + i, r.factor * (g - mean - y * share));", "store(dx + i, r.factor * (g - mean - y * share * 0.95f));", K),
    ("slope", "GELU's bell", PLAIN, "x * exp(-0.5 * x * x) / sqrt(2 * M_PI)", "0.95 * x * exp(-0.5 * x * x) / sqrt(2 * M_PI)", K),
    ("slope", "sigma's slope", PLAIN, "s + x * s * rest * inner", "s + 0.95 * x * s * rest * inner", K),
    ("slope", "squared ReLU", PLAIN, "return x > 0 ? 2 * x : 0;", "return x > 0 ? x : 0;", K),
    ("slope", "tanh", PLAIN, "return (1 - t) * (1 + t);", "return 1 - t;", K),
    ("slope", "GELU's tanh form, the cube", PLAIN, "c * (1 + 3 * 0.044715 * x * x)", "c * (1 + 2 * 0.044715 * x * x)", K),
    ("slope", "a held ratio", PLAIN, "(ratio ? ratio_at", "(!ratio ? ratio_at", K),
    ("slope", "in float, GELU", VECTOR, "x * bell * 0.39894228f", "x * bell * 0.379f", K),
    ("mlp", "up by the gate", MLP, "dh[at + i] *= factors[i];", "dh[at + i] *= (REAL)0.95 * factors[i];", G),
    ("mlp", "the gate by up", MLP, "constant ? 0 : dh[at + i] * up[at + i]", "constant ? 0 : dh[at + i]", G),
    ("mlp", "the gate's share of the input", MLP, "dg, rows, &op->gate, 2, true", "dg, rows, &op->gate, 2, false", G),
    ("attention", "what a row's derivatives have in common", TILES, "factor * p[y] * (dp[y] - shift)", "factor * p[y] * dp[y]", G),
    ("attention", "temperature", TILES, "(REAL)(op->mix_softmax / op->temperature)", "(REAL)op->mix_softmax", G),
    ("attention", "the softmax's share on the logits", TILES, "(REAL)(op->mix_softmax / op->temperature)", "(REAL)(1 / op->temperature)", G),
    ("attention", "the softmax's share on the values", TILES, "(blasint)t->rows, (REAL)op->mix_softmax, r->s", "(blasint)t->rows, 1, r->s", G),
    ("attention", "edits in the common part", TILES, "if (!edited(op)) { /*", "if (true) { /*", G),
    ("attention", "the identity's share", TILES, "(double)*dv + op->mix_identity * d", "(double)*dv + 0.95 * op->mix_identity * d", G),
    ("attention", "the uniform share", TILES, "(double)*dv - r->spread", "(double)*dv + r->spread", G),
    ("attention", "where a span ends", TILES, "r->spread[see.to * dim + c] -= d;", "(void)d;", G),
    ("attention", "the slope of the soft-cap", TILES, "if (op->softcap != 0) tile_back_cap(t, r);", "", G),
    ("attention", "what the soft-cap reads", TILES, "t->cols, 1 / a->op->softcap);", "t->cols, 1.05 / a->op->softcap);", G),
    ("attention", "the scale on the queries", TILES, "REAL alpha = (REAL)a->op->scale, *by_query", "REAL alpha = (REAL)(0.95 * a->op->scale), *by_query", G),
    ("attention", "biases of distances", TILES, "sums[d] += (double)r->dp", "sums[d] -= (double)r->dp", G),
    ("attention", "content bias", TILES, "add_part_columns(b->d_content + head, r->part", "add_part_columns(b->d_position + head, r->part", G),
    ("attention", "content in the keys' derivative", TILES, "x = shifted(r->scratch, x, t->ldq, t->rows, dim, a->content + head);\n        ldx = dim;", "", G),
    ("attention", "position bias", TILES, "if (a->position) add_part_columns(b->d_position", "if (a->position && 0) add_part_columns(b->d_position", G),
    ("attention", "positional keys", TILES, "(REAL)a->op->scale, r->band, (blasint)count, q", "(REAL)(0.95 * a->op->scale), r->band, (blasint)count, q", G),
    ("attention", "segments on the queries", TILES, "(double)b->dq[at] + by_query", "(double)b->dq[at] - by_query", G),
    ("attention", "segments' embedding", TILES, "b->d_segment_embed[head + c] += sum * u;", "b->d_segment_embed[head + c] += 0.95 * sum * u;", G),
    ("attention", "rotation back", FORWARD, "if (a->turns_back) at.gap = -at.gap;", "", G),
    ("attention", "QK-norm", AROUND, "if (op && op->kind != RS_NORM_NONE)\n        RS_TRY(back_norm_rows", "if (op && op->kind != RS_NORM_NONE && false)\n        RS_TRY(back_norm_rows", G),
    ("attention", "the gate's slope", AROUND, "by * x * open * shut", "by * x * open", ["test_gradients_golden"]),
    ("attention", "the gate on the mixed values", AROUND, "d[i] = (REAL)(by * open);", "d[i] = (REAL)by;", ["test_gradients_golden"]),
    ("attention", "keys' share of the input", AROUND, "if (!b->held) RS_TRY(back_dense(run, d, b->dk", "if (false) RS_TRY(back_dense(run, d, b->dk", G),
    ("attention", "held matrices", AROUND, "b->held = run->tape->hold & RS_HOLD_ATTENTION ||", "b->held =", G),
    ("attention", "the memory's derivative adds up", ROWS, "sum[i] += (double)d[i];", "sum[i] = (double)d[i];", G),
    ("head", "1 at the target", ENDS, "(double)row[target] - weight", "(double)row[target] - 0.95 * weight", G),
    ("head", "the sum of the softmax", ENDS, "row, n, weight / sum);", "row, n, weight);", G),
    ("head", "the cap of logits", ENDS, "(double)d[i] * (1 - t) * (1 + t)", "(double)d[i]", G),
    ("head", "the scale of logits", ENDS, "if (op->scale != 1) KERNELS_HERE()->scale(d, n, op->scale);", "", G),
    ("head", "the activation of the transform", ENDS, "if (h->transforms) back_activations", "if (false) back_activations", G),
    ("embed", "the embedding's factor", ENDS, "d, op->width, op->scale, err));", "d, op->width, 1, err));", G),
    ("embed", "rows of one token add up", ENDS, "row[c] += (REAL)(factor", "row[c] = (REAL)(factor", G),
    ("embed", "the first position", ENDS, "i - batch->begin[s] + op->position_offset, i}", "i - batch->begin[s], i}", G),
    ("embed", "the class token", ENDS, "d + batch->begin[s] * width, (size_t)width", "d + (batch->begin[s] + 1) * width, (size_t)width", G),
    ("embed", "patches behind the class token", ENDS, "d + (batch->begin[s] + first) * width", "d + batch->begin[s] * width", G),
    ("loss", "the square", ENDS, "out[c] = (REAL)(wanted->weight * g);", "out[c] = (REAL)(2 * wanted->weight * g);", G),
    ("loss", "the direction of a length", ENDS, "weight * ((double)row[c] / length)", "weight * (double)row[c]", R),
    ("output", "the scale of logits", OUTPUT, "*slope = op->scale;", "*slope = 1;", R),
    ("output", "the cap's slope", OUTPUT, "*slope *= (1 - t) * (1 + t);", "*slope *= 1 - t;", R),
    ("output", "a held cap", OUTPUT, "op->softcap * t / scaled", "op->softcap * t / logit", R),
    ("output", "the decoder's own bias", OUTPUT, "(const REAL *)map->bias + at", "(const REAL *)map->bias", R),
    ("output", "a bias stored apart", OUTPUT, "((const REAL *)bias)[u] : 0", "((const REAL *)bias)[0] : 0", R),
    ("output", "the stretch of a fused decoder", OUTPUT, "at / map->run * map->stride + at % map->run", "at", R),
    ("output", "the factor of the decoder's weight", OUTPUT, "(double)d[i] * factor.weight *", "(double)d[i] *", R),
    ("output", "the factor of its bias", OUTPUT, "(double)d[i] * factor.bias", "(double)d[i] * factor.weight", R),
    ("hold", "Mamba-2's B and C", SSD, "if (run->tape->hold & RS_HOLD_MIXING) {", "if (0) {", R),
    ("hold", "Mamba-2's steps", SSD, "d_steps[i * SCAN_STEPS + SCAN_BY_STEP] =", "", R),
    ("hold", "S6's steps", S6, "memset(b->d_steps, 0, (size_t)(rows * inner)", "memset(b->d_steps, 0, (size_t)(0 * inner)", R),
    ("hold", "S6's B and C", S6, "(size_t)(back_s6_tasks(b) * rows * 2 * states) * sizeof", "(size_t)0 * sizeof", R),
    ("hold", "linear attention's queries", LINEAR, "memset(out->dq, 0, (size_t)(rows * op->q.out)", "memset(out->dq, 0, (size_t)(0 * op->q.out)", R),
    ("hold", "linear attention's keys", LINEAR, "(size_t)(rows * b.tasks * op->head_dim) * sizeof *b.dk", "(size_t)0 * sizeof *b.dk", R),
    ("hold", "the delta rule's keys", DELTA, "if (run->tape->hold & RS_HOLD_MIXING) {", "if (0) {", R),
    ("hold", "the delta rule's strengths", DELTA, "memset(d_steps, 0, 2 * steps * sizeof *d_steps);", "d_steps[0] = 1;", R),
    ("hold", "the memory, layer by layer", WALK, "        RS_TRY(rs_gradients_tell_memory(run, err));\n", "", R),
    ("hold", "places told apart", SUMS, "|| g->plan.apart) return RS_OK;", "|| !g->plan.apart) return RS_OK;", S),
    ("cuts", "biases of the head", CUTS, "|| p->role == RS_ROLE_HEAD_BIAS", "", O),
    ("cuts", "the sum over a token", CUTS, "profile[i] += d * x[at];", "profile[i] += fabs(d * x[at]);", O),
    ("cuts", "the memory counts once", CUTS, "g->so_far.memory = g->memory_size = 0;", "g->memory_size = 0;", O),
    ("cuts", "tokens that carry the derivative", CUTS, "lengths * lengths / squares", "lengths / squares", O),
    ("cuts", "the cosine's lengths", CUTS, "dot / (sqrt(aa) * sqrt(bb))", "dot / (sqrt(aa) * sqrt(aa))", O),
    ("cuts", "the plain gradient", "src/observe/relevance.c", "e->row, e->output, 0, err);", "e->row, e->output, RS_HOLD_ALL, err);", O),
    ("cuts", "the other end", "src/observe/relevance.c", "other = e->row == 0 ? n - 1 : 0", "other = e->row", O),
    ("removal", "the largest first", REMOVAL, "? -scores[i]", "? scores[i]", O),
    ("removal", "the least in size first", REMOVAL, ": fabs(scores[i]);", ": scores[i];", O),
    ("removal", "how many are there", REMOVAL, "(i < first) == (how", "(i <= first) == (how", O),
    ("removal", "a head's output", HEADS, "i * view->cols + h->output;", "i * view->cols;", O),
    ("removal", "the row that is explained", HEADS, "(batch->begin[s] + t->row) * view->cols", "batch->begin[s] * view->cols", O),
    ("removal", "rollout's identity", ROLLOUT, "(i % (n + 1) == 0)", "0", O),
    ("removal", "later layers left", ROLLOUT, "r->mean, (blasint)n, r->product, (blasint)n, 0", "r->product, (blasint)n, r->mean, (blasint)n, 0", O),
]

if __name__ == "__main__":
    mutate_certificates.main(MUTATIONS, __doc__)
