/* SPDX-License-Identifier: BSD-3-Clause
 * Models from the headers of checkpoints: orders that only names determine, blocks, several files, and hostile headers.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "layermap/tagc-map/safetensors.h"
#include "tests/unit/tap.h"

enum { FILES = 3, ROOM = 1 << 16 };

static char folder[] = "/tmp/tagc-test-map-safetensors-XXXXXX";
static char paths[FILES][64];

static void write_file(int number, const void *bytes, size_t count, uint64_t data) {
  FILE *file = fopen(paths[number], "w");
  if (!file || fwrite(bytes, 1, count, file) != count || fclose(file) || truncate(paths[number], (off_t)(count + data)))
    abort();
}

/* Writes a file with this header and that many bytes of data. `length`: the header's length according to the file. */
static void write_checkpoint(int number, const char *header, uint64_t length, uint64_t data) {
  static char bytes[8 + ROOM];
  for (int i = 0; i < 8; i++)
    bytes[i] = (char)(length >> 8 * i);
  size_t size = strlen(header);
  memcpy(bytes + 8, header, size);
  write_file(number, bytes, 8 + size, data);
}

/* Writes the header of F16 tensors: "name rows columns, name rows, ..." (no size: a scalar), one after the other. */
static uint64_t write_tensors(int number, const char *tensors) {
  static char header[ROOM];
  uint64_t data = 0;
  size_t used = (size_t)snprintf(header, ROOM, "{\"__metadata__\": {\"format\": \"pt\"}");
  while (*tensors) {
    char name[128];
    int taken = 0, sizes = 0;
    uint64_t elements = 1;
    sscanf(tensors, "%127[^ ,]%n", name, &taken);
    tensors += taken;
    used += (size_t)snprintf(header + used, ROOM - used, ",\n\"%s\": {\"dtype\": \"F16\", \"shape\": [", name);
    for (; *tensors == ' '; tensors += taken) {
      unsigned size = 0;
      sscanf(tensors, " %u%n", &size, &taken);
      used += (size_t)snprintf(header + used, ROOM - used, "%s%u", sizes++ ? ", " : "", size);
      elements *= size;
    }
    used += (size_t)snprintf(header + used, ROOM - used, "], \"data_offsets\": [%" PRIu64 ", %" PRIu64 "]}", data,
                             data + 2 * elements);
    data += 2 * elements;
    tensors += strspn(tensors, ", ");
  }
  snprintf(header + used, ROOM - used, "}");
  write_checkpoint(number, header, strlen(header), data);
  return data;
}

static struct tagc_model *read_files(int count, struct tagc_complaint *complaint) {
  char *list[FILES] = {paths[0], paths[1], paths[2]};
  *complaint = (struct tagc_complaint){.line = 4242};
  return tagc_map_from_safetensors(list, count, complaint);
}

/* Writes a line per place, with the index of its unit: "block(1) 0: attn.q.weight 4x4 ...". A ? marks guessed orders.
 */
static void describe(const struct tagc_model *model, char *text, size_t size) {
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; i < model->place_count; i++) {
    const struct tagc_unit *unit = &model->units[model->places[i].unit];
    used += (size_t)snprintf(text + used, size - used, "%s%s(%u)%s %d:", i ? "\n" : "", unit->name,
                             model->places[i].unit, unit->is_guessed ? "?" : "", model->places[i].block);
    for (size_t j = 0; j < unit->count; j++)
      used += (size_t)snprintf(text + used, size - used, " %s %" PRIu64 "x%" PRIu64, unit->parameters[j].name,
                               unit->parameters[j].rows, unit->parameters[j].columns);
  }
}

static void is_read(const char *what, int files, const char *expected) {
  char text[8192] = "";
  struct tagc_complaint complaint;
  struct tagc_model *model = read_files(files, &complaint);
  if (model)
    describe(model, text, sizeof text);
  if (!ok(model && !strcmp(text, expected), "%s is read", what))
    note("%s", model ? text : complaint.text);
  tagc_model_free(model);
}

static void families_are_ordered(void) {
  write_tensors(
    0, "h.0.attn.bias 1 1 8 8, h.0.attn.c_attn.bias 12, h.0.attn.c_attn.weight 4 12, h.0.attn.c_proj.bias 4, "
       "h.0.attn.c_proj.weight 4 4, "
       "h.0.ln_1.bias 4, h.0.ln_1.weight 4, h.0.ln_2.bias 4, h.0.ln_2.weight 4, h.0.mlp.c_fc.bias 16, "
       "h.0.mlp.c_fc.weight 4 16, "
       "h.0.mlp.c_proj.bias 4, h.0.mlp.c_proj.weight 16 4, ln_f.bias 4, ln_f.weight 4, wpe.weight 8 4, wte.weight 9 4");
  is_read(
    "GPT-2, without its masks,", 1,
    "embed(0) -1: wte.weight 9x4 wpe.weight 8x4\n"
    "block(1) 0: ln_1.weight 4x1 ln_1.bias 4x1 attn.c_attn.weight 4x12 attn.c_attn.bias 12x1 attn.c_proj.weight 4x4 "
    "attn.c_proj.bias 4x1 "
    "ln_2.weight 4x1 ln_2.bias 4x1 mlp.c_fc.weight 4x16 mlp.c_fc.bias 16x1 mlp.c_proj.weight 16x4 mlp.c_proj.bias 4x1\n"
    "head(2) -1: ln_f.weight 4x1 ln_f.bias 4x1");

  write_tensors(
    0,
    "lm_head.weight 9 4, model.embed_tokens.weight 9 4, model.layers.0.input_layernorm.weight 4, "
    "model.layers.0.mlp.down_proj.weight 4 6, "
    "model.layers.0.mlp.gate_proj.weight 6 4, model.layers.0.mlp.up_proj.weight 6 4, "
    "model.layers.0.post_attention_layernorm.weight 4, "
    "model.layers.0.self_attn.k_norm.weight 2, model.layers.0.self_attn.k_proj.weight 2 4, "
    "model.layers.0.self_attn.o_proj.weight 4 4, "
    "model.layers.0.self_attn.q_norm.weight 2, model.layers.0.self_attn.q_proj.bias 4, "
    "model.layers.0.self_attn.q_proj.weight 4 4, "
    "model.layers.0.self_attn.v_proj.weight 2 4, model.layers.0.self_attn.rotary_emb.inv_freq 1, model.norm.weight 4");
  is_read("Qwen", 1,
          "embed(0) -1: model.embed_tokens.weight 9x4\n"
          "block(1) 0: self_attn.q_proj.weight 4x4 self_attn.q_proj.bias 4x1 self_attn.k_proj.weight 2x4 "
          "self_attn.v_proj.weight 2x4 "
          "self_attn.o_proj.weight 4x4 self_attn.q_norm.weight 2x1 self_attn.k_norm.weight 2x1 mlp.gate_proj.weight "
          "6x4 mlp.up_proj.weight 6x4 "
          "mlp.down_proj.weight 4x6 input_layernorm.weight 4x1 post_attention_layernorm.weight 4x1\n"
          "head(2) -1: model.norm.weight 4x1 lm_head.weight 9x4");

  write_tensors(0, "m.layers.0.mlp.experts.0.down_proj.weight 4 2, m.layers.0.mlp.experts.0.gate_proj.weight 2 4, "
                   "m.layers.0.mlp.experts.0.up_proj.weight 2 4, "
                   "m.layers.0.mlp.experts.10.down_proj.weight 4 2, m.layers.0.mlp.experts.10.gate_proj.weight 2 4, "
                   "m.layers.0.mlp.experts.10.up_proj.weight 2 4, m.layers.0.mlp.experts.2.down_proj.weight 4 2, "
                   "m.layers.0.mlp.experts.2.gate_proj.weight 2 4, m.layers.0.mlp.experts.2.up_proj.weight 2 4, "
                   "m.layers.0.mlp.gate.weight 11 4, "
                   "m.layers.0.self_attn.q_proj.weight 4 4, m.layers.0.mlp.gate.e_score_correction_bias 11, "
                   "m.layers.0.self_attn.k_proj.weight 4 4, m.layers.0.self_attn.v_proj.weight 4 4, "
                   "m.layers.0.self_attn.o_proj.weight 4 4, m.layers.0.input_layernorm.weight 4, "
                   "m.layers.0.post_attention_layernorm.weight 4, m.embed_tokens.weight 9 4, m.norm.weight 4");
  is_read("a mixture of experts", 1,
          "embed(0) -1: m.embed_tokens.weight 9x4\n"
          "block(1) 0: self_attn.q_proj.weight 4x4 self_attn.k_proj.weight 4x4 self_attn.v_proj.weight 4x4 "
          "self_attn.o_proj.weight 4x4 mlp.gate.weight 11x4 mlp.experts.0.gate_proj.weight 2x4 "
          "mlp.experts.0.up_proj.weight 2x4 "
          "mlp.experts.0.down_proj.weight 4x2 mlp.experts.2.gate_proj.weight 2x4 mlp.experts.2.up_proj.weight 2x4 "
          "mlp.experts.2.down_proj.weight 4x2 mlp.experts.10.gate_proj.weight 2x4 mlp.experts.10.up_proj.weight 2x4 "
          "mlp.experts.10.down_proj.weight 4x2 input_layernorm.weight 4x1 post_attention_layernorm.weight 4x1\n"
          "head(2) -1: m.norm.weight 4x1");

  write_tensors(0, "blocks.0.attn.proj.weight 4 4, blocks.0.attn.qkv.weight 12 4, blocks.0.mlp.fc1.weight 8 4, "
                   "blocks.0.mlp.fc2.weight 4 8, "
                   "blocks.0.norm1.weight 4, blocks.0.norm2.weight 4, cls_token 1 1 4, head.weight 3 4, norm.weight 4, "
                   "patch_embed.proj.weight 4 3 2 2, "
                   "pos_embed 1 5 4");
  is_read("timm's ViT", 1,
          "embed(0) -1: cls_token 1x4 pos_embed 1x20 patch_embed.proj.weight 4x12\n"
          "block(1) 0: norm1.weight 4x1 attn.qkv.weight 12x4 attn.proj.weight 4x4 norm2.weight 4x1 mlp.fc1.weight 8x4 "
          "mlp.fc2.weight 4x8\n"
          "head(2) -1: norm.weight 4x1 head.weight 3x4");

  write_tensors(0, "net.0.x_norm.weight 4, net.0.x_mlp.weight 4 5, net.0.x_attn.weight 4 4, net.0.y 3, first 2, scale");
  is_read("what has names of its own", 1,
          "block(0)? 0: x_attn.weight 4x4 x_mlp.weight 4x5 x_norm.weight 4x1 y 3x1\nhead(1)? -1: first 2x1 scale 1x1");
}

static void blocks_are_found(void) {
  write_tensors(0,
                "a.0.mlp.weight 2 2, a.1.mlp.weight 2 3, a.2.mlp.weight 2 2, a.10.mlp.weight 2 3, a.3.mlp.weight 2 2, "
                "a.4.mlp.weight 2 2, "
                "a.5.mlp.weight 2 2, a.6.mlp.weight 2 2, a.7.mlp.weight 2 2, a.8.mlp.weight 2 2, a.9.mlp.weight 2 3");
  is_read(
    "blocks of two kinds", 1,
    "block(0) 0: mlp.weight 2x2\nblock(1) 1: mlp.weight 2x3\nblock(0) 2: mlp.weight 2x2\nblock(0) 3: mlp.weight 2x2\n"
    "block(0) 4: mlp.weight 2x2\nblock(0) 5: mlp.weight 2x2\nblock(0) 6: mlp.weight 2x2\nblock(0) 7: mlp.weight 2x2\n"
    "block(0) 8: mlp.weight 2x2\nblock(1) 9: mlp.weight 2x3\nblock(1) 10: mlp.weight 2x3");

  write_tensors(
    0, "decoder.block.0.w 9 9, decoder.block.1.w 9 9, encoder.block.0.w 2 2, encoder.block.1.w 2 2, heads.0.weight 1, "
       "classifier.0.weight 1, classifier.3.weight 1, m.encoder.embeddings.layers.1.conv.weight 3");
  is_read(
    "an encoder and a decoder", 1,
    "embed(0)? -1: m.encoder.embeddings.layers.1.conv.weight 3x1\nencoder.block(1) 0: w 2x2\nencoder.block(1) 1: w "
    "2x2\n"
    "block(2) 0: w 9x9\nblock(2) 1: w 9x9\nhead(3)? -1: classifier.0.weight 1x1 classifier.3.weight 1x1 heads.0.weight "
    "1x1");

  write_tensors(
    0, "decoder.x.0.w 2, decoder.x.1.w 2, encoder.x.0.w 9, a.very.long.prefix.in.front.of.the.vision.blocks.0.w 1, "
       "a.very.long.prefix.in.front.of.the.vision.blocks.1.w 1");
  is_read("a decoder behind", 1,
          "in.front.of.the.vision.blocks(0) 0: w 1x1\nin.front.of.the.vision.blocks(0) 1: w 1x1\n"
          "block(1) 0: w 9x1\ndecoder.x(2) 0: w 2x1\ndecoder.x(2) 1: w 2x1");

  write_tensors(0, "layers.0.mlp.gate.weight 2 2, layers.0.mlp.up.weight 2 2");
  struct tagc_complaint complaint;
  struct tagc_model *model = read_files(1, &complaint);
  ok(model && model->units[0].parameters[0].kinds == TAGC_KIND_MLP, "without experts a gate is no router");
  tagc_model_free(model);
  write_tensors(0, "layers.0.mlp.gate.weight 2 2, layers.0.mlp.experts.up 2 2");
  model = read_files(1, &complaint);
  ok(model && model->units[0].parameters[0].kinds == (TAGC_KIND_MLP | TAGC_KIND_EXPERT) &&
       model->units[0].parameters[1].kinds == TAGC_KIND_EXPERT,
     "with experts it is one");
  tagc_model_free(model);
}

static void files_are_merged(void) {
  write_tensors(0, "layers.1.w 2, embed_tokens.weight 3");
  write_tensors(1, "layers.0.w 2, lm_head.weight 3");
  write_tensors(2, "");
  is_read("a checkpoint of three files, of which one is empty,", 3,
          "embed(0) -1: embed_tokens.weight 3x1\nblock(1) 0: w 2x1\nblock(1) 1: w 2x1\nhead(2) -1: lm_head.weight 3x1");
  struct tagc_complaint complaint;
  ok(!read_files(1, &complaint) &&
       !strcmp(complaint.text, "block 0 of layers is missing; expected are all files of a checkpoint"),
     "a file that is missing: %s", complaint.text);
  write_tensors(2, "x 2,lm_head.weight 3");
  ok(!read_files(3, &complaint) && complaint.line >= 2 &&
       strstr(complaint.text, ": lm_head.weight is in another file, too"),
     "a tensor that is there twice: %u:%u %s", complaint.line, complaint.column, complaint.text);
}

#define TENSOR(name, type, shape, offsets) \
  "\"" name "\": {\"dtype\": \"" type "\", \"shape\": " shape ", \"data_offsets\": " offsets "}"

#define DIGITS_64 "0123456789012345678901234567890123456789012345678901234567890123"

/* Headers of files with 100 bytes of data. */
static const struct {
  const char *header;
  unsigned line, column;
  const char *complaint;
} bad[] = {
  {"", 1, 1, "'[' or '{' expected near end of file; expected is JSON"},
  {"{} x", 1, 4, "end of file expected near 'x'; expected is JSON"},
  {"[]", 1, 1, "the text is an array; expected is an object"},
  {"{}", 0, 0, "there is no parameter in it; expected are tensors of floating-point numbers"},
  {"{" TENSOR("mask", "BOOL", "[100]", "[0, 100]") "}", 0, 0, "there is no parameter in it; expected"},
  {"{\"a\": 7}", 1, 7, "a is a whole number; expected is an object with \"dtype\", \"shape\" and \"data_offsets\""},
  {"{\"a\": {}}", 1, 7, "\"dtype\" of a is missing; expected is one like F32 or BF16"},
  {"{" TENSOR("a", "F33", "[1]", "[0, 4]") "}", 1, 7, "\"dtype\" of a is F33; expected is one like F32 or BF16"},
  {"{\"a\": {\"dtype\": \"F32\"}}", 1, 7, "a has no \"shape\"; expected is a list of sizes"},
  {"{" TENSOR("a", "F32", "7", "[0, 28]") "}", 1, 7, "a has no \"shape\"; expected is a list of sizes"},
  {"{\n " TENSOR("a", "F32", "[-1]", "[0, 4]") "}", 2, 7,
   "a size of a is negative; expected is a whole number from 1 on"},
  {"{" TENSOR("a", "F32", "[0]", "[0, 0]") "}", 1, 7, "a size of a is 0; expected is a whole number from 1 on"},
  {"{" TENSOR("a", "F32", "[1.5]", "[0, 4]") "}", 1, 7,
   "a size of a is a number with a fraction; expected is a whole number"},
  {"{" TENSOR("a", "F32", "[\"1\"]", "[0, 4]") "}", 1, 7, "a size of a is a string; expected is a whole number"},
  {"{" TENSOR("a", "F32", "[9223372036854775807]", "[0, 4]") "}", 1, 7,
   "a has too many elements; expected are at most 281474976710656"},
  {"{" TENSOR("a", "F32", "[9223372036854775808]", "[0, 4]") "}", 1, 52, "too big integer near '9223372036854775808'"},
  {"{" TENSOR("a", "F32", "[4294967296, 4294967296]", "[0, 0]") "}", 1, 7,
   "a has too many elements; expected are at most"},
  {"{" TENSOR("a", "F32", "[65536, 65536, 65536, 65536]", "[0, 0]") "}", 1, 7,
   "a has too many elements; expected are at most"},
  {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1]}}", 1, 7,
   "\"data_offsets\" of a are not known; expected are [begin, end]"},
  {"{" TENSOR("a", "F32", "[1]", "[4, 0]") "}", 1, 7, "\"data_offsets\" of a are not known; expected are [begin, end]"},
  {"{" TENSOR("a", "F32", "[1]", "[-4, 0]") "}", 1, 7,
   "\"data_offsets\" of a are not known; expected are [begin, end]"},
  {"{" TENSOR("a", "F32", "[1]", "[0, 4, 8]") "}", 1, 7,
   "\"data_offsets\" of a are not known; expected are [begin, end]"},
  {"{" TENSOR("a", "F32", "[2]", "[96, 104]") "}", 1, 7, "a ends at byte 104, but the file holds 100 (is it whole?)"},
  {"{" TENSOR("a", "F32", "[2]", "[0, 9223372036854775807]") "}", 1, 7,
   "a ends at byte 9223372036854775807, but the file holds 100"},
  {"{" TENSOR("a", "F32", "[2]", "[0, 4]") "}", 1, 7, "a has 4 bytes; expected for its shape are 8"},
  {"{" TENSOR("a", "F4", "[3]", "[0, 1]") "}", 1, 7, "a has 1 bytes; expected for its shape are 2"},
  {"{" TENSOR("a", "F32", "[2]", "[0, 8]") ",\n" TENSOR("b", "F32", "[2]", "[7, 15]") "}", 2, 6, "b overlaps a"},
  {"{" TENSOR("a", "F32", "[2]", "[0, 8]") ",\n" TENSOR("b", "F32", "[2]", "[0, 8]") "}", 2, 6, "b overlaps a"},
  {"{" TENSOR("a", "F32", "[2]", "[0, 8]") ",\n" TENSOR("a", "F32", "[2]", "[8, 16]") "}", 2, 3,
   "duplicate object key near '\"a\"'"},
  {"{" TENSOR("", "F32", "[2]", "[0, 8]") "}", 1, 6, "a tensor has no name"},
  {"{" TENSOR("a b", "F32", "[2]", "[0, 8]") "}", 1, 9,
   "a b is no name of a parameter; expected are letters without spaces"},
  {"{" TENSOR("a\\nb", "F32", "[2]", "[0, 8]") "}", 1, 1,
   "a?b is no name of a parameter; expected are letters without spaces"},
  {"{" TENSOR("a\\u0000b", "F32", "[2]", "[0, 8]") "}", 1, 11, "NUL byte in object key not supported"},
  {"{" TENSOR("a.1.w", "F32", "[2]", "[0, 8]") "}", 0, 0,
   "block 0 of a is missing; expected are all files of a checkpoint"},
  {"{" TENSOR(DIGITS_64 DIGITS_64, "F32", "[2]", "[0, 8]") "}", 0, 0, "there is more in it than a model may have"},
};

static void bad_headers_are_refused(void) {
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct tagc_complaint complaint;
    write_checkpoint(0, bad[i].header, strlen(bad[i].header), 100);
    struct tagc_model *model = read_files(1, &complaint);
    bool is_so = !model && complaint.line == bad[i].line && complaint.column == bad[i].column &&
                 !strncmp(complaint.text, bad[i].complaint, strlen(bad[i].complaint));
    if (!ok(is_so, "%u:%u: %s", bad[i].line, bad[i].column, bad[i].complaint))
      note("%u:%u: %s", complaint.line, complaint.column, complaint.text);
    tagc_model_free(model);
  }
}

static void is_refused(const char *what, const char *complaint_text) {
  struct tagc_complaint complaint;
  struct tagc_model *model = read_files(1, &complaint);
  if (!ok(!model && complaint.line == 0 && strstr(complaint.text, complaint_text), "%s: %s", what, complaint_text))
    note("%u:%u: %s", complaint.line, complaint.column, complaint.text);
  tagc_model_free(model);
}

static void bad_files_are_refused(void) {
  write_file(0, "", 0, 0);
  is_refused("an empty file", "it ends within the 8 bytes of the header's length");
  write_file(0, "1234567", 7, 0);
  is_refused("a short file", "it ends within the 8 bytes of the header's length");
  write_checkpoint(0, "{}", 3, 0);
  is_refused("a header that is not whole", "its header has 3 bytes, but it ends after 2");
  write_checkpoint(0, "{}", UINT64_MAX, 0);
  is_refused("the longest header",
             "its header has 18446744073709551615 bytes; expected are at most 100000000 (is it a safetensors file?)");
  write_checkpoint(0, "{}", 100000001, 0);
  is_refused("a long header", "its header has 100000001 bytes; expected are at most 100000000");
  unlink(paths[0]);
  is_refused("a file that is not there", "it cannot be opened: No such file or directory");
  char kept[64];
  memcpy(kept, paths[0], sizeof kept);
  snprintf(paths[0], sizeof paths[0], "/dev/zero");
  is_refused("a device", "it is no regular file");
  snprintf(paths[0], sizeof paths[0], "/tmp");
  is_refused("a folder", "it is no regular file");
  memcpy(paths[0], kept, sizeof kept);
}

/* Deep brackets, and every header that differs from a good one by a letter: a model or a complaint, nothing worse. */
static void broken_headers_are_survived(void) {
  static char text[ROOM];
  struct tagc_complaint complaint;
  memset(text, '[', ROOM - 1);
  write_checkpoint(0, text, ROOM - 1, 0);
  ok(!read_files(1, &complaint) && strstr(complaint.text, "maximum parsing depth reached"), "%d brackets: %s", ROOM - 1,
     complaint.text);

  static const char good[] = "{" TENSOR("l.0.w", "F32", "[2, 1]", "[0, 8]") "," TENSOR(
    "l.1.w", "F16", "[1, 2]", "[8, 12]") "," TENSOR("e", "I8", "[2, 1]", "[12, 14]") "}";
  size_t silent = 0, refused = 0, length = sizeof good - 1;
  for (size_t i = 0; i < 8 * length; i++) {
    static const char letters[] = "\"{}[]:,0-9ex\\\n\x80.";
    memcpy(text, good, sizeof good);
    text[i % length] = letters[(i / length * 5 + i) % (sizeof letters - 1)];
    write_checkpoint(0, text, length, 14);
    struct tagc_model *model = read_files(1, &complaint);
    silent += !model && (complaint.line == 4242 || !*complaint.text);
    refused += !model;
    tagc_model_free(model);
  }
  ok(silent == 0 && refused > 100, "no change of a letter is refused without a word");
  size_t cut = 0;
  for (size_t i = 0; i < length; i++) {
    snprintf(text, sizeof text, "%.*s", (int)i, good);
    write_checkpoint(0, text, i, 14);
    cut += !read_files(1, &complaint) && *complaint.text;
  }
  ok(cut == length, "every beginning of a header is refused");
}

int main(void) {
  if (!mkdtemp(folder))
    abort();
  for (int i = 0; i < FILES; i++)
    snprintf(paths[i], sizeof paths[i], "%s/%d.safetensors", folder, i);
  families_are_ordered();
  blocks_are_found();
  files_are_merged();
  bad_headers_are_refused();
  bad_files_are_refused();
  broken_headers_are_survived();
  for (int i = 0; i < FILES; i++)
    unlink(paths[i]);
  rmdir(folder);
  return tap_done();
}
