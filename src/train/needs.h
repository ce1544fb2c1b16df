/*
 * needs.h: the memory that a run holds at once, part by part, so that one that has no room is refused
 * before its first weight is drawn (docs/train.md, Memory).
 */
#ifndef RS_TRAIN_NEEDS_H
#define RS_TRAIN_NEEDS_H

#include "base/budget.h"
#include "train/learner.h"

/* Adds all but the weights as they are drawn. learner: its settings and its context are looked at. */
void rs_train_need(rs_budget *budget, const rs_network *network, const rs_learner *learner);

#endif
