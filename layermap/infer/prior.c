/* SPDX-License-Identifier: BSD-3-Clause */
#include "layermap/infer/prior.h"

#include <string.h>

/* Mistral and similar models have Llama's arithmetic. Among families that fit a count, the plainest is likeliest. */
const struct tagc_prior tagc_priors[] = {
  {TAGC_FAMILY_LLAMA, TAGC_GROUPED, .cost = 0, .cost_untied = 0, .cost_tied = 6},
  {TAGC_FAMILY_MISTRAL, TAGC_WIDE, .cost = 8, .cost_untied = 0, .cost_tied = 24, .usual_head = 128},
  {TAGC_FAMILY_GPT2, TAGC_SQUARE, .cost = 4, .cost_untied = 8, .cost_tied = 0, .usual_head = 64, .has_positions = true},
  {TAGC_FAMILY_GPT2, TAGC_SQUARE, .cost = 8, .cost_untied = 8, .cost_tied = 0, .usual_head = 64, .has_positions = true,
   .plain_linear = true},
  {TAGC_FAMILY_GPT2, TAGC_SQUARE, .cost = 14, .cost_untied = 8, .cost_tied = 0, .usual_head = 64, .has_positions = true,
   .plain_linear = true, .no_bias = true},
  {TAGC_FAMILY_QWEN2, TAGC_GROUPED, .cost = 4, .cost_untied = 2, .cost_tied = 2},
  {TAGC_FAMILY_QWEN3, TAGC_WIDE, .cost = 4, .cost_untied = 2, .cost_tied = 2, .usual_head = 128},
  {TAGC_FAMILY_NEOX, TAGC_SQUARE, .cost = 8, .cost_untied = 0, .cost_tied = 16},
  {TAGC_FAMILY_GEMMA, TAGC_WIDE, .cost = 8, .cost_untied = 24, .cost_tied = 0, .usual_head = 256},
  {TAGC_FAMILY_GEMMA2, TAGC_WIDE, .cost = 8, .cost_untied = 24, .cost_tied = 0, .usual_head = 256},
  {TAGC_FAMILY_GEMMA3, TAGC_WIDE, .cost = 8, .cost_untied = 24, .cost_tied = 0, .usual_head = 256},
  {TAGC_FAMILY_PHI, TAGC_SQUARE, .cost = 12, .cost_untied = 0, .cost_tied = 16},
  {TAGC_FAMILY_PHI3, TAGC_GROUPED, .cost = 12, .cost_untied = 0, .cost_tied = 8},
  {TAGC_FAMILY_BERT, TAGC_SQUARE, .cost = 10, .usual_head = 64, .has_positions = true},
  {TAGC_FAMILY_VIT, TAGC_SQUARE, .cost = 10, .usual_head = 64, .has_positions = true},
  {TAGC_FAMILY_MIXTRAL, TAGC_GROUPED, .cost = 12, .cost_untied = 0, .cost_tied = 16, .is_sparse = true},
  {TAGC_FAMILY_QWEN3_MOE, TAGC_WIDE, .cost = 12, .cost_untied = 0, .cost_tied = 12, .usual_head = 128,
   .is_sparse = true},
  {TAGC_FAMILY_DEEPSEEK, TAGC_LATENT, .cost = 12, .cost_untied = 0, .cost_tied = 16, .is_sparse = true},
  {TAGC_FAMILY_DEEPSEEK, TAGC_LATENT, .cost = 14, .cost_untied = 0, .cost_tied = 16, .is_sparse = true,
   .no_q_rank = true},
  {TAGC_FAMILY_MIXTRAL, TAGC_GROUPED, .cost = 12, .cost_untied = 0, .cost_tied = 16, .is_sparse = true,
   .fused_experts = true},
  {TAGC_FAMILY_QWEN3_MOE, TAGC_WIDE, .cost = 12, .cost_untied = 0, .cost_tied = 12, .usual_head = 128,
   .is_sparse = true, .fused_experts = true},
  {TAGC_FAMILY_DEEPSEEK, TAGC_LATENT, .cost = 12, .cost_untied = 0, .cost_tied = 16, .is_sparse = true,
   .fused_experts = true},
  {TAGC_FAMILY_DEEPSEEK, TAGC_LATENT, .cost = 14, .cost_untied = 0, .cost_tied = 16, .is_sparse = true,
   .no_q_rank = true, .fused_experts = true},
  {TAGC_FAMILY_DBRX, TAGC_GROUPED, .cost = 16, .cost_untied = 0, .cost_tied = 24, .is_sparse = true, .is_rare = true},
  {TAGC_FAMILY_OLMO2, TAGC_WIDE, .cost = 8, .cost_untied = 0, .cost_tied = 8, .is_rare = true},
  {TAGC_FAMILY_NEMOTRON, TAGC_WIDE, .cost = 12, .cost_untied = 0, .cost_tied = 4, .is_rare = true},
  {TAGC_FAMILY_STARCODER2, TAGC_GROUPED, .cost = 12, .cost_untied = 16, .cost_tied = 0, .is_rare = true},
  {TAGC_FAMILY_STABLELM, TAGC_GROUPED, .cost = 12, .cost_untied = 0, .cost_tied = 16, .is_rare = true},
  {TAGC_FAMILY_OLMO, TAGC_GROUPED, .cost = 12, .cost_untied = 0, .cost_tied = 4, .is_rare = true},
  {TAGC_FAMILY_COHERE, TAGC_GROUPED, .cost = 12, .cost_untied = 16, .cost_tied = 0, .is_rare = true},
  {TAGC_FAMILY_FALCON, TAGC_GROUPED, .cost = 16, .cost_untied = 8, .cost_tied = 0, .is_rare = true},
  {TAGC_FAMILY_OPT, TAGC_SQUARE, .cost = 8, .cost_untied = 16, .cost_tied = 0, .usual_head = 64, .has_positions = true,
   .is_rare = true},
  {TAGC_FAMILY_OPT, TAGC_SQUARE, .cost = 12, .cost_untied = 16, .cost_tied = 0, .usual_head = 64, .is_rare = true},
  {TAGC_FAMILY_BLOOM, TAGC_SQUARE, .cost = 12, .cost_untied = 16, .cost_tied = 0, .is_rare = true},
  {TAGC_FAMILY_GPTJ, TAGC_SQUARE, .cost = 12, .cost_untied = 0, .cost_tied = 16, .is_rare = true},
  {TAGC_FAMILY_GPT_NEO, TAGC_SQUARE, .cost = 12, .cost_untied = 16, .cost_tied = 0, .has_positions = true,
   .is_rare = true},
  {TAGC_FAMILY_MPT, TAGC_SQUARE, .cost = 12, .cost_untied = 16, .cost_tied = 0, .is_rare = true},
};
const size_t tagc_prior_count = sizeof tagc_priors / sizeof *tagc_priors;

/* From their config.json. The commonest family stands for all with the same arithmetic: see tagc_priors. */
const struct tagc_published tagc_published[] = {
  {TAGC_FAMILY_GPT2, 384, 1536, 6, 6, 64, 0, 0, 0, {0}},   /* nanoGPT's example of characters */
  {TAGC_FAMILY_GPT2, 768, 3072, 12, 12, 64, 0, 0, 0, {0}}, /* GPT-2, and medium, large, XL */
  {TAGC_FAMILY_GPT2, 1024, 4096, 16, 16, 64, 0, 0, 0, {0}},
  {TAGC_FAMILY_GPT2, 1280, 5120, 20, 20, 64, 0, 0, 0, {0}},
  {TAGC_FAMILY_GPT2, 1600, 6400, 25, 25, 64, 0, 0, 0, {0}},
  {TAGC_FAMILY_NEOX, 512, 2048, 8, 8, 64, 0, 0, 0, {0}}, /* Pythia 70M to 12B, GPT-NeoX 20B */
  {TAGC_FAMILY_NEOX, 768, 3072, 12, 12, 64, 0, 0, 0, {0}},
  {TAGC_FAMILY_NEOX, 1024, 4096, 16, 16, 64, 0, 0, 0, {0}},
  {TAGC_FAMILY_NEOX, 2048, 8192, 16, 16, 128, 0, 0, 0, {0}},
  {TAGC_FAMILY_NEOX, 2560, 10240, 32, 32, 80, 0, 0, 0, {0}},
  {TAGC_FAMILY_NEOX, 4096, 16384, 32, 32, 128, 0, 0, 0, {0}},
  {TAGC_FAMILY_NEOX, 5120, 20480, 40, 40, 128, 0, 0, 0, {0}},
  {TAGC_FAMILY_NEOX, 6144, 24576, 64, 64, 96, 0, 0, 0, {0}},
  {TAGC_FAMILY_LLAMA, 4096, 11008, 32, 32, 128, 0, 0, 0, {32000, 32016, 102400}}, /* Llama 1 and 2: 7B, 13B, 30B, 65B,
                                                                                     70B */
  {TAGC_FAMILY_LLAMA, 5120, 13824, 40, 40, 128, 0, 0, 0, {32000}},
  {TAGC_FAMILY_LLAMA, 6656, 17920, 52, 52, 128, 0, 0, 0, {32000}},
  {TAGC_FAMILY_LLAMA, 8192, 22016, 64, 64, 128, 0, 0, 0, {32000}},
  {TAGC_FAMILY_LLAMA, 8192, 28672, 64, 8, 128, 0, 0, 0, {32000, 128256}},        /* ... and 3 */
  {TAGC_FAMILY_LLAMA, 4096, 14336, 32, 8, 128, 0, 0, 0, {32000, 32768, 128256}}, /* Llama 3 8B, Mistral 7B */
  {TAGC_FAMILY_LLAMA, 16384, 53248, 128, 8, 128, 0, 0, 0, {128256}},             /* Llama 3.1 405B, 3.2 1B and 3B */
  {TAGC_FAMILY_LLAMA, 2048, 8192, 32, 8, 64, 0, 0, 0, {128256}},
  {TAGC_FAMILY_LLAMA, 3072, 8192, 24, 8, 128, 0, 0, 0, {128256}},
  {TAGC_FAMILY_LLAMA, 2048, 5632, 32, 4, 64, 0, 0, 0, {32000}},      /* TinyLlama */
  {TAGC_FAMILY_LLAMA, 576, 1536, 9, 3, 64, 0, 0, 0, {32000, 49152}}, /* SmolLM2: 135M, 360M, 1.7B */
  {TAGC_FAMILY_LLAMA, 960, 2560, 15, 5, 64, 0, 0, 0, {49152}},
  {TAGC_FAMILY_LLAMA, 2048, 8192, 32, 32, 64, 0, 0, 0, {49152}},
  {TAGC_FAMILY_LLAMA, 7168, 20480, 56, 8, 128, 0, 0, 0, {64000}},    /* Yi 34B */
  {TAGC_FAMILY_MISTRAL, 5120, 14336, 32, 8, 128, 0, 0, 0, {131072}}, /* Nemo, Small */
  {TAGC_FAMILY_MISTRAL, 5120, 32768, 32, 8, 128, 0, 0, 0, {131072}},
  {TAGC_FAMILY_LLAMA, 12288, 28672, 96, 8, 128, 0, 0, 0, {32768}},          /* Large */
  {TAGC_FAMILY_MISTRAL, 3072, 9216, 32, 8, 128, 0, 0, 0, {128256, 131072}}, /* Llama 3.1 Minitron 4B (width) */
  {TAGC_FAMILY_QWEN2, 896, 4864, 14, 2, 64, 0, 0, 0, {151936}}, /* Qwen2.5: 0.5B, 1.5B, 3B, 7B, 14B, 32B, 72B */
  {TAGC_FAMILY_QWEN2, 1536, 8960, 12, 2, 128, 0, 0, 0, {151936}},
  {TAGC_FAMILY_QWEN2, 2048, 11008, 16, 2, 128, 0, 0, 0, {151936}},
  {TAGC_FAMILY_QWEN2, 3584, 18944, 28, 4, 128, 0, 0, 0, {152064}},
  {TAGC_FAMILY_QWEN2, 5120, 13824, 40, 8, 128, 0, 0, 0, {152064}},
  {TAGC_FAMILY_QWEN2, 5120, 27648, 40, 8, 128, 0, 0, 0, {152064}},
  {TAGC_FAMILY_QWEN2, 8192, 29568, 64, 8, 128, 0, 0, 0, {152064}},
  {TAGC_FAMILY_QWEN3, 1024, 3072, 16, 8, 128, 0, 0, 0, {151936}}, /* Qwen3: 0.6B, 1.7B, 4B, 8B, 14B, 32B */
  {TAGC_FAMILY_QWEN3, 2048, 6144, 16, 8, 128, 0, 0, 0, {151936}},
  {TAGC_FAMILY_QWEN3, 2560, 9728, 32, 8, 128, 0, 0, 0, {151936, 151665}},
  {TAGC_FAMILY_QWEN3, 4096, 12288, 32, 8, 128, 0, 0, 0, {151936}},
  {TAGC_FAMILY_QWEN3, 5120, 17408, 40, 8, 128, 0, 0, 0, {151936}},
  {TAGC_FAMILY_QWEN3, 5120, 25600, 64, 8, 128, 0, 0, 0, {151936}},
  {TAGC_FAMILY_GEMMA, 2048, 16384, 8, 1, 256, 0, 0, 0, {0}}, /* Gemma 2B, 7B */
  {TAGC_FAMILY_GEMMA, 3072, 24576, 16, 16, 256, 0, 0, 0, {0}},
  {TAGC_FAMILY_GEMMA2, 2304, 9216, 8, 4, 256, 0, 0, 0, {0}}, /* Gemma 2: 2B, 9B, 27B */
  {TAGC_FAMILY_GEMMA2, 3584, 14336, 16, 8, 256, 0, 0, 0, {0}},
  {TAGC_FAMILY_GEMMA2, 4608, 36864, 32, 16, 128, 0, 0, 0, {0}},
  {TAGC_FAMILY_GEMMA3, 640, 2048, 4, 1, 256, 0, 0, 0, {0}}, /* Gemma 3: 270M, 1B, 4B, 12B, 27B */
  {TAGC_FAMILY_GEMMA3, 1152, 6912, 4, 1, 256, 0, 0, 0, {0}},
  {TAGC_FAMILY_GEMMA3, 2560, 10240, 8, 4, 256, 0, 0, 0, {0}},
  {TAGC_FAMILY_GEMMA3, 3840, 15360, 16, 8, 256, 0, 0, 0, {0}},
  {TAGC_FAMILY_GEMMA3, 5376, 21504, 32, 16, 128, 0, 0, 0, {0}},
  {TAGC_FAMILY_PHI, 2048, 8192, 32, 32, 64, 0, 0, 0, {51200}}, /* Phi 1.5, 2 */
  {TAGC_FAMILY_PHI, 2560, 10240, 32, 32, 80, 0, 0, 0, {51200}},
  {TAGC_FAMILY_PHI3, 3072, 8192, 32, 32, 96, 0, 0, 0, {32064}}, /* Phi 3 mini; medium, and Phi 4 */
  {TAGC_FAMILY_PHI3, 5120, 17920, 40, 10, 128, 0, 0, 0, {32064, 100352}},
  {TAGC_FAMILY_BERT, 768, 3072, 12, 12, 64, 0, 0, 0, {0}}, /* BERT base, large */
  {TAGC_FAMILY_BERT, 1024, 4096, 16, 16, 64, 0, 0, 0, {0}},
  {TAGC_FAMILY_VIT, 768, 3072, 12, 12, 64, 0, 0, 0, {0}}, /* ViT base, large, huge */
  {TAGC_FAMILY_VIT, 1024, 4096, 16, 16, 64, 0, 0, 0, {0}},
  {TAGC_FAMILY_VIT, 1280, 5120, 16, 16, 80, 0, 0, 0, {0}},
  {TAGC_FAMILY_MIXTRAL, 4096, 0, 32, 8, 128, 8, 14336, 0, {0}}, /* Mixtral 8x7B, 8x22B */
  {TAGC_FAMILY_MIXTRAL, 6144, 0, 48, 8, 128, 8, 16384, 0, {0}},
  {TAGC_FAMILY_QWEN3_MOE, 2048, 6144, 32, 4, 128, 128, 768, 0, {0}}, /* Qwen3 30B-A3B, 235B-A22B */
  {TAGC_FAMILY_QWEN3_MOE, 4096, 12288, 64, 4, 128, 128, 1536, 0, {0}},
  {TAGC_FAMILY_DEEPSEEK, 2048, 10944, 16, 16, 192, 64, 1408, 2816, {0}}, /* DeepSeek V2 Lite, V2, V3 */
  {TAGC_FAMILY_DEEPSEEK, 5120, 12288, 128, 128, 192, 160, 1536, 3072, {0}},
  {TAGC_FAMILY_DEEPSEEK, 7168, 18432, 128, 128, 192, 256, 2048, 2048, {0}},
  {TAGC_FAMILY_LLAMA, 4096, 11008, 32, 4, 128, 0, 0, 0, {64000}},  /* Yi: 6B */
  {TAGC_FAMILY_LLAMA, 4096, 11008, 32, 8, 128, 0, 0, 0, {256000}}, /* Salamandra */
  {TAGC_FAMILY_LLAMA, 2048, 5440, 16, 16, 128, 0, 0, 0, {256000}},
  {TAGC_FAMILY_LLAMA, 2048, 5504, 16, 16, 128, 0, 0, 0, {32000, 32256, 151936}}, /* DeepSeek Coder: 1.3B, 33B;
                                                                                    Qwen1.5 1.8B */
  {TAGC_FAMILY_LLAMA, 7168, 19200, 56, 8, 128, 0, 0, 0, {32256}},
  {TAGC_FAMILY_LLAMA, 8192, 22016, 64, 8, 128, 0, 0, 0, {32000}},                  /* CodeLlama 34B */
  {TAGC_FAMILY_LLAMA, 3200, 8640, 32, 32, 100, 0, 0, 0, {32000}},                  /* OpenLLaMA 3B */
  {TAGC_FAMILY_LLAMA, 2560, 6912, 20, 20, 128, 0, 0, 0, {32000, 151936}},          /* Sheared LLaMA, Qwen1.5 4B */
  {TAGC_FAMILY_LLAMA, 2048, 5632, 16, 8, 128, 0, 0, 0, {128000}},                  /* EuroLLM */
  {TAGC_FAMILY_LLAMA, 4096, 12288, 32, 8, 128, 0, 0, 0, {128000, 131072, 151936}}, /* EuroLLM, Ministral 8B */
  {TAGC_FAMILY_LLAMA, 2048, 8192, 8, 4, 256, 0, 0, 0, {131072}},                   /* Falcon3: 1B, 3B, 7B */
  {TAGC_FAMILY_LLAMA, 3072, 9216, 12, 4, 256, 0, 0, 0, {131072}},
  {TAGC_FAMILY_LLAMA, 3072, 23040, 12, 4, 256, 0, 0, 0, {131072}},
  {TAGC_FAMILY_LLAMA, 2560, 10240, 32, 32, 80, 0, 0, 0, {49152}},        /* Granite Code 3B */
  {TAGC_FAMILY_LLAMA, 6144, 16384, 48, 8, 128, 0, 0, 0, {32768}},        /* Mistral Small 22B */
  {TAGC_FAMILY_LLAMA, 4096, 12800, 32, 8, 128, 0, 0, 0, {49155, 49152}}, /* Granite 8B */
  {TAGC_FAMILY_LLAMA, 4096, 13696, 32, 2, 128, 0, 0, 0, {151552}},       /* GLM-4: 9B, 32B; Edge 1.5B */
  {TAGC_FAMILY_MISTRAL, 6144, 23040, 48, 2, 128, 0, 0, 0, {0}},
  {TAGC_FAMILY_MISTRAL, 2048, 6144, 16, 4, 128, 0, 0, 0, {0}},     /* GLM Edge, Hunyuan 1.8B */
  {TAGC_FAMILY_LLAMA, 4096, 10240, 32, 2, 128, 0, 0, 0, {128512}}, /* InternLM3 8B */
  {TAGC_FAMILY_LLAMA, 2560, 6912, 20, 5, 128, 0, 0, 0, {128256}},  /* BitNet 2B */
  {TAGC_FAMILY_LLAMA, 2560, 6912, 32, 32, 80, 0, 0, 0, {0}},       /* StableLM: 3B, 1.6B, 12B */
  {TAGC_FAMILY_LLAMA, 2048, 5632, 32, 32, 64, 0, 0, 0, {0}},
  {TAGC_FAMILY_LLAMA, 5120, 13824, 32, 8, 160, 0, 0, 0, {0}},
  {TAGC_FAMILY_LLAMA, 2048, 8192, 16, 16, 128, 0, 0, 0, {0}}, /* OLMo: 1B */
  {TAGC_FAMILY_LLAMA, 5120, 27648, 40, 8, 128, 0, 0, 0, {0}},
  {TAGC_FAMILY_MISTRAL, 5120, 27648, 80, 8, 128, 0, 0, 0, {0}},   /* Seed-OSS 36B */
  {TAGC_FAMILY_QWEN2, 1024, 2816, 16, 16, 64, 0, 0, 0, {151936}}, /* Qwen1.5: 0.5B, 14B, 32B, 72B */
  {TAGC_FAMILY_QWEN2, 5120, 13696, 40, 40, 128, 0, 0, 0, {152064}},
  {TAGC_FAMILY_QWEN2, 5120, 27392, 40, 8, 128, 0, 0, 0, {152064}},
  {TAGC_FAMILY_QWEN2, 8192, 24576, 64, 64, 128, 0, 0, 0, {152064}},
  {TAGC_FAMILY_NEMOTRON, 4096, 16384, 32, 32, 128, 0, 0, 0, {0}}, /* Nemotron: 8B, Minitron 8B and 4B, 15B, 340B */
  {TAGC_FAMILY_NEMOTRON, 4096, 16384, 48, 8, 128, 0, 0, 0, {0}},
  {TAGC_FAMILY_NEMOTRON, 3072, 9216, 24, 8, 128, 0, 0, 0, {0}},
  {TAGC_FAMILY_NEMOTRON, 6144, 24576, 48, 8, 128, 0, 0, 0, {0}},
  {TAGC_FAMILY_NEMOTRON, 18432, 73728, 96, 8, 192, 0, 0, 0, {0}},
  {TAGC_FAMILY_NEMOTRON, 8192, 32768, 128, 8, 64, 0, 0, 0, {0}}, /* Falcon: 40B, 11B, 7B */
  {TAGC_FAMILY_NEMOTRON, 4096, 16384, 32, 8, 128, 0, 0, 0, {0}},
  {TAGC_FAMILY_FALCON, 4544, 18176, 71, 1, 64, 0, 0, 0, {0}},
  {TAGC_FAMILY_STARCODER2, 3072, 12288, 24, 2, 128, 0, 0, 0, {0}}, /* StarCoder2: 3B, 7B, 15B */
  {TAGC_FAMILY_STARCODER2, 4608, 18432, 36, 4, 128, 0, 0, 0, {0}},
  {TAGC_FAMILY_STARCODER2, 6144, 24576, 48, 4, 128, 0, 0, 0, {0}},
  {TAGC_FAMILY_PHI3, 3072, 8192, 24, 8, 128, 0, 0, 0, {200064}}, /* Phi 4 mini */
  {TAGC_FAMILY_BLOOM, 1536, 6144, 16, 16, 96, 0, 0, 0, {0}},     /* BLOOM: 1.1B, 176B */
  {TAGC_FAMILY_BLOOM, 14336, 57344, 112, 112, 128, 0, 0, 0, {0}},
  {TAGC_FAMILY_OPT, 7168, 28672, 56, 56, 128, 0, 0, 0, {0}}, /* OPT 30B, MPT 30B */
  {TAGC_FAMILY_BERT, 128, 512, 2, 2, 64, 0, 0, 0, {0}},      /* BERT tiny, mini, small */
  {TAGC_FAMILY_BERT, 256, 1024, 4, 4, 64, 0, 0, 0, {0}},
  {TAGC_FAMILY_BERT, 512, 2048, 8, 8, 64, 0, 0, 0, {0}},
  {TAGC_FAMILY_VIT, 192, 768, 3, 3, 64, 0, 0, 0, {0}}, /* ViT tiny, small */
  {TAGC_FAMILY_VIT, 384, 1536, 6, 6, 64, 0, 0, 0, {0}},
  {TAGC_FAMILY_DBRX, 6144, 0, 48, 8, 128, 16, 10752, 0, {0}},
};
const size_t tagc_published_count = sizeof tagc_published / sizeof *tagc_published;

size_t tagc_prior_outsides(const struct tagc_prior *prior, struct tagc_outside *outsides) {
  static const struct tagc_outside bert[] = {
    {.tied = true, .masked_head = true},
    {.tied = true, .pooler = true, .cost = 2},
    {.tied = true, .pooler = true, .labels = 2, .cost = 6},
    {.tied = true, .pooler = true, .masked_head = true, .next_head = true, .cost = 4},
  };
  static const struct tagc_outside vit[] = {
    {.labels = 1000},
    {.pooler = true, .cost = 4},
    {.labels = 1000, .patch = 14, .cost = 4},
    {.labels = 10, .cost = 8},
  };
  const struct tagc_outside usual[] = {{.cost = prior->cost_untied}, {.tied = true, .cost = prior->cost_tied}};
  bool is_usual = prior->family != TAGC_FAMILY_BERT && prior->family != TAGC_FAMILY_VIT;
  size_t count = is_usual ? 2 : TAGC_OUTSIDES;
  memcpy(outsides, is_usual ? usual : prior->family == TAGC_FAMILY_BERT ? bert : vit, count * sizeof *outsides);
  return count;
}

unsigned tagc_cost_bits(uint64_t n) {
  unsigned whole = 63 - (unsigned)__builtin_clzll(n);
  uint64_t quarters = whole >= 8 ? n >> (whole - 8) : n << (8 - whole); /* 256 ... 511 */
  /* 256 times 2^(1/4), 2^(2/4), 2^(3/4) */
  return TAGC_BIT * whole + (quarters >= 305) + (quarters >= 363) + (quarters >= 431);
}

unsigned tagc_cost_size(uint64_t n) { return n ? tagc_cost_bits(n >> __builtin_ctzll(n)) : 0; }

unsigned tagc_cost_hidden(uint64_t hidden) {
  unsigned cost = tagc_cost_size(hidden);
  return hidden % 64 ? cost + 8 : cost;
}

unsigned tagc_cost_intermediate(uint64_t hidden, uint64_t intermediate, const struct tagc_prior *prior) {
  static const struct {
    uint8_t numerator, denominator, cost;
  } ratios[] = {{4, 1, 4}, {7, 2, 6}, {3, 1, 6}, {8, 1, 10}, {8, 3, 4}, {6, 1, 12}, {2, 1, 12}, {5, 1, 12}, {5, 2, 12}};
  if (prior->attention == TAGC_SQUARE && intermediate == 4 * hidden)
    return 0;
  unsigned cost = 12 + tagc_cost_size(intermediate);
  for (size_t i = 0; i < sizeof ratios / sizeof *ratios; i++)
    if (intermediate * ratios[i].denominator == hidden * ratios[i].numerator && ratios[i].cost < cost)
      cost = ratios[i].cost;
  /* Llama's first models: 8/3 as wide, rounded up to a multiple of 256. */
  if (intermediate == (hidden * 8 / 3 + 255) / 256 * 256 && cost > 6)
    cost = 6;
  if (prior->attention == TAGC_SQUARE)
    cost += 16;
  return intermediate > 10 * hidden || intermediate < hidden ? cost + 16 : cost;
}

/* The cost of the number of heads that share keys and values. */
static unsigned cost_groups(uint32_t heads, uint32_t kv_heads) {
  uint32_t ratio = heads / kv_heads;
  unsigned cost = 24;
  if (kv_heads == 8 || ratio == 1)
    cost = 4;
  else if (kv_heads == 4 || kv_heads == 2 || ratio == 4 || ratio == 8 || ratio == 2)
    cost = 8;
  else if (kv_heads == 1 || kv_heads == 16 || ratio == 3)
    cost = 12;
  return cost;
}

unsigned tagc_cost_heads(const struct tagc_architecture *a, const struct tagc_prior *prior) {
  static const uint8_t usual[][2] = {{128, 0}, {64, 4}, {96, 10}, {80, 12}, {32, 16}, {112, 20}, {48, 20}, {16, 24}};
  if (prior->attention == TAGC_SQUARE)
    return 0;
  unsigned cost = a->head_dim == 256 ? 16 : 32;
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
    if (a->head_dim == usual[i][0])
      cost = usual[i][1];
  if (prior->usual_head)
    cost = a->head_dim == prior->usual_head ? 0 : 10;
  if (prior->attention == TAGC_WIDE && (uint64_t)a->heads * a->head_dim != a->hidden)
    cost += 4 + tagc_cost_size(a->heads);
  /* Llamas with a pruned stream have more heads than its width, seldom fewer. */
  if (prior->family == TAGC_FAMILY_MISTRAL && (uint64_t)a->heads * a->head_dim < a->hidden)
    cost += 8;
  return cost + cost_groups(a->heads, a->kv_heads);
}

struct vocabulary {
  uint32_t size;
  enum tagc_family family[3];
};

const uint32_t tagc_vocabularies[] = {
  50257, 50304,  32000,  128256, 151936, 152064, 256000, 262144, 262208, 30522, 28996,  50432,  50688, 51200,
  32064, 100352, 32768,  131072, 49152,  64000,  32256,  102400, 129280, 65024, 32001,  32002,  256,   65,
  50272, 256008, 250880, 50400,  200064, 128000, 151552, 163840, 49155,  32016, 128512, 119547, 21128, 0};
const uint32_t tagc_positions[] = {1024, 2048, 512, 4096, 256, 128, 64, 32, 197, 577, 257, 50, 8192, 2050, 0};

unsigned tagc_cost_vocabulary(enum tagc_family family, uint64_t vocabulary) {
  static const struct vocabulary own[] = {
    {50688, {TAGC_FAMILY_NEOX, TAGC_FAMILY_NEOX, TAGC_FAMILY_NEOX}},
    {32000, {TAGC_FAMILY_LLAMA, TAGC_FAMILY_MISTRAL, TAGC_FAMILY_MIXTRAL}},
    {32768, {TAGC_FAMILY_LLAMA, TAGC_FAMILY_MISTRAL, TAGC_FAMILY_MIXTRAL}},
    {131072, {TAGC_FAMILY_MISTRAL, TAGC_FAMILY_MISTRAL, TAGC_FAMILY_MISTRAL}},
    {128256, {TAGC_FAMILY_LLAMA, TAGC_FAMILY_LLAMA, TAGC_FAMILY_LLAMA}},
    {64000, {TAGC_FAMILY_LLAMA, TAGC_FAMILY_LLAMA, TAGC_FAMILY_LLAMA}},
    {32256, {TAGC_FAMILY_LLAMA, TAGC_FAMILY_LLAMA, TAGC_FAMILY_LLAMA}},
    {151936, {TAGC_FAMILY_QWEN2, TAGC_FAMILY_QWEN3, TAGC_FAMILY_QWEN3_MOE}},
    {152064, {TAGC_FAMILY_QWEN2, TAGC_FAMILY_QWEN2, TAGC_FAMILY_QWEN2}},
    {262144, {TAGC_FAMILY_GEMMA3, TAGC_FAMILY_GEMMA3, TAGC_FAMILY_GEMMA3}},
    {262208, {TAGC_FAMILY_GEMMA3, TAGC_FAMILY_GEMMA3, TAGC_FAMILY_GEMMA3}},
    {51200, {TAGC_FAMILY_PHI, TAGC_FAMILY_PHI, TAGC_FAMILY_PHI}},
    {32064, {TAGC_FAMILY_PHI3, TAGC_FAMILY_PHI3, TAGC_FAMILY_PHI3}},
    {30522, {TAGC_FAMILY_BERT, TAGC_FAMILY_BERT, TAGC_FAMILY_BERT}},
    {28996, {TAGC_FAMILY_BERT, TAGC_FAMILY_BERT, TAGC_FAMILY_BERT}},
    {102400, {TAGC_FAMILY_DEEPSEEK, TAGC_FAMILY_LLAMA, TAGC_FAMILY_LLAMA}},
    {129280, {TAGC_FAMILY_DEEPSEEK, TAGC_FAMILY_DEEPSEEK, TAGC_FAMILY_DEEPSEEK}},
    {50272, {TAGC_FAMILY_OPT, TAGC_FAMILY_OPT, TAGC_FAMILY_OPT}},
    {256008, {TAGC_FAMILY_OPT, TAGC_FAMILY_OPT, TAGC_FAMILY_OPT}},
    {250880, {TAGC_FAMILY_BLOOM, TAGC_FAMILY_BLOOM, TAGC_FAMILY_BLOOM}},
    {65024, {TAGC_FAMILY_LLAMA, TAGC_FAMILY_FALCON, TAGC_FAMILY_NEMOTRON}},
    {50400, {TAGC_FAMILY_GPTJ, TAGC_FAMILY_GPTJ, TAGC_FAMILY_GPTJ}},
    {50257, {TAGC_FAMILY_GPT2, TAGC_FAMILY_GPT_NEO, TAGC_FAMILY_GPT_NEO}},
    {50432, {TAGC_FAMILY_NEOX, TAGC_FAMILY_MPT, TAGC_FAMILY_MPT}},
    {256000, {TAGC_FAMILY_GEMMA, TAGC_FAMILY_GEMMA2, TAGC_FAMILY_COHERE}},
    {256000, {TAGC_FAMILY_NEMOTRON, TAGC_FAMILY_NEMOTRON, TAGC_FAMILY_LLAMA}},
    {49152, {TAGC_FAMILY_LLAMA, TAGC_FAMILY_STARCODER2, TAGC_FAMILY_STARCODER2}},
    {50304, {TAGC_FAMILY_GPT2, TAGC_FAMILY_NEOX, TAGC_FAMILY_OLMO}},
    {50304, {TAGC_FAMILY_STABLELM, TAGC_FAMILY_STABLELM, TAGC_FAMILY_STABLELM}},
    {100352, {TAGC_FAMILY_PHI3, TAGC_FAMILY_OLMO2, TAGC_FAMILY_STABLELM}},
    {100352, {TAGC_FAMILY_DBRX, TAGC_FAMILY_DBRX, TAGC_FAMILY_DBRX}},
    {200064, {TAGC_FAMILY_PHI3, TAGC_FAMILY_PHI3, TAGC_FAMILY_PHI3}},
    {128000, {TAGC_FAMILY_LLAMA, TAGC_FAMILY_LLAMA, TAGC_FAMILY_LLAMA}},
    {151552, {TAGC_FAMILY_QWEN2, TAGC_FAMILY_GEMMA2, TAGC_FAMILY_GEMMA2}},
    {163840, {TAGC_FAMILY_DEEPSEEK, TAGC_FAMILY_DEEPSEEK, TAGC_FAMILY_DEEPSEEK}},
    {49155, {TAGC_FAMILY_LLAMA, TAGC_FAMILY_LLAMA, TAGC_FAMILY_LLAMA}},
    {32016, {TAGC_FAMILY_LLAMA, TAGC_FAMILY_LLAMA, TAGC_FAMILY_LLAMA}},
    {128512, {TAGC_FAMILY_LLAMA, TAGC_FAMILY_LLAMA, TAGC_FAMILY_LLAMA}},
    {119547, {TAGC_FAMILY_BERT, TAGC_FAMILY_BERT, TAGC_FAMILY_BERT}},
    {21128, {TAGC_FAMILY_BERT, TAGC_FAMILY_BERT, TAGC_FAMILY_BERT}},
    {65, {TAGC_FAMILY_GPT2, TAGC_FAMILY_GPT2, TAGC_FAMILY_GPT2}},
    {256, {TAGC_FAMILY_GPT2, TAGC_FAMILY_GPT2, TAGC_FAMILY_GPT2}},
  };
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (own[i].size == vocabulary)
      for (size_t j = 0; j < 3; j++)
        if (own[i].family[j] == family)
          return TAGC_COST_OWN_WORDS;
  for (const uint32_t *known = tagc_vocabularies; *known; known++)
    if (*known == vocabulary)
      return TAGC_COST_KNOWN_WORDS;
  unsigned all = vocabulary ? tagc_cost_bits(vocabulary) : 0;
  unsigned cost = vocabulary % 64 ? 60 : vocabulary % 128 ? 44 : 40;
  return cost < all + 12 ? cost : all + 12;
}

unsigned tagc_cost_positions(enum tagc_family family, uint64_t positions) {
  size_t place = 0;
  while (tagc_positions[place] && tagc_positions[place] != positions)
    place++;
  if (!tagc_positions[place])
    return 28 + tagc_cost_size(positions ? positions : 1);
  bool is_own = (family == TAGC_FAMILY_GPT2 && positions == 1024) || (family == TAGC_FAMILY_BERT && positions == 512) ||
                (family == TAGC_FAMILY_VIT && (positions == 197 || positions == 257));
  return is_own ? 0 : 8 + (unsigned)place;
}

/* torch's fully_shard (fsdp2) averages, or sums gradients that NCCL multiplies first. The older FSDP and DeepSpeed sum,
 * and DeepSpeed gathers parameters separately. That tells apart layouts of equal counts. But around a sum of float16,
 * fully_shard divides in two steps, too, to avoid overflow: then nothing tells. It sums other types only if forced
 * (set_force_sum_reduction_for_comms()), which few programs do. */
unsigned tagc_cost_layout(enum tagc_layout_kind layout, const struct tagc_signature *reduction, bool is_gathered) {
  const bool is_sum = reduction->op == TAGC_CODE_SUM, may_be_both = is_sum && reduction->dtype == TAGC_CODE_FLOAT16;
  switch (layout) {
  case TAGC_LAYOUT_ZERO3:
    return (is_gathered ? TAGC_COST_OTHER_GATHERS : 0u) + (is_sum ? 0u : TAGC_COST_OTHER_REDUCTION);
  case TAGC_LAYOUT_MEGATRON: return is_gathered ? 0 : 42;
  case TAGC_LAYOUT_FSDP2: return is_sum && !may_be_both ? TAGC_COST_OTHER_REDUCTION : 0;
  default: return (is_sum ? 0u : TAGC_COST_OTHER_REDUCTION) + (is_gathered ? 0u : 14u);
  }
}

unsigned tagc_confidence(unsigned gap) {
  unsigned halvings = gap / TAGC_DOUBT;
  if (halvings >= 7)
    return 99;
  unsigned doubt = 200u >> halvings; /* in half per cents */
  doubt -= doubt / 2 * (gap % TAGC_DOUBT) / TAGC_DOUBT;
  return doubt <= 2 ? 99 : 100 - (doubt + 1) / 2;
}
