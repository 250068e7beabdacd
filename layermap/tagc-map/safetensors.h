/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-map from-safetensors: a model from the headers of a checkpoint, which hold names, types and shapes. Nothing else
 * is read.
 *
 * A file begins with 8 bytes, the length of the header (little endian), and the header itself, JSON:
 *   {"model.norm.weight": {"dtype": "BF16", "shape": [4096], "data_offsets": [0, 8192]}, "__metadata__": {...}, ...}
 * A checkpoint may be cut in several files, in any order; together they must hold it whole.
 *
 * Known       Names and shapes. Blocks are what has a number in its name ("model.layers.7."); those with equal
 *             parameters share a unit.
 * Guessed     A header is sorted by its writer, not by the model, so these are guesses, made from the names:
 *             - the order of the parameters of a block (attention before the MLP before the norms, unless the names are
 *             those of a
 *               family that is known to do otherwise), and whether what is not in a block comes before the blocks
 *               (embeddings and what is named as part of them) or behind them (all else)
 *             - of several stacks of blocks (an encoder and a decoder, a vision tower) the one with most elements has
 *             the name "block",
 *               those whose names say "decoder" come behind it, all others before it
 *             - buffers: what is not of a floating-point type, and what transformers is known to keep as one
 *             ("inv_freq",
 *               "masked_bias", the mask "attn.bias" of GPT-2, "position_ids", "e_score_correction_bias"), is no
 *               parameter
 *             - a head that is the embedding is in the file once, or twice: where it is there twice, it counts twice.
 */
#ifndef LAYERMAP_TAGC_MAP_SAFETENSORS_H
#define LAYERMAP_TAGC_MAP_SAFETENSORS_H

#include "layermap/model/complaint.h"
#include "layermap/model/model.h"

/* NULL: *complaint says why, with the name of the file in front where there are several; its line and column are those
 * of the header. The caller frees the model. */
struct tagc_model *tagc_map_from_safetensors(char *const *paths, int count, struct tagc_complaint *complaint);

#endif
