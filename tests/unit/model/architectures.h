/* SPDX-License-Identifier: BSD-3-Clause
 * Real models: the sizes in their published config.json, and how many parameters they have.
 *
 * A total is `published` where the authors tell it to the last digit (model cards, papers, or the number of elements in the published
 * checkpoint); the others were counted from the config. All of them are also what transformers 4.57 counts in a model that it makes of
 * the config. What is no parameter is not in them (the buffers of DeepSeek-V3's routers).
 */
#ifndef TESTS_UNIT_MODEL_ARCHITECTURES_H
#define TESTS_UNIT_MODEL_ARCHITECTURES_H

#include "layermap/model/families.h"

struct known_model {
  const char *name;
  uint64_t total;
  bool is_published;
  struct tagc_architecture a;
};

static const struct known_model known_models[] = {
  {"gpt2", 124439808, true,
   {.family = TAGC_FAMILY_GPT2, .hidden = 768, .intermediate = 3072, .heads = 12, .kv_heads = 12, .head_dim = 64, .blocks = 12,
    .vocabulary = 50257, .positions = 1024, .tied = true, .fused_qkv = true}},
  {"gpt2-medium", 354823168, true,
   {.family = TAGC_FAMILY_GPT2, .hidden = 1024, .intermediate = 4096, .heads = 16, .kv_heads = 16, .head_dim = 64, .blocks = 24,
    .vocabulary = 50257, .positions = 1024, .tied = true, .fused_qkv = true}},
  {"gpt2-large", 774030080, true,
   {.family = TAGC_FAMILY_GPT2, .hidden = 1280, .intermediate = 5120, .heads = 20, .kv_heads = 20, .head_dim = 64, .blocks = 36,
    .vocabulary = 50257, .positions = 1024, .tied = true, .fused_qkv = true}},
  {"gpt2-xl", 1557611200, true,
   {.family = TAGC_FAMILY_GPT2, .hidden = 1600, .intermediate = 6400, .heads = 25, .kv_heads = 25, .head_dim = 64, .blocks = 48,
    .vocabulary = 50257, .positions = 1024, .tied = true, .fused_qkv = true}},
  {"pythia-70m", 70426624, true,
   {.family = TAGC_FAMILY_NEOX, .hidden = 512, .intermediate = 2048, .heads = 8, .kv_heads = 8, .head_dim = 64, .blocks = 6,
    .vocabulary = 50304, .fused_qkv = true}},
  {"pythia-160m", 162322944, true,
   {.family = TAGC_FAMILY_NEOX, .hidden = 768, .intermediate = 3072, .heads = 12, .kv_heads = 12, .head_dim = 64, .blocks = 12,
    .vocabulary = 50304, .fused_qkv = true}},
  {"pythia-410m", 405334016, true,
   {.family = TAGC_FAMILY_NEOX, .hidden = 1024, .intermediate = 4096, .heads = 16, .kv_heads = 16, .head_dim = 64, .blocks = 24,
    .vocabulary = 50304, .fused_qkv = true}},
  {"pythia-1b", 1011781632, true,
   {.family = TAGC_FAMILY_NEOX, .hidden = 2048, .intermediate = 8192, .heads = 8, .kv_heads = 8, .head_dim = 256, .blocks = 16,
    .vocabulary = 50304, .fused_qkv = true}},
  {"pythia-1.4b", 1414647808, true,
   {.family = TAGC_FAMILY_NEOX, .hidden = 2048, .intermediate = 8192, .heads = 16, .kv_heads = 16, .head_dim = 128, .blocks =
    24, .vocabulary = 50304, .fused_qkv = true}},
  {"pythia-2.8b", 2775208960, true,
   {.family = TAGC_FAMILY_NEOX, .hidden = 2560, .intermediate = 10240, .heads = 32, .kv_heads = 32, .head_dim = 80, .blocks =
    32, .vocabulary = 50304, .fused_qkv = true}},
  {"pythia-6.9b", 6857302016, true,
   {.family = TAGC_FAMILY_NEOX, .hidden = 4096, .intermediate = 16384, .heads = 32, .kv_heads = 32, .head_dim = 128, .blocks =
    32, .vocabulary = 50432, .fused_qkv = true}},
  {"pythia-12b", 11846072320, true,
   {.family = TAGC_FAMILY_NEOX, .hidden = 5120, .intermediate = 20480, .heads = 40, .kv_heads = 40, .head_dim = 128, .blocks =
    36, .vocabulary = 50688, .fused_qkv = true}},
  {"gpt-neox-20b", 20554567680, true,
   {.family = TAGC_FAMILY_NEOX, .hidden = 6144, .intermediate = 24576, .heads = 64, .kv_heads = 64, .head_dim = 96, .blocks =
    44, .vocabulary = 50432, .fused_qkv = true}},
  {"llama-2-7b", 6738415616, true,
   {.family = TAGC_FAMILY_LLAMA, .hidden = 4096, .intermediate = 11008, .heads = 32, .kv_heads = 32, .head_dim = 128, .blocks =
    32, .vocabulary = 32000}},
  {"llama-2-13b", 13015864320, true,
   {.family = TAGC_FAMILY_LLAMA, .hidden = 5120, .intermediate = 13824, .heads = 40, .kv_heads = 40, .head_dim = 128, .blocks =
    40, .vocabulary = 32000}},
  {"llama-30b", 32528943616, true,
   {.family = TAGC_FAMILY_LLAMA, .hidden = 6656, .intermediate = 17920, .heads = 52, .kv_heads = 52, .head_dim = 128, .blocks =
    60, .vocabulary = 32000}},
  {"llama-65b", 65285660672, true,
   {.family = TAGC_FAMILY_LLAMA, .hidden = 8192, .intermediate = 22016, .heads = 64, .kv_heads = 64, .head_dim = 128, .blocks =
    80, .vocabulary = 32000}},
  {"llama-2-70b", 68976648192, true,
   {.family = TAGC_FAMILY_LLAMA, .hidden = 8192, .intermediate = 28672, .heads = 64, .kv_heads = 8, .head_dim = 128, .blocks =
    80, .vocabulary = 32000}},
  {"llama-3-8b", 8030261248, true,
   {.family = TAGC_FAMILY_LLAMA, .hidden = 4096, .intermediate = 14336, .heads = 32, .kv_heads = 8, .head_dim = 128, .blocks =
    32, .vocabulary = 128256}},
  {"llama-3-70b", 70553706496, true,
   {.family = TAGC_FAMILY_LLAMA, .hidden = 8192, .intermediate = 28672, .heads = 64, .kv_heads = 8, .head_dim = 128, .blocks =
    80, .vocabulary = 128256}},
  {"llama-3.1-405b", 405853388800, true,
   {.family = TAGC_FAMILY_LLAMA, .hidden = 16384, .intermediate = 53248, .heads = 128, .kv_heads = 8, .head_dim = 128, .blocks =
    126, .vocabulary = 128256}},
  {"llama-3.2-1b", 1235814400, true,
   {.family = TAGC_FAMILY_LLAMA, .hidden = 2048, .intermediate = 8192, .heads = 32, .kv_heads = 8, .head_dim = 64, .blocks = 16,
    .vocabulary = 128256, .tied = true}},
  {"llama-3.2-3b", 3212749824, true,
   {.family = TAGC_FAMILY_LLAMA, .hidden = 3072, .intermediate = 8192, .heads = 24, .kv_heads = 8, .head_dim = 128, .blocks =
    28, .vocabulary = 128256, .tied = true}},
  {"tinyllama-1.1b", 1100048384, true,
   {.family = TAGC_FAMILY_LLAMA, .hidden = 2048, .intermediate = 5632, .heads = 32, .kv_heads = 4, .head_dim = 64, .blocks = 22,
    .vocabulary = 32000}},
  {"smollm2-135m", 134515008, true,
   {.family = TAGC_FAMILY_LLAMA, .hidden = 576, .intermediate = 1536, .heads = 9, .kv_heads = 3, .head_dim = 64, .blocks = 30,
    .vocabulary = 49152, .tied = true}},
  {"mistral-7b-v0.1", 7241732096, true,
   {.family = TAGC_FAMILY_MISTRAL, .hidden = 4096, .intermediate = 14336, .heads = 32, .kv_heads = 8, .head_dim = 128, .blocks =
    32, .vocabulary = 32000}},
  {"mistral-7b-v0.3", 7248023552, true,
   {.family = TAGC_FAMILY_MISTRAL, .hidden = 4096, .intermediate = 14336, .heads = 32, .kv_heads = 8, .head_dim = 128, .blocks =
    32, .vocabulary = 32768}},
  {"mistral-nemo-12b", 12247782400, true,
   {.family = TAGC_FAMILY_MISTRAL, .hidden = 5120, .intermediate = 14336, .heads = 32, .kv_heads = 8, .head_dim = 128, .blocks =
    40, .vocabulary = 131072}},
  {"qwen2.5-0.5b", 494032768, true,
   {.family = TAGC_FAMILY_QWEN2, .hidden = 896, .intermediate = 4864, .heads = 14, .kv_heads = 2, .head_dim = 64, .blocks = 24,
    .vocabulary = 151936, .tied = true}},
  {"qwen2.5-1.5b", 1543714304, true,
   {.family = TAGC_FAMILY_QWEN2, .hidden = 1536, .intermediate = 8960, .heads = 12, .kv_heads = 2, .head_dim = 128, .blocks =
    28, .vocabulary = 151936, .tied = true}},
  {"qwen2.5-3b", 3085938688, true,
   {.family = TAGC_FAMILY_QWEN2, .hidden = 2048, .intermediate = 11008, .heads = 16, .kv_heads = 2, .head_dim = 128, .blocks =
    36, .vocabulary = 151936, .tied = true}},
  {"qwen2.5-7b", 7615616512, true,
   {.family = TAGC_FAMILY_QWEN2, .hidden = 3584, .intermediate = 18944, .heads = 28, .kv_heads = 4, .head_dim = 128, .blocks =
    28, .vocabulary = 152064}},
  {"qwen2.5-14b", 14770033664, true,
   {.family = TAGC_FAMILY_QWEN2, .hidden = 5120, .intermediate = 13824, .heads = 40, .kv_heads = 8, .head_dim = 128, .blocks =
    48, .vocabulary = 152064}},
  {"qwen2.5-32b", 32763876352, true,
   {.family = TAGC_FAMILY_QWEN2, .hidden = 5120, .intermediate = 27648, .heads = 40, .kv_heads = 8, .head_dim = 128, .blocks =
    64, .vocabulary = 152064}},
  {"qwen2.5-72b", 72706203648, true,
   {.family = TAGC_FAMILY_QWEN2, .hidden = 8192, .intermediate = 29568, .heads = 64, .kv_heads = 8, .head_dim = 128, .blocks =
    80, .vocabulary = 152064}},
  {"qwen3-0.6b", 596049920, false,
   {.family = TAGC_FAMILY_QWEN3, .hidden = 1024, .intermediate = 3072, .heads = 16, .kv_heads = 8, .head_dim = 128, .blocks =
    28, .vocabulary = 151936, .tied = true}},
  {"qwen3-1.7b", 1720574976, false,
   {.family = TAGC_FAMILY_QWEN3, .hidden = 2048, .intermediate = 6144, .heads = 16, .kv_heads = 8, .head_dim = 128, .blocks =
    28, .vocabulary = 151936, .tied = true}},
  {"qwen3-4b", 4022468096, true,
   {.family = TAGC_FAMILY_QWEN3, .hidden = 2560, .intermediate = 9728, .heads = 32, .kv_heads = 8, .head_dim = 128, .blocks =
    36, .vocabulary = 151936, .tied = true}},
  {"qwen3-8b", 8190735360, true,
   {.family = TAGC_FAMILY_QWEN3, .hidden = 4096, .intermediate = 12288, .heads = 32, .kv_heads = 8, .head_dim = 128, .blocks =
    36, .vocabulary = 151936}},
  {"qwen3-14b", 14768307200, true,
   {.family = TAGC_FAMILY_QWEN3, .hidden = 5120, .intermediate = 17408, .heads = 40, .kv_heads = 8, .head_dim = 128, .blocks =
    40, .vocabulary = 151936}},
  {"qwen3-32b", 32762123264, true,
   {.family = TAGC_FAMILY_QWEN3, .hidden = 5120, .intermediate = 25600, .heads = 64, .kv_heads = 8, .head_dim = 128, .blocks =
    64, .vocabulary = 151936}},
  {"gemma-2b", 2506172416, true,
   {.family = TAGC_FAMILY_GEMMA, .hidden = 2048, .intermediate = 16384, .heads = 8, .kv_heads = 1, .head_dim = 256, .blocks =
    18, .vocabulary = 256000, .tied = true}},
  {"gemma-7b", 8537680896, true,
   {.family = TAGC_FAMILY_GEMMA, .hidden = 3072, .intermediate = 24576, .heads = 16, .kv_heads = 16, .head_dim = 256, .blocks =
    28, .vocabulary = 256000, .tied = true}},
  {"gemma-2-2b", 2614341888, true,
   {.family = TAGC_FAMILY_GEMMA2, .hidden = 2304, .intermediate = 9216, .heads = 8, .kv_heads = 4, .head_dim = 256, .blocks =
    26, .vocabulary = 256000, .tied = true}},
  {"gemma-2-9b", 9241705984, true,
   {.family = TAGC_FAMILY_GEMMA2, .hidden = 3584, .intermediate = 14336, .heads = 16, .kv_heads = 8, .head_dim = 256, .blocks =
    42, .vocabulary = 256000, .tied = true}},
  {"gemma-2-27b", 27227128320, true,
   {.family = TAGC_FAMILY_GEMMA2, .hidden = 4608, .intermediate = 36864, .heads = 32, .kv_heads = 16, .head_dim = 128, .blocks =
    46, .vocabulary = 256000, .tied = true}},
  {"gemma-3-270m", 268098176, true,
   {.family = TAGC_FAMILY_GEMMA3, .hidden = 640, .intermediate = 2048, .heads = 4, .kv_heads = 1, .head_dim = 256, .blocks = 18,
    .vocabulary = 262144, .tied = true}},
  {"gemma-3-1b", 999885952, true,
   {.family = TAGC_FAMILY_GEMMA3, .hidden = 1152, .intermediate = 6912, .heads = 4, .kv_heads = 1, .head_dim = 256, .blocks =
    26, .vocabulary = 262144, .tied = true}},
  {"gemma-3-4b-text", 3880263168, false,
   {.family = TAGC_FAMILY_GEMMA3, .hidden = 2560, .intermediate = 10240, .heads = 8, .kv_heads = 4, .head_dim = 256, .blocks =
    34, .vocabulary = 262208, .tied = true}},
  {"phi-1.5", 1418270720, true,
   {.family = TAGC_FAMILY_PHI, .hidden = 2048, .intermediate = 8192, .heads = 32, .kv_heads = 32, .head_dim = 64, .blocks = 24,
    .vocabulary = 51200}},
  {"phi-2", 2779683840, true,
   {.family = TAGC_FAMILY_PHI, .hidden = 2560, .intermediate = 10240, .heads = 32, .kv_heads = 32, .head_dim = 80, .blocks = 32,
    .vocabulary = 51200}},
  {"phi-3-mini", 3821079552, true,
   {.family = TAGC_FAMILY_PHI3, .hidden = 3072, .intermediate = 8192, .heads = 32, .kv_heads = 32, .head_dim = 96, .blocks = 32,
    .vocabulary = 32064, .fused_qkv = true}},
  {"phi-3-medium", 13960238080, true,
   {.family = TAGC_FAMILY_PHI3, .hidden = 5120, .intermediate = 17920, .heads = 40, .kv_heads = 10, .head_dim = 128, .blocks =
    40, .vocabulary = 32064, .fused_qkv = true}},
  {"phi-4", 14659507200, true,
   {.family = TAGC_FAMILY_PHI3, .hidden = 5120, .intermediate = 17920, .heads = 40, .kv_heads = 10, .head_dim = 128, .blocks =
    40, .vocabulary = 100352, .fused_qkv = true}},
  {"bert-base-uncased", 109482240, true,
   {.family = TAGC_FAMILY_BERT, .hidden = 768, .intermediate = 3072, .heads = 12, .kv_heads = 12, .head_dim = 64, .blocks = 12,
    .vocabulary = 30522, .positions = 512, .types = 2, .tied = true, .pooler = true}},
  {"bert-base-uncased-pretraining", 110106428, true,
   {.family = TAGC_FAMILY_BERT, .hidden = 768, .intermediate = 3072, .heads = 12, .kv_heads = 12, .head_dim = 64, .blocks = 12,
    .vocabulary = 30522, .positions = 512, .types = 2, .tied = true, .pooler = true, .masked_head = true, .next_head = true}},
  {"bert-large-uncased", 335141888, true,
   {.family = TAGC_FAMILY_BERT, .hidden = 1024, .intermediate = 4096, .heads = 16, .kv_heads = 16, .head_dim = 64, .blocks = 24,
    .vocabulary = 30522, .positions = 512, .types = 2, .tied = true, .pooler = true}},
  {"bert-large-uncased-mlm", 335174458, false,
   {.family = TAGC_FAMILY_BERT, .hidden = 1024, .intermediate = 4096, .heads = 16, .kv_heads = 16, .head_dim = 64, .blocks = 24,
    .vocabulary = 30522, .positions = 512, .types = 2, .tied = true, .masked_head = true}},
  {"vit-base-patch16-224", 86567656, true,
   {.family = TAGC_FAMILY_VIT, .hidden = 768, .intermediate = 3072, .heads = 12, .kv_heads = 12, .head_dim = 64, .blocks = 12,
    .positions = 197, .patch = 16, .channels = 3, .labels = 1000}},
  {"vit-large-patch16-224", 304326632, true,
   {.family = TAGC_FAMILY_VIT, .hidden = 1024, .intermediate = 4096, .heads = 16, .kv_heads = 16, .head_dim = 64, .blocks = 24,
    .positions = 197, .patch = 16, .channels = 3, .labels = 1000}},
  {"vit-huge-patch14-224", 632045800, true,
   {.family = TAGC_FAMILY_VIT, .hidden = 1280, .intermediate = 5120, .heads = 16, .kv_heads = 16, .head_dim = 80, .blocks = 32,
    .positions = 257, .patch = 14, .channels = 3, .labels = 1000}},
  {"mixtral-8x7b", 46702792704, true,
   {.family = TAGC_FAMILY_MIXTRAL, .hidden = 4096, .intermediate = 14336, .heads = 32, .kv_heads = 8, .head_dim = 128, .blocks =
    32, .vocabulary = 32000, .experts = 8, .expert_intermediate = 14336}},
  {"mixtral-8x22b", 140630071296, true,
   {.family = TAGC_FAMILY_MIXTRAL, .hidden = 6144, .intermediate = 16384, .heads = 48, .kv_heads = 8, .head_dim = 128, .blocks =
    56, .vocabulary = 32768, .experts = 8, .expert_intermediate = 16384}},
  {"qwen3-30b-a3b", 30532122624, true,
   {.family = TAGC_FAMILY_QWEN3_MOE, .hidden = 2048, .intermediate = 6144, .heads = 32, .kv_heads = 4, .head_dim = 128, .blocks
    = 48, .vocabulary = 151936, .experts = 128, .expert_intermediate = 768}},
  {"qwen3-235b-a22b", 235093634560, true,
   {.family = TAGC_FAMILY_QWEN3_MOE, .hidden = 4096, .intermediate = 12288, .heads = 64, .kv_heads = 4, .head_dim = 128, .blocks
    = 94, .vocabulary = 151936, .experts = 128, .expert_intermediate = 1536}},
  {"deepseek-v2-lite", 15706484224, true,
   {.family = TAGC_FAMILY_DEEPSEEK, .hidden = 2048, .intermediate = 10944, .heads = 16, .blocks = 27, .vocabulary = 102400,
    .experts = 64, .expert_intermediate = 1408, .shared_intermediate = 2816, .dense_blocks = 1, .kv_rank = 512, .rope_dim = 64,
    .nope_dim = 128, .v_dim = 128}},
  {"deepseek-v2", 235741434880, true,
   {.family = TAGC_FAMILY_DEEPSEEK, .hidden = 5120, .intermediate = 12288, .heads = 128, .blocks = 60, .vocabulary = 102400,
    .experts = 160, .expert_intermediate = 1536, .shared_intermediate = 3072, .dense_blocks = 1, .q_rank = 1536, .kv_rank = 512,
    .rope_dim = 64, .nope_dim = 128, .v_dim = 128}},
  {"deepseek-v3", 671026404352, false,
   {.family = TAGC_FAMILY_DEEPSEEK, .hidden = 7168, .intermediate = 18432, .heads = 128, .blocks = 61, .vocabulary = 129280,
    .experts = 256, .expert_intermediate = 2048, .shared_intermediate = 2048, .dense_blocks = 3, .q_rank = 1536, .kv_rank = 512,
    .rope_dim = 64, .nope_dim = 128, .v_dim = 128}},
};

enum { KNOWN_MODELS = sizeof known_models / sizeof *known_models };

#endif
