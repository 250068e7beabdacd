/* SPDX-License-Identifier: BSD-3-Clause
 * Models from config.json: models of published configs, defaults, nesting, and messages about bad ones.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "layermap/tagc-map/config.h"
#include "tests/unit/tap.h"

static char path[] = "/tmp/tagc-test-map-config-XXXXXX";

static void write_config(const char *text, size_t bytes) {
  FILE *file = fopen(path, "w");
  if (!file || fwrite(text, 1, bytes, file) != bytes || fclose(file))
    abort();
}

static struct tagc_model *read_config(const char *text, struct tagc_complaint *complaint) {
  *complaint = (struct tagc_complaint){.line = 4242};
  write_config(text, strlen(text));
  return tagc_map_from_config(path, false, NULL, complaint);
}

/* Excerpts of published files, and the parameter counts of transformers 4.57 for their models. */
static const struct {
  const char *text, *family;
  uint64_t total;
} configs[] = {
  {"{\"architectures\": [\"GPT2LMHeadModel\"], \"model_type\": \"gpt2\", \"n_ctx\": 1024, \"n_embd\": 1600, "
   "\"n_head\": 25, "
   "\"n_layer\": 48, \"n_positions\": 1024, \"vocab_size\": 50257}",
   "gpt2", 1557611200},
  {"{\"model_type\": \"gpt2\", \"n_inner\": null}", "gpt2", 124439808},
  {"{\"architectures\": [\"GPT2Model\"], \"model_type\": \"gpt2\", \"tie_word_embeddings\": false}", "gpt2", 124439808},
  {"{\"architectures\": [\"GPTNeoXForCausalLM\"], \"hidden_size\": 512, \"intermediate_size\": 2048, \"model_type\": "
   "\"gpt_neox\", "
   "\"num_attention_heads\": 8, \"num_hidden_layers\": 6, \"tie_word_embeddings\": false, \"vocab_size\": 50304}",
   "neox", 70426624},
  {"{\"model_type\": \"gpt_neox\"}", "neox", 20554567680},
  {"{\"model_type\": \"llama\"}", "llama", 6738415616},
  {"{\"architectures\": [\"LlamaForCausalLM\"], \"attention_bias\": false, \"head_dim\": 64, \"hidden_size\": 2048, "
   "\"intermediate_size\": 8192, \"mlp_bias\": false, \"model_type\": \"llama\", \"num_attention_heads\": 32, "
   "\"num_hidden_layers\": 16, \"num_key_value_heads\": 8, \"tie_word_embeddings\": true, \"vocab_size\": 128256}",
   "llama", 1235814400},
  {"{\"architectures\": [\"LlamaModel\"], \"model_type\": \"llama\"}", "llama", 6738415616 - 32000 * 4096},
  {"{\"model_type\": \"mistral\"}", "mistral", 7241732096},
  {"{\"hidden_size\": 5120, \"head_dim\": 128, \"intermediate_size\": 14336, \"model_type\": \"mistral\", "
   "\"num_hidden_layers\": 40, "
   "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"vocab_size\": 131072}",
   "mistral", 12247782400},
  {"{\"hidden_size\": 896, \"intermediate_size\": 4864, \"model_type\": \"qwen2\", \"num_attention_heads\": 14, "
   "\"num_hidden_layers\": 24, \"num_key_value_heads\": 2, \"tie_word_embeddings\": true, \"vocab_size\": 151936}",
   "qwen2", 494032768},
  {"{\"model_type\": \"qwen3\"}", "qwen3", 12049461248},
  {"{\"model_type\": \"gemma\"}", "gemma", 8537680896},
  {"{\"model_type\": \"gemma2\"}", "gemma2", 2614341888},
  {"{\"model_type\": \"gemma3_text\"}", "gemma3", 2628658432},
  {"{\"model_type\": \"gemma3_text\", \"hidden_size\": 1152, \"intermediate_size\": 6912, \"num_attention_heads\": 4, "
   "\"num_key_value_heads\": 1, \"vocab_size\": 262144}",
   "gemma3", 999885952},
  {"{\"model_type\": \"phi\"}", "phi", 1418270720},
  {"{\"model_type\": \"phi3\"}", "phi3", 3821079552},
  {"{\"model_type\": \"bert\"}", "bert", 109482240},
  {"{\"architectures\": [\"BertForMaskedLM\"], \"model_type\": \"bert\"}", "bert", 109514298},
  {"{\"architectures\": [\"BertForPreTraining\"], \"model_type\": \"bert\"}", "bert", 110106428},
  {"{\"architectures\": [\"BertForSequenceClassification\"], \"model_type\": \"bert\"}", "bert", 109482240 + 2 * 769},
  {"{\"architectures\": [\"ViTForImageClassification\"], \"model_type\": \"vit\", \"num_labels\": 1000}", "vit",
   86567656},
  {"{\"architectures\": [\"ViTForImageClassification\"], \"model_type\": \"vit\", \"id2label\": {\"0\": \"a\", \"1\": "
   "\"b\", \"2\": \"c\"}}",
   "vit", 86567656 - 997 * 769},
  {"{\"model_type\": \"vit\"}", "vit", 86389248},
  {"{\"model_type\": \"gpt2\", \"num_key_value_heads\": 2, \"head_dim\": 2}", "gpt2", 124439808},
  {"{\"model_type\": \"gpt_neox\", \"num_key_value_heads\": 2, \"head_dim\": 2}", "neox", 20554567680},
  {"{\"model_type\": \"bert\", \"num_key_value_heads\": 2, \"head_dim\": 2}", "bert", 109482240},
  {"{\"model_type\": \"vit\", \"num_key_value_heads\": 2, \"head_dim\": 2}", "vit", 86389248},
  {"{\"model_type\": \"mixtral\"}", "mixtral", 46702792704},
  {"{\"model_type\": \"qwen3_moe\"}", "qwen3_moe", 15350731776},
  {"{\"model_type\": \"deepseek_v2\"}", "deepseek", 38035591168},
  {"{\"first_k_dense_replace\": 1, \"hidden_size\": 2048, \"intermediate_size\": 10944, \"model_type\": "
   "\"deepseek_v2\", "
   "\"moe_intermediate_size\": 1408, \"moe_layer_freq\": 1, \"num_attention_heads\": 16, \"num_hidden_layers\": 27, "
   "\"num_key_value_heads\": 16, \"q_lora_rank\": null, \"vocab_size\": 102400}",
   "deepseek", 15706484224},
  {"{\"model_type\": \"deepseek_v3\"}", "deepseek", 671026404352},
  /* Vision-language models: gemma-3-4b, llava-1.5-7b and paligemma-3b of the hub. */
  {"{\"architectures\": [\"Gemma3ForConditionalGeneration\"], \"model_type\": \"gemma3\", \"text_config\": "
   "{\"hidden_size\": 2560, "
   "\"intermediate_size\": 10240, \"model_type\": \"gemma3_text\", \"num_hidden_layers\": 34}, \"vision_config\": "
   "{\"hidden_size\": 1152, \"image_size\": 896, \"intermediate_size\": 4304, \"model_type\": "
   "\"siglip_vision_model\", \"num_hidden_layers\": 27, \"patch_size\": 14, \"vision_use_head\": false}}",
   "gemma3", 4300079472},
  {"{\"architectures\": [\"LlavaForConditionalGeneration\"], \"model_type\": \"llava\", \"text_config\": "
   "{\"architectures\": [\"LlamaModel\"], \"model_type\": \"llama\", \"vocab_size\": 32064}, \"vision_config\": "
   "{\"hidden_size\": 1024, \"image_size\": 336, \"intermediate_size\": 4096, \"model_type\": \"clip_vision_model\", "
   "\"num_hidden_layers\": 24, \"patch_size\": 14}}",
   "llava", 7063427072},
  {"{\"model_type\": \"paligemma\", \"text_config\": {\"hidden_size\": 2048, \"intermediate_size\": 16384, "
   "\"model_type\": \"gemma\", \"num_attention_heads\": 8, \"num_hidden_layers\": 18, \"num_key_value_heads\": 1, "
   "\"vocab_size\": 257216}, \"vision_config\": {\"hidden_size\": 1152, \"intermediate_size\": 4304, \"model_type\": "
   "\"siglip_vision_model\", \"num_hidden_layers\": 27, \"patch_size\": 14, \"vision_use_head\": false}}",
   "paligemma", 2923466480},
};

static void configs_are_read(void) {
  for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
    struct tagc_complaint complaint;
    struct tagc_model *model = read_config(configs[i].text, &complaint);
    bool is_so = model && !strcmp(model->family, configs[i].family) && tagc_model_elements(model) == configs[i].total;
    if (!ok(is_so, "config %zu is a %s of %" PRIu64, i, configs[i].family, configs[i].total)) {
      note("%s", configs[i].text);
      note("%s", complaint.text);
      note("%" PRIu64, model ? tagc_model_elements(model) : 0);
    }
    tagc_model_free(model);
  }
}

#define LLAVA "{\"model_type\": \"llava\", \"text_config\": {\"model_type\": \"llama\"}, \"vision_config\": "

static const struct {
  const char *text;
  unsigned line, column;
  const char *complaint;
} bad[] = {
  {"", 1, 1, "'[' or '{' expected near end of file; expected is JSON"},
  {"{\"model_type\": \"llama\",\n \"hidden_size\": }", 2, 17, "unexpected token near '}'; expected is JSON"},
  {"[1]", 1, 1, "the text is an array; expected is an object, in { and }"},
  {"{\"a\": 1,\n\"a\": 2}", 2, 3, "duplicate object key near '\"a\"'; expected is JSON"},
  {"{\"hidden_size\": 99999999999999999999}", 1, 36, "too big integer near '99999999999999999999'; expected is JSON"},
  {"{\"hidden_size\": 1}", 1, 1, "there is no \"model_type\"; expected: gpt2, gpt_neox, llama, "},
  {"{\n  \"model_type\": \"mamba\"}", 2, 17, "\"model_type\" is mamba; expected: gpt2, gpt_neox, llama, "},
  {"{\"model_type\": 3}", 1, 1, "there is no \"model_type\"; expected: "},
  {"{\"model_type\": \"x\\u001by\"}", 1, 16, "\"model_type\" is x?y; expected: "},
  {"{\"model_type\": \"llama\",\n\n  \"hidden_size\": \"4096\"}", 3, 18,
   "\"hidden_size\" is a string; expected is a whole number from 1 to 2147483647"},
  {"{\"model_type\": \"llama\", \"hidden_size\": 4096.0}", 1, 40,
   "\"hidden_size\" is a number with a fraction; expected is a whole"},
  {"{\"model_type\": \"llama\", \"num_hidden_layers\": -1}", 1, 46,
   "\"num_hidden_layers\" is -1; expected is a whole number from 1"},
  {"{\"model_type\": \"llama\", \"num_hidden_layers\": 0}", 1, 46,
   "\"num_hidden_layers\" is 0; expected is a whole number from 1"},
  {"{\"model_type\": \"llama\", \"vocab_size\": 9223372036854775807}", 1, 39,
   "\"vocab_size\" is 9223372036854775807; expected is a"},
  {"{\"model_type\": \"llama\", \"tie_word_embeddings\": 1}", 1, 48,
   "\"tie_word_embeddings\" is a whole number; expected is true or false"},
  {"{\"model_type\": \"phi\", \"qk_layernorm\": true}", 1, 39,
   "\"qk_layernorm\" is true; only models where it is false are known"},
  {"{\"model_type\": \"gpt_neox\", \"attention_bias\": false}", 1, 46,
   "\"attention_bias\" is false; only models where it is true are"},
  {"{\"model_type\": \"llama\", \"architectures\": [\"LlamaForSequenceClassification\"]}", 1, 42,
   "\"architectures\" is LlamaForSequenceClassification; expected is a class that ends with ForCausalLM, or Model"},
  {"{\"model_type\": \"bert\", \"architectures\": [\"BertForMultipleChoice\"]}", 1, 41,
   "\"architectures\" is BertForMultipleChoice; "},
  {"{\"model_type\": \"vit\", \"architectures\": [\"ViTForMaskedImageModeling\"]}", 1, 40,
   "\"architectures\" is ViTForMasked"},
  {"{\"model_type\": \"vit\", \"patch_size\": 225}", 1, 37,
   "patches of 225 in an image of 224; expected is at least one"},
  {"{\"model_type\": \"qwen3_moe\", \"mlp_only_layers\": [1]}", 1, 48,
   "\"mlp_only_layers\" is not known; expected is [], or"},
  {"{\"model_type\": \"qwen3_moe\", \"mlp_only_layers\": 1}", 1, 48,
   "\"mlp_only_layers\" is not known; expected is [], or"},
  {"{\"model_type\": \"qwen3_moe\", \"decoder_sparse_step\": 2}", 1, 52,
   "\"decoder_sparse_step\" is not known; expected is 1"},
  {"{\"model_type\": \"deepseek_v2\", \"moe_layer_freq\": 2}", 1, 49, "\"moe_layer_freq\" is not known; expected is 1"},
  {"{\"model_type\": \"llama\", \"num_hidden_layers\": 16382}", 1, 46,
   "\"num_hidden_layers\" is 16382; expected is a whole number from 1 to 16381"},
  {"{\"model_type\": \"llama\", \"num_attention_heads\": 33}", 1, 1,
   "\"hidden_size\" is 4096; expected is a multiple of \"num_attention_heads\", 33"},
  {"{\"model_type\": \"gpt2\", \"n_embd\": 100, \"head_dim\": 10}", 1, 34,
   "\"n_embd\" is 100; expected is a multiple of \"n_head\", 12"},
  {"{\"model_type\": \"llama\", \"num_key_value_heads\": 7}", 1, 48,
   "\"num_key_value_heads\" is 7; expected is a divisor of \"num_attention_heads\", 32"},
  {"{\"model_type\": \"llama\", \"hidden_size\": 2147483647, \"num_attention_heads\": 1, \"head_dim\": 2147483647}", 0,
   0, "a parameter of more than 2^48 elements, more than 65536 parameters, or no memory"},
  /* What else a model has is never forgotten. */
  {"{\"model_type\": \"llava_next\", \"text_config\": {\"model_type\": \"llama\"},\n\"vision_config\": {}}", 2, 18,
   "\"vision_config\" of llava_next is not known; known with parts are llava, gemma3, mistral3, paligemma and "
   "internvl"},
  {"{\"model_type\": \"qwen2_audio\", \"audio_config\": {}}", 1, 47, "\"audio_config\" of qwen2_audio is not known; "},
  {"{\"model_type\": \"llama\", \"vision_config\": {}}", 1, 42, "\"vision_config\" of llama is not known; "},
  {"{\"text_config\": {\"model_type\": \"llama\"}}", 1, 17, "\"text_config\" of no \"model_type\" is not known; "},
  {"{\"model_type\": \"gemma3\", \"text_config\": {}}", 1, 1, "\"vision_config\" is not there; expected is an object"},
  {"{\"model_type\": \"llava\", \"vision_config\": {}}", 1, 1, "\"text_config\" is not there; expected is an object"},
  {"{\"model_type\": \"llava\", \"text_config\": 7}", 1, 40, "\"text_config\" is a whole number; expected is an obj"},
  {LLAVA "{}}", 1, 82, "\"model_type\" of \"vision_config\" is not there; expected is clip_vision_model, siglip_"},
  {LLAVA "{\"model_type\": \"eva\"}}", 1, 97,
   "\"model_type\" of \"vision_config\" is eva; expected is clip_vision_model"},
  {LLAVA "{\"model_type\": \"pixtral\", \"image_size\": [1, 2, 3]}}", 1, 122,
   "\"image_size\" is not known; expected is a whole number, or two in [ and ]"},
  {LLAVA "{\"model_type\": \"pixtral\", \"patch_size\": 2000}}", 1, 122,
   "patches of 2000 in an image of 1024; expected is at least one"},
  {"{\"model_type\": \"internvl\", \"tie_word_embeddings\": false, \"downsample_ratio\": 0, \"text_config\": "
   "{\"model_type\": \"qwen2\"}, \"vision_config\": {\"model_type\": \"internvl_vision\"}}",
   1, 78, "\"downsample_ratio\" is not known; expected is a number from 0.01 to 1"},
  {"{\"model_type\": \"mistral3\", \"text_config\": {\"model_type\": \"mistral\"}, \"vision_config\": {}}", 1, 1,
   "\"tie_word_embeddings\" is true by default, and false by default in \"text_config\"; expected is the same"},
  {"{\"model_type\": \"llava\", \"tie_word_embeddings\": true, \"text_config\": {\"model_type\": \"llama\", "
   "\"tie_word_embeddings\": false}, \"vision_config\": {}}",
   1, 48, "\"tie_word_embeddings\" is true, and false in \"text_config\"; expected is the same"},
  {"{\"model_type\": \"gemma3\", \"tie_word_embeddings\": false, \"text_config\": {}, \"vision_config\": {}}", 1, 49,
   "\"tie_word_embeddings\" is false, and true by default in \"text_config\"; expected is the same"},
  {"{\"model_type\": \"paligemma\", \"text_config\": {\"model_type\": \"gemma\", \"hidden_size\": 4096}, "
   "\"vision_config\": {\"model_type\": \"siglip_vision_model\"}}",
   1, 1, "\"projection_dim\" is not the \"hidden_size\" of the text; expected is 4096"},
  /* A key is located where it was read. */
  {"{\"hidden_size\": 1, \"model_type\": \"llava\",\n\"text_config\": {\"model_type\": \"llama\", \"hidden_size\": "
   "[]}}",
   2, 55, "\"hidden_size\" is an array; expected is"},
  {"{\"x\": \"\\\"hidden_size\\\": \", \"y\": \"hidden_size\", \"model_type\": \"llama\", \"hidden_size\" : {}}", 1, 87,
   "\"hidden_size\" is an object; expected is"},
};

static void bad_configs_are_refused(void) {
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct tagc_complaint complaint;
    struct tagc_model *model = read_config(bad[i].text, &complaint);
    bool is_so = !model && complaint.line == bad[i].line && complaint.column == bad[i].column &&
                 !strncmp(complaint.text, bad[i].complaint, strlen(bad[i].complaint));
    if (!ok(is_so, "%u:%u: %s", bad[i].line, bad[i].column, bad[i].complaint))
      note("%u:%u: %s", complaint.line, complaint.column, complaint.text);
    tagc_model_free(model);
  }
}

static void bad_files_are_refused(void) {
  struct tagc_complaint complaint;
  ok(!tagc_map_from_config("/nowhere/config.json", false, NULL, &complaint) && complaint.line == 0 &&
       !strcmp(complaint.text, "it cannot be opened: No such file or directory"),
     "a file that is not there: %s", complaint.text);
  ok(!tagc_map_from_config("/", false, NULL, &complaint) && complaint.line == 0 &&
       strstr(complaint.text, "cannot be read"),
     "a folder: %s", complaint.text);
  ok(!tagc_map_from_config("/dev/zero", false, NULL, &complaint) && complaint.line == 0 &&
       strstr(complaint.text, "too large"),
     "a file without an end: %s", complaint.text);

  size_t deep = 1 << 20;
  char *text = malloc(deep + 1);
  memset(text, '[', deep);
  text[deep] = '\0';
  ok(!read_config(text, &complaint) && strstr(complaint.text, "maximum parsing depth reached"),
     "a million brackets: %s", complaint.text);
  free(text);
  write_config("{\"model_type\": \"lla\0ma\"}", 23);
  ok(!tagc_map_from_config(path, false, NULL, &complaint) && complaint.line == 1, "a 0 in the text: %s",
     complaint.text);
}

/* Every prefix of a config is refused, and a change of any letter leads to a complaint at worst. */
static void broken_configs_are_survived(void) {
  char text[512];
  size_t length = strlen(configs[6].text), refused = 0, silent = 0;
  struct tagc_complaint complaint;
  for (size_t cut = 0; cut < length; cut++) {
    snprintf(text, sizeof text, "%.*s", (int)cut, configs[6].text);
    refused += !read_config(text, &complaint) && complaint.line != 4242 && *complaint.text;
  }
  ok(refused == length, "every beginning of a config is refused");
  for (size_t i = 0; i < length; i++) {
    static const char letters[] = "\"{}[]:,0-9ex\\\n\x80";
    snprintf(text, sizeof text, "%s", configs[6].text);
    text[i] = letters[i % (sizeof letters - 1)];
    struct tagc_model *model = read_config(text, &complaint);
    silent += !model && !*complaint.text;
    tagc_model_free(model);
  }
  ok(silent == 0, "no change of a letter is refused without a word");
}

int main(void) {
  int file = mkstemp(path);
  if (file < 0 || close(file))
    abort();
  configs_are_read();
  bad_configs_are_refused();
  bad_files_are_refused();
  broken_configs_are_survived();
  unlink(path);
  return tap_done();
}
