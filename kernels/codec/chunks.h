/* SPDX-License-Identifier: BSD-3-Clause
 * A call in chunks: the shards of a reduce-scatter or of an all-gather cut alike, so that one chunk is encoded or
 * decoded while another one travels.
 *
 * Sizes    A part of a call's work is exposed in any case: what is encoded before the first exchange and decoded after
 *          the last one. So the first and the last chunk are half as long as those between them: of d chunks these hide
 *          all but 1 / (2 (d - 1)) of encode + decode, equal ones all but 1/d (4: 83%, and not 75%).
 * Blocks   Chunks begin at multiples of TAGC_CHUNK_ELEMENTS of a shard, which no block of a codec or of a residual
 *          spans; the last one takes what is left. There are fewer than asked for where the first would be shorter than
 *          that.
 * Each     is a call to its codec, with payloads and a state of its own: what belongs to blocks (none, bf16, q8 without
 *          chance) comes out as of the whole, bit for bit; sparse chooses the largest values of each chunk. Not for
 *          codecs with several exchanges (codec.h: `whole`), for each of these would have to wait for the others.
 * Residual Each chunk has its part, one after the other; together they take what that of the whole takes.
 * Gathers  Where a chunk of an all-gather is refused, the whole is made plain: the others may have written their part
 *          of recv by then, and of the reference, which refer() of the whole makes good. The reference is one, of whole
 *          shards.
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

/* Can calls of the codec be cut? Not those with several exchanges. */
bool tagc_chunks_possible(const struct tagc_codec *codec, const struct tagc_layout *layout);

/* The share of chunk k, where shards are so long that blocks do not matter: with four chunks 1/6, 1/3, 1/3, 1/6. */
double tagc_chunk_share(int k, int count);

/* The shape of chunk k. */
struct tagc_shape tagc_chunk_shape(const struct tagc_shape *whole, const struct tagc_chunks *chunks, int k);

/* The job of chunk k, where `whole` is the call's, without a layout and memory for payloads. With one chunk it is the
 * same. */
struct tagc_job tagc_chunk_job(const struct tagc_job *whole, const struct tagc_chunks *chunks, int k);

/* Adds what was seen of a chunk, whose stats are its own, to the job of the whole and its stats; chunk 0 first. */
void tagc_chunk_add_stats(struct tagc_job *whole, const struct tagc_job *chunk);

/* The same for an all-gather. */
struct tagc_allgather_shape tagc_chunk_allgather_shape(const struct tagc_allgather_shape *whole,
                                                       const struct tagc_chunks *chunks, int k);
struct tagc_allgather_job tagc_chunk_allgather_job(const struct tagc_allgather_job *whole,
                                                   const struct tagc_chunks *chunks, int k);

/* Adds what was seen of `count` chunks, whose stats are their own, to the stats of the whole. */
void tagc_chunk_allgather_add_stats(struct tagc_allgather_job *whole, const struct tagc_allgather_job *chunk,
                                    int count);

#endif
