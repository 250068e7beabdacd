/* SPDX-License-Identifier: BSD-3-Clause
 * Map files: parsed text, refused text and its place, and that a written model is read back.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "layermap/model/layout.h"
#include "layermap/model/mapfile.h"
#include "tests/unit/tap.h"

static struct tagc_model *parse(const char *text, struct tagc_complaint *complaint) {
  return tagc_mapfile_parse(text, strlen(text), complaint);
}

static void refuses(const char *text, unsigned line, unsigned column, const char *words) {
  struct tagc_complaint complaint;
  struct tagc_model *model = parse(text, &complaint);
  ok(!model && complaint.line == line && complaint.column == column && strstr(complaint.text, words), "%u:%u: %s",
     complaint.line, complaint.column, complaint.text);
  tagc_model_free(model);
}

static bool same_unit(const struct tagc_unit *a, const struct tagc_unit *b) {
  if (strcmp(a->name, b->name) != 0 || a->count != b->count || a->is_guessed != b->is_guessed)
    return false;
  for (size_t i = 0; i < a->count; i++) {
    const struct tagc_parameter *p = &a->parameters[i], *q = &b->parameters[i];
    if (strcmp(p->name, q->name) != 0 || p->kinds != q->kinds || p->unsure != q->unsure || p->rows != q->rows ||
        p->columns != q->columns)
      return false;
  }
  return true;
}

static bool same_model(const struct tagc_model *a, const struct tagc_model *b) {
  if (strcmp(a->family, b->family) != 0 || a->layout != b->layout || a->is_guessed != b->is_guessed ||
      a->place_count != b->place_count)
    return false;
  for (size_t i = 0; i < a->place_count; i++)
    if (a->places[i].block != b->places[i].block ||
        !same_unit(&a->units[a->places[i].unit], &b->units[b->places[i].unit]))
      return false;
  return true;
}

/* The text written for a model, which the caller frees; NULL: the model was refused. */
static char *written(const struct tagc_model *model, size_t *size) {
  char *text = NULL;
  FILE *file = open_memstream(&text, size);
  bool wrote = tagc_mapfile_write(file, model);
  fclose(file);
  if (wrote)
    return text;
  free(text);
  return NULL;
}

static void comes_back(const struct tagc_model *model, size_t units, const char *what) {
  struct tagc_complaint complaint = {0};
  size_t size = 0;
  char *text = written(model, &size);
  struct tagc_model *again = text ? tagc_mapfile_parse(text, size, &complaint) : NULL;
  ok(again && same_model(model, again) && again->unit_count == units, "%s comes back as it was written %u:%u %s", what,
     complaint.line, complaint.column, complaint.text);
  tagc_model_free(again);
  free(text);
}

static const char example[] = "# a model\r\ntagc-map 1 # of this version\n\tfamily  mixed\n"
                              "unit embed\n  parameter embed.weight 1000x64\n\n"
                              "unit block 0,2-3\n  parameter attn.q.weight 64x64\n  parameter odd.name 64 attn,norm\n  "
                              "parameter attn.bias 64 none\n"
                              "unit block 1,4\n  parameter mlp.up.weight 3x4x5x6\r\n"
                              "unit norm\n  parameter norm.weight 64\n"
                              "unit block 6\n  parameter mlp.up.weight 3x120\n"
                              "unit head\n  parameter head.weight 1000x64";

static void test_reading(void) {
  struct tagc_complaint complaint;
  struct tagc_model *model = parse(example, &complaint);
  if (!ok(model != NULL, "comments, blanks, CRLF, no last newline: %s", model ? "" : complaint.text))
    return;
  ok(!strcmp(model->family, "mixed") && model->unit_count == 5 && model->place_count == 9,
     "units that are alike are one");
  static const struct tagc_model_place places[] = {{0, -1}, {1, 0},  {2, 1}, {1, 2}, {1, 3},
                                                   {2, 4},  {3, -1}, {2, 6}, {4, -1}};
  bool ordered = model->place_count == 9;
  for (size_t i = 0; i < 9 && ordered; i++)
    ordered = model->places[i].unit == places[i].unit && model->places[i].block == places[i].block;
  ok(ordered, "blocks come in the order of their numbers");
  const struct tagc_parameter *p = model->units[1].parameters;
  ok(p[0].rows == 64 && p[0].columns == 64 && p[0].kinds == TAGC_KIND_ATTN, "kinds follow from the name");
  ok(p[1].rows == 64 && p[1].columns == 1 && p[1].kinds == (TAGC_KIND_ATTN | TAGC_KIND_NORM) && p[2].kinds == 0,
     "or are told");
  ok(model->units[2].parameters[0].rows == 3 && model->units[2].parameters[0].columns == 120,
     "of more dimensions two are left");
  comes_back(model, 5, "it");
  tagc_model_free(model);
  model = parse("tagc-map 1\nunit a\nparameter w 2\n", &complaint);
  ok(model && model->layout == TAGC_LAYOUTS, "a map need not say its layout");
  tagc_model_free(model);
  for (int layout = 0; layout < TAGC_LAYOUTS; layout++) {
    char text[100];
    snprintf(text, sizeof text, "tagc-map 1\nlayout %s\nunit a\nparameter w 2\n",
             tagc_layout_name((enum tagc_layout_kind)layout));
    model = parse(text, &complaint);
    ok(model && (int)model->layout == layout, "one that does: %s", tagc_layout_name((enum tagc_layout_kind)layout));
    comes_back(model, 1, "it");
    tagc_model_free(model);
  }
  model = parse("tagc-map 1\nunit b 0-1\norder guessed\nparameter w 2\nunit b 2\nparameter w 2\n"
                "unit b 3\norder guessed\nparameter w 2\n",
                &complaint);
  ok(model && !model->is_guessed && model->unit_count == 2 && model->units[0].is_guessed &&
       !model->units[1].is_guessed && model->places[3].unit == 0,
     "units in a guessed order are others than those in a known one: %s", model ? "" : complaint.text);
  comes_back(model, 2, "it");
  tagc_model_free(model);
  model = parse("tagc-map 1\norder guessed\nunit a\nparameter w 2\n", &complaint);
  ok(model && model->is_guessed && !model->units[0].is_guessed, "the order of units may be guessed, too");
  comes_back(model, 1, "it");
  tagc_model_free(model);
  model = parse("tagc-map 1\nunit a\nparameter mlp.up.weight 2 attn?,mlp?,bias\nparameter mlp.down.weight 2 unknown\n"
                "parameter x 2 norm,norm?\nunit b\nparameter mlp.up.weight 2 attn,mlp,bias\n",
                &complaint);
  p = model ? model->units[0].parameters : NULL;
  ok(p && p[0].kinds == (TAGC_KIND_MLP | TAGC_KIND_BIAS) && p[0].unsure == (TAGC_KIND_ATTN | TAGC_KIND_MLP) &&
       p[1].kinds == TAGC_KIND_MLP && p[1].unsure == TAGC_KINDS && !p[2].kinds && p[2].unsure == TAGC_KIND_NORM,
     "kinds may be unsure, and then the name tells the likely ones: %s", model ? "" : complaint.text);
  if (model)
    comes_back(model, 2, "it");
  tagc_model_free(model);
  tagc_model_free(parse("tagc-map 1\nunit a\nparameter w 281474976710656", &complaint));
  ok(!complaint.text[0], "2^48 elements are allowed");
}

static void test_refusals(void) {
#define ONE "tagc-map 1\nunit a\nparameter w 2\n"
  refuses("", 0, 0, "the file is empty; expected is \"tagc-map 1\"");
  refuses("tagc-calls 1\n", 1, 1, "\"tagc-calls\" does not begin such a file");
  refuses("tagc-map 2\n", 1, 10, "no version that is known");
  refuses("tagc-map 1\n", 1, 1, "there is no unit");
  refuses("tagc-map 1\nunits a\n", 2, 1,
          "\"units\" is not understood; expected is \"unit\", \"parameter\", \"order\", \"family\" or \"layout\"");
  refuses("tagc-map 1\norder known\n", 2, 7, "\"known\" is no order; expected is guessed");
  refuses("tagc-map 1\norder guessed\norder guessed\n", 3, 1, "is late, or there twice");
  refuses("tagc-map 1\nunit a\norder guessed\norder guessed\n", 4, 1, "is late, or there twice");
  refuses("tagc-map 1\nunit a\norder\n", 3, 6, "nothing is no order");
  refuses("tagc-map 1\nunit a\norder guessed 2\n", 3, 15, "\"2\" is one too many");
  refuses(ONE "order guessed\n", 4, 1, "expected is one order before all units, and before the parameters of each");
  refuses("tagc-map 1\nlayout\n", 2, 7,
          "nothing is no layout; expected is fsdp1, fsdp1_aligned, fsdp2, zero3 or megatron");
  refuses("tagc-map 1\nlayout ddp\n", 2, 8, "\"ddp\" is no layout");
  refuses("tagc-map 1\nlayout fsdp1 fsdp2\n", 2, 14, "\"fsdp2\" is one too many");
  refuses("tagc-map 1\nlayout fsdp2\nlayout fsdp2\n", 3, 1, "expected is one layout before all units");
  refuses(ONE "layout fsdp1\n", 4, 1, "expected is one layout before all units");
  refuses("tagc-map 1\nfamily\n", 2, 7, "nothing is no name of a family");
  refuses("tagc-map 1\nfamily a-very-long-name\n", 2, 8, "too long for the name of a family; expected are at most 15");
  refuses("tagc-map 1\nfamily a\nfamily b\n", 3, 1, "expected is one family before all units");
  refuses(ONE "family b\n", 4, 1, "expected is one family before all units");
  refuses("tagc-map 1\nparameter a 2\n", 2, 1, "is in no unit");
  refuses("tagc-map 1\nunit a\nunit b\nparameter w 2\n", 2, 6, "\"a\" has no parameters");
  refuses(ONE "unit b", 4, 6, "\"b\" has no parameters");
  refuses(ONE "unit a\nparameter w 2\n", 4, 6, "\"a\" is there twice");
  refuses(ONE "unit a 3\nparameter w 2\n", 4, 8, "\"3\" says block 3 of \"a\" twice");
  refuses("tagc-map 1\nunit a*b\n", 2, 6, "\"a*b\" is no name of a unit");
  refuses("tagc-map 1\nunit \303\244\n", 2, 6, "\"\\xc3\\xa4\" is no name of a unit");
  refuses("tagc-map 1\nunit abcdefghijklmnopqrstuvwxyzabcdef\n", 2, 6, "expected are at most 31 characters");
  refuses("tagc-map 1\nunit b 0-\n", 2, 10, "nothing is no number of a block; expected is a number from 0 to 16382");
  refuses("tagc-map 1\nunit b 0,,1\n", 2, 10, "nothing is no number of a block");
  refuses("tagc-map 1\nunit b 0,\n", 2, 10, "nothing is no number of a block");
  refuses("tagc-map 1\nunit b ,\n", 2, 8, "nothing is no number of a block");
  refuses("tagc-map 1\nunit b 0-16383\n", 2, 10, "\"16383\" is no number of a block");
  refuses("tagc-map 1\nunit b 7,5-4\n", 2, 10, "\"5-4\" runs backwards");
  refuses("tagc-map 1\nunit b 1-3,2\n", 2, 12, "\"2\" says block 2 of \"b\" twice");
  refuses("tagc-map 1\nunit b 0 1\n", 2, 10, "\"1\" is one too many");
  refuses("tagc-map 1\nunit b 5\nparameter w 1\nunit c\nparameter w 1\nunit b 5\n", 6, 8,
          "says block 5 of \"b\" twice");
  refuses("tagc-map 1\nunit b 5\nparameter w 1\nunit b\n", 4, 6, "\"b\" is there twice");
  refuses(ONE "parameter w 3\n", 4, 11, "\"w\" is there twice; expected is another name in the same unit");
  refuses(ONE "parameter v\n", 4, 12, "nothing is no dimension; expected is a number from 1 to 281474976710656");
  refuses(ONE "parameter v rows\n", 4, 13, "\"rows\" is no dimension");
  refuses(ONE "parameter v 5x\n", 4, 15, "nothing is no dimension");
  refuses(ONE "parameter v 5x0\n", 4, 15, "\"0\" is no dimension");
  refuses(ONE "parameter v 5x-1\n", 4, 15, "\"-1\" is no dimension");
  refuses(ONE "parameter v 281474976710657\n", 4, 13, "is no dimension");
  refuses(ONE "parameter v 99999999999999999999999\n", 4, 13, "is no dimension");
  refuses(ONE "parameter v 16777216x16777217\n", 4, 13,
          "are too many elements; a parameter has at most 281474976710656");
  refuses(ONE "parameter v 16777216x16777216x281474976710656\n", 4, 13, "are too many elements");
  refuses(ONE "parameter v 5 attn,mlpp\n", 4, 20, "\"mlpp\" is no kind; expected are attn, mlp");
  refuses(ONE "parameter v 5 attn,\n", 4, 20, "nothing is no kind");
  refuses(ONE "parameter v 5 attn bias\n", 4, 20, "\"bias\" is one too many");
  char text[70000] = "tagc-map 1\nunit a\n";
  size_t used = strlen(text);
  for (int i = 0; i < 257; i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "parameter w%d 281474976710656\n", i);
  refuses(text, 259, 16, "are too many elements; a unit has at most 72057594037927936");
}

/* The maximal number of parameters, blocks and units, and one more. */
static void test_limits(void) {
  struct tagc_complaint complaint;
  char *text = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&text, &size);
  fprintf(file, "tagc-map 1\nunit a\n");
  for (int i = 0; i < TAGC_MODEL_PARAMETERS; i++)
    fprintf(file, "parameter p%d 1\n", i);
  fflush(file);
  struct tagc_model *model = tagc_mapfile_parse(text, size, &complaint);
  ok(model && model->units[0].count == TAGC_MODEL_PARAMETERS, "65536 parameters %s", complaint.text);
  tagc_model_free(model);
  fprintf(file, "parameter more 1\n");
  fclose(file);
  refuses(text, 65539, 11, "\"more\" is one too many; a map has at most 65536 parameters");
  free(text);
  text = NULL;

  model = parse("tagc-map 1\nunit b 0-16382\nparameter w 1\n", &complaint);
  ok(model && model->place_count == TAGC_MODEL_PLACES && model->unit_count == 1, "16383 blocks");
  if (model)
    comes_back(model, 1, "one of them");
  tagc_model_free(model);
  refuses("tagc-map 1\nunit b 0-16382\nparameter w 1\nunit a\n", 4, 6,
          "\"a\" is one too many; a map has at most 16383 units");
  refuses("tagc-map 1\nunit b 0-16382\nparameter w 1\nunit a 0\n", 4, 8,
          "\"0\" is one too many; a map has at most 16383 units");
}

static struct tagc_model *two_units(void) {
  struct tagc_model *model = tagc_model_create();
  tagc_model_add_unit(model, "block");
  tagc_model_add_parameter(model, "mlp.weight", TAGC_KIND_MLP, 5, 7);
  tagc_model_add_unit(model, "block");
  tagc_model_add_parameter(model, "mlp.weight", TAGC_KIND_EXPERT | TAGC_KIND_HEAD, 5, 1);
  return model;
}

static void test_writing(void) {
  struct tagc_model *model = two_units();
  for (int i = 0; i < 5000; i++)
    tagc_model_add_place(model, i % 3 != 0, 2 * i + i % 2);
  comes_back(model, 2, "a model of long lists of blocks");
  tagc_model_free(model);

  model = two_units();
  tagc_model_add_place(model, 1, 1000);
  tagc_model_add_place(model, 0, 1001);
  tagc_model_add_unit(model, "alone");
  tagc_model_add_parameter(model, "thing", 0, 1, 1);
  tagc_model_add_place(model, 2, -1);
  tagc_model_add_place(model, 0, 5);
  tagc_model_add_unit(model, "nowhere");
  comes_back(model, 3, "a model with a unit in several stretches, and one that is nowhere");
  size_t size;
  char *text = written(model, &size);
  ok(text && !strcmp(text, "tagc-map 1\nunit block 1000\n  parameter mlp.weight 5 head,expert\nunit block 1001\n  "
                           "parameter mlp.weight 5x7\n"
                           "unit alone\n  parameter thing 1\nunit block 5\n  parameter mlp.weight 5x7\n"),
     "its text");
  free(text);
  tagc_model_free(model);
}

static void cannot_write(struct tagc_model *model, const char *what) {
  size_t size;
  errno = 0;
  char *text = written(model, &size);
  ok(!text && errno == EINVAL, "%s is in no map", what);
  free(text);
  tagc_model_free(model);
}

static void test_unwritable(void) {
  cannot_write(two_units(), "a model without places");
  struct tagc_model *model = two_units();
  tagc_model_add_place(model, 0, 1);
  tagc_model_add_place(model, 1, 0);
  cannot_write(model, "a model with blocks that run backwards");
  model = two_units();
  tagc_model_add_place(model, 0, 1);
  tagc_model_add_unit(model, "other");
  tagc_model_add_parameter(model, "w", 0, 1, 1);
  tagc_model_add_place(model, 2, -1);
  tagc_model_add_place(model, 1, 1);
  cannot_write(model, "a model with a block that is there twice");
  model = two_units();
  tagc_model_add_place(model, 0, -1);
  tagc_model_add_place(model, 1, 1);
  cannot_write(model, "a model with a block and a unit of one name");
  model = two_units();
  tagc_model_add_unit(model, "empty");
  tagc_model_add_place(model, 2, -1);
  cannot_write(model, "a model with a unit without parameters");
  model = two_units();
  tagc_model_add_parameter(model, "a b", 0, 1, 1);
  tagc_model_add_place(model, 1, 0);
  cannot_write(model, "a name with a space");
  model = two_units();
  tagc_model_add_place(model, 0, TAGC_MODEL_PLACES);
  cannot_write(model, "a block with so high a number");
  model = two_units();
  tagc_model_add_place(model, 0, 0);
  FILE *full = fopen("/dev/full", "w");
  if (full)
    ok(!tagc_mapfile_write(full, model) && errno == ENOSPC, "a full disk is noticed");
  else
    skip("a full disk is noticed", "there is no /dev/full");
  if (full)
    fclose(full);
  tagc_model_free(model);
}

static void test_files(void) {
  char path[] = "/tmp/test_mapfile.XXXXXX";
  struct tagc_complaint complaint;
  uint64_t digest = 0, other = 0;
  int fd = mkstemp(path);
  ssize_t wrote = write(fd, example, sizeof example - 1);
  struct tagc_model *model = tagc_mapfile_read(path, &digest, &complaint);
  ok(wrote > 0 && model && digest, "a file is read, and has a digest");
  tagc_model_free(model);
  wrote = write(fd, "\n", 1);
  model = tagc_mapfile_read(path, &other, &complaint);
  ok(wrote == 1 && model && other && digest != other, "of all its bytes");
  tagc_model_free(model);
  ok(ftruncate(fd, TAGC_MAPFILE_BYTES + 1) == 0 && !tagc_mapfile_read(path, NULL, &complaint) && !complaint.line &&
       !strcmp(complaint.text, "larger than 16777216 bytes"),
     "so large a file is refused");
  close(fd);
  unlink(path);
  model = tagc_mapfile_read(path, NULL, &complaint);
  ok(!model && !complaint.line && strstr(complaint.text, "cannot be opened: No such file"), "a file that is not there");
  ok(mkfifo(path, 0600) == 0 && !tagc_mapfile_read(path, NULL, &complaint) &&
       !strcmp(complaint.text, "not a regular file"),
     "a pipe that nobody writes to is refused, and keeps nobody waiting");
  unlink(path);
}

int main(void) {
  test_reading();
  test_refusals();
  test_limits();
  test_writing();
  test_unwritable();
  test_files();
  return tap_done();
}
