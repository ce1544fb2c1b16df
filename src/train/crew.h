/*
 * crew.h: a batch on its way back in parts, side by side.
 *
 * A small network spends its time on waiting for threads that share its small products. So its batch
 * is cut into parts of whole samples; each runs forward and back on one thread, into gradients of
 * its own, which are added up in the order of the parts. A thread runs its parts in one runner. How a batch is cut follows from its sizes
 * and the network's alone: the sums are the same bits for any number of threads.
 */
#ifndef RS_TRAIN_CREW_H
#define RS_TRAIN_CREW_H

#include "train/feed.h"
#include "train/trained.h"

typedef struct rs_crew rs_crew;

/* How many parts a batch of so many samples and rows is cut into, for a network of `numbers` trained
 * numbers of `size` bytes: 1 where it is left whole. */
int64_t rs_crew_parts(int64_t numbers, size_t size, int64_t samples, int64_t rows);
/* How many of them are on their way at a time, and how many sets of gradients there are at most. */
int64_t rs_crew_workers(int64_t parts, int threads);
int64_t rs_crew_sinks(int64_t parts, int threads);

/* Opens what runs batches of at most `samples` samples of n_tok rows. The list's network, the list and
 * the context must outlive it; runner: runs a batch that is left whole. */
rs_status rs_crew_open(rs_crew **out, rs_trained_list *list, rs_precision precision,
                       int64_t samples, int64_t n_tok, rs_runner *runner, const rs_context *context,
                       rs_error *err);
void rs_crew_close(rs_crew *crew);

/* Runs the packed batch forward and back: its gradients replace those of the list, or are added to
 * them (trained.h); *loss gains its loss, wanted->told the counts of all parts. */
rs_status rs_crew_run(double *loss, rs_crew *crew, const rs_feed *feed, const rs_loss *wanted,
                      const rs_dropout *dropout, rs_error *err);
/* Behind a step: weights that were decoded are so no longer. */
void rs_crew_weights_changed(rs_crew *crew);

/* Operations of matrix products of the last batch. */
double rs_crew_flops(const rs_crew *crew);

#endif
