/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-map from-safetensors: a model from the headers of a checkpoint, which hold names, types and shapes. Reads
 * nothing else.
 *
 * A file begins with 8 bytes, the length of the header (little endian), and the header itself, JSON:
 *   {"model.norm.weight": {"dtype": "BF16", "shape": [4096], "data_offsets": [0, 8192]}, "__metadata__": {...}, ...}
 * A checkpoint may be split into several files, in any order; together they must be complete.
 *
 * Known       Names and shapes. Blocks have a number in their names ("model.layers.7."); those with equal parameters
 *             share a unit. Orders of parameters, and their places before or behind the blocks, where order.h knows the
 *             family.
 * Guessed     The writer sorts a header, not the model:
 *             - of other families the order in a unit: attention, MLP, norms; embeddings before the blocks, the rest
 *               behind. Such units are marked (is_guessed)
 *             - among several stacks of blocks (an encoder and a decoder, a vision tower) the one with most elements is
 *               "block"; those with "decoder" in their names come behind it, all others before. The model is marked
 *             - buffers are no parameters: tensors that are not floating-point, and transformers' known ones
 *               ("inv_freq", "running_mean", "masked_bias", GPT-2's mask "attn.bias", "position_ids",
 * "e_score_correction_bias",
 *               "_scale_inv")
 *             - a head that is the embedding is in the file once or twice, and counts as often.
 */
#ifndef LAYERMAP_TAGC_MAP_SAFETENSORS_H
#define LAYERMAP_TAGC_MAP_SAFETENSORS_H

#include "layermap/model/complaint.h"
#include "layermap/model/model.h"

/* NULL: see *complaint, with the file's name in front if there are several; line and column are those of the header.
 * The caller frees the model. */
struct tagc_model *tagc_map_from_safetensors(char *const *paths, int count, struct tagc_complaint *complaint);

#endif
