/* SPDX-License-Identifier: BSD-3-Clause
 * See prior.h.
 */
#include "layermap/prior.h"

#include <string.h>

/* Mistral has Llama's arithmetic, and so has all that is built like it. Where two families fit a count, the one with fewer
 * peculiarities is likelier. */
const struct tagc_prior tagc_priors[] = {
  {TAGC_FAMILY_LLAMA, TAGC_GROUPED, .cost = 0, .cost_untied = 0, .cost_tied = 6},
  {TAGC_FAMILY_MISTRAL, TAGC_WIDE, .cost = 16, .cost_untied = 0, .cost_tied = 24, .usual_head = 128},
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
  {TAGC_FAMILY_QWEN3_MOE, TAGC_WIDE, .cost = 12, .cost_untied = 0, .cost_tied = 12, .usual_head = 128, .is_sparse = true},
  {TAGC_FAMILY_DEEPSEEK, TAGC_LATENT, .cost = 12, .cost_untied = 0, .cost_tied = 16, .is_sparse = true},
};
const size_t tagc_prior_count = sizeof tagc_priors / sizeof *tagc_priors;

size_t tagc_prior_outsides(const struct tagc_prior *prior, struct tagc_outside *outsides)
{
  static const struct tagc_outside bert[] = {
    {.tied = true, .masked_head = true}, {.tied = true, .pooler = true, .cost = 2}, {.tied = true, .pooler = true, .labels = 2, .cost = 6},
    {.tied = true, .pooler = true, .masked_head = true, .next_head = true, .cost = 4},
  };
  static const struct tagc_outside vit[] = {
    {.labels = 1000}, {.pooler = true, .cost = 4}, {.labels = 21843, .cost = 8}, {.labels = 10, .cost = 8},
  };
  const struct tagc_outside usual[] = {{.cost = prior->cost_untied}, {.tied = true, .cost = prior->cost_tied}};
  bool is_usual = prior->family != TAGC_FAMILY_BERT && prior->family != TAGC_FAMILY_VIT;
  size_t count = is_usual ? 2 : TAGC_OUTSIDES;
  memcpy(outsides, is_usual ? usual : prior->family == TAGC_FAMILY_BERT ? bert : vit, count * sizeof *outsides);
  return count;
}

unsigned tagc_cost_bits(uint64_t n)
{
  unsigned whole = 63 - (unsigned)__builtin_clzll(n);
  uint64_t quarters = whole >= 8 ? n >> (whole - 8) : n << (8 - whole);   /* 256 ... 511 */
  /* 256 times 2^(1/4), 2^(2/4), 2^(3/4) */
  return TAGC_BIT * whole + (quarters >= 305) + (quarters >= 363) + (quarters >= 431);
}

unsigned tagc_cost_size(uint64_t n)
{
  return n ? tagc_cost_bits(n >> __builtin_ctzll(n)) : 0;
}

unsigned tagc_cost_hidden(uint64_t hidden)
{
  unsigned cost = tagc_cost_size(hidden);
  return hidden % 64 ? cost + 8 : cost;
}

unsigned tagc_cost_intermediate(uint64_t hidden, uint64_t intermediate, const struct tagc_prior *prior)
{
  static const struct { uint8_t numerator, denominator, cost; } ratios[] = {{4, 1, 4}, {7, 2, 6}, {3, 1, 6}, {8, 1, 10}, {8, 3, 4},
                                                                          {6, 1, 12}, {2, 1, 12}, {5, 1, 12}, {5, 2, 12}};
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

/* How many heads share keys and values. */
static unsigned cost_groups(uint32_t heads, uint32_t kv_heads)
{
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

unsigned tagc_cost_heads(const struct tagc_architecture *a, const struct tagc_prior *prior)
{
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
  return cost + cost_groups(a->heads, a->kv_heads);
}

struct vocabulary {
  uint32_t size;
  enum tagc_family family[3];
};

const uint32_t tagc_vocabularies[] = {50257, 50304, 32000, 128256, 151936, 152064, 256000, 262144, 262208, 30522, 28996, 50432, 50688,
                                      51200, 32064, 100352, 32768, 131072, 49152, 64000, 32256, 102400, 129280, 65024, 32001, 32002, 256, 0};
const uint32_t tagc_positions[] = {1024, 2048, 512, 4096, 256, 128, 64, 32, 197, 577, 257, 50, 8192, 0};

unsigned tagc_cost_vocabulary(enum tagc_family family, uint64_t vocabulary)
{
  static const struct vocabulary own[] = {
    {50257, {TAGC_FAMILY_GPT2, TAGC_FAMILY_GPT2, TAGC_FAMILY_GPT2}},
    {50304, {TAGC_FAMILY_GPT2, TAGC_FAMILY_NEOX, TAGC_FAMILY_NEOX}},
    {50432, {TAGC_FAMILY_NEOX, TAGC_FAMILY_NEOX, TAGC_FAMILY_NEOX}},
    {50688, {TAGC_FAMILY_NEOX, TAGC_FAMILY_NEOX, TAGC_FAMILY_NEOX}},
    {32000, {TAGC_FAMILY_LLAMA, TAGC_FAMILY_MISTRAL, TAGC_FAMILY_MIXTRAL}},
    {32768, {TAGC_FAMILY_LLAMA, TAGC_FAMILY_MISTRAL, TAGC_FAMILY_MIXTRAL}},
    {131072, {TAGC_FAMILY_MISTRAL, TAGC_FAMILY_MISTRAL, TAGC_FAMILY_MISTRAL}},
    {128256, {TAGC_FAMILY_LLAMA, TAGC_FAMILY_LLAMA, TAGC_FAMILY_LLAMA}},
    {49152, {TAGC_FAMILY_LLAMA, TAGC_FAMILY_LLAMA, TAGC_FAMILY_LLAMA}},
    {64000, {TAGC_FAMILY_LLAMA, TAGC_FAMILY_LLAMA, TAGC_FAMILY_LLAMA}},
    {32256, {TAGC_FAMILY_LLAMA, TAGC_FAMILY_LLAMA, TAGC_FAMILY_LLAMA}},
    {151936, {TAGC_FAMILY_QWEN2, TAGC_FAMILY_QWEN3, TAGC_FAMILY_QWEN3_MOE}},
    {152064, {TAGC_FAMILY_QWEN2, TAGC_FAMILY_QWEN2, TAGC_FAMILY_QWEN2}},
    {256000, {TAGC_FAMILY_GEMMA, TAGC_FAMILY_GEMMA2, TAGC_FAMILY_GEMMA2}},
    {262144, {TAGC_FAMILY_GEMMA3, TAGC_FAMILY_GEMMA3, TAGC_FAMILY_GEMMA3}},
    {262208, {TAGC_FAMILY_GEMMA3, TAGC_FAMILY_GEMMA3, TAGC_FAMILY_GEMMA3}},
    {51200, {TAGC_FAMILY_PHI, TAGC_FAMILY_PHI, TAGC_FAMILY_PHI}},
    {32064, {TAGC_FAMILY_PHI3, TAGC_FAMILY_PHI3, TAGC_FAMILY_PHI3}},
    {100352, {TAGC_FAMILY_PHI3, TAGC_FAMILY_PHI3, TAGC_FAMILY_PHI3}},
    {30522, {TAGC_FAMILY_BERT, TAGC_FAMILY_BERT, TAGC_FAMILY_BERT}},
    {28996, {TAGC_FAMILY_BERT, TAGC_FAMILY_BERT, TAGC_FAMILY_BERT}},
    {102400, {TAGC_FAMILY_DEEPSEEK, TAGC_FAMILY_LLAMA, TAGC_FAMILY_LLAMA}},
    {129280, {TAGC_FAMILY_DEEPSEEK, TAGC_FAMILY_DEEPSEEK, TAGC_FAMILY_DEEPSEEK}},
    {256, {TAGC_FAMILY_GPT2, TAGC_FAMILY_GPT2, TAGC_FAMILY_GPT2}},
  };
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (own[i].size == vocabulary)
      for (size_t j = 0; j < 3; j++)
        if (own[i].family[j] == family)
          return 4;
  for (const uint32_t *known = tagc_vocabularies; *known; known++)
    if (*known == vocabulary)
      return 14;
  unsigned all = vocabulary ? tagc_cost_bits(vocabulary) : 0;
  unsigned cost = vocabulary % 64 ? 52 : vocabulary % 128 ? 32 : 26;
  return cost < all + 12 ? cost : all + 12;
}

unsigned tagc_cost_positions(uint64_t positions)
{
  unsigned place = 0;
  while (tagc_positions[place] && tagc_positions[place] != positions)
    place++;
  return tagc_positions[place] ? 2 + place : 24 + tagc_cost_size(positions ? positions : 1);
}
