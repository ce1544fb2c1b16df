#!/usr/bin/env python3
"""Makes one sign or factor of the way back wrong in the source, builds the tests that answer for it, and expects one to fail.

    python3 tests/oracle/mutate_gradients.py SCRATCH [PART ...]

SCRATCH and what is printed are as in mutate_certificates.py. PART: walk, sums, dense, squares, norm, slope, mlp, attention, head, embed,
loss, residual; without one all are made.
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
APART, PAIRS = "src/engine/back_residual_attention.inc", "src/engine/back_residual.inc"
R = ["test_gradients_residual"]

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
    ("attention", "the memory's derivative adds up", ROWS, "sum[i] += power * (double)d[i];", "sum[i] = power * (double)d[i];", G),
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
    ("residual", "what a row's derivatives have in common", APART, "(by[j] - along)", "(by[j])", R),
    ("residual", "the key of the largest weight", APART, "by[star] = -sum;", "by[star] = sum;", R),
    ("residual", "keys by what tells them apart", APART, "b->dk.e[s] + r->k.e[s];", "b->dk.e[s];", R),
    ("residual", "values by what tells them apart", APART, "b->d_mixed.e[s] + r->v.e[s] +", "b->d_mixed.e[s] +", R),
    ("residual", "the keys' weight by what tells tokens apart", APART, "b->from.e[s] + b->from.scale[s];", "b->from.scale[s];", R),
    ("residual", "the scale on the queries", APART, "h->by, h->k, rows, h->dim, h->n, h->alpha);", "h->by, h->k, rows, h->dim, h->n, 0.95 * h->alpha);", R),
    ("residual", "the scale on the keys", APART, "ldq, rows, h->dim, h->alpha);", "ldq, rows, h->dim, 0.95 * h->alpha);", R),
    ("residual", "the size of the keys in the softmax", APART, "h->dim, h->alpha * power);", "h->dim, h->alpha);", R),
    ("residual", "edits of the matrix", APART, "if (edited(op)) mix_row(m", "if (false) mix_row(m", R),
    ("residual", "the softmax's share", APART, "b->r.a.op->mix_softmax);", "1);", R),
    ("residual", "samples at one exponent", PAIRS, "rs_scale_by(rows, numbers_of(&r), by < 0 ? by : 0);", "(void)by;", R),
    ("residual", "a sum's larger exponent", PAIRS, "b = rs_power_of_two(*from.e - e);", "b = 1;", R),
    ("residual", "a factor's exponent", PAIRS, "d.e[s] += k;", "d.e[s] -= k;", R),
    ("residual", "the power of what is told", SUMS, "view->exponent = run->tape->exponent;", "view->exponent = 0;", R),
    ("residual", "batches of other exponents", SUMS, "rs_power_of_two(view->exponent - *exponent);", "1;", R),
    ("residual", "a batch whose derivatives are 0", PAIRS, "most == INT64_MIN ? RS_EXPONENT_LEAST : most", "most == INT64_MIN ? 0 : most", R),
    ("residual", "derivatives that are rounding", APART, "run->tape->drowned = true;", "run->tape->drowned = false;", R),
    ("loss", "the square", ENDS, "out[c] = (REAL)(wanted->weight * g);", "out[c] = (REAL)(2 * wanted->weight * g);", G),
]

if __name__ == "__main__":
    mutate_certificates.main(MUTATIONS, __doc__)
