/*
 * named_tasks.c: what each task is trained with when nothing else is said: the published settings
 * where there are some (docs/train.md, Named tasks, says which), ours elsewhere. Settings of the data
 * are in the table of tasks (task.c).
 */
#include "train/settings.h"

/* As the released program of Dong et al. 2021 starts its layers. */
#define DONG_INIT                                                                                  \
    "'init': {'wq': 'normal(0, 0.0004)', 'wk': 'normal(0, 0.0004)',"                               \
    " 'wv': 'uniform(-1/sqrt(fan_in), 1/sqrt(fan_in))',"                                           \
    " 'wo': 'uniform(-1/sqrt(fan_in), 1/sqrt(fan_in))', 'embedding': 'normal(0, 0.0004)',"         \
    " 'position': 'normal(0, 0.0004)', 'head': 'normal(0, 0.0004)'}"

const rs_named_task rs_named_tasks[] = {
    {"associative-recall",
     "{'model': {'depth': 2, 'd_model': 64, 'heads': 2, 'mask': 'causal', 'positions': 'learned',"
     "   'norm': 'pre', 'norm_affine': 'gain', 'mlp': 'relu', 'mlp_width': 128, 'init': {'w1': "
     "'normal(0, 1/fan_in)',"
     "   'embedding': 'normal(0, 0.09)', 'position': 'normal(0, 0.09)'}},"
     " 'steps': 4000, 'batch': 32,"
     " 'optimizer': {'kind': 'adamw', 'lr': 2e-3, 'betas': [0.9, 0.95], 'eps': 1e-8, 'clip': 1,"
     "   'weight_decay': {'default': 0.1, 'attention': 0.1, 'norm': 0}},"
     " 'schedule': {'kind': 'constant', 'warmup': 100}}"},
    {"sorting",
     "{'model': {'depth': 6, 'd_model': 48, 'heads': 2, 'positions': 'learned', 'norm': 'post',"
     "   'norm_affine': 'both', 'bias': true, 'mlp': 'none', " DONG_INIT "},"
     " 'embed': {'map': 'linear', 'norm': true}, 'steps': 2210, 'batch': 30, 'seed': 2,"
     " 'dropout': 0.1, 'optimizer': {'kind': 'adam', 'lr': 1e-5}}"},
    {"convex-hull",
     "{'model': {'depth': 6, 'd_model': 84, 'heads': 3, 'norm': 'post', "
     "   'norm_affine': 'both', 'bias': true, 'mlp': 'none', " DONG_INIT "},"
     " 'embed': {'map': 'mlp', 'width': 84, 'norm': true}, 'steps': 23380, 'batch': 30, 'seed': 2,"
     " 'dropout': 0.1, 'optimizer': {'kind': 'adam', 'lr': 1e-5, 'weight_decay': 1e-3},"
     " 'schedule': {'kind': 'step', 'factor': 0.91,"
     "   'milestones': [5010, 10020, 13360, 16700, 20040]}}"},
    {"memorization",
     "{'model': {'depth': 6, 'd_model': 250, 'heads': 2, 'norm': 'post', 'mlp': 'gelu',"
     "   'norm_affine': 'both', 'bias': true, 'mlp_width': 250, " DONG_INIT "},"
     " 'embed': {'map': 'linear', 'norm': true}, 'steps': 3150, 'batch': 8, 'dropout': 0.1,"
     " 'optimizer': {'kind': 'adamw', 'lr': 3e-4, 'clip': 1}, 'schedule': {'kind': 'linear'}}"},
    {"circle", "{'model': {'depth': 1, 'd_model': 32, 'heads': 2, 'norm': 'post', "
               "   'norm_affine': 'both', 'bias': true, 'mlp': 'none', " DONG_INIT "},"
               " 'embed': {'map': 'linear', 'norm': true}, 'steps': 1190, 'batch': 30, 'seed': 2,"
               " 'dropout': 0.1, 'optimizer': {'kind': 'adam', 'lr': 1e-5}}"},
    {"reversal",
     "{'model': {'depth': 5, 'd_model': 16, 'heads': 1, 'positions': 'sinusoidal', 'norm': 'post',"
     "   'norm_affine': 'both', 'bias': true, 'mlp': 'relu'}, 'steps': 2000, 'batch': 64,"
     " 'optimizer': {'kind': 'adam', 'lr': 0.01}}"},
    {"mqar",
     "{'model': {'depth': 2, 'd_model': 64, 'heads': 1, 'mask': 'causal', 'positions': 'learned',"
     "   'norm': 'pre', 'norm_affine': 'both', 'bias': true, 'mlp': 'none'}, 'steps': 12544, "
     "'batch': 512,"
     " 'optimizer': {'kind': 'adamw', 'lr': 2e-3, 'weight_decay': 0.1},"
     " 'schedule': {'kind': 'cosine'}}"},
    {"markov",
     "{'model': {'depth': 2, 'd_model': 64, 'heads': 2, 'mask': 'causal', 'positions': 'learned',"
     "   'norm': 'pre', 'norm_affine': 'gain', 'mlp': 'gelu', 'mlp_width': 128}, 'steps': 1000, "
     "'batch': 16,"
     " 'optimizer': {'kind': 'adamw', 'lr': 2e-3, 'betas': [0.9, 0.95], 'clip': 1,"
     "   'weight_decay': {'default': 0.1, 'norm': 0}},"
     " 'schedule': {'kind': 'constant', 'warmup': 50}}"},
    {"entrywise", "{'model': {'depth': 2, 'd_model': 64, 'heads': 1, 'norm': 'post', "
                  "   'norm_affine': 'both', 'mlp': 'none'}, 'embed': {'map': 'linear'}, 'steps': "
                  "2000, 'batch': 4,"
                  " 'optimizer': {'kind': 'adam', 'lr': 1e-3}}"},
    {"char-lm",
     "{'model': {'depth': 4, 'd_model': 128, 'heads': 4, 'mask': 'causal', 'positions': 'learned',"
     "   'norm': 'pre', 'norm_affine': 'gain', 'mlp': 'gelu'}, 'steps': 2000, 'batch': 16,"
     " 'optimizer': {'kind': 'adamw', 'lr': 1e-3, 'betas': [0.9, 0.95], 'clip': 1,"
     "   'weight_decay': {'default': 0.1, 'norm': 0, 'bias': 0}},"
     " 'schedule': {'kind': 'cosine', 'warmup': 100, 'last': 0.1}}"},
    {"bpe-lm",
     "{'data': {'length': 256},"
     " 'model': {'depth': 6, 'd_model': 256, 'heads': 4, 'mask': 'causal', 'positions': 'learned',"
     "   'norm': 'pre', 'norm_affine': 'gain', 'mlp': 'gelu'}, 'steps': 5000, 'batch': 8,"
     " 'optimizer': {'kind': 'adamw', 'lr': 6e-4, 'betas': [0.9, 0.95], 'clip': 1,"
     "   'weight_decay': {'default': 0.1, 'norm': 0, 'bias': 0}},"
     " 'schedule': {'kind': 'cosine', 'warmup': 200, 'last': 0.1}}"},
    {"mlm",
     "{'model': {'depth': 4, 'd_model': 128, 'heads': 4, 'positions': 'learned', 'norm': 'post',"
     "   'norm_affine': 'both', 'bias': true, 'mlp': 'gelu'}, 'steps': 5000, 'batch': 16,"
     " 'optimizer': {'kind': 'adamw', 'lr': 5e-4, 'clip': 1,"
     "   'weight_decay': {'default': 0.01, 'norm': 0, 'bias': 0}},"
     " 'schedule': {'kind': 'linear', 'warmup': 500}}"},
    {"image", "{'model': {'depth': 4, 'd_model': 64, 'heads': 4, 'norm': 'pre',"
              " 'norm_affine': 'both', 'bias': true, 'mlp': 'gelu', 'positions': 'learned'}, "
              "'embed': {'map': 'linear'}, 'steps': 2000, 'batch': 64,"
              " 'optimizer': {'kind': 'adamw', 'lr': 1e-3, 'clip': 1,"
              "   'weight_decay': {'default': 0.05, 'norm': 0, 'bias': 0}},"
              " 'schedule': {'kind': 'cosine', 'warmup': 100}}"},
    {"series", "{'data': {'length': 64},"
               " 'model': {'depth': 2, 'd_model': 64, 'heads': 2, 'mask': 'causal', 'norm': 'pre',"
               "   'norm_affine': 'both', 'positions': 'learned', 'mlp': 'gelu'}, 'embed': {'map': "
               "'linear'}, 'steps': 2000, 'batch': 32,"
               " 'optimizer': {'kind': 'adamw', 'lr': 1e-3, 'clip': 1}}"},
    {"tokens", "{'model': {'depth': 2, 'd_model': 64, 'heads': 2, 'norm': 'pre',"
               "   'norm_affine': 'both', 'positions': 'learned', 'mlp': 'gelu'}, 'embed': {'map': "
               "'linear'}, 'steps': 2000, 'batch': 32,"
               " 'optimizer': {'kind': 'adam', 'lr': 1e-3}}"},
    {NULL, NULL}};
