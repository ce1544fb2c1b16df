#!/usr/bin/env python3
"""Makes one constant or one sign of the laboratory wrong, and expects a claim to notice.

    python3 tests/oracle/mutate_lab.py SCRATCH [EXPERIMENT|TEST|FILE ...]

Needs build/ as `make` leaves it. SCRATCH is a folder for mutated files and programs: each mutation of a file of src/lab/ is compiled there and
linked before the library, its experiment runs with --quick, and the first claim whose verdict is another than without the mutation is
named; of a mutation with a unit test the case that fails. What is mutated: constants and signs of bounds, laws, formulas and given instances. What is not: the sizes of random draws, which
no claim depends on; numbers that claims expect (a wrong one fails by itself: its experiment then contradicts it); and what changes nothing, as
a factor that cancels, or the direction of the arrows of a mask that is its own mirror image.
Exit status 1: one survived or does not match the source. By hand: it takes some ten minutes.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

PERTURBATION, HALF, POSITION = "dong_perturbation_lemma", "causal_half_law", "relative_position_linear_rate"
ODE, MASK, LAMBDA, SKIP = "equiangular_ode", "dobrushin_mask", "lambda_attention", "dong_skip_lower_bound"
NORM, MLP, BOUNDS, DEEP = "dong_layernorm", "dong_mlp", "dong_bounds", "dong_doubly_exponential"
PATHS, ENSEMBLE = "dong_paths", "dong_ensemble"
KIN = "dong_depth_kin"
LIPSCHITZ, HEADS, COLLAPSE = "dong_lipschitz", "dong_heads", "collapse"
GRAPHS, HOMOGENEOUS, RANK_ONE, ONE_LAYER = "graph_oversmoothing", "ssm_homogeneity", "ssm_rank_one_without_mu", "one_layer_collapse"
THREE_HALVES, POST_NORM = "lambda_minus_three_halves", "post_norm"
CONSENSUS, GIVEN = "consensus_threshold", "consensus_given"
GATE = "gate_reinjects"
LTI = "lti_with_and_without_norm"
RELEVANCE, RELEVANCE_NETWORKS = "lrp_conservation", "lrp_networks"
THEOREM_43 = "lambda_theorem_4_3"
THEOREM_41, DEMANDS = "lambda_theorem_4_1", "theorem_4_1_table"
FIGURE_1, FIGURE_2, FIGURE_3, FIGURES = "lambda_figure_1", "lambda_figure_2", "lambda_figure_3", "lambda_figures"
LINES = "lambda_layers"
TWO_FACTORS, FACTORS, TWO_DECAYS, LINE = "kobayashi_fig1", "kobayashi_factors", "kobayashi_fig5", "kobayashi_line"
DECAY_PROOFS, PAIRS, GLOBAL, GROUPED = "kobayashi_theorems", "kobayashi_pairs", "certificate_global_minimum", "gqa_balance"
ROTARY, BALL, FIGURE_4, PENALTY = "rope_planes", "heavy_ball_root", "kobayashi_fig4", "product_penalty"
RATIOS, INSTANCES, LAYER, MATRIX = "dong_bounds_ratios", "dong_bounds_instances", "one_layer", "toy_matrix"

WIDTH_GAP, KEYS_GAP, BERT_GAP, CENTRED = "gap_width_collapse", "gap_fixed_dk", "gap_bert_init", "centred_identities"
SMOOTH, SHAPED, KEPT, SIMPLE, SOFTMAX = "oversmoothing_bound", "shaped_sde", "espa", "sas_at_init", "softmax_moment"
NOCI_1, NOCI_32, NOCI_33, NOCI_SIZES = "noci_fig1", "noci_lemma_3_2", "noci_theorem_3_3", "noci_hyperparameters"
LAST_LAYER, SIGNALS, SIGNALS_PASS = "xiong_last_layer", "signals", "signals_pass"
SORTING, HULL, MEMORY, CIRCLE, CIRCLE_LOOP = "dong_sorting", "dong_convex_hull", "dong_memorization", "dong_circle", "dong_circle_loop"
FLOORS, BY_LENGTH = "task_floors", "path_accuracy"
MADE_UP, MADE_UP_DONG, SEEN, DATA = "test_lab_made_up", "test_lab_made_up_dong", "test_lab_seen", "test_lab_data"
GAP_TRAINING, SKIPLESS, TABLE_1, FIGURE_3_RANKS = "gap_training", "skipless_train", "kobayashi_table1_small", "kobayashi_fig3"
STRENGTHS, LENGTHS, LOSSES = "lambda_table1_small", "dong_lengths", "losses"
ENSEMBLES, SHORT_PATHS = "dong_ensembles", "ensemble"

# experiment, or test that answers for it; file of src/lab (without .c), text as it stands (its first occurrence), mutated text
MUTATIONS = [
    (PERTURBATION, PERTURBATION, "paper_range = 1.256", "paper_range = 1.3188"),
    (PERTURBATION, PERTURBATION, "s[i] = r[i] + e[i];\n    double range", "s[i] = r[i] - e[i];\n    double range"),
    (PERTURBATION, PERTURBATION, "exp(e[i] + shift)", "exp(shift - e[i])"),
    (PERTURBATION, PERTURBATION, "log_sum_exp(r, n) - log_sum_exp(s, n)", "log_sum_exp(r, n) + log_sum_exp(s, n)"),
    (PERTURBATION, PERTURBATION, "low < 1 - range", "low < 1 - 0.95 * range"),
    (PERTURBATION, PERTURBATION, "high > 1 + 2 * range", "high > 1 + 1.9 * range"),
    (PERTURBATION, PERTURBATION, "(high - 1) / (2 * range)", "(high - 1) / (2.1 * range)"),
    (PERTURBATION, PERTURBATION, "exp(r[i] - from)) / 2", "exp(r[i] - from)) / 1.9"),
    (PERTURBATION, PERTURBATION, "tanh(range_of(e, n) / 4)", "tanh(range_of(e, n) / 4.2)"),
    (PERTURBATION, PERTURBATION, "tanh(range_of(e, n) / 4)", "tanh(range_of(e, n) / 3.8)"),
    (PERTURBATION, PERTURBATION, "left - (1 + 2 * a->range", "left - (1 + 1.9 * a->range"),
    (PERTURBATION, PERTURBATION, "left - (1 + 2 * a->range", "left - (1 - 2 * a->range"),
    (PERTURBATION, PERTURBATION, "left - (1 + 2", "left + (1 + 2"),
    (PERTURBATION, PERTURBATION, "p[i * a->n + j] - a->base[0][j]", "p[i * a->n + j] + a->base[0][j]"),
    (PERTURBATION, PERTURBATION, "right = 2 * a->range", "right = 1.9 * a->range"),
    (PERTURBATION, PERTURBATION, ".residual = {1, -1}, .qk = {{-0.3}}", ".residual = {1, -1}, .qk = {{-0.315}}"),
    (PERTURBATION, PERTURBATION, ".residual = {1, -1}", ".residual = {1, -1.05}"),
    (PERTURBATION, PERTURBATION, "a.base[0][0] - a.base[0][1]", "a.base[0][0] + a.base[0][1]"),
    (PERTURBATION, PERTURBATION, "expm1(middle) < 2 * middle", "expm1(middle) < 1.9 * middle"),
    (PERTURBATION, PERTURBATION, "lifted_p / p - 1 - 2 * range", "lifted_p / p - 1 - 1.9 * range"),
    (PERTURBATION, PERTURBATION, "lifted_p / p - 1 - 2 * range", "lifted_p / p + 1 - 2 * range"),
    (PERTURBATION, PERTURBATION, "exp(-range / 2)", "exp(-range / 1.9)"),
    (PERTURBATION, PERTURBATION, "exp(-range / 2)", "exp(range / 1.9)"),
    (PERTURBATION, PERTURBATION, "fabs(2 * p - 1) / tanh(range / 4)", "fabs(1.9 * p - 1) / tanh(range / 4)"),
    (PERTURBATION, PERTURBATION, "fabs(2 * p - 1) / tanh(range / 4)", "fabs(2 * p - 1) / tanh(range / 4.2)"),
    (PERTURBATION, LAYER, "a->range[h][i] = high - low", "a->range[h][i] = high + low"),
    (PERTURBATION, LAYER, "layer->residual, 1, 12, 0.8", "layer->residual, 1, 12, 0.84"),
    (PERTURBATION, LAYER, "10 + (uint32_t)h, 9, 1)", "10 + (uint32_t)h, 9, 1.05)"),
    (PERTURBATION, LAYER, "30 + (uint32_t)h, 3, 1)", "30 + (uint32_t)h, 3, 1.05)"),
    (PERTURBATION, LAYER, "2147483648.0 - 1)", "2147483648.0 + 1)"),
    (PERTURBATION, MATRIX, "UINT32_C(3266489917)", "UINT32_C(3266489919)"),
    (HALF, HALF, '"skip_mixer", 0.0', '"skip_mixer", 0.05'),
    (HALF, HALF, 'model == UNMASKED ? "none" : "causal"', 'model != UNMASKED ? "none" : "causal"'),
    (HALF, HALF, "x[i] - x[i % WIDTH]", "x[i] + x[i % WIDTH]"),
    (HALF, HALF, "x[WIDTH + feature] - x[feature]", "x[WIDTH + feature] + x[feature]"),
    (HALF, HALF, "/ step - i)", "/ step + i)"),
    (HALF, HALF, "/ step - i)", "/ step - 1.05 * i)"),
    (POSITION, POSITION, "-0.3 * abs", "-0.315 * abs"),
    (POSITION, POSITION, "-0.3 * abs", "0.3 * abs"),
    (POSITION, POSITION, "abs(i - (TOKENS - 1))", "abs(i - (TOKENS - 2))"),
    (POSITION, POSITION, "exp(log(residual[to] / residual[from]) / (to - from))", "exp(-log(residual[to] / residual[from]) / (to - from))"),
    (POSITION, POSITION, "/ (to - from))", "/ (to - from + 1))"),
    (POSITION, POSITION, '"skip_mixer", 0.0', '"skip_mixer", 0.05'),
    (ODE, ODE, "beta = 2;", "beta = 2.1;"),
    (ODE, ODE, "return 2 * e * (1 - g)", "return 1.9 * e * (1 - g)"),
    (ODE, ODE, "* e * (1 - g)", "* e * (1 + g)"),
    (ODE, ODE, "(PARTICLES - 1) * g + 1)", "(PARTICLES - 1) * g - 1)"),
    (ODE, ODE, "exp(beta) + (PARTICLES - 1) * e", "exp(beta) - (PARTICLES - 1) * e"),
    (ODE, ODE, "h / 6 *", "h / 5.7 *"),
    (ODE, ODE, "a + 2 * b + 2 * c", "a + 1.9 * b + 2 * c"),
    (ODE, ODE, "attention.scale = beta / WIDTH", "attention.scale = 1.05 * beta / WIDTH"),
    (ODE, ODE, "x[i * WIDTH + i] = sqrt(WIDTH)", "x[i * WIDTH + i] = 1.05 * sqrt(WIDTH)"),
    (ODE, ODE, "x[j * WIDTH + k] / WIDTH", "x[j * WIDTH + k] / (1.05 * WIDTH)"),
    (ODE, ODE, "sum / pairs", "0.95 * sum / pairs"),
    (ODE, ODE, "double step = 1.0 /", "double step = 0.01 /"),
    (ODE, ODE, "log(before / last)", "log(last / before)"),
    (MASK, MASK, "depth[i] = depth[j] + 1", "depth[i] = depth[j] + 2"),
    (MASK, MASK, "(1 - pow(c->least, c->reach))", "(1 - 1.05 * pow(c->least, c->reach))"),
    (MASK, MASK, "(1 - pow(c->least, c->reach))", "(1 + pow(c->least, c->reach))"),
    (MASK, MASK, "rs_toy_mixing(trace, l, 0, 0)[i]);", "1.05 * rs_toy_mixing(trace, l, 0, 0)[i]);"),
    (MASK, MASK, "rs_small_product(next, p, product", "rs_small_product(next, product, p"),
    (MASK, MASK, "(rs_rows_variation(product, TOKENS, TOKENS) * rs_rows_diameter", "(0.95 * rs_rows_variation(product, TOKENS, TOKENS) * rs_rows_diameter"),
    (MASK, MASK, "? 1 : -1;", "? 1 : 1;"),
    (MASK, MASK, 'true, 4, 5,', 'true, 5, 5,'),
    (MASK, MASK, '"sliding:2", true, 2', '"sliding:2", true, 3'),
    (MASK, MATRIX, "return largest / 2;", "return largest / 1.9;"),
    (LAMBDA, LAMBDA, "{-20, -5, -2, -1, -0.5, 0, 0.5, 1, 2, 5, 20}", "{-21, -5, -2, -1, -0.5, 0, 0.5, 1, 2, 5, 20}"),
    (LAMBDA, LAMBDA, "{-20, -5, -2, -1, -0.5, 0, 0.5, 1, 2, 5, 20}", "{-20, -5.25, -2, -1, -0.5, 0, 0.5, 1, 2, 5, 20}"),
    (LAMBDA, LAMBDA, "{-20, -5, -2, -1, -0.5, 0, 0.5, 1, 2, 5, 20}", "{-20, -5, -2, -1, -0.525, 0, 0.5, 1, 2, 5, 20}"),
    (LAMBDA, LAMBDA, "{-20, -5, -2, -1, -0.5, 0, 0.5, 1, 2, 5, 20}", "{-20, -5, -2, -1, -0.5, 0, 0.5, 1, -2, 5, 20}"),
    (LAMBDA, LAMBDA, "common_share = 0.5", "common_share = 0.525"),
    (LAMBDA, LAMBDA, "sum += a[i * SIZE + k] * a[j * SIZE + k]", "sum -= a[i * SIZE + k] * a[j * SIZE + k]"),
    (LAMBDA, LAMBDA, "sum += a[i * SIZE + k] * a[j * SIZE + k]", "sum += 1.05 * a[i * SIZE + k] * a[j * SIZE + k]"),
    (LAMBDA, LAMBDA, "sqrt(-2 * log(radius))", "sqrt(-1.9 * log(radius))"),
    (LAMBDA, LAMBDA, "hashed_normal(a, tag, SIZE * SIZE, 1 /", "hashed_normal(a, tag, SIZE * SIZE, 1.05 /"),
    (LAMBDA, LAMBDA, "hashed_normal(a, tag + 2, SIZE * SIZE, 1 /", "hashed_normal(a, tag + 2, SIZE * SIZE, 1.05 /"),
    (LAMBDA, LAMBDA, "exponents[SIZE] * log10(2)", "exponents[SIZE] * log10(1.9)"),
    (LAMBDA, LAMBDA, "log10(rest / trace.norms[SIZE]) +", "log10(rest / trace.norms[SIZE]) -"),
    (LAMBDA, LAMBDA, "x[i * SIZE + k] * x[i * SIZE + k] / SIZE", "1.05 * x[i * SIZE + k] * x[i * SIZE + k] / SIZE"),
    (LAMBDA, LAMBDA, "x[i * SIZE + k] += common[k]", "x[i * SIZE + k] -= common[k]"),
    (LAMBDA, LAMBDA, "x[i] -= x[i % FEW]", "x[i] += x[i % FEW]"),
    (LAMBDA, LAMBDA, "*out = after / before", "*out = before / after"),
    (LAMBDA, LAMBDA, "x[i % FEW] + x[i] * small / after", "x[i % FEW] + x[i] * 1.05 * small / after"),
    (LAMBDA, LAMBDA, "if (factor > 1)", "if (factor > 1.05)"),
    (LAMBDA, LAMBDA, "&out->multiplier[0], &toy, FEW, -5", "&out->multiplier[0], &toy, FEW, -5.25"),
    (LAMBDA, LAMBDA, "&out->multiplier[1], &toy, FEW, 5", "&out->multiplier[1], &toy, FEW, 5.25"),
    (SKIP, SKIP, "architecture(DEPTH, WIDTH, 1,", "architecture(DEPTH, WIDTH, 1.05,"),
    (SKIP, SKIP, "{2, 1, -2, -1}", "{2, 1.05, -2, -1}"),
    (SKIP, SKIP, "v[2] = {-0.2, 0.4}", "v[2] = {-0.21, 0.4}"),
    (SKIP, SKIP, "v[2] = {-0.2, 0.4}", "v[2] = {0.2, 0.4}"),
    (SKIP, SKIP, "0.2 * sqrt(2)", "0.21 * sqrt(2)"),
    (SKIP, SKIP, "/ (5 * tanh(1))", "/ (4.75 * tanh(1))"),
    (SKIP, SKIP, "x[i] * (y[i] - x[i])", "x[i] * (y[i] + x[i])"),
    (SKIP, SKIP, "architecture(FALL, WIDTH, 0.01", "architecture(FALL, WIDTH, 0.0105"),
    (SKIP, SKIP, "sqrt(atanh(0.5))", "sqrt(atanh(0.525))"),
    (SKIP, SKIP, "apart *= 1 + 2 * tanh", "apart *= 1 + 1.9 * tanh"),
    (SKIP, SKIP, "x[2] = {0.05, -0.05}", "x[2] = {0.0525, -0.05}"),
    (SKIP, SKIP, "(target / apart - 1)", "(target / apart + 1)"),
    (SKIP, SKIP, "l < CLIMB ? f->last : -2", "l < CLIMB ? f->last : -1.9"),
    (SKIP, SKIP, "l < CLIMB ? f->last : -2", "l < CLIMB ? f->last : 2"),
    (SKIP, SKIP, "tanh(k * *high * *high / 4)", "tanh(k * *high * *high / 4.2)"),
    (SKIP, SKIP, "tanh(k * *high * *high / 4)", "tanh(k * *high * *high / 3.8)"),
    (SKIP, SKIP, "fmax(0, 1 - change)", "fmax(0, 1 + change)"),
    (SKIP, SKIP, "*high *= 1 + change", "*high *= 1 - change"),
    (SKIP, SKIP, "half = -0.5", "half = 0.5"),
    (NORM, NORM, "yy - xy * xy / xx", "yy + xy * xy / xx"),
    (NORM, NORM, "yy - xy * xy / xx", "yy - 0.95 * xy * xy / xx"),
    (NORM, NORM, "mean[k] - centre;", "mean[k] + centre;"),
    (NORM, NORM, "s2 += c[k] * c[k] / WIDTH", "s2 += 1.05 * c[k] * c[k] / WIDTH"),
    (NORM, NORM, "x[i * WIDTH + k] - mean[k] - shift", "x[i * WIDTH + k] - mean[k] + shift"),
    (NORM, NORM, "(r - along * c[k] / (WIDTH * s2))", "(r + along * c[k] / (WIDTH * s2))"),
    (NORM, NORM, "(r - along * c[k] / (WIDTH * s2))", "(r - 0.95 * along * c[k] / (WIDTH * s2))"),
    (NORM, NORM, "/ sqrt(s2)", "/ (1.05 * sqrt(s2))"),
    (NORM, NORM, "draw_close(x, 1e-3, random)", "draw_close(x, 1.2e-3, random)"),
    (NORM, NORM, "* least / (largest *", "* least / (1.05 * largest *"),
    (NORM, NORM, "least = fmin(least, sqrt(variance))", "least = fmin(least, 1.05 * sqrt(variance))"),
    (NORM, NORM, "steps[3] = {0, 1, 2.5}", "steps[3] = {0, 0, 0}"),
    (NORM, NORM, "(1 + i / WIDTH) * a[i % WIDTH]", "(1 + i / WIDTH) + a[i % WIDTH] * i"),
    (NORM, NORM, "* (x[i * WIDTH + k] - mean) / variance", "* (x[i * WIDTH + k] - mean) / (1.05 * variance)"),
    (MLP, MLP, '"ReLU", 1}', '"ReLU", 0.95}'),
    (MLP, MLP, "1.12890415", "1.07245894"),
    (MLP, MLP, "1.12899307", "1.07254342"),
    (MLP, MLP, '"SiLU", 1.09983933', '"SiLU", 1.04484736'),
    (MLP, MLP, '"quick GELU", 1.09983933', '"quick GELU", 1.04484736'),
    (MLP, MLP, "(8 * (y[i + 1]", "(7.6 * (y[i + 1]"),
    (MLP, MLP, "(12 * grid_step)", "(12.6 * grid_step)"),
    (MLP, MLP, "- (y[i + 2] - y[i - 2])", "+ (y[i + 2] - y[i - 2])"),
    (MLP, MLP, "/ (2 * grid_step)", "/ (1.9 * grid_step)"),
    (MLP, MLP, "left - 2 * middle + right", "left - 1.9 * middle + right"),
    (MLP, MLP, "(left - right) / (2 * bend)", "(right - left) / (2 * bend)"),
    (MLP, MLP, "*at = -6 +", "*at = -6.3 +"),
    (MLP, MLP, "(columns * lipschitz", "(0.95 * columns * lipschitz"),
    (MLP, MLP, "(rows * lipschitz", "(0.95 * rows * lipschitz"),
    (MLP, MLP, "(spectral * lipschitz * before)", "(0.95 * spectral * lipschitz * before)"),
    (MLP, MLP, "(1 + spectral * lipschitz)", "(0.95 + spectral * lipschitz)"),
    (MLP, MLP, "(1 + spectral * lipschitz)", "(1 + 0.95 * spectral * lipschitz)"),
    (MLP, MLP, "(1 + spectral * lipschitz)", "(1 - spectral * lipschitz)"),
    (MLP, MLP, "y[i] - y[n * width + i % width]", "y[i] + y[n * width + i % width]"),
    ("dong_depth_init", KIN, "edit.dong2021_code = run->code", "edit.dong2021_code = !run->code"),
    ("dong_depth_init", KIN, "{16, 32, 64, 96, 128}", "{16, 32, 64, 96, 64}"),
    ("dong_depth_init", KIN, "{16, 32, 64, 96, 128}", "{32, 32, 64, 96, 128}"),
    (LIPSCHITZ, LIPSCHITZ, "{0.25, 0.5, 1, 2, 4}", "{0.26, 0.5, 1, 2, 4}"),
    (LIPSCHITZ, LIPSCHITZ, "{0.25, 0.5, 1, 2, 4}", "{0.25, 0.5, 1.05, 2, 4}"),
    (LIPSCHITZ, LIPSCHITZ, "{0.25, 0.5, 1, 2, 4}", "{0.25, 0.5, 1, 2, 2}"),
    (LIPSCHITZ, LIPSCHITZ, '{"none", "post"}', '{"none", "none"}'),
    (LIPSCHITZ, LIPSCHITZ, '"mlp", "relu"', '"mlp", "gelu"'),
    (LIPSCHITZ, LIPSCHITZ, '"skip_mixer", 0.0', '"skip_mixer", 0.05'),
    (LIPSCHITZ, LIPSCHITZ, '"skip_mlp", 0.0', '"skip_mlp", 0.05'),
    (LIPSCHITZ, COLLAPSE, "rs_collapse_exponent = 121", "rs_collapse_exponent = 127"),
    (LIPSCHITZ, COLLAPSE, "relative_exponent = 116", "relative_exponent = 122"),
    (LIPSCHITZ, LIPSCHITZ, "cells[level_of(n, k, i + 1)] - cells[level_of(n, k, i)]", "cells[level_of(n, k, i + 1)] + cells[level_of(n, k, i)]"),
    (LIPSCHITZ, COLLAPSE, "log_residual - log10(trace", "log_residual + log10(trace"),
    (LIPSCHITZ, COLLAPSE, "sqrt((double)d) / length", "2 * sqrt((double)d) / length"),
    (HEADS, COLLAPSE, "trace->exponents[trace->layers] * log10(2)", "trace->exponents[trace->layers] * log10(1.9)"),
    (HEADS, HEADS, "{1, 2, 4, 8, 16}", "{1, 2, 4, 8, 10}"),
    (HEADS, HEADS, "{1, 2, 4, 8, 16}", "{2, 2, 4, 8, 16}"),
    (HEADS, HEADS, '"wo", "none"', '"wo", "orthogonal"'),
    (HEADS, HEADS, '"skip_mixer", 0.0', '"skip_mixer", 0.05'),
    (HEADS, HEADS, "i + 1)] - cells[level_of(MERGED", "i + 1)] + cells[level_of(MERGED"),
    (BOUNDS, RATIOS, "rho < 1e-9 ? 2 :", "rho < 1e-9 ? 1.9 :"),
    (BOUNDS, RATIOS, "expm1(rho) / rho + expm1", "0.95 * expm1(rho) / rho + expm1"),
    (BOUNDS, RATIOS, "+ expm1(2 * rho) / (2 * rho)", "+ expm1(2 * rho) / (2.1 * rho)"),
    (BOUNDS, RATIOS, "+ expm1(2 * rho)", "- expm1(2 * rho)"),
    (BOUNDS, RATIOS, "2 * sqrt(sum * range)", "1.9 * sqrt(sum * range)"),
    (BOUNDS, RATIOS, "over(after, 4 * base)", "over(after, 3.8 * base)"),
    (BOUNDS, RATIOS, "sqrt(rs_bound_growth(range)) * base", "0.95 * sqrt(rs_bound_growth(range)) * base"),
    (BOUNDS, RATIOS, "values * size * size * size", "0.95 * values * size * size * size"),
    (BOUNDS, RATIOS, "columns += rs_bound_growth", "columns += 0.95 * rs_bound_growth"),
    (BOUNDS, RATIOS, "rows += qk", "rows += 0.95 * qk"),
    (BOUNDS, RATIOS, "columns * rows * q * q * q", "columns * rows * q * q"),
    (BOUNDS, RATIOS, "tanh(s / 4)", "tanh(s / 4.2)"),
    (BOUNDS, RATIOS, "bound += rs_norm_spectral", "bound += 0.95 * rs_norm_spectral"),
    (BOUNDS, RATIOS, "bound += rs_norm_spectral", "bound -= rs_norm_spectral"),
    (BOUNDS, BOUNDS, "paper_range = 1.256", "paper_range = 1.3188"),
    (BOUNDS, BOUNDS, "root_of_growth(16)", "root_of_growth(15.2)"),
    (BOUNDS, BOUNDS, ".residual = {0.7, -0.7}, .qk = {{1}}", ".residual = {0.7, -0.735}, .qk = {{1}}"),
    (BOUNDS, BOUNDS, "tanh(apart * apart / 4) * apart", "tanh(apart * apart / 4.2) * apart"),
    (BOUNDS, BOUNDS, "a->residual[i] - m[i % d]", "a->residual[i] + m[i % d]"),
    (BOUNDS, BOUNDS, "centred[j * d + k % d] / sqrt((double)d)", "centred[j * d + k % d] / sqrt(1.1 * (double)d)"),
    (BOUNDS, BOUNDS, "(tracked[i] - law[i])", "(tracked[i] + law[i])"),
    (BOUNDS, BOUNDS, "law_sizes[LAW_SIZES] = {0.3,", "law_sizes[LAW_SIZES] = {1.3,"),
    (BOUNDS, INSTANCES, "/ (2 * rs_norm_columns(e, n, n))", "/ (1.9 * rs_norm_columns(e, n, n))"),
    (BOUNDS, INSTANCES, "sum += high - low", "sum += high + low"),
    (BOUNDS, INSTANCES, "e[1] = -1", "e[1] = 1"),
    (BOUNDS, INSTANCES, "2 * rs_norm_composite(e, N, N)", "1.9 * rs_norm_composite(e, N, N)"),
    (BOUNDS, INSTANCES, "e[i * N] += 1", "e[i * N] += 1.05"),
    (BOUNDS, INSTANCES, "change * (1 + root)", "change * (1 - root)"),
    (BOUNDS, INSTANCES, "columns = 2 * eps", "columns = 1.9 * eps"),
    (BOUNDS, INSTANCES, "(4 * 2 * before", "(3.8 * 2 * before"),
    (BOUNDS, INSTANCES, "w[j] = 1 / sqrt(WIDE)", "w[j] = 1.05 / sqrt(WIDE)"),
    (BOUNDS, INSTANCES, "after / (8 * before", "after / (7.6 * before"),
    (BOUNDS, INSTANCES, "lift = log(6 * (n - 1))", "lift = log(6.3 * (n - 1))"),
    (BOUNDS, INSTANCES, "first = 0.5,", "first = 0.525,"),
    (BOUNDS, INSTANCES, "1 + expm1(lift) * other", "1 - expm1(lift) * other"),
    (BOUNDS, INSTANCES, "n / 2 * fabs", "n / 1.9 * fabs"),
    (BOUNDS, INSTANCES, "(n - 2) * fabs", "(n + 2) * fabs"),
    (BOUNDS, INSTANCES, "return sqrt(column * apart / 2) / (4 * lift)", "return sqrt(column * apart / 2) / (3.8 * lift)"),
    (BOUNDS, INSTANCES, "lift = log(6 * (N - 1))", "lift = log(6.3 * (N - 1))"),
    (BOUNDS, INSTANCES, "apart += fabs(plain[i] - lifted[i])", "apart += fabs(plain[i] + lifted[i])"),
    (BOUNDS, INSTANCES, "x[4] = {1, 0, 0, 0}", "x[4] = {1.05, 0, 0, 0}"),
    (BOUNDS, LAYER, "a->residual[j * a->d + k] / sqrt((double)a->d)", "a->residual[j * a->d + k] / sqrt(1.1 * (double)a->d)"),
    (BOUNDS, LAYER, "p[i] += a->residual[i * a->d + k] * g[k]", "p[i] -= a->residual[i * a->d + k] * g[k]"),
    (BOUNDS, LAYER, "layer->bias[h][k] -= layer->qk", "layer->bias[h][k] += layer->qk"),
    (BOUNDS, LAYER, "layer->residual[i] + layer->mean[i % d]", "layer->residual[i] - layer->mean[i % d]"),
    (BOUNDS, LAYER, "out[i] = y[i] - centre[i % d]", "out[i] = y[i] + centre[i % d]"),
    (BOUNDS, MATRIX, "return sqrt(rs_norm_columns", "return 0.95 * sqrt(rs_norm_columns"),
    (DEEP, DEEP, "generate(w, tag, WIDTH * WIDTH, 2)", "generate(w, tag, WIDTH * WIDTH, 2.1)"),
    (DEEP, DEEP, "generate(b, tag + 3, WIDTH, 0.5)", "generate(b, tag + 3, WIDTH, 0.525)"),
    (DEEP, DEEP, "generate(w, tag + 1, WIDTH * WIDTH, 2)", "generate(w, tag + 1, WIDTH * WIDTH, 2.1)"),
    (DEEP, DEEP, "generate(w, tag + 2, WIDTH * WIDTH, 1)", "generate(w, tag + 2, WIDTH * WIDTH, 1.05)"),
    (DEEP, DEEP, "generate(b, tag + 4, WIDTH, 0.5)", "generate(b, tag + 4, WIDTH, -0.5)"),
    (DEEP, DEEP, "generate(x, 2, TOKENS * WIDTH, 0.5)", "generate(x, 2, TOKENS * WIDTH, 0.525)"),
    (DEEP, DEEP, "generate(base, 1, WIDTH, 1)", "generate(base, 1, WIDTH, 1.05)"),
    (DEEP, DEEP, "rs_norm_columns(qk, WIDTH, WIDTH) / sqrt(WIDTH)", "rs_norm_columns(qk, WIDTH, WIDTH) / sqrt(1.1 * WIDTH)"),
    (DEEP, DEEP, "rs_norm_spectral(qk, WIDTH, WIDTH) / sqrt(WIDTH)", "rs_norm_spectral(qk, WIDTH, WIDTH) / sqrt(1.1 * WIDTH)"),
    (DEEP, DEEP, "generate(q, tag, WIDTH * WIDTH, 2)", "generate(q, tag, WIDTH * WIDTH, 1.9)"),
    (DEEP, DEEP, "generate(v, tag + 2, WIDTH * WIDTH, 1)", "generate(v, tag + 2, WIDTH * WIDTH, 0.95)"),
    (DEEP, DEEP, "3 * d->bound[l] + log10(4 *", "3 * d->bound[l] + log10(3.8 *"),
    (DEEP, DEEP, "3 * d->bound[l] +", "2.85 * d->bound[l] +"),
    (DEEP, DEEP, "quarter = spectral[0] / 4", "quarter = spectral[0] / 4.2"),
    (DEEP, DEEP, "log_s + factor + log10(spectral[1])", "log_s + factor - log10(spectral[1])"),
    (DEEP, DEEP, "2 * columns * q > 1.256", "2 * columns * q < 1.256"),
    (DEEP, DEEP, "double cap = 2 *", "double cap = 1.9 *"),
    (DEEP, DEEP, "(1 - 1.0 / TOKENS)", "(1 + 1.0 / TOKENS)"),
    (DEEP, DEEP, "exponent * log10(2);\n        if", "exponent * log10(1.9);\n        if"),
    (PATHS, PATHS, '{"MobileBERT", 4, 12', '{"MobileBERT", 5, 12'),
    (PATHS, PATHS, '{"GPT-3", 96, 96', '{"GPT-3", 96, 95'),
    (PATHS, PATHS, "plan->log_count[k] - plan->log_total", "plan->log_count[k] + plan->log_total"),
    (PATHS, PATHS, "mean += k * exp(log_part)", "mean += 1.05 * k * exp(log_part)"),
    (PATHS, PATHS, "if (2 * k > models[i].layers)", "if (1.9 * k > models[i].layers)"),
    (PATHS, PATHS, "high + log1p(exp(low - high))", "high - log1p(exp(low - high))"),
    (PATHS, PATHS, "share / log(10)", "share / log(9.5)"),
    (PATHS, PATHS, "{0.9014, 0.9049,", "{0.9465, 0.9049,"),
    (PATHS, PATHS, "0.8564, 0.7784}", "0.8564, 0.7395}"),
    (PATHS, PATHS, "(1 - alpha[l])", "(1 + alpha[l])"),
    (PATHS, PATHS, "* 400 /", "* 420 /"),
    (PATHS, PATHS, "1.0491046", "1.049"),
    (PATHS, PATHS, "pow(3, k) - 1", "pow(3, k) + 1"),
    (PATHS, PATHS, "pow(3, k) - 1", "pow(2.85, k) - 1"),
    (ENSEMBLE, ENSEMBLE, "xx += (a - x) * (a - x)", "xx += (a + x) * (a + x)"),
    (ENSEMBLE, ENSEMBLE, "xy += (a - x) * (b - y)", "xy += 1.1 * (a - x) * (b - y)"),
    (ENSEMBLE, ENSEMBLE, "k == SKIP ? 1 : 0", "k == SKIP ? 1.05 : 0"),
    (ENSEMBLE, ENSEMBLE, "k == SKIP ? 1 : 0", "k == SKIP ? 1 : 0.05"),
    (GRAPHS, GRAPHS, "{{0, 4}, {2, 9}, {5, 11}}", "{{0, 5}, {2, 9}, {5, 11}}"),
    (GRAPHS, GRAPHS, "if (graph != BARE_RING) join(a, i, i)", "join(a, i, i)"),
    (GRAPHS, GRAPHS, "if (i / 6 == j / 6)", "if (i / 5 == j / 5)"),
    (GRAPHS, GRAPHS, "< 0.3 * 4294967296.0", "< 0.33 * 4294967296.0"),
    (GRAPHS, GRAPHS, "join(a, 5, 6)", "join(a, 4, 6)"),
    (GRAPHS, GRAPHS, "u[i] = sqrt(u[i])", "u[i] = u[i]"),
    (GRAPHS, GRAPHS, "rs_lab_hash(61, i)", "rs_lab_hash(64, i)"),
    (GRAPHS, GRAPHS, "/ 2147483648.0 - 1;", "/ 2147483648.0 - 1.05;"),
    (GRAPHS, GRAPHS, "u[i] * x[i * WIDTH + k] / square", "1.05 * u[i] * x[i * WIDTH + k] / square"),
    (GRAPHS, GRAPHS, "x[i * WIDTH + k] - u[i] * along", "x[i * WIDTH + k] + u[i] * along"),
    (GRAPHS, GRAPHS, "w[NODES - 2] >= -w[0]", "w[NODES - 2] >= w[0]"),
    (GRAPHS, GRAPHS, "RS_GRAPH_SYMMETRIC, 1, context", "RS_GRAPH_SYMMETRIC, 1.05, context"),
    (GRAPHS, GRAPHS, "RS_GRAPH_SYMMETRIC, -1, context", "RS_GRAPH_SYMMETRIC, -0.95, context"),
    (GRAPHS, GRAPHS, "RS_GRAPH_ROW, 0, context", "RS_GRAPH_SYMMETRIC, 0, context"),
    (GRAPHS, GRAPHS, "(lambda * rs_norm_spectral", "(0.95 * lambda * rs_norm_spectral"),
    (GRAPHS, GRAPHS, "sqrt(1 - own[LAYERS] * own[LAYERS])", "sqrt(1 + own[LAYERS] * own[LAYERS])"),
    (RELEVANCE, RELEVANCE, "RS_LRP_HEAD_TOKENS] = {0, 1, 2, 3}", "RS_LRP_HEAD_TOKENS] = {0, 1, 3, 2}"),
    (RELEVANCE, RELEVANCE, "holds[] = {RS_HOLD_ALL, 0}", "holds[] = {RS_HOLD_NORM, 0}"),
    (RELEVANCE, RELEVANCE, "cuts[0].sum / found->explained", "cuts[1].sum / found->explained"),
    (RELEVANCE, RELEVANCE, "draw, RS_HOLD_ATTENTION, false", "draw, RS_HOLD_NORM, false"),
    (RELEVANCE, RELEVANCE, "holds[] = {RS_HOLD_ATTENTION | RS_HOLD_NORM", "holds[] = {RS_HOLD_ATTENTION"),
    (RELEVANCE, RELEVANCE, ".post = true, .biases = true", ".biases = true"),
    (RELEVANCE, RELEVANCE, "found.cuts[0].biases / found.explained", "found.cuts[1].biases / found.explained"),
    (RELEVANCE, RELEVANCE, "compares ? last_token : NULL", "compares ? first_token : NULL"),
    (RELEVANCE, RELEVANCE_NETWORKS, "(i == 0 ? 2 : 1)", "(i == 2 ? 2 : 1)"),
    (RELEVANCE, RELEVANCE_NETWORKS, "biases && i > 1", "biases && i > 2"),
    (RELEVANCE, RELEVANCE_NETWORKS, "UINT64_C(1442695040888963407)", "UINT64_C(1442695040888963405)"),
    (RELEVANCE, RELEVANCE_NETWORKS, "transpose(queries, d.w, D, D)", "transpose(queries, d.w, 1, D * D)"),
    (RELEVANCE, RELEVANCE_NETWORKS, ".eps = 1e-2", ".eps = 1.05e-2"),
    (HOMOGENEOUS, HOMOGENEOUS, "scales[SCALES] = {1, 10}", "scales[SCALES] = {1.05, 10}"),
    (HOMOGENEOUS, HOMOGENEOUS, "decay = 0.9", "decay = 0.91"),
    (HOMOGENEOUS, HOMOGENEOUS, '"value_map", "identity"', '"value_map", "free"'),
    (HOMOGENEOUS, HOMOGENEOUS, '"wk", "identity"', '"wk", "orthogonal"'),
    (HOMOGENEOUS, HOMOGENEOUS, "rs_lab_hash(63, i) / 2147483648.0 - 1", "rs_lab_hash(63, i) / 2147483648.0 + 1"),
    (HOMOGENEOUS, HOMOGENEOUS, "pow(3, l)", "pow(2, l)"),
    (RANK_ONE, RANK_ONE, "decay = 0.7", "decay = 0.71"),
    (RANK_ONE, RANK_ONE, "i % TOKENS > i / TOKENS ? 0", "i % TOKENS >= i / TOKENS ? 0"),
    (RANK_ONE, RANK_ONE, "- 1) + 0.1", "- 1) + 0.11"),
    (RANK_ONE, RANK_ONE, 'way == NORMED ? "post" : "none"', 'way != NORMED ? "post" : "none"'),
    (RANK_ONE, RANK_ONE, '"skip_mixer", 0.0', '"skip_mixer", 0.05'),
    (RANK_ONE, RANK_ONE, "sqrt(1 - 1.0 / TOKENS)", "sqrt(1 - 0.9 / TOKENS)"),
    (RANK_ONE, RANK_ONE, "1 / (1 + decay)", "1 / (1.02 + decay)"),
    (ONE_LAYER, ONE_LAYER, "signs[TOKENS] = {1, -1}", "signs[TOKENS] = {1, -1.05}"),
    (ONE_LAYER, ONE_LAYER, "{0.6, 0, 0.8}", "{0.63, 0, 0.8}"),
    (ONE_LAYER, ONE_LAYER, "{0, 1, 0, -1, 0, 0, 0, 0, 0.5}", "{0, 1, 0, -1, 0, 0, 0, 0, 0.55}"),
    (ONE_LAYER, ONE_LAYER, "usual_eps = 1e-5", "usual_eps = 1.05e-5"),
    (ONE_LAYER, ONE_LAYER, "sign * -direction[1]", "sign * direction[2]"),
    (ONE_LAYER, ONE_LAYER, "skip * direction[1] - sign * direction[0]", "skip * direction[1] + sign * direction[0]"),
    (ONE_LAYER, ONE_LAYER, "skip + sign * 0.5", "skip + sign * 0.55"),
    (ONE_LAYER, ONE_LAYER, "2 * sin(asin(most / skip) / 2)", "1.9 * sin(asin(most / skip) / 2)"),
    (ONE_LAYER, ONE_LAYER, "skip, signs[0], 0, context", "skip, signs[1], 0, context"),
    (THREE_HALVES, THREE_HALVES, "steps_of_one = 20", "steps_of_one = 21"),
    (THREE_HALVES, THREE_HALVES, "sqrt(2) * 0.5", "sqrt(2) * 0.525"),
    (THREE_HALVES, THREE_HALVES, "(1 + skip) / (2 + skip)", "(1 + skip) / (2.1 + skip)"),
    (THREE_HALVES, THREE_HALVES, "(1 + skip) / (2 + skip)", "(1 - skip) / (2 + skip)"),
    (THREE_HALVES, THREE_HALVES, "near_equal[4] = {1, 0, 1, 1}", "near_equal[4] = {1, 0, 1.2, 1}"),
    (THREE_HALVES, THREE_HALVES, "rs_lab_hash(70, i)", "(i % 5) + 0 * rs_lab_hash(70, i)"),
    (THREE_HALVES, THREE_HALVES, "(along - apart)", "(along + apart)"),
    (THREE_HALVES, THREE_HALVES, "> first)", "> 1.05 * first)"),
    (THREE_HALVES, THREE_HALVES, "mixed[TOKENS * TOKENS] = {0.6, 0, 0.1, 1.1}", "mixed[TOKENS * TOKENS] = {0.8, 0, 0.1, 1.1}"),
    (THREE_HALVES, THREE_HALVES, "mixed_skip = -0.75", "mixed_skip = -0.55"),
    (THREE_HALVES, THREE_HALVES, "c = 2 * fabs(across)", "c = 1.9 * fabs(across)"),
    (THREE_HALVES, THREE_HALVES, "sqrt(1 - c * c)", "sqrt(1 + c * c)"),
    (THREE_HALVES, POST_NORM, '"temperature", (double)width', '"temperature", 1.05 * (double)width'),
    (THREE_HALVES, POST_NORM, "eps = 0;", "eps = 1e-5;"),
    (THREE_HALVES, POST_NORM, "unit = -unit", "unit = unit + 0"),
    (THREE_HALVES, POST_NORM, "< 0 ? RS_ENDS_UP_TO_SIGN", "> 0 ? RS_ENDS_UP_TO_SIGN"),
    (THREE_HALVES, POST_NORM, "skip, w) > 1)", "skip, w) > 1.3)"),
    (CONSENSUS, POST_NORM, "(skip + w * m[i * n + i]) /", "(skip + 1.1 * w * m[i * n + i]) /"),
    (CONSENSUS, POST_NORM, "/ (skip + w * row_sum(m, n, i));", "/ (skip + 1.1 * w * row_sum(m, n, i));"),
    (CONSENSUS, POST_NORM, "if ((scale < 0) != (first < 0)) sign = -1", "if ((scale < 0) == (first < 0)) sign = -1"),
    (CONSENSUS, CONSENSUS, "0 : pow(decay, i / n - i % n)", "0 : pow(decay, i / n + i % n)"),
    (CONSENSUS, CONSENSUS, "-(1 + decay / 2), f->", "-(1 + decay / 1.9), f->"),
    (CONSENSUS, CONSENSUS, "-(1 + 1.0 / n) / 2", "-(1 + 1.0 / n) / 1.9"),
    (CONSENSUS, GIVEN, "pow(all / half, 2.0 / RATE_LAYERS)", "pow(all / half, 1.6 / RATE_LAYERS)"),
    (CONSENSUS, GIVEN, "(own + sum) / 2", "(own + sum) / 2.1"),
    (CONSENSUS, GIVEN, "(own + sum) / 2", "(own - sum) / 2"),
    (CONSENSUS, GIVEN, "2 * 0.9 - 1, 2 * 0.1 - 1", "2 * 0.95 - 1, 2 * 0.1 - 1"),
    (CONSENSUS, GIVEN, "2 * 0.1 - 1, 2 * 0.9 - 1", "2 * 0.9 - 1, 2 * 0.1 - 1"),
    (CONSENSUS, GIVEN, "0.5, 0, 0, -10, 10.1, 0.2", "0.5, 0, 0, -10, 10.1, 0.21"),
    (CONSENSUS, GIVEN, "(i == j)) / sum", "(i == j)) / (1.05 * sum)"),
    (CONSENSUS, GIVEN, "1e-7 * direction[i / WIDTH]", "1e-7 * i"),
    (GATE, GATE, "return x / (1 + exp(-x))", "return x / (1 + exp(x))"),
    (GATE, GATE, "return x / (1 + exp(-x))", "return x / (1.05 + exp(-x))"),
    (GATE, GATE, "/ 2147483648.0 - 1)", "/ 2147483648.0 - 1.05)"),
    (GATE, GATE, '"normalised", 1', '"normalised", 0'),
    (GATE, GATE, '"wq", "zero"', '"wq", "identity"'),
    (GATE, GATE, "TAG_GATE + 10 * l, MATRIX, 2 * gate_scale", "TAG_GATE + 10 * l, MATRIX, 2.1 * gate_scale"),
    (GATE, GATE, "TAG_VALUES + 10 * l, MATRIX, 1)", "TAG_VALUES + 10 * l, MATRIX, 1.05)"),
    (GATE, GATE, "TAG_KEYS + 10 * l, MATRIX, 1)", "TAG_KEYS + 10 * l, MATRIX, 1.05)"),
    (GATE, GATE, "silu(out[i]) * c[i % WIDTH]", "silu(out[i]) * c[0]"),
    (GATE, GATE, "x[i] = x[i % WIDTH]", "x[i] = x[i % WIDTH] + 0.05 * i"),
    (LTI, LTI, "decay = 0.7", "decay = 0.71"),
    (LTI, LTI, "l + 1 < layers", "l + 2 < layers"),
    (LTI, LTI, "y[WIDTH + k] - along / square * y[k]", "y[WIDTH + k] + along / square * y[k]"),
    (LTI, LTI, "kernel[0] / kernel[1]", "1.05 * kernel[0] / kernel[1]"),
    (LTI, LTI, "(TOKENS * TOKENS - 1) / 12.0", "(TOKENS * TOKENS + 1) / 12.0"),
    (LTI, LTI, "- 1) + 0.1;\n}", "- 1) + 0.11;\n}"),
    (LTI, LTI, "log2(f->end[LAYERS] / f->end[LAYERS / 2])", "log2(f->end[LAYERS] / f->end[LAYERS / 4])"),
    (LTI, LTI, "1.0 / (RATE_TO - RATE_FROM)", "1.0 / (RATE_TO - RATE_FROM + 1)"),
    (LTI, POST_NORM, "(skip + w * m[i * n + i]) /", "(skip + 1.1 * w * m[i * n + i]) /"),
    (THEOREM_43, THEOREM_43, "sizes[SIZES] = {1, 1.75, 7}", "sizes[SIZES] = {1, 1.85, 7}"),
    (THEOREM_43, THEOREM_43, "hashed_decay = 0.9", "hashed_decay = 0.91"),
    (THEOREM_43, THEOREM_43, "pow(decay, n - 1) * least", "pow(decay, n) * least"),
    (THEOREM_43, THEOREM_43, "(1 - decay) / (1 - pow(decay, n))", "(1 + decay) / (1 - pow(decay, n))"),
    (THEOREM_43, THEOREM_43, "sqrt(2 * (n - 1) * (1 - first))", "sqrt(1.9 * (n - 1) * (1 - first))"),
    (THEOREM_43, THEOREM_43, "pow(1 - p, layers / 2.0)", "pow(1 - p, layers / 1.9)"),
    (THEOREM_43, THEOREM_43, "1 - least * least * weight", "1 - least * weight"),
    (THEOREM_43, THEOREM_43, "pow(decay, 2 * n)", "pow(decay, 1.9 * n)"),
    (THEOREM_43, THEOREM_43, "if (j == 0) *first", "if (j == 1) *first"),
    (THEOREM_43, THEOREM_43, "rs_lab_hash(71, i) / 2147483648.0 - 1) + 0.3", "rs_lab_hash(71, i) / 2147483648.0 - 1) + 0.31"),
    (THEOREM_43, THEOREM_43, "y[4] = {sqrt(2), 0, -sqrt(2), 0}", "y[4] = {sqrt(2), 0, sqrt(2), 1}"),
    (THEOREM_43, THEOREM_43, "pair_decay = 0.95", "pair_decay = 0.9"),
    (THEOREM_43, THEOREM_43, "cosine = 0.9;", "cosine = 0.85;"),
    (THEOREM_43, POST_NORM, '"temperature", (double)width', '"temperature", -(double)width'),
    (THEOREM_41, DEMANDS, "decay = 0.9;", "decay = 0.91;"),
    (THEOREM_41, DEMANDS, "sqrt(-2 * log(radius))", "sqrt(-1.9 * log(radius))"),
    (THEOREM_41, DEMANDS, "w[i] /= size;", "w[i] /= 1.05 * size;"),
    (THEOREM_41, DEMANDS, "(pow(row->rate, row->layers) * before * before)", "(pow(row->rate, row->layers) * before)"),
    (THEOREM_41, DEMANDS, '"temperature", (double)STATES', '"temperature", 1.05 * (double)STATES'),
    (THEOREM_41, DEMANDS, "PROBE = 10", "PROBE = 11"),
    (THEOREM_41, DEMANDS, "norm = sqrt(row->tokens)", "norm = 1.05 * sqrt(row->tokens)"),
    (THEOREM_41, DEMANDS, ".kept = sqrt(row->rate)", ".kept = row->rate"),
    (THEOREM_41, DEMANDS, "hashed_normal(w, tag + 1, count, 1 / sqrt(d));", "hashed_normal(w, tag, count, 1 / sqrt(d));"),
    (THEOREM_41, THEOREM_41, "m[4] = {0, 0, 0, 2}", "m[4] = {0, 0, 0, 2.1}"),
    (THEOREM_41, THEOREM_41, "ratio = pow(shapes[shape].rate, layers) *", "ratio = 1.2 *"),
    (THEOREM_41, THEOREM_41, "published = sqrt(128)", "published = sqrt(129)"),
    (THEOREM_41, THEOREM_41, "pow(0.9, 1.0 / 12)", "pow(0.9, 1.0 / 11)"),
    # what these three claim of a model is in tests/cli/lab_model.sh
    (FIGURE_1, FIGURES, "common_share = 0.5", "common_share = 0.525"),
    (FIGURE_1, FIGURES, "TAG_TOKENS = 1990", "TAG_TOKENS = 1980"),
    (FIGURE_1, FIGURES, "SIZE * IN, 1 / sqrt(SIZE), 0", "SIZE * IN, 1.05 / sqrt(SIZE), 0"),
    (FIGURE_1, FIGURES, "CHANNELS * TAPS, 0.5, 0", "CHANNELS * TAPS, 0.525, 0"),
    (FIGURE_1, FIGURES, "tag + 2, HEADS, 1, -4", "tag + 2, HEADS, 1, -4.2"),
    (FIGURE_1, FIGURES, "tag + 3, HEADS, 7.5, 8.5", "tag + 3, HEADS, 7.5, 8.9"),
    (FIGURE_1, FIGURES, "w[h] = log(w[h])", "w[h] = log(1.05 * w[h])"),
    (FIGURE_1, FIGURES, "INNER * SIZE, 1 / sqrt(INNER), 0", "INNER * SIZE, -1 / sqrt(INNER), 0"),
    (FIGURE_1, FIGURE_1, "spec = sweep_of(RS_SWEEP_OFF)", "spec = sweep_of(RS_SWEEP_ON)"),
    (FIGURE_1, LINES, '"pre", seed', '"post", seed'),
    (FIGURE_1, FIGURE_1, "{-20, -10, -1, 0, 0.5, 1,", "{-20, -10, -1, 0, 0.5, 1.05,"),
    (FIGURE_2, FIGURES, "exact_eps = 1e-12", "exact_eps = 1e-8"),
    (FIGURE_2, FIGURES, "uniform(-1/sqrt(fan_in), 1/sqrt(fan_in))", "uniform(-9/sqrt(fan_in), 9/sqrt(fan_in))"),
    (FIGURE_2, FIGURE_2, "found->no_inner_norm = stack == BARE", "found->no_inner_norm = stack != BARE"),
    (FIGURE_2, FIGURE_2, "*found = strengths_of(stack != BARE)", "*found = strengths_of(stack == BARE)"),
    (FIGURE_2, FIGURE_2, '"post", seed', '"pre", seed'),
    (FIGURE_2, FIGURE_2, "NAN, NAN, 0.9, 0.5", "NAN, NAN, 0.91, 0.5"),
    (FIGURE_2, FIGURE_2, "NAN, NAN, 0.9, 0.5", "NAN, NAN, 0.9, 0.51"),
    (FIGURE_2, FIGURE_2, "x[k] = fabs(x[k]) / length", "x[k] = x[k] / length"),
    (FIGURE_2, FIGURE_2, "skips[SKIPS] = {-20,", "skips[SKIPS] = {-21,"),
    (FIGURE_2, FIGURE_2, "selective_eps = 1e-12", "selective_eps = 1e-2"),
    (FIGURE_3, LINES, '"pre", seed', '"post", seed'),
    (FIGURE_3, FIGURE_3, "skip_of_1[] = {1}", "skip_of_1[] = {1.05}"),
    (FIGURE_3, FIGURE_3, ".gate = RS_SWEEP_BOTH, .norm = RS_SWEEP_BOTH", ".norm = RS_SWEEP_BOTH, .gate = RS_SWEEP_ON"),
    (TWO_FACTORS, TWO_FACTORS, "factor_c[LOSSES] = {1, 0.5}", "factor_c[LOSSES] = {0.5, 1}"),
    (TWO_FACTORS, TWO_FACTORS, "factor_c[LOSSES] = {1, 0.5}", "factor_c[LOSSES] = {1, 0.525}"),
    (TWO_FACTORS, TWO_FACTORS, "rate = 0.1", "rate = 0.105"),
    (TWO_FACTORS, TWO_FACTORS, "slow_rate = 0.02", "slow_rate = 0.021"),
    (TWO_FACTORS, TWO_FACTORS, "4 * f->c * f->rate", "4.3 * f->c * f->rate"),
    (TWO_FACTORS, TWO_FACTORS, "sigma[0] - sigma[1])", "sigma[0] + sigma[1])"),
    (TWO_FACTORS, TWO_FACTORS, "log(1 - 2 * slow_rate * decay)", "log(1 - 1.99 * slow_rate * decay)"),
    (TWO_FACTORS, TWO_FACTORS, "keeps * keeps - moves * moves", "keeps * keeps + moves * moves"),
    (TWO_FACTORS, FACTORS, "{1, 0.8, 0.6, 0.4, 0.2}", "{1, 0.8, 0.6, 0.4, 0.21}"),
    (TWO_FACTORS, FACTORS, "scale = sqrt(0.6)", "scale = sqrt(0.63)"),
    (TWO_FACTORS, FACTORS, "1 / sqrt(N), &random", "3 / sqrt(N), &random"),
    (TWO_FACTORS, FACTORS, "by_a[i] = f->decay", "by_a[i] = 1.05 * f->decay"),
    (TWO_FACTORS, FACTORS, "by_b[i] = f->decay", "by_b[i] = -f->decay"),
    (TWO_FACTORS, FACTORS, "+= 2 * f->c * g[i * N + j] * f->b", "+= 2.1 * f->c * g[i * N + j] * f->b"),
    (TWO_FACTORS, FACTORS, "a[k * N + i] * a[k * N + j] - b", "a[k * N + i] * a[k * N + j] + b"),
    (TWO_FACTORS, FACTORS, "(1 - 2 * f->rate", "(1 - 2.1 * f->rate"),
    (TWO_FACTORS, FACTORS, "f->rate * f->rate * forcing", "1.05 * f->rate * f->rate * forcing"),
    (TWO_FACTORS, FACTORS, "seen->gap = pair.half_norm - ", "seen->gap = 1.05 * pair.half_norm - "),
    (TWO_FACTORS, FACTORS, "decay / (2 * c)", "decay / (2.1 * c)"),
    (TWO_DECAYS, TWO_DECAYS, "panel, 1}", "panel, 0.95}"),
    (TWO_DECAYS, TWO_DECAYS, "RS_LINE_DIRECT, 0.5}", "RS_LINE_DIRECT, 0.55}"),
    (TWO_DECAYS, TWO_DECAYS, "theta[1] < 0.5", "theta[1] < 0.3"),
    (DECAY_PROOFS, PAIRS, "slope = by + 3 * wave", "slope = by - 3 * wave"),
    (DECAY_PROOFS, PAIRS, "(1 - cos(decay->pace * t))", "(1 + cos(decay->pace * t))"),
    (DECAY_PROOFS, PAIRS, "by_b[i] = decay * p->b", "by_b[i] = 1.05 * decay * p->b"),
    (DECAY_PROOFS, PAIRS, "{0, 0.5, 0.5, 1}", "{0, 0.5, 0.5, 0.5}"),
    (DECAY_PROOFS, DECAY_PROOFS, "exp(-2 * rs_pair_decay_until", "exp(-1.9 * rs_pair_decay_until"),
    (GLOBAL, GLOBAL, "c->bound = decay * nuclear + inner", "c->bound = decay * nuclear - inner"),
    (GLOBAL, GLOBAL, "{1, 0, 0, 0}", "{1.05, 0, 0, 0}"),
    (GROUPED, GROUPED, "p->a[head * D * R + i]", "p->a[i]"),
    (GROUPED, GROUPED, "s[k] - decay.mean", "s[k] - 1.05 * decay.mean"),
    (ROTARY, ROTARY, "inverse ? -offset", "inverse ? offset"),
    (ROTARY, ROTARY, "j + r / 2", "j + 1"),
    (BALL, BALL, "momentum = 0.9", "momentum = 0.91"),
    (BALL, BALL, "2 * momentum * b->rate_before", "1.9 * momentum * b->rate_before"),
    (FIGURE_4, FIGURE_4, "nuclear / pair.half_norm", "nuclear / (1.05 * pair.half_norm)"),
    (PENALTY, PENALTY, "mu = 1, decay = 1", "mu = 1.05, decay = 1"),
    (TWO_DECAYS, LINE, "normal[2] = {1, 2}", "normal[2] = {1, 1.95}"),
    (TWO_DECAYS, LINE, "offset = 2", "offset = 2.05"),
    (TWO_DECAYS, LINE, "slope = 0.4", "slope = 0.42"),
    (TWO_DECAYS, LINE, "{0.01, 1}}", "{0.0105, 1}}"),
    (TWO_DECAYS, LINE, "setting->eps * setting->decay", "1.05 * setting->eps * setting->decay"),
    (TWO_DECAYS, LINE, "by_w * theta[2 + i]", "by_w * theta[i]"),
    (TWO_DECAYS, LINE, "fmin(1, 10 * setting->eps)", "fmin(0.1, setting->eps)"),
    (TWO_DECAYS, LINE, "fabs(g[i]) : 0;\n        f[i] = g[i] + ", "fabs(g[i]) : 0;\n        f[i] = g[i] - "),
    (TWO_DECAYS, LINE, "g[0] = x[0] - 1", "g[0] = x[0] - 1.1"),
    (TWO_DECAYS, LINE, "g[i] += s->noise", "g[i] += 1.2 * s->noise"),
    (TWO_DECAYS, LINE, "out->of[i] = -rest * normal[i]", "out->of[i] = -1.1 * rest * normal[i]"),
    (TWO_DECAYS, LINE, "(1 - mean[0]) / mean[0]", "(1 - 1.05 * mean[0]) / mean[0]"),
    # signal propagation
    (WIDTH_GAP, WIDTH_GAP, "rs_draw_markov(r.a, n, logit_variance, random)", "rs_draw_markov(r.a, n, 1.3 * logit_variance, random)"),
    (WIDTH_GAP, WIDTH_GAP, "(m.sigma1 * m.sigma1 - 1)", "(m.sigma1 - 1)"),
    (WIDTH_GAP, WIDTH_GAP, "rs_gap_fixed_rank(2)", "rs_gap_fixed_rank(3)"),
    (WIDTH_GAP, WIDTH_GAP, "rs_gap_fixed_rank_gram(2 * l)", "rs_gap_fixed_rank_gram(2 + l)"),
    (WIDTH_GAP, WIDTH_GAP, "rs_sum_square(r->y, n * n) * rs_sum_square(r->w, n * n)", "rs_sum_square(r->y, n * n) * n"),
    (KEYS_GAP, KEYS_GAP, "sqrt(v / (double)k)", "sqrt(1.1 * v / (double)k)"),
    (KEYS_GAP, KEYS_GAP, "rs_gap_fixed_rank_gram(3)", "rs_gap_fixed_rank_gram(2)"),
    (KEYS_GAP, KEYS_GAP, "log(s[1])", "log(s[0])"),
    (CENTRED, CENTRED, "after[k] - (before[k] - 1)", "after[k] - before[k]"),
    (CENTRED, CENTRED, "root[i] = sqrt(degree[i] / sum)", "root[i] = degree[i] / sum"),
    (CENTRED, CENTRED, "a[i * N + j] -= 1.0 / (i + 1)", "a[i * N + j] -= 1.0 / (i + 2)"),
    (CENTRED, CENTRED, "sqrt(end->apart / end->square)", "sqrt(end->square / end->apart)"),
    (CENTRED, SIGNALS, "a[i] -= 1 / (double)n", "a[i] -= 1.05 / (double)n"),
    (SMOOTH, SMOOTH, "(1 + s * s) * (1 + root * HEADS * s)", "(1 + s) * (1 + root * HEADS * s)"),
    (SMOOTH, SMOOTH, "1 / sqrt(HEAD), b->q", "1.0 / HEAD, b->q"),
    (SMOOTH, SMOOTH, "fmax(b->hidden[i], 0)", "fmax(b->hidden[i], -0.5)"),
    (SMOOTH, SMOOTH, "before / least", "0.5 * before / least"),
    (SMOOTH, SMOOTH, "2 * before + 3 * other", "2 * before + 2 * other"),
    (SHAPED, SHAPED, "gamma2 * (mixed - start[i * M + j]) / 2", "gamma2 * (mixed - start[i * M + j])"),
    (SHAPED, SHAPED, "- 1.0 / M;", "- 1.3 / M;"),
    (SHAPED, SHAPED, "lambda * sqrt(gamma2 / WIDTH)", "1.2 * lambda * sqrt(gamma2 / WIDTH)"),
    (SHAPED, SHAPED, "rs_shaped_relu_drift(0, -1, rho)", "rs_shaped_relu_drift(1, -1, rho)"),
    (SHAPED, SHAPED, ".time = 0.5, .steps = STEPS", ".time = 0.8, .steps = STEPS"),
    (KEPT, KEPT, "last_rate = 0.05", "last_rate = 0.055"),
    (KEPT, KEPT, "last_rho = 0.8", "last_rho = 0.81"),
    (KEPT, KEPT, "way == SKIPINIT ? 0.9 : 0", "way == SKIPINIT ? 0.91 : 0"),
    (KEPT, KEPT, "2 * v[i / WIDTH]", "1.9 * v[i / WIDTH]"),
    (KEPT, KEPT, "sums[columns ? j : i]", "sums[i]"),
    (SIMPLE, SIMPLE, '"shaped" : "softmax"', '"softmax" : "softmax"'),
    (SIMPLE, SIMPLE, "less = 10 * d * d", "less = 11 * d * d"),
    (SIMPLE, SIMPLE, '1 / sqrt(DEPTH), "init", "wq"', '1.0, "init", "wq"'),
    (SOFTMAX, SOFTMAX, "s2 = 9", "s2 = 8"),
    (SOFTMAX, SOFTMAX, "third += a[j] * a[j] * a[j]", "third += a[j] * a[j]"),
    (SOFTMAX, SOFTMAX, "between = 0.5", "between = 0.6"),
    (SOFTMAX, SOFTMAX, '"temperature", 1.0 / 3', '"temperature", 1.0'),
    (NOCI_1, NOCI_1, "scale == 1 ? 0.5", "scale == 1 ? 0.9"),
    (NOCI_1, NOCI_1, "2/(fan_in + fan_out)", "2/fan_in"),
    (NOCI_1, NOCI_1, "log10(layers[DEPTH - 1].query / layers[0].query)", "log10(layers[0].query / layers[DEPTH - 1].query)"),
    (NOCI_1, NOCI_1, "size == UNIT ? 1 : 1.0 / DENSE", "size == UNIT ? 1.0 / DENSE : 1.0 / DENSE"),
    (NOCI_32, NOCI_32, "cross / N + rs_sum_square", "cross / N + 0.5 * rs_sum_square"),
    (NOCI_32, NOCI_32, "8 * three", "4 * three"),
    (NOCI_32, NOCI_32, "+ (i == m ? own[e] : 0)", "+ own[e]"),
    (NOCI_32, NOCI_32, "cv[m * D + e % D]", "2 * cv[m * D + e % D]"),
    (NOCI_33, NOCI_33, "log(layers[0].apart) / 2", "log(layers[0].apart)"),
    (NOCI_33, NOCI_33, "layers[l].query / layers[l].value", "layers[l].value / layers[l].query"),
    (NOCI_33, NOCI_33, "slope_of(draws, POST * DEPTH, 8)", "slope_of(draws, PRE * DEPTH, 8)"),
    (NOCI_SIZES, NOCI_SIZES, "1.0 / s->d, 1.0 / s->d)", "1.0 / s->d, 1.1 / s->d)"),
    (NOCI_SIZES, NOCI_SIZES, "s->variance, s->rho, random);\n    rs_status", "1.2 * s->variance, s->rho, random);\n    rs_status"),
    (NOCI_SIZES, NOCI_SIZES, "k == QUERY ? -1 : 1", "k == QUERY ? 1 : -1"),
    (SORTING, FLOORS, "i - (x <= v)", "i + (x <= v)"),
    (SORTING, FLOORS, "length - 1, (double)v", "length, (double)v"),
    (SORTING, FLOORS, "fmax(best, reached - below)", "fmax(best, reached)"),
    (SORTING, FLOORS, "(place * c->vocab + sample->tokens[t])", "(c->vocab + sample->tokens[t])"),
    (SORTING, BY_LENGTH, "own[i] + s->source", "own[i] - s->source"),
    (HULL, FLOORS, "c->constant[place * c->classes + class]++", "c->constant[place * c->classes]++"),
    (HULL, BY_LENGTH, "own[i] + s->source", "own[i] - s->source"),
    (MEMORY, FLOORS, "if (!before) c->same", "c->same"),
    (MEMORY, BY_LENGTH, "own[i] + s->source", "own[i] - s->source"),
    (CIRCLE, CIRCLE, "sin(n * half) / (n * sin(half))", "sin(half) / (n * sin(n * half))"),
    (CIRCLE, CIRCLE, "2 * data->radius * data->radius", "data->radius * data->radius"),
    (CIRCLE, CIRCLE_LOOP, "(adds ? z[i] : 0)", "z[i]"),
    (LAST_LAYER, LAST_LAYER, "17.0 / 33", "16.0 / 33 / 2"),
    (LAST_LAYER, LAST_LAYER, "seed, false, err", "seed, true, err"),
    (CENTRED, SIGNALS_PASS, "(sum - (double)n)", "(sum + (double)n)"),
    (NOCI_SIZES, SIGNALS, "own = sqrt(variance * (1 - rho))", "own = sqrt(variance)"),
    (NOCI_SIZES, SIGNALS, "common = sqrt(variance * rho)", "common = sqrt(variance) * rho"),
    (BERT_GAP, BERT_GAP, '"initializer_range", 0.02', '"initializer_range", 0.04'),
    (BERT_GAP, BERT_GAP, "at[2] == 1", "at[2] == 2"),
    # claims in full, over runs that a test makes up
    (MADE_UP, GAP_TRAINING, "const double constant = 128 * 32 / 4.0;", "const double constant = 128 * 32 / 3.0;"),
    (MADE_UP, GAP_TRAINING, "{.lost = constant, .unit", "{.lost = 0, .unit"),
    (MADE_UP, GAP_TRAINING, "text, r, r + 1, err", "text, r + 1, r, err"),
    (MADE_UP, GAP_TRAINING, "r += 2) {", "r += 4) {"),
    (MADE_UP, GAP_TRAINING, "4 * DEPTHS - 2", "2 * DEPTHS - 2"),
    (MADE_UP, GAP_TRAINING, "1 - rs_losses_mean(all, five + 1, START)", "1 + rs_losses_mean(all, five + 1, START)"),
    (MADE_UP, GAP_TRAINING, "rs_losses_mean(all, five, START), 0.05", "rs_losses_mean(all, five, START), 0.055"),
    (SEEN, GAP_TRAINING, "residual[0];", "residual[1];"),
    (MADE_UP, GAP_TRAINING, "#define WITHOUT \", 'attention': 'centred'\"", "#define WITHOUT \"\""),
    (MADE_UP, LOSSES, "fabs(d.mean), rs_lab_order_error(d)", "fabs(d.mean), 2 * rs_lab_order_error(d)"),
    ("test_lab_losses", LOSSES, "d.mean, rs_lab_order_error(d), err", "d.mean, d.error, err"),
    (MADE_UP, LOSSES, "d.mean, rs_lab_order_error(d), err", "d.mean, rs_lab_order_error(d) / 2, err"),
    (MADE_UP, LOSSES, "loss[s] / all->way[more]", "loss[0] / all->way[more]"),
    (MADE_UP, LOSSES, "1 - all->way[less]", "all->way[less]"),
    (MADE_UP, GAP_TRAINING, "fabs(all->way[five + 1].of.mean - 1)", "all->way[five + 1].of.mean - 1"),
    (MADE_UP, GAP_TRAINING, "fmax(fabs(all->way[five].of.mean - 1)", "fmin(fabs(all->way[five].of.mean - 1)"),
    (MADE_UP, "runs", "cells.seen[k] = run->seen[k];", "cells.seen[k] = run->seen[0];"),
    ("test_lab_runs", "runs", ".reached = step_of(run, enough)", ".reached = NAN"),
    (MADE_UP, "noci_table1_small", "0.4 - post.mean", "post.mean - 0.4"),
    (MADE_UP, "noci_table1_small", "of[SGD_POST].accuracy, grid->seeds)", "of[SGD_SCALED].accuracy, grid->seeds)"),
    (MADE_UP, LOSSES, "way[more].loss[s] - all->way[less].loss[s]", "way[more].loss[s] + all->way[less].loss[s]"),
    (MADE_UP, LOSSES, "way[more].loss[s] - all->way[less].loss[s]", "way[more].loss[0] - all->way[less].loss[s]"),
    (MADE_UP, LOSSES, "d.mean > 0 ? b : a", "d.mean > 0 ? a : b"),
    (MADE_UP, LOSSES, "way.of.mean < out->of.mean", "way.of.mean > out->of.mean"),
    (MADE_UP, LOSSES, "lost_by(all, run)) / all->unit;", "lost_by(all, run));"),
    (MADE_UP, LOSSES, "run->eval_loss : lost_by", "run->loss[0] : lost_by"),
    (MADE_UP, LOSSES, "sum / all->grid.seeds", "sum"),
    ("test_lab_losses", LOSSES, "all->lost) && run->logs > 0", "all->lost) && false"),
    ("test_lab_losses", LOSSES, "mean +=\n                (i < run->logs ? run->loss[i] : lost_by(all, run))", "mean +=\n                (lost_by(all, run))"),
    ("test_lab_losses", LOSSES, "/ all->unit / all->grid.seeds", "/ all->unit"),
    ("test_lab_losses", LOSSES, "fmin(cells.least", "fmax(cells.least"),
    (MADE_UP, SKIPLESS, "*residual = fmax(*residual, run->seen[RESIDUAL])", "*residual = run->seen[RESIDUAL]"),
    (MADE_UP, SKIPLESS, "grid->data ? -excess : fabs(excess)", "grid->data ? -excess : excess"),
    (MADE_UP, SKIPLESS, "grid->data ? -excess : fabs(excess)", "grid->data ? excess : fabs(excess)"),
    (SEEN, SKIPLESS, "run->eval_loss - rs_lab_mark", "run->eval_loss + rs_lab_mark"),
    (SEEN, SKIPLESS, "residual[run->logs - 1]", "residual[0]"),
    (MADE_UP, SKIPLESS, "rate < rs_lab_grid_rates(grid, PLAIN)", "rate < 1"),
    (MADE_UP, SKIPLESS, "way[recipe].of.mean / all->way[PRE].of.mean", "way[PRE].of.mean / all->way[recipe].of.mean"),
    (MADE_UP, SKIPLESS, "0.05, false, false};\n    bool nothing", "0.1, false, false};\n    bool nothing"),
    (MADE_UP, SKIPLESS, "by\", PLAIN, ESPA", "by\", ESPA, PLAIN"),
    (MADE_UP, SKIPLESS, "by\", ESPA, PRE", "by\", ESPA, SAS"),
    (MADE_UP, SKIPLESS, "all, SKIPINIT, SAS, err", "all, SKIPINIT, SAS_P, err"),
    (MADE_UP, SKIPLESS, "all, SAS_P, SAS, err", "all, SAS_P, PRE, err"),
    (MADE_UP, SKIPLESS, "bool known = all->grid.data == 0;", "bool known = true;"),
    (MADE_UP, TABLE_1, "run->eval_loss : run->logs", "run->loss[0] : run->logs"),
    (MADE_UP, TABLE_1, "values[s] = exp(loss_of(t, cell, s));", "values[s] = loss_of(t, cell, s);"),
    (MADE_UP, TABLE_1, "if (s != without) sum", "if (s == without) sum"),
    (MADE_UP, TABLE_1, "if (s != without) sum", "sum"),
    (MADE_UP, TABLE_1, "equal && cell / t->n != cell % t->n", "equal && false"),
    (MADE_UP, TABLE_1, "by[s] = exp(loss_of(t, best_cell(t, true, without), s)) -", "by[s] = exp(loss_of(t, best_cell(t, false, without), s)) -"),
    (MADE_UP, TABLE_1, "exp(loss_of(t, best_cell(t, false, without), s));", "-exp(loss_of(t, best_cell(t, false, without), s));"),
    (MADE_UP, TABLE_1, "cell_of(t, 0, equal)", "cell_of(t, equal, 0)"),
    (MADE_UP, TABLE_1, "return attention * t->n + mlp;", "return mlp * t->n + attention;"),
    (MADE_UP, TABLE_1, "cell_of(t, t->n - 1, mlp)", "cell_of(t, t->n - 2, mlp)"),
    (MADE_UP, TABLE_1, "d.mean, rs_lab_order_error(d), err);\n}\n\n/* The same MLP decay", "-d.mean, rs_lab_order_error(d), err);\n}\n\n/* The same MLP decay"),
    (MADE_UP, TABLE_1, "n += !isnan(by[n]);", "n++;"),
    (MADE_UP, TABLE_1, "loss_of(t, cell, s) / run->seen[UNIGRAM]", "loss_of(t, cell, s) / run->seen[SOURCE]"),
    (MADE_UP, TABLE_1, "run->seen[SOURCE] / loss_of(t, cell, s)", "loss_of(t, cell, s) / run->seen[SOURCE]"),
    (SEEN, TABLE_1, "QK_RANK : OV_RANK;", "OV_RANK : QK_RANK;"),
    (SEEN, TABLE_1, '"step") < last) continue;', '"step") > last) continue;'),
    (SEEN, TABLE_1, "sum[OV_RANK] / n[OV_RANK]", "sum[OV_RANK] / n[QK_RANK] / 2"),
    (MADE_UP, TABLE_1, "c.loss += loss_of(t, cell, s) / t->grid.seeds", "c.loss += loss_of(t, cell, s)"),
    (MADE_UP, FIGURE_3_RANKS, "(layer * PRODUCTS + product) * MEASURES + measure", "(layer * PRODUCTS + product) + measure"),
    (SEEN, FIGURE_3_RANKS, '"product"), "ov") == 0', '"product"), "qk") == 0'),
    (SEEN, FIGURE_3_RANKS, "run->seen[k] = sum[k] / n[k]", "run->seen[k] = sum[k]"),
    (MADE_UP, FIGURE_3_RANKS, "0, 0, seed)->seen[at] -", "0, 0, seed)->seen[at] +"),
    (MADE_UP, FIGURE_3_RANKS, "(rs_lab_grid_run(&m->grid, 0, 0, seed)", "(rs_lab_grid_run(&m->grid, 1, 0, seed)"),
    (MADE_UP, FIGURE_3_RANKS, "rs_lab_grid_run(&m->grid, decay, 0, seed)->seen[at]", "rs_lab_grid_run(&m->grid, decay, 0, 0)->seen[at]"),
    (MADE_UP, FIGURE_3_RANKS, "if (isnan(rs_lab_grid_run(&m->grid, 0, 0, s)->diverged) &&", "if ("),
    (MADE_UP, FIGURE_3_RANKS, "isnan(rs_lab_grid_run(&m->grid, decay, 0, s)->diverged))\n", "true)\n"),
    (MADE_UP, FIGURE_3_RANKS, "decay, s, product, measure);", "decay, s, measure, product);"),
    (MADE_UP, FIGURE_3_RANKS, "worst = fmax(worst, run->eval_loss / run->loss[0])", "worst = fmax(worst, run->loss[0] / run->eval_loss)"),
    (MADE_UP, FIGURE_3_RANKS, "if (isnan(run->diverged)) values[(*n)++]", "values[(*n)++]"),
    (MADE_UP, FIGURE_3_RANKS, "d.mean, rs_lab_order_error(d), err", "-d.mean, rs_lab_order_error(d), err"),
    (MADE_UP, FIGURE_3_RANKS, "d.mean, rs_lab_order_error(d), err", "d.mean, d.error, err"),
    (MADE_UP, FIGURE_3_RANKS, ".pseudo = of[place_of(layer, product, 0)]", ".pseudo = of[place_of(layer, product, 1)]"),
    (MADE_UP, FIGURE_3_RANKS, "&models[LANGUAGE], options, rs_lab_fig3_runs", "&models[VISION], options, rs_lab_fig3_runs"),
    (MADE_UP, STRENGTHS, "{{-1, 0, 1, 1}, {1, -1, 0, -1}}", "{{1, 0, 1, 1}, {1, -1, 0, -1}}"),
    (MADE_UP, STRENGTHS, "{{-1, 0, 1, 1}, {1, -1, 0, -1}}", "{{-1, 0, 1, 1}, {1, 1, 0, -1}}"),
    (MADE_UP, STRENGTHS, "run->eval_accuracy : 0;", "run->eval_accuracy : 1;"),
    (MADE_UP, STRENGTHS, "trains) / (double)rates", "trains)"),
    (MADE_UP, STRENGTHS, "trains = 0.5;", "trains = 0.7;"),
    (SEEN, STRENGTHS, "spike = 1.5;", "spike = 0.95;"),
    (MADE_UP, STRENGTHS, "if (!isnan(run->diverged)) continue;\n            o.spikes", "o.spikes"),
    (MADE_UP, STRENGTHS, "by[s] = one.accuracy[s] - none.accuracy[s];", "by[s] = none.accuracy[s] - one.accuracy[s];"),
    (MADE_UP, STRENGTHS, "by[s] = learnt.accuracy[s] - one.accuracy[s];", "by[s] = one.accuracy[s] - learnt.accuracy[s];"),
    (MADE_UP, STRENGTHS, "by[s] = learnt.trains[s] - one.trains[s];", "by[s] = one.trains[s] - learnt.trains[s];"),
    (MADE_UP, STRENGTHS, "outcome_of(c, FIXED), none = outcome_of(c, NONE)", "outcome_of(c, TRAINED), none = outcome_of(c, NONE)"),
    (MADE_UP, STRENGTHS, "outcome_of(c, FIXED), learnt = outcome_of(c, TRAINED)", "outcome_of(c, NONE), learnt = outcome_of(c, TRAINED)"),
    (MADE_UP, STRENGTHS, "sign * d.mean,", "d.mean,"),
    (MADE_UP, STRENGTHS, "d.mean < 0 ? down : up", "d.mean < 0 ? up : down"),
    (MADE_UP, STRENGTHS, "fmin(a.mean, 1 - a.mean)", "fmax(a.mean, 1 - a.mean)"),
    (MADE_UP, STRENGTHS, "squared[layer];", "squared[0];"),
    (MADE_UP, STRENGTHS, "[strength][first + s]", "[strength][s]"),
    (MADE_UP, STRENGTHS, "log10(one[RS_TABLE1_Q] / one[RS_TABLE1_V]) -", "log10(one[RS_TABLE1_Q] / one[RS_TABLE1_V]) +"),
    (MADE_UP, STRENGTHS, "all->of[mixer][2][s].squared[RS_TABLE1_LAYERS - 1]", "all->of[mixer][2][s].squared[0]"),
    (MADE_UP, STRENGTHS, "*none = all->of[mixer][0][s]", "*none = all->of[mixer][1][s]"),
    (MADE_UP, STRENGTHS, "log10(g[RS_TABLE1_Q] / g[RS_TABLE1_V])", "log10(g[RS_TABLE1_V] / g[RS_TABLE1_Q])"),
    (MADE_UP, STRENGTHS, "log10(g[part]) / n", "log10(g[part])"),
    (SEEN, STRENGTHS, '"mixer_skip"', '"mlp_skip"'),
    (MADE_UP, STRENGTHS, "way == TRAINED ? \", 'trainable': ['skips']\"", "way == FIXED ? \", 'trainable': ['skips']\""),
    (MADE_UP_DONG, SHORT_PATHS, "s->longest / 2", "s->longest / 3"),
    (MADE_UP_DONG, SHORT_PATHS, "if (fabs(rs_gathered_spread(&s->cosine[k]).mean) >", "if (rs_gathered_spread(&s->cosine[k]).mean >"),
    (MADE_UP_DONG, SHORT_PATHS, "rs_gathered_spread(&s->cosine[1]);", "rs_gathered_spread(&s->cosine[most_alike(s)]);"),
    (MADE_UP_DONG, SHORT_PATHS, "(rs_lab_spread){a.mean, hypot", "(rs_lab_spread){fabs(a.mean), hypot"),
    (MADE_UP_DONG, SHORT_PATHS, "all = rs_gathered_spread(&s->missing[0]).mean", "all = 1"),
    (MADE_UP_DONG, SHORT_PATHS, "if (!(a->sum > 0)) return", "if (false) return"),
    (MADE_UP_DONG, SHORT_PATHS, "double all = rs_gathered_spread(&s->rise[s->sets - 1]).mean;", "double all = rs_gathered_spread(&s->rise[s->sets - 2]).mean;"),
    (MADE_UP_DONG, SHORT_PATHS, "rs_ensemble_needs_heads(s) ? s->most / all", "rs_ensemble_needs_heads(s) ? 2 * s->most / all"),
    (MADE_UP_DONG, SHORT_PATHS, "ratio = r->sum / a->sum", "ratio = a->sum / r->sum"),
    (MADE_UP_DONG, SHORT_PATHS, "r->squares - 2 * ratio * s->cross[set]", "r->squares - ratio * s->cross[set]"),
    (MADE_UP_DONG, SHORT_PATHS, "/ (r->n - 1) * r->n)", "/ (r->n - 1))"),
    (MADE_UP_DONG, SHORT_PATHS, "s->sets > 2 ? 2", "s->sets > 2 ? 1"),
    (MADE_UP_DONG, SHORT_PATHS, "{r.mean - 1, r.error, r.n}", "{r.mean, r.error, r.n}"),
    (MADE_UP_DONG, ENSEMBLES, "q->below - found.mean", "found.mean - q->below"),
    (MADE_UP_DONG, ENSEMBLES, "rs_ensemble_missing_share, 0.5, false", "rs_ensemble_missing_share, 0.6, false"),
    (MADE_UP_DONG, ENSEMBLES, "turned ? q->down : q->up", "turned ? q->up : q->down ? q->down : q->up"),
    (MADE_UP_DONG, ENSEMBLES, "rs_ensemble_missing(&e->of[TRAINED][s]).mean -", "rs_ensemble_missing(&e->of[TRAINED][s]).mean +"),
    (MADE_UP_DONG, ENSEMBLES, "d.mean > 0 ? \"short", "d.mean < 0 ? \"short"),
    (MADE_UP_DONG, ENSEMBLES, "missing[s->longest]).mean);", "missing[s->longest - 1]).mean);"),
    (MADE_UP_DONG, ENSEMBLES, "all.nll[k] /= n;", "all.nll[k] /= 1;"),
    (MADE_UP_DONG, SHORT_PATHS, "g->squares - g->sum * mean", "g->squares + g->sum * mean"),
    (MADE_UP_DONG, SHORT_PATHS, "s->heads[i] = (int)list[4 + i];", "s->heads[i] = (int)list[3 + i];"),
    (MADE_UP_DONG, LENGTHS, "by[s] = order_of(&all->of[s][rate], way, which);", "by[s] = order_of(&all->of[0][rate], way, which);"),
    (MADE_UP_DONG, LENGTHS, "SHORTEST_WORKS      ? shortest - floor", "SHORTEST_WORKS      ? floor - shortest"),
    (MADE_UP_DONG, LENGTHS, "shortest - accuracy_of(run, way, 2)", "shortest - accuracy_of(run, way, 3)"),
    (MADE_UP_DONG, LENGTHS, ": floor - longer;", ": longer - floor;"),
    (MADE_UP_DONG, LENGTHS, "accuracy_of(run, way, k) / (RS_PATH_LONGEST - 1)", "accuracy_of(run, way, k) / RS_PATH_LONGEST"),
    (MADE_UP_DONG, LENGTHS, "shortest = accuracy_of(run, way, 1)", "shortest = accuracy_of(run, CODE, 1)"),
    (MADE_UP_DONG, LENGTHS, "spread(all, rate, CODE, 1).mean, by_eye", "spread(all, rate, THEOREM, 1).mean, by_eye"),
    (MADE_UP_DONG, LENGTHS, "spread(all, rate, WAYS, 0).mean, by_eye", "spread(all, 0, WAYS, 0).mean, by_eye"),
    (MADE_UP_DONG, LENGTHS, "by_eye = 0.05;", "by_eye = 0.2;"),
    (MADE_UP_DONG, LENGTHS, "most - run->floors.alone", "most - run->floors.constant"),
    (MADE_UP_DONG, LENGTHS, "up_to[RS_PATH_LONGEST] - run->of.model", "up_to[RS_PATH_LONGEST - 1] - run->of.model"),
    (MADE_UP_DONG, LENGTHS, "f->constant / all->seeds", "f->constant"),
    (MADE_UP_DONG, CIRCLE, "all->of[s][rate][kind][width].stays - all->of", "all->of[s][rate][kind][width].stays + all->of"),
    (MADE_UP_DONG, CIRCLE, "].apart[RS_CIRCLE_STEPS], 1) / all->seeds", "].apart[RS_CIRCLE_STEPS], 2) / all->seeds"),
    (MADE_UP_DONG, CIRCLE, "merged = 0.05, left = 2", "merged = 0.5, left = 2"),
    (MADE_UP_DONG, CIRCLE, "merged = 0.05, left = 2", "merged = 0.05, left = 4"),
    (MADE_UP_DONG, CIRCLE, "kind >= RS_CIRCLE_RELEASED", "kind > RS_CIRCLE_RELEASED"),
    (MADE_UP_DONG, CIRCLE, "1 - stay[1] / runs[1]", "stay[1] / runs[1]"),
    (MADE_UP_DONG, CIRCLE, "rate, plain, WIDTHS - 1, plain, 0)", "rate, plain, WIDTHS - 2, plain, 0)"),
    (MADE_UP_DONG, CIRCLE, "rate, plain + 1, 0, plain, 0)", "rate, plain + 2, 0, plain, 0)"),
    (MADE_UP_DONG, CIRCLE, "rate, plain + 2, 0, plain, 0)", "rate, plain, 0, plain + 2, 0)"),
    (MADE_UP_DONG, CIRCLE, "1 - least / one_constant()", "least / one_constant()"),
    (MADE_UP_DONG, CIRCLE_LOOP, ", 'data': {'lag': 30}", ""),
    (DATA, "data", "strlen(path) - strlen(\"x.npy\")] = 'y'", "strlen(path) - strlen(\"x.npy\")] = 'x'"),
    (DATA, "data", "*print = rs_task_print(*print, file);", "*print = 1;"),
    (DATA, "data", "look(&data->images_print, data->y, files, err)", "look(&data->images_print, data->x, files, err)"),
    (DATA, "data", "ends_in(path, \".npy\")", "ends_in(path, \".np\")"),
    (DATA, "runs", "if (grid->data)\n", "if (false)\n"),
    (MADE_UP, "lab", "if (!known && found == FAIL", "if (found == FAIL"),
    ("test_lab_runs", "training", "squares / (n - 1) / n", "squares / n / n"),
    ("test_lab_runs", "training", "n > 1 ? sqrt", "n > 0 ? sqrt"),
    ("test_lab_runs", "training", "END = 5", "END = 4"),
    ("test_lab_runs", "training", "student[of.n - FIRST] / normal", "student[of.n - FIRST]"),
    ("test_lab_runs", "runs", "run->eval_accuracy : chance", "run->eval_accuracy : 0"),
    ("test_lab_runs", "runs", "sum > most ||", "sum < most ||"),
    ("test_lab_runs", "runs", "most && steps < least", "most && steps > least"),
    ("test_lab", "lab", "difference > 2 * error    ? PASS", "difference > error    ? PASS"),
    ("test_lab", "lab", "difference < -(2 * error) ? turned", "difference < 0 ? turned"),
    ("test_lab", "lab", "difference, error, DIFFERS", "difference, error, FAIL"),
]


REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BUILD = REPOSITORY / "build"


def run(words, **more):
    return subprocess.run(words, capture_output=True, text=True, errors="replace", check=False, **more)


def name_of(experiment):
    """lambda_theorem_4_1 is lambda-theorem-4.1."""
    return re.sub(r"-(\d)-(\d)$", r"-\1.\2", experiment.replace("_", "-"))


def verdicts(program, experiment):
    """[(claim, verdict)] of a --quick run, or None where it does not end well."""
    ran = run([program, "lab", "run", name_of(experiment), "--quick", "--quiet", "--threads", "1", "--json", "-"])
    if ran.returncode:
        return None
    return [(row["claim"], row["verdict"]) for row in json.loads(ran.stdout)["tables"]["claims"]]


def build_commands():
    """How ninja compiles each file of src/lab/, and how it links the program: lists of words."""
    lines = run(["ninja", "-C", str(BUILD), "-t", "commands", "rankscope"]).stdout.split("\n")
    lines = [line for line in lines if line and not line.startswith("ninja:")]
    compile_of = {}
    for line in lines:
        words = shlex.split(line)
        source = pathlib.Path(words[-1])
        if source.parent == REPOSITORY / "src/lab":
            compile_of[source.stem] = [w for w in words if w not in ("ccache", "-g", "-MD")]
    return compile_of, link_command("rankscope")


def link_command(target):
    lines = run(["ninja", "-C", str(BUILD), "-t", "commands", target]).stdout.strip().split("\n")
    return shlex.split(lines[-1].strip(": &"))


def is_test(experiment):
    return experiment.startswith("test_")


def failed_case(program, scratch):
    """The first case of a unit test that fails; None: all pass."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        ran = run([program], cwd=folder)
    cases = re.findall(r"^\[  FAILED  \] (\w+)$", ran.stdout + ran.stderr, re.M)
    return (cases or [f"status {ran.returncode}"])[0] if ran.returncode else None


def without(words, *names):
    """The words without these options and their values."""
    out, skip = [], False
    for word in words:
        if not skip and word not in names:
            out.append(word)
        skip = not skip and word in names
    return out


def found_by(scratch, number, name, text, experiment, before, commands):
    source, thing, program = (scratch / f"{name}_{number}{end}" for end in (".c", ".o", ""))
    source.write_text(text, encoding="utf-8")
    compiler = without(commands[0][name], "-MT", "-MF", "-o", "-c") + ["-w", "-c", str(source), "-o", str(thing)]
    linker = without(link_command("tests/" + experiment) if is_test(experiment) else commands[1], "-o")
    at = linker.index("librankscope.a")
    linker[at:at] = [str(thing)]
    try:
        for words in (compiler, [*linker, "-o", str(program)]):
            made = run(words, cwd=BUILD)
            if made.returncode:
                return "NOT BUILT " + made.stderr[-300:]
        if is_test(experiment):
            return failed_case(str(program), scratch) or "SURVIVED"
        after = verdicts(str(program), experiment)
    finally:
        for path in (source, thing, program):
            path.unlink(missing_ok=True)
    if after is None or len(after) != len(before):
        return "(the run fails)"
    # row by row: the text of a claim may hold the number that was mutated
    return next((f"{claim}: {verdict}" for (claim, verdict), (_, right) in zip(after, before) if verdict != right), "SURVIVED")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    scratch, wanted = pathlib.Path(sys.argv[1]).resolve(), {name.replace("-", "_").replace(".", "_") for name in sys.argv[2:]}
    scratch.mkdir(parents=True, exist_ok=True)
    chosen = [m for m in MUTATIONS if not wanted or wanted & {m[0], m[1]}]
    commands = build_commands()
    known = {e: verdicts(str(BUILD / "rankscope"), e) for e in dict.fromkeys(m[0] for m in chosen) if not is_test(e)}
    bad = 0

    def one(job):
        number, (experiment, name, old, new) = job
        text = (REPOSITORY / "src/lab" / (name + ".c")).read_text(encoding="utf-8")
        if old not in text:
            return "NOT IN THE SOURCE"
        return found_by(scratch, number, name, text.replace(old, new, 1), experiment, known.get(experiment), commands)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for (experiment, name, old, new), verdict in zip(chosen, pool.map(one, enumerate(chosen))):
            bad += verdict.startswith(("SURVIVED", "NOT"))
            print(f"{experiment}, {name}: {old.strip()!r} -> {new.strip()!r}\n    {verdict}", flush=True)
    print(f"{bad} of {len(chosen)} mutations were not found out")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
