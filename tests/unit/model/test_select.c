/* SPDX-License-Identifier: BSD-3-Clause
 * Selections: well-formed ones, errors with their reasons, and the slots and parameters that they name.
 */
#include <string.h>

#include "layermap/model/glob.h"
#include "layermap/infer/layers.h"
#include "layermap/model/select.h"
#include "tests/unit/tap.h"

static void accepts(const char *list) {
  const char *why = "";
  size_t at = 0;
  ok(tagc_select_valid(list, &why, &at), "\"%s\" is well formed %s", list, why);
}

static void refuses(const char *list, const char *reason, size_t where) {
  const char *why = "";
  size_t at = 0;
  bool valid = tagc_select_valid(list, &why, &at);
  ok(!valid && !strcmp(why, reason) && at == where, "\"%.40s\" is refused: %s, at %zu", list, why, at);
}

static void names(const char *list, uint32_t unit, bool expected) {
  char name[16];
  snprintf(name, sizeof name, "unit%u", unit);
  ok(tagc_select_matches(list, name, unit) == expected, "\"%s\" %s %s", list, expected ? "names" : "does not name",
     name);
}

static void matches(const char *glob, const char *name, bool expected) {
  ok(tagc_glob_matches(glob, strlen(glob), name) == expected, "\"%s\" %s %s", glob, expected ? "is" : "is not", name);
}

static void test_globs(void) {
  matches("block.3", "block.3", true);
  matches("block.3", "block.3.mlp.up.weight", true);
  matches("block.3", "block.31.mlp", false);
  matches("block.3.mlp", "block.3", false);
  matches("block.3.*", "block.3", false);
  matches("block.3.*", "block.3.mlp.up.weight", true);
  matches("block.*.mlp", "block.12.mlp.up.weight", true);
  matches("block.*.mlp.*", "block.12.mlp.up.weight", true);
  matches("*.weight", "block.12.mlp.up.weight", true);
  matches("*.up", "block.12.mlp.up.weight", true);
  matches("*.u", "block.12.mlp.up.weight", false);
  matches("*p*p*", "block.12.mlp.up.weight", true);
  matches("*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false);
  matches("block.?", "block.3.norm", true);
  matches("block.?", "block.12.norm", false);
  matches("block.0-3", "block.0", true);
  matches("block.0-3", "block.3.norm.weight", true);
  matches("block.0-3", "block.4", false);
  matches("block.0-3", "block.30", false);
  matches("block.0-3", "block.x", false);
  matches("block.0-3.mlp", "block.2.mlp.up", true);
  matches("block.0-3.mlp", "block.2.attn", false);
  matches("block.0-3", "block.2-3", true);
  matches("block.0-3", "block.2-4", false);
  matches("block.2-3", "block.2-3", true);
  matches("block.0-99", "block.99999999999", false);
  matches("*.8-9.*", "block.3.expert.8.up", true);
  matches("*.8-9.*", "block.8.expert.3.up", true);
  matches("*.8-9", "block.3.expert.7", false);
  matches("a.0-1.b.2-3", "a.1.b.2", true);
  matches("a.0-1.b.2-3", "a.1.b.1", false);
  matches("x0-3", "x2", false);
  matches("x0-3", "x0-3", true);
  matches("[a-c]?[!0-9]", "b5x", true);
  matches("[a-c]?[^0-9]", "b55", false);
  matches("[]-]", "]", true);
  matches("[a-]", "-", true);
  matches("[\\]]", "]", true);
  matches("\\*", "*", true);
  matches("\\*", "x", false);
  matches("\377", "\377", true);
  matches("[a", "a", false);
  matches("", "", true);
  matches("", "x", false);
  matches("*", "", true);
  matches("Block", "block", false);
}

/* A slot of two blocks with the embedding before them, as a framework might wrap them. */
static const struct tagc_parameter parameters[] = {
  {"embed.weight", TAGC_KIND_EMBED, 10, 4, 0},
  {"attn.q.weight", TAGC_KIND_ATTN, 4, 4, 0},
  {"attn.q.bias", TAGC_KIND_ATTN | TAGC_KIND_BIAS, 4, 1, 0},
  {"attn.q_norm.weight", TAGC_KIND_ATTN | TAGC_KIND_NORM, 4, 1, 0},
  {"mlp.up.weight", TAGC_KIND_MLP, 4, 4, 0},
  {"mlp.up.bias", TAGC_KIND_MLP | TAGC_KIND_BIAS, 4, 1, 0},
  {"expert.0.up.weight", TAGC_KIND_MLP | TAGC_KIND_EXPERT, 4, 4, 0},
  {"norm.weight", TAGC_KIND_NORM, 4, 1, 0},
  {"head.weight", TAGC_KIND_HEAD, 10, 4, 0},
  {"odd", 0, 3, 1, 0},
};
enum { PARAMETERS = sizeof parameters / sizeof *parameters };

/* `wanted`: a digit for each member, 1 if it is selected. */
static void selects(const char *layers, const char *skip, const char *wanted) {
  struct tagc_member members[PARAMETERS];
  char got[PARAMETERS + 1] = "";
  bool is[PARAMETERS];
  for (int i = 0; i < PARAMETERS; i++)
    members[i] = (struct tagc_member){&parameters[i], i == 0 || i >= 8 ? -1 : i < 5 ? 0 : 1, "block"};
  const struct tagc_layer layer = {.name = "root", .members = members, .count = PARAMETERS, .block_offset = 6};
  enum tagc_selection selection = tagc_select_layer(layers, skip, 5, &layer, is);
  size_t ones = 0;
  for (int i = 0; i < PARAMETERS; i++) {
    got[i] = is[i] ? '1' : '0';
    ones += is[i];
  }
  enum tagc_selection expected = ones == PARAMETERS ? TAGC_SELECT_ALL : ones ? TAGC_SELECT_SOME : TAGC_SELECT_NONE;
  ok(!strcmp(got, wanted) && selection == expected && tagc_select_layer(layers, skip, 5, &layer, NULL) == expected,
     "\"%s\" without \"%s\": %s", layers, skip, got);
}

static void test_parameters(void) {
  selects("*", "", "1111111111");
  selects("@all", "", "1111111111");
  selects("root", "", "1111111111");
  selects("5", "", "1111111111");
  selects("4,6-9", "", "0000000000");
  selects("", "", "0000000000");
  selects("@paper", "", "1000111010");
  selects(" mlp ", "", "0000111000");
  selects("attn", "", "0111000000");
  selects("embed,head", "", "1000000010");
  selects("norm", "", "0001000100");
  selects("bias", "", "0010010000");
  selects("expert", "", "0000001000");
  selects("@all", "bias,norm", "1100101011");
  selects("*", "*", "0000000000");
  selects("@paper", "5", "0000000000");
  selects("block.6", "", "0111100000");
  selects("block.7", "", "0000011100");
  selects("block.0-6", "", "0111100000");
  selects("block.6-7.mlp", "", "0000110000");
  selects("block.*.mlp.*", "block.7", "0000100000");
  selects("embed", "", "1000000000");
  selects("embed.weight,odd", "", "1000000001");
  selects("unit5", "", "1111111111");
  selects("*", "unit?", "0000000000");
  selects("unit4", "", "0000000000");
  ok(!tagc_select_parameter("@paper", "root", 0, "embed.norm.weight", TAGC_KIND_EMBED | TAGC_KIND_NORM),
     "@paper: no norm of anything");
  ok(!tagc_select_parameter("@paper", "root", 0, "attn.mlp.weight", TAGC_KIND_ATTN | TAGC_KIND_MLP),
     "nor of attention");
  const struct tagc_layer unknown = {.name = "unit5"};
  ok(tagc_select_layer("unit5", "", 5, &unknown, NULL) == TAGC_SELECT_ALL,
     "a slot that nothing is known of has a name");
  ok(tagc_select_layer("3-5", "", 5, &unknown, NULL) == TAGC_SELECT_ALL, "and a number");
  ok(tagc_select_layer("@all", "", 5, &unknown, NULL) == TAGC_SELECT_ALL, "and is one of all");
  ok(tagc_select_layer("@all", "unit5", 5, &unknown, NULL) == TAGC_SELECT_NONE, "which may be left out");
  ok(tagc_select_layer("@paper,mlp,embed", "", 5, &unknown, NULL) == TAGC_SELECT_NONE, "kinds name nothing there");
  ok(tagc_select_layer("*", "@paper,mlp", 5, &unknown, NULL) == TAGC_SELECT_ALL, "nor leave anything out");
}

/* A parameter that is an embedding, and perhaps of an MLP or a norm, is selected only if that makes no difference. */
static void test_unsure(void) {
  static const struct tagc_parameter odd = {"x.weight", TAGC_KIND_EMBED | TAGC_KIND_MLP, 4, 4,
                                            TAGC_KIND_MLP | TAGC_KIND_NORM};
  const struct tagc_member member = {&odd, 0, "block"};
  const struct tagc_layer layer = {.name = "block.0", .members = &member, .count = 1};
  static const struct {
    const char *layers, *skip;
    bool is_selected, is_unsure;
  } rows[] = {{"*", "", true, false},          {"*", "norm", false, true},        {"*", "mlp", false, true},
              {"*", "attn,bias", true, false}, {"*", "embed", false, false},      {"mlp", "", false, true},
              {"embed", "", true, false},      {"attn", "", false, false},        {"@paper", "", false, true},
              {"*", "@paper", false, true},    {"embed", "norm", false, true},    {"block.0.x", "", true, false},
              {"*", "x.weight", true, false},  {"*", "*.x.weight", false, false}, {"block.0", "head", true, false}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    bool is;
    tagc_select_layer(rows[i].layers, rows[i].skip, 0, &layer, &is);
    const bool is_unsure = tagc_select_is_unsure(rows[i].layers, rows[i].skip, 0, &layer, 0);
    ok(is == rows[i].is_selected && is_unsure == rows[i].is_unsure, "unsure kinds, \"%s\" without \"%s\": %s%s",
       rows[i].layers, rows[i].skip, is ? "selected" : "plain", is_unsure ? ", as nobody knows" : "");
  }
  ok(tagc_select_names("mlp", 0, &layer) && !tagc_select_names("head", 0, &layer), "a list names what it may mean");
}

static void means(const char *element, const char *wanted) {
  const char *got = tagc_select_meant(element);
  ok(wanted ? got && !strcmp(got, wanted) : !got, "\"%s\" is %s: %s", element, wanted ? wanted : "nothing known",
     got ? got : "-");
}

/* The elements of a list, for messages that quote one. */
static void test_elements(void) {
  static const char *const wanted[] = {"mlp", "", "block.0-1", "@paper"};
  char text[TAGC_SELECT_ELEMENT];
  const char *rest = " mlp ,, block.0-1,@paper";
  for (size_t i = 0; i < 4; i++)
    ok(rest && !strcmp(tagc_select_next(&rest, text), wanted[i]), "element %zu is \"%s\": \"%s\"", i, wanted[i], text);
  ok(!rest, "and there are no more");
  ok(tagc_select_asks_kinds("mlp") && tagc_select_asks_kinds("@paper") && !tagc_select_asks_kinds("@all") &&
       !tagc_select_asks_kinds("mlp.*") && !tagc_select_asks_kinds("7"),
     "kinds and @paper ask for what is in slots");
  means("MLP", "mlp");
  means("ffn", "mlp");
  means("Attn", "attn");
  means("attention", "attn");
  means("self_attn", "attn");
  means("embedding", "embed");
  means("LayerNorm", "norm");
  means("lm_head", "head");
  means("experts", "expert");
  means("Bias", "bias");
  means("all", "@all");
  means("Paper", "@paper");
  means("Atn", NULL);
  means("block.3.mlpp", NULL);
  means("*mlp*", NULL);
  means("", NULL);
}

int main(void) {
  static const char *const good[] = {"",
                                     "  ",
                                     "*",
                                     "unit3",
                                     "unit1*,unit7",
                                     " 0-3 , 7\t,unit[0-9]",
                                     "4294967295",
                                     "5-5",
                                     "unit[]]",
                                     "unit[!]x]",
                                     "\\[",
                                     "unit[a\\]b]",
                                     "@all",
                                     " @paper ,norm",
                                     "block.0-3",
                                     "block.3-0x",
                                     "block.*.mlp.*",
                                     "a.0-1.b.2-3"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    accepts(good[i]);

  refuses(",", "an element is empty", 0);
  refuses("unit1,", "an element is empty", 6);
  refuses("unit1, ,unit2", "an element is empty", 7);
  refuses("0-3,9-7", "a range runs backwards", 4);
  refuses(" 3x", "not a number", 1);
  refuses("3-", "not a number", 0);
  refuses("3-4-5", "not a number", 0);
  refuses("3 - 5", "not a number", 0);
  refuses("4294967296", "a number is too large", 0);
  refuses("1,0-99999999999999999999", "a number is too large", 2);
  refuses("*,unit[0-9", "unbalanced [", 2);
  refuses("mlp,@papers", "neither @paper nor @all", 4);
  refuses("mlp,@", "neither @paper nor @all", 4);
  refuses("block.4-3", "a range runs backwards", 0);
  refuses("block.4-99999999999", "a number is too large", 0);
  refuses("unit[]", "unbalanced [", 0);
  refuses("unit[a,b]", "unbalanced [", 0);
  refuses("*,mlp attn", "a space inside an element: commas separate elements", 5);
  refuses("mlp\tattn", "a space inside an element: commas separate elements", 3);
  refuses("mlp;attn", "a semicolon inside an element: commas separate elements", 3);
  refuses("mlp,!attn", "an element cannot be negated: what is to be left out is named in TAGC_SKIP", 4);
  refuses("-attn", "an element cannot be negated: what is to be left out is named in TAGC_SKIP", 0);
  refuses("-3", "an element cannot be negated: what is to be left out is named in TAGC_SKIP", 0);
  refuses("unit1,x\\", "a backslash quotes nothing", 6);
  char longest[300];
  memset(longest, 'u', sizeof longest);
  longest[255] = '\0';
  accepts(longest);
  longest[255] = 'u';
  longest[256] = '\0';
  refuses(longest, "an element is too long", 0);

  names("", 0, false);
  names("  ", 0, false);
  names("*", 12, true);
  names("unit1*", 1, true);
  names("unit1*", 12, true);
  names("unit1*", 21, false);
  names("unit1", 12, false);
  names("unit[1-3]", 2, true);
  names("unit[1-3]", 4, false);
  names("7", 7, true);
  names("7", 77, false);
  names("0-3", 0, true);
  names("0-3", 3, true);
  names("0-3", 4, false);
  names("embed, 0-3 ,unit1?,\t99", 99, true);
  names("embed, 0-3 ,unit1?,\t99", 13, true);
  names("embed, 0-3 ,unit1?,\t99", 4, false);
  names("@all", 3, true);
  names("@paper", 3, false);
  names("mlp,norm", 3, false);
  test_globs();
  test_parameters();
  test_unsure();
  test_elements();
  return tap_done();
}
