#!/usr/bin/env python3
"""Makes one constant of a certified inequality wrong by 5 % in the source, builds the tests that answer for it, and expects one to fail.

    python3 tests/oracle/mutate_certificates.py SCRATCH [STATEMENT ...]

SCRATCH is a folder outside the repository that receives a copy of it (kept between runs, so that only what changed is built again). Without
STATEMENT all mutations of docs/certificates.md and docs/certificates_lambda.md are made, else those whose statement is named (C6, L7, ...). A
table of mutations and of the test that found each out goes to standard output; exit status 1: one survived or does not match the source.
"""
import pathlib
import re
import shutil
import subprocess
import sys

BOUNDS, CHAIN, DEVIATION = "src/proof/bounds.c", "src/certify/certify_chain.c", "src/certify/certify_deviation.c"
PUBLISHED, NORMS = "src/certify/certify_published.c", "src/linalg/norm_bounds.c"
QUADRATIC, ARCS, BRACKET = "src/proof/lambda_quadratic.c", "src/proof/lambda_arcs.c", "src/proof/lambda_bracket.c"
THEOREMS, GAINS, FACTS = "src/proof/lambda_theorems.c", "src/proof/lambda_gains.c", "src/proof/lambda_facts.c"
CONSENSUS, ROPE = "src/proof/lambda_consensus.c", "src/network/rope.c"
RADIUS, MAPS, SCAN = "src/certify/certify_radius.c", "src/certify/certify_radius_maps.c", "src/certify/certify_radius_scan.c"
STATES, SSD, S6 = "src/certify/certify_exact_states.c", "src/certify/certify_exact_ssd.c", "src/certify/certify_exact_s6.c"
X = ["test_exact_ways"]
B, C, D, N, R = ["test_bounds"], ["test_certify", "test_certify_values"], ["test_deviation"], ["test_norm_bounds"], ["test_rope_error"]
L = ["test_lambda", "test_lambda_theorems"]
P = [*L, "test_lambda_properties", "test_lambda_gains"]

# statement, what, file, text as it stands (its first occurrence), mutated text, tests that must find it out (any one of them)
MUTATIONS = [
    ("C1", "share of the range, 1/4", BOUNDS, ".range_share = 0.25", ".range_share = 0.2375", B),
    ("C2", "scale and norm of W_QK", BOUNDS, "rs_ball_set(other, head->qk_norm)", "rs_ball_set(other, head->qk_norm * 0.95)", B),
    ("C2", "tau, the 1/2 of TV", BOUNDS, "double tv = 0.5 *", "double tv = 0.475 *", B),
    ("C2", "tau, pairs that are skipped", BOUNDS, "distance[i] = 0.5 *", "distance[i] = 0.475 *", B),
    ("C2", "logit scale of a model", CHAIN, "fabs(op->scale / op->temperature) * (1 + 4", "0.95 * fabs(op->scale / op->temperature) * (1 + 4", C),
    ("C3", "norm of W_h", BOUNDS, "rs_ball_set(norm, heads[h].value_norm)", "rs_ball_set(norm, heads[h].value_norm * 0.95)", B),
    ("C3", "share of softmax, b", BOUNDS, "rs_ball_set(other, head->softmax)", "rs_ball_set(other, head->softmax * 0.95)", B),
    ("C3", "share of the identity, a", BOUNDS, "rs_ball_set(other, head->identity)", "rs_ball_set(other, head->identity * 0.95)", B),
    ("C3", "measured tau", BOUNDS, "rs_ball_set(other, head->measured)", "rs_ball_set(other, head->measured * 0.95)", B),
    ("C3", "norm of W_h of a model", CHAIN, ".value_norm = head->w.two", ".value_norm = 0.95 * head->w.two", C),
    ("C4", "factor 1/sigma", BOUNDS, ".norm_factor = 1", ".norm_factor = 0.95", B),
    ("C4", "largest gain", BOUNDS, "rs_ball_set(factor, largest_gain)", "rs_ball_set(factor, largest_gain * 0.95)", B),
    ("C4", "least std of a model", CHAIN, "bound, gain->largest, low,", "bound, gain->largest, 1.05 * low,", C),
    ("C5", "Lipschitz constant of ReLU", BOUNDS, "[RS_ACT_RELU] = 1", "[RS_ACT_RELU] = 0.95", B),
    ("C5", "of GELU", BOUNDS, "1.12890415", "1.07245894", B),
    ("C5", "of GELU's tanh form", BOUNDS, "1.12899307", "1.07254342", B),
    ("C5", "of SiLU", BOUNDS, "[RS_ACT_SILU] = 1.09983933", "[RS_ACT_SILU] = 1.04484736", B),
    ("C5", "of quick GELU", BOUNDS, "[RS_ACT_QUICK_GELU] = 1.09983933", "[RS_ACT_QUICK_GELU] = 1.04484736", B),
    ("C5", "of tanh", BOUNDS, "[RS_ACT_TANH] = 1,", "[RS_ACT_TANH] = 0.95,", B),
    ("C5", "2 of squared ReLU", BOUNDS, "slope = 2 * inner", "slope = 1.9 * inner", B),
    ("C5", "plain product", BOUNDS, "rs_times_up(rs_times_up(mlp->down_two, slope), mlp->up_two)", "0.95 * rs_times_up(rs_times_up(mlp->down_two, slope), mlp->up_two)", B),
    ("C5", "gated, first term", BOUNDS, "rs_times_up(value, mlp->up_two)", "rs_times_up(0.95 * value, mlp->up_two)", B),
    ("C5", "gated, second term", BOUNDS, "rs_times_up(slope, ups), mlp->gate_two", "rs_times_up(0.95 * slope, ups), mlp->gate_two", B),
    ("C5", "gated, longest row of the gate", BOUNDS, "mlp->gate_row * longest +", "0.95 * mlp->gate_row * longest +", B),
    ("C5", "gated, bias of the gate", BOUNDS, "+ mlp->gate_bias", "+ 0.95 * mlp->gate_bias", B),
    ("C5", "gated, longest row of W_u", BOUNDS, "double ups = mlp->up_row * longest", "double ups = 0.95 * mlp->up_row * longest", B),
    ("C5", "gated, bias of W_u", BOUNDS, "double ups = mlp->up_row * longest + mlp->up_bias", "double ups = mlp->up_row * longest + 0.95 * mlp->up_bias", B),
    ("C5", "MLP of a model", CHAIN, "rs_ball_set(c->other, lipschitz)", "rs_ball_set(c->other, 0.95 * lipschitz)", C),
    ("C6", "skip, from below", BOUNDS, "rs_ball_set(left, fabs(skip))", "rs_ball_set(left, 1.05 * fabs(skip))", B),
    ("C6", "branch scale of a model", CHAIN, "rs_ball_set(c->other, fabs(branch->scale));\n    arb_mul(c->op", "rs_ball_set(c->other, 0.95 * fabs(branch->scale));\n    arb_mul(c->op", C),
    ("C6", "skip of a model, from above", CHAIN, "rs_ball_set(c->other, fabs(branch->skip));\n    if (", "rs_ball_set(c->other, 0.95 * fabs(branch->skip));\n    if (", C),
    ("C6", "skip of a model, from below", CHAIN, "rs_skip_lower_ball(c->lo, branch->skip,", "rs_skip_lower_ball(c->lo, 1.05 * branch->skip,", C),
    ("C6", "skip beside a parallel branch, from below", CHAIN, "rs_ball_set(c->other, fabs(branch->skip));\n        arb_mul(c->lo", "rs_ball_set(c->other, 1.05 * fabs(branch->skip));\n        arb_mul(c->lo", C),
    ("C7", "K", BOUNDS, ".perturbation_factor = 1", ".perturbation_factor = 0.95", B),
    ("C7", "K(0) = 2", BOUNDS, "return 2 * c->perturbation_factor", "return 1.9 * c->perturbation_factor", B),
    ("C7", "K, first term", BOUNDS, "(expm1(range) / range +", "(0.95 * expm1(range) / range +", B),
    ("C7", "K, second term", BOUNDS, "expm1(2 * range) / (2 * range)", "0.95 * expm1(2 * range) / (2 * range)", B),
    ("C7", "2 of the range from the weights", BOUNDS, "double range = 2 * head->qk_one * q", "double range = 1.9 * head->qk_one * q", B),
    ("C7", "kappa_1", BOUNDS, "rs_times_up(head->qk_one, head->w_one)", "rs_times_up(0.95 * head->qk_one, head->w_one)", B),
    ("C7", "kappa_inf", BOUNDS, "rs_times_up(head->qk_one, head->w_inf)", "rs_times_up(0.95 * head->qk_one, head->w_inf)", B),
    ("C7", "skip", BOUNDS, "log_sum(step->skip, rs_times_up(step->scale, one)", "log_sum(0.95 * step->skip, rs_times_up(step->scale, one)", B),
    ("C7", "branch scale, first", BOUNDS, "rs_times_up(step->scale, one)", "rs_times_up(0.95 * step->scale, one)", B),
    ("C7", "branch scale, second", BOUNDS, "rs_times_up(step->scale, inf)", "rs_times_up(0.95 * step->scale, inf)", B),
    ("C7", "MLP", BOUNDS, "log10(step->mlp_one)", "log10(0.95 * step->mlp_one)", B),
    ("C7", "MLP, other norm", BOUNDS, "log10(step->mlp_inf)", "log10(0.95 * step->mlp_inf)", B),
    ("C7", "norms of a model", PUBLISHED, ".qk_one = rs_times_up(out.scale, w->qk.one)", ".qk_one = rs_times_up(0.95 * out.scale, w->qk.one)", C),
    ("C7", "MLP of a model", PUBLISHED, "rs_times_up(n->up_one, n->down_one)", "rs_times_up(0.95 * n->up_one, n->down_one)", C),
    ("C8", "2 between the centres", BOUNDS, ".centre_factor = 2", ".centre_factor = 1.9", B),
    ("C8", "applied to a model", PUBLISHED, "double centre = log10(rs_centre", "double centre = log10(0.95 * rs_centre", C),
    ("C9", "spectral norm", NORMS, "*bound = rescaled(up(sqrt(fmin(top, fro2))), exponent)", "*bound = rescaled(0.95 * up(sqrt(fmin(top, fro2))), exponent)", N),
    ("C9", "norm of a product", NORMS, "out->two = rescaled(up(sqrt(top)), both)", "out->two = rescaled(0.95 * up(sqrt(top)), both)", N),
    ("C9", "column sums of a product", NORMS, "out->one = up(plain.one", "out->one = 0.95 * up(plain.one", N),
    ("C9", "row sums of a product", NORMS, "out->inf = up(plain.inf", "out->inf = 0.95 * up(plain.inf", N),
    ("C9", "left factor", NORMS, "out->left_two = rescaled(up(", "out->left_two = rescaled(0.95 * up(", N),
    ("C9", "right factor", NORMS, "out->right_two = rescaled(up(", "out->right_two = rescaled(0.95 * up(", N),
    ("C9", "left Frobenius norm", NORMS, "out->left_fro = up(sqrt(fro_a))", "out->left_fro = 0.95 * up(sqrt(fro_a))", N),
    ("C9", "longest row", NORMS, "out->longest_row = fmax(out->longest_row, length)", "out->longest_row = fmax(out->longest_row, 0.95 * length)", N),
    ("C9", "deviation behind a norm", DEVIATION, "(site->largest_gain * deviation /", "(0.95 * site->largest_gain * deviation /", D),
    ("C9", "std of the exact rows", DEVIATION, "own - deviation / root", "own - 0.95 * deviation / root", D),
    ("C9", "MLP", DEVIATION, "return known((lipschitz * site->deviation", "return known((0.95 * lipschitz * site->deviation", D),
    ("C9", "sum, skip", DEVIATION, "return known((fabs(skip) * state", "return known((0.95 * fabs(skip) * state", D),
    ("C9", "sum, branch", DEVIATION, "+ fabs(scale) * op + rounding", "+ 0.95 * fabs(scale) * op + rounding", D),
    ("C9", "attention, share of the range", DEVIATION, "double tv = 0.25 *", "double tv = 0.2375 *", D),
    ("C9", "attention, spread of the keys", DEVIATION, "double spread = head->qk.right_two * site->diameter", "double spread = 0.95 * head->qk.right_two * site->diameter", D),
    ("C9", "attention, moved tokens", DEVIATION, "weight * site->deviation);", "0.95 * weight * site->deviation);", D),
    ("C9", "attention, moved weights", DEVIATION, "tv * site->diameter + weight", "0.95 * tv * site->diameter + weight", D),
    ("C9", "attention, slack of tau", DEVIATION, "slack[h] = 2 *", "slack[h] = 1.9 *", D),
    ("C9", "rotary positions, the angle's error", DEVIATION, "2 * sizes * site->turn", "1.9 * sizes * site->turn", R),
    ("C9", "rotary positions, YaRN's factor", DEVIATION, ": factor) * SLACK", ": 0.95 * factor) * SLACK", R),
    ("C9", "rotary positions, error of a frequency", ROPE, "FUNCTION * U + U * fabs(log(value))", "0.95 * FUNCTION * U + U * fabs(log(value))", R),
    ("C9", "QK-norm, length of what leaves it", DEVIATION, "(gain->largest * sqrt((double)norm->dim)", "(0.95 * gain->largest * sqrt((double)norm->dim)", D),
    ("C9", "epsilon under a norm", DEVIATION, "sqrt(site->epsilon))", "1.05 * sqrt(site->epsilon))", D),
    ("C9", "no further apart than their lengths", DEVIATION, "2 * site->largest_gain * root);", "1.9 * site->largest_gain * root);", D),
    ("C9", "enclosure, 2 of the deviation", DEVIATION, "2.000001 * deviation", "1.9 * deviation", D),
    ("C11", "norm, the largest gain", RADIUS, "off = largest_of(gain, n) * off", "off = 0.95 * largest_of(gain, n) * off", X),
    ("C11", "SiLU", RADIUS, "rs_bounds_exact.lipschitz[RS_ACT_SILU] * radius", "0.95 * rs_bounds_exact.lipschitz[RS_ACT_SILU] * radius", X),
    ("C11", "softplus, its slope", RADIUS, "slope = e / (1 + e)", "slope = 0.95 * e / (1 + e)", X),
    ("C11", "softplus, beyond the threshold", RADIUS, "r = *radius, slope = 1;", "r = *radius, slope = 0.95;", X),
    ("C11", "softplus, the jump at the threshold", RADIUS, "jump = 2.0612e-9", "jump = 1.9581e-9", X),
    ("C11", "decay", RADIUS, "value * (radius * (1 + radius)", "value * (0.95 * radius * (1 + radius)", X),
    ("C11", "gate, radius of what it multiplies", RADIUS, "(*radius * most", "(0.95 * *radius * most", X),
    ("C11", "gate, its own radius", RADIUS, "moved = x[k] * off", "moved = 0.95 * x[k] * off", X),
    ("C11", "map, what is read", MAPS, "(rows->radius[i] + ", "(0.95 * rows->radius[i] + ", X),
    ("C11", "convolution, what is read", MAPS, "(in.spread * share[c]", "(0.95 * in.spread * share[c]", X),
    ("C11", "convolution, rows before the panel", MAPS, "conv->before_spread[at]}", "0.95 * conv->before_spread[at]}", X),
    ("C11", "step, by the decay", SSD, "fabs(rate) * radius", "0.95 * fabs(rate) * radius", X),
    ("C11", "worth, decayed", SCAN, "return off * (decay.value", "return 0.95 * off * (decay.value", X),
    ("C11", "worth, by the decay", SCAN, "+ a * decay.radius", "+ 0.95 * a * decay.radius", X),
    ("C11", "query times key", SCAN, "query.radius * w->key[j]", "0.95 * query.radius * w->key[j]", X),
    ("C11", "key", SCAN, "w->key_off[j] = b.radius", "w->key_off[j] = 0.95 * b.radius", X),
    ("C11", "product times worth", SCAN, "+ size * w->off[j]", "+ 0.95 * size * w->off[j]", X),
    ("C11", "value", SCAN, "w->value_off[j] = x.radius", "w->value_off[j] = 0.95 * x.radius", X),
    ("C11", "query times state", SCAN, "query.radius * (kept + lost)", "0.95 * query.radius * (kept + lost)", X),
    ("C11", "state", SCAN, "query.length * (lost", "query.length * (0.95 * lost", X),
    ("C11", "state, by the decays of the chunk", SCAN, "w->before.radius * (given", "0.95 * w->before.radius * (given", X),
    ("C11", "state carried, by the decays", SCAN, "off += w->before.radius", "off += 0.95 * w->before.radius", X),
    ("C11", "state carried, by the worths", SCAN, "off += w->off[j] * w->key[j]", "off += 0.95 * w->off[j] * w->key[j]", X),
    ("C11", "state carried, by the keys", SCAN, "(b.radius * w->value[j]", "(0.95 * b.radius * w->value[j]", X),
    ("C11", "state carried, by the values", SCAN, "b.length * w->value_off[j])", "0.95 * b.length * w->value_off[j])", X),
    ("C11", "state, Mamba", S6, "double off = h_off[k] *", "double off = 0.95 * h_off[k] *", X),
    ("C11", "decay, Mamba", S6, "fabs(h[k]) * decay_off", "0.95 * fabs(h[k]) * decay_off", X),
    ("C11", "key, Mamba", S6, "fabs(t->given[k]) * key_off", "0.95 * fabs(t->given[k]) * key_off", X),
    ("C11", "query, Mamba", S6, "query_off * (fabs(h[k])", "0.95 * query_off * (fabs(h[k])", X),
    ("C11", "state in the sum, Mamba", S6, "query_size * h_off[k]", "0.95 * query_size * h_off[k]", X),
    ("C11", "step times value, Mamba", S6, "off[k] * (fabs(u[k])", "0.95 * off[k] * (fabs(u[k])", X),
    ("C11", "value, Mamba", S6, "+ step * u_off[k]", "+ 0.95 * step * u_off[k]", X),
    ("P1", "the 4", BOUNDS, ".published_factor = 4", ".published_factor = 3.8", B),
    ("P1", "1.256", BOUNDS, ".published_range = 1.256", ".published_range = 1.3188", B),
    ("P1", "gamma_min, 2", BOUNDS, "double below = 2 *", "double below = 1.9 *", B),
    ("P1", "beta of a model", PUBLISHED, "w->qk.one * sqrt(w->w.one * w->w.inf)", "0.95 * w->qk.one * sqrt(w->w.one * w->w.inf)", C),
    ("P1", "scale of a model", PUBLISHED, "out.scale = fabs(", "out.scale = 0.95 * fabs(", C),
    ("P2", "exponent 3", BOUNDS, "double power = pow(3,", "double power = pow(2.85,", B),
    ("P2", "factor's exponent 1/2", BOUNDS, "(log_r + 0.5 * log_factor)", "(log_r + 0.475 * log_factor)", B),
    ("P3", "Lipschitz constant", PUBLISHED, "out->lipschitz = sqrt(", "out->lipschitz = 0.95 * sqrt(", C),
    ("L1", "kept", QUADRATIC, "rs_span_constant(rs_span_of(kept)", "rs_span_constant(rs_span_of(0.95 * kept)", P),
    ("L1", "C, gamma/alpha", QUADRATIC, "rescaled(rs_span_div(m->gamma, m->alpha)", "rescaled(rs_span_mul(rs_span_of(1.05), rs_span_div(m->gamma, m->alpha))", P),
    ("L1", "b, beta/alpha", QUADRATIC, "rescaled(rs_span_div(m->beta, m->alpha)", "rescaled(rs_span_mul(rs_span_of(0.95), rs_span_div(m->beta, m->alpha))", P),
    ("L2", "coordinate of epsilon", ARCS, "double constant_coordinate = sqrt(", "double constant_coordinate = 0.95 * sqrt(", P),
    ("L2", "h", ARCS, "row->height = ldexp(ldexp(total", "row->height = 0.95 * ldexp(ldexp(total", P),
    ("L2", "c", ARCS, "row->centre = ldexp(", "row->centre = 0.95 * ldexp(", P),
    ("L2", "what kept refers to", ARCS, "arcs->input = (rs_lambda_value){middle, error}", "arcs->input = (rs_lambda_value){0.95 * middle, error}", P),
    ("L3", "chord to the limit", BRACKET, "2 * at.sine * at.sine / (1 + cosine)", "1.9 * at.sine * at.sine / (1 + cosine)", P),
    ("L3", "gain", BRACKET, "double chords = stretched_gain(arcs) * sqrt(sum)", "double chords = 0.95 * stretched_gain(arcs) * sqrt(sum)", P),
    ("L4", "chord to the ends", BRACKET, "stretched_gain(arcs) * swept.chords", "0.95 * stretched_gain(arcs) * swept.chords", P),
    ("L5", "1/2 of the rest", BRACKET, "double rest = 0.5 *", "double rest = 0.475 *", P),
    ("L5", "2 of the curvature", BRACKET, "double bend = 2 *", "double bend = 1.9 *", P),
    ("L6", "2K", THEOREMS, "rs_span_of(2 * (double)wish->layers)", "rs_span_of(1.9 * (double)wish->layers)", P),
    ("L6", "c", THEOREMS, "rs_span_div(rs_span_of(gain), sine)", "rs_span_div(rs_span_of(0.95 * gain), sine)", P),
    ("L7", "kept", THEOREMS, "rs_span_mul(rs_span_of(kept), rs_span_of(facts->diversity_most))", "rs_span_mul(rs_span_of(0.95 * kept), rs_span_of(facts->diversity_most))", P),
    ("L7", "largest gain", THEOREMS, "rs_span_mul(rs_span_of(2), rs_span_of(facts->largest_gain))", "rs_span_mul(rs_span_of(1.9), rs_span_of(facts->largest_gain))", P),
    ("L7", "longest branch over its row", THEOREMS, "demand_for_drift(facts->row_ratio", "demand_for_drift(0.95 * facts->row_ratio", P),
    ("L7", "spread that the norm leaves", FACTS, "out->unit_diversity = fmax(0,", "out->unit_diversity = 1.05 * fmax(0,", P),
    ("L8", "kept", THEOREMS, "rs_span_mul(rs_span_of(self->kept)", "rs_span_mul(rs_span_of(0.95 * self->kept)", P),
    ("L8", "L", THEOREMS, "rs_span_constant(more(self->factor, self->spread", "rs_span_constant(more(0.95 * self->factor, self->spread", P),
    ("L8", "stretch", THEOREMS, "rs_span_constant(rs_span_div(gain, at)", "rs_span_constant(rs_span_div(rs_span_of(0.95 * self->gain), at)", P),
    ("L9", "s, 2 under the root", THEOREMS, "rs_span_div(rs_span_of(2), rs_span_add(one, cosine))", "rs_span_div(rs_span_of(1.9), rs_span_add(one, cosine))", P),
    ("L9", "B/q", THEOREMS, "rs_span_div(branch, rs_span_of(facts->smallest_row)).high", "0.95 * rs_span_div(branch, rs_span_of(facts->smallest_row)).high", P),
    ("L10", "equation 7", THEOREMS, "rs_span_div(sum, rs_span_sub(one, a))", "rs_span_div(rs_span_mul(rs_span_of(0.95), sum), rs_span_sub(one, a))", L),
    ("L10", "and its input", THEOREMS, "rs_span_div(rs_span_add(linear, root), rs_span_mul(p, rest))", "rs_span_div(rs_span_mul(rs_span_of(0.95), rs_span_add(linear, root)), rs_span_mul(p, rest))", L),
    ("L10", "b, its 2", THEOREMS, "return grown * 2 *", "return grown * 1.9 *", L),
    ("L12", "sum of heads", GAINS, "bound = sum_products(weights->head_norm, NULL", "bound = 0.95 * sum_products(weights->head_norm, NULL", P),
    ("L12", "stacked heads", GAINS, "rs_span_of(weights->stacked_norm)).high", "rs_span_of(0.95 * weights->stacked_norm)).high", P),
    ("L12", "product of W_V and W_O", GAINS, "bound = least(bound, rs_span_mul(heads, product).high)", "bound = least(bound, 0.95 * rs_span_mul(heads, product).high)", P),
    ("L12", "bias", GAINS, "rs_span_of(weights->bias_norm)", "rs_span_of(0.95 * weights->bias_norm)", P),
    ("L13", "W_u", GAINS, "rs_span_of(weights->up_norm)", "rs_span_of(0.95 * weights->up_norm)", P),
    ("L13", "bias of W_u", GAINS, "rs_span_of(weights->up_bias_norm)", "rs_span_of(0.95 * weights->up_bias_norm)", P),
    ("L13", "rows of the gate", GAINS, "rs_span_of(weights->gate_row_norm)", "rs_span_of(0.95 * weights->gate_row_norm)", P),
    ("L13", "bias of the gate", GAINS, "rs_span_of(weights->gate_bias_max)", "rs_span_of(0.95 * weights->gate_bias_max)", P),
    ("L13", "W_d", GAINS, "rs_span_of(weights->down_norm)", "rs_span_of(0.95 * weights->down_norm)", P),
    ("L13", "bias of W_d", GAINS, "rs_span_of(weights->down_bias_norm)", "rs_span_of(0.95 * weights->down_bias_norm)", P),
    ("L14", "groups", GAINS, "rs_span_mul(groups, product)", "rs_span_mul(rs_span_mul(rs_span_of(0.95), groups), product)", P),
    ("L15", "even n", GAINS, "rs_span square = rs_span_div(count, two)", "rs_span square = rs_span_div(rs_span_mul(rs_span_of(0.95), count), two)", P),
    ("L15", "odd n", GAINS, "rs_span_sub(square, rs_span_div(rs_span_of(1)", "rs_span_sub(square, rs_span_div(rs_span_of(1.05)", P),
    ("L16", "sum", GAINS, "return rs_span_mul(sum, rs_span_of(fabs(branch_scale))).high", "return 0.95 * rs_span_mul(sum, rs_span_of(fabs(branch_scale))).high", P),
    ("L17", "multiplier (predicted)", CONSENSUS, "return largest /", "return 0.95 * largest /", L),
    ("L18", "gains", GAINS, "rs_span_of(block->gain1)", "rs_span_of(0.95 * block->gain1)", P),
    ("L18", "stds", GAINS, "rs_span_of(block->std1)", "rs_span_of(1.05 * block->std1)", P),
    ("L18", "skip of the mixer", GAINS, "rs_span_of(fabs(block->skip_mixer))", "rs_span_of(0.95 * fabs(block->skip_mixer))", P),
    ("L18", "scale of the mixer", GAINS, "rs_span_of(fabs(block->scale_mixer))", "rs_span_of(0.95 * fabs(block->scale_mixer))", P),
    ("L18", "skip of the MLP", GAINS, "rs_span_of(fabs(block->skip_mlp))", "rs_span_of(0.95 * fabs(block->skip_mlp))", P),
    ("L18", "scale of the MLP", GAINS, "rs_span_of(fabs(block->scale_mlp))", "rs_span_of(0.95 * fabs(block->scale_mlp))", P),
    ("L18", "L", GAINS, "rs_span_mul(mlp, rs_span_of(lipschitz))", "rs_span_mul(mlp, rs_span_of(0.95 * lipschitz))", P),
    ("L19", "kept", GAINS, "rs_span_sub(rs_span_of(fabs(lambda)), lost)", "rs_span_sub(rs_span_of(1.05 * fabs(lambda)), lost)", P),
    ("L19", "demand", GAINS, "rs_span_add(rs_span_of(kept), lost)", "rs_span_add(rs_span_of(0.95 * kept), lost)", P),
]


def command(scratch, *words):
    return subprocess.run(words, cwd=scratch, capture_output=True, text=True, errors="replace", check=False)


def prepare(repository, scratch):
    """Brings SCRATCH to the state of the working tree, without touching files that are alike (their objects stay good)."""
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=repository, capture_output=True, text=True, check=True).stdout.split("\n")
    for name in filter(None, files):
        source, target = repository / name, scratch / name
        if source.is_file() and not (target.is_file() and target.read_bytes() == source.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            target.chmod(source.stat().st_mode & 0o777)
    if not (scratch / "build/build.ninja").exists():
        if command(scratch, "cmake", "--preset", "release", "-G", "Ninja").returncode:
            sys.exit("the copy cannot be configured")


def found_by(scratch, tests):
    """The first test that fails, with the cases that do; None: none does."""
    for test in tests:
        built = command(scratch, "cmake", "--build", "build", "--target", test)
        if built.returncode:
            return "(the compiler)\n" + built.stdout[-600:]
        ran = command(scratch, f"build/tests/{test}")
        if ran.returncode:
            cases = re.findall(r"^\[  FAILED  \] (\w+)$", ran.stdout + ran.stderr, re.M)
            return test + ": " + (", ".join(dict.fromkeys(cases)) or f"status {ran.returncode}")
    return None


def main(mutations, usage):
    if len(sys.argv) < 2:
        sys.exit(usage)
    repository = pathlib.Path(__file__).resolve().parents[2]
    scratch, wanted = pathlib.Path(sys.argv[1]).resolve(), set(sys.argv[2:])
    if repository == scratch or repository in scratch.parents:
        sys.exit("SCRATCH must lie outside the repository")
    scratch.mkdir(parents=True, exist_ok=True)
    prepare(repository, scratch)
    bad = 0
    for statement, what, name, old, new, tests in mutations:
        if wanted and statement not in wanted:
            continue
        path = scratch / name
        text = path.read_text(encoding="utf-8")
        if old not in text:
            verdict = "NOT IN THE SOURCE"
        else:
            path.write_text(text.replace(old, new, 1), encoding="utf-8")
            try:
                verdict = found_by(scratch, tests) or "SURVIVED " + ", ".join(tests)
            finally:
                path.write_text(text, encoding="utf-8")
        bad += verdict.isupper() or verdict.startswith(("SURVIVED", "NOT", "(the"))
        print(f"{statement:4} {what:42} {verdict}", flush=True)
    print(f"{bad} of the mutations were not found out")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main(MUTATIONS, __doc__)
