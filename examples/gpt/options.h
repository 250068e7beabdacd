/* SPDX-License-Identifier: BSD-3-Clause
 * The command line. The lists below make the struct, the parser, the checks and --help. A field `print_every` is the
 * option --print-every. Only --text and --help are not in the lists.
 */
#ifndef EXAMPLES_GPT_OPTIONS_H
#define EXAMPLES_GPT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

/* X(field, default, least, most, help) */
#define OPTIONS_SIZES(X) \
  X(layers, 4, 1, 1000, "transformer blocks") \
  X(hidden, 200, 1, 16384, "width of the model; a multiple of --heads") \
  X(heads, 5, 1, 1024, "attention heads") \
  X(vocabulary, 0, 0, 65536, "tokens: the 256 bytes and the most frequent words; 0: bytes alone") \
  X(context, 32, 1, 65536, "tokens of a sequence") \
  X(batch, 48, 1, 4096, "sequences of a rank in one pass") \
  X(accumulate, 1, 1, 4096, "passes whose gradients are added before they are reduced") \
  X(steps, 120, 1, 100000000, "optimiser steps") \
  X(rehearsal, 0, 0, 100000000, "steps before the training, which then begins anew") \
  X(warmup_steps, 10, 0, 100000000, "steps until the full learning rate") \
  X(lr_left, 10, 0, 100, "percent of the learning rate that are left at the last step") \
  X(eval_every, 0, 0, 100000000, "steps between validations; 0: only at the end") \
  X(checkpoint_every, 50, 1, 100000000, "steps between checkpoints, with --checkpoint") \
  X(eval_sequences, 0, 0, 100000000, "held-out sequences of a validation; 0: all there are") \
  X(print_every, 10, 0, 100000000, "steps between lines of progress; 0: none") \
  X(skip_timing, 2, 0, 100000000, "first steps that the statistics of times leave out") \
  X(seed, 1, 0, 4294967295, "of the initial parameters and of the sequences drawn") \
  X(threads, 1, 1, 1024, "threads of the BLAS in each rank")

#define OPTIONS_REALS(X) \
  X(lr, 3e-3, 0, 10, "peak learning rate; it falls by a half cosine") \
  X(weight_decay, 0.1, 0, 10, "of AdamW, for matrices") \
  X(clip, 1.0, 0, 1e30, "largest L2 norm of the whole gradient; 0: no clipping") \
  X(bucket_mb, 25, 0, 1e6, \
    "MiB of gradients from which on a bucket of --parallel ddp is complete; 0: one for each unit")

/* X(field, choices, help): the first one is the default; the field is its index. */
#define OPTIONS_CHOICES(X) \
  X(unit, "block|half", "what is gathered and reduced in one call: a block, or its attention and its MLP apart") \
  X(parallel, "fsdp|ddp", "what a rank owns: a shard of the parameters, or all of them") \
  X(allgather_type, "fp32|bf16", "as what --parallel fsdp gathers parameters; bf16: rounded to nearest") \
  X(gradient_type, "fp32|bf16", "as what gradients are reduced; bf16: rounded to nearest")

/* X(field, help): without a value. */
#define OPTIONS_FLAGS(X) \
  X(allgather_in_place, "a shard is gathered from its place in the gathered buffer, as FSDP2 does") \
  X(check_gradients, "compare the backward pass with finite differences on a small model, and end")

/* X(field, help) */
#define OPTIONS_PATHS(X) \
  X(checkpoint, "write checkpoints to FILE.RANK.0 and .1, and go on from them where they are there") \
  X(dump_params, "write the final parameters as raw fp32, in forward order") \
  X(times, "write every step's times as tab-separated text")

enum { ALLGATHER_FP32, ALLGATHER_BF16 }; /* of allgather_type */
enum { GRADIENT_FP32, GRADIENT_BF16 };   /* of gradient_type */
enum { UNIT_BLOCK, UNIT_HALF };          /* of unit */

struct options {
#define FIELD(field, fallback, least, most, help) size_t field;
  OPTIONS_SIZES(FIELD)
#undef FIELD
#define FIELD(field, fallback, least, most, help) float field;
  OPTIONS_REALS(FIELD)
#undef FIELD
#define FIELD(field, choices, help) int field;
  OPTIONS_CHOICES(FIELD)
#undef FIELD
#define FIELD(field, help) bool field;
  OPTIONS_FLAGS(FIELD)
#undef FIELD
#define FIELD(field, help) const char *field;
  OPTIONS_PATHS(FIELD)
#undef FIELD
  const char **text; /* files; none: the default folder */
  size_t ntext;
};

/* Parses the command line. --help prints and ends with status 0; anything wrong ends the process with status 2 and a
 * line that names the option, the value and what is accepted. Paths point into argv; free(text) when done. */
struct options options_parse(int argc, char **argv);

/* The same options without paths and text: zeros instead. */
struct options options_numbers(const struct options *o);
/* Ends the process with status 2 and a line that names the first option on which a training depends and that is not as
 * it was; `name`: the file with the old options. Those of what is printed and of when a checkpoint is written may
 * change. */
void options_check_equal(const struct options *old, const struct options *now, const char *name);

#endif
