/* SPDX-License-Identifier: BSD-3-Clause
 * A call in chunks: all shards of a reduce-scatter or an all-gather are cut alike, so that one chunk is encoded or
 * decoded while another one travels.
 *
 * Sizes    Two parts of the work are always exposed: the encoding before the first exchange and the decoding after the
 *          last. So the first and the last chunk are half as long as the others. d chunks then hide all but 1 / (2 (d -
 *          1)) of encode + decode; equal ones hide all but 1/d (4: 83%, and not 75%).
 * Blocks   Chunks begin at multiples of TAGC_CHUNK_ELEMENTS of a shard, which no block of a codec or of a residual
 *          spans; the last one takes the rest. There are fewer chunks if the first would else be shorter than that.
 * Each     is a call of its codec, with its own payloads and state. Codecs that work on blocks (none, bf16, q8 without
 *          chance) give the bits of the whole call; sparse and lhc choose the largest values of each chunk, and a
 *          chunk of lhc has sketches of its own.
 * Before   Exponents must be those of all ranks before a chunk is encoded. An exchange of them for each chunk would
 *          have to wait for the payloads of the chunk before, and encode for it. So measure (codec.h) reads all of the
 *          gradient first, and one exchange has the exponents of all chunks. They are those of the whole call.
 * Residual Each chunk has its part, one after the other; together they take as much as the whole call's.
 * Gathers  If a chunk of an all-gather is refused, the whole call is repeated plainly. The other chunks may have
 *          written their parts of recv and of the reference by then; refer() of the whole repairs the reference. There
 *          is one reference, of whole shards.
 * Threads  Pure.
 */
#ifndef KERNELS_CODEC_CHUNKS_H
#define KERNELS_CODEC_CHUNKS_H

#include "kernels/codec/allgather.h"

enum { TAGC_CHUNKS = 16, TAGC_CHUNK_ELEMENTS = 4096 };

struct tagc_chunks {
  int count;                    /* 1 to TAGC_CHUNKS */
  uint64_t at[TAGC_CHUNKS + 1]; /* chunk k: elements at[k] to at[k + 1] of each shard */
};

/* Shards of n elements in at most `count` chunks (1 to TAGC_CHUNKS). */
struct tagc_chunks tagc_chunks_of(uint64_t n, int count);

/* False for calls with exponents that no measure gives: they are not cut. */
bool tagc_chunks_possible(const struct tagc_codec *codec, const struct tagc_layout *layout);

/* The share of chunk k of a long shard, whose blocks do not matter: with four chunks 1/6, 1/3, 1/3, 1/6. */
double tagc_chunk_share(int k, int count);

/* The shape of chunk k. */
struct tagc_shape tagc_chunk_shape(const struct tagc_shape *whole, const struct tagc_chunks *chunks, int k);

/* The job of chunk k of the call `whole`, without layout and memory for payloads. One chunk: the same job. */
struct tagc_job tagc_chunk_job(const struct tagc_job *whole, const struct tagc_chunks *chunks, int k);

/* Adds a chunk's own stats and flags to those of the whole call; chunk 0 first. */
void tagc_chunk_add_stats(struct tagc_job *whole, const struct tagc_job *chunk);

/* The same for an all-gather. */
struct tagc_allgather_shape tagc_chunk_allgather_shape(const struct tagc_allgather_shape *whole,
                                                       const struct tagc_chunks *chunks, int k);
struct tagc_allgather_job tagc_chunk_allgather_job(const struct tagc_allgather_job *whole,
                                                   const struct tagc_chunks *chunks, int k);

/* Adds the own stats of `count` chunks to those of the whole call. */
void tagc_chunk_allgather_add_stats(struct tagc_allgather_job *whole, const struct tagc_allgather_job *chunk,
                                    int count);

#endif
