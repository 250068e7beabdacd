/* SPDX-License-Identifier: BSD-3-Clause
 * Reads PTX as nvcc writes it: functions first, then entries, so that every entry finds the rows of what it calls.
 *
 * A file begins with the special registers. Rows of functions follow, each at a place of its own (nothing recurses),
 * and then those of the entry. A scope gives its rows back, to others as wide. Arguments of calls are rows, too: a call
 * is a few moves.
 */
#include "tests/standin/cuda/ptx/ptx.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PIECES = 16, MOST_SCOPES = 16, MOST_STATEMENT = 4096, MOST_FREE = 64 };

enum meaning { IS_REGISTER, IS_RANGE, IS_SHARED, IS_PARAMETER };

struct symbol {
  char *name;
  enum meaning meaning;
  uint8_t bits;
  uint32_t at, count; /* a row, or an offset */
};

struct label {
  const char *name;
  size_t length;
  uint32_t at;
};

struct parser {
  struct ptx_module *module;
  struct ptx_function *function;
  struct symbol *symbols;
  struct label *labels, *uses; /* a use is at the instruction that names it */
  unsigned symbols_count, symbols_room, labels_count, labels_room, uses_count, uses_room, functions_room, code_room;
  uint32_t constants, constants_room, words, callee_words, shared, shared_globals;
  unsigned scopes[MOST_SCOPES], depth; /* scopes: the symbols before */
  struct {
    uint32_t at[MOST_FREE];
    unsigned count;
  } free_rows[2]; /* of 32 and of 64 bits: lanes of two parts may use a row at once, if it is equally wide for both */
  bool any_width; /* registers may be wider than what is read or written */
  int line;
  const char *text; /* of the statement */
};

static void *more_room(void *memory, unsigned count, unsigned *room, size_t size) {
  if (count < *room)
    return memory;
  *room = *room ? 2 * *room : 64;
  memory = realloc(memory, *room * size);
  if (!memory)
    ptx_refuse("no memory for PTX");
  return memory;
}

static _Noreturn void misread(const struct parser *p, const char *what) {
  ptx_refuse("PTX line %d: %s: %.*s", p->line, what, (int)strcspn(p->text, "\n"), p->text);
}

/* -- symbols ------------------------------------------------------------------------------------------------------- */
static struct symbol *declare(struct parser *p, const char *name, enum meaning meaning, unsigned bits, uint32_t at,
                              uint32_t count) {
  p->symbols = more_room(p->symbols, p->symbols_count, &p->symbols_room, sizeof *p->symbols);
  struct symbol *s = &p->symbols[p->symbols_count++];
  *s = (struct symbol){strdup(name), meaning, (uint8_t)bits, at, count};
  return s;
}

static void forget_symbols(struct parser *p, unsigned from) {
  while (p->symbols_count > from)
    free(p->symbols[--p->symbols_count].name);
}

static uint32_t take_rows(struct parser *p, unsigned bits, uint32_t count) {
  uint32_t at = p->words;
  if (count == 1 && p->free_rows[bits == 64].count)
    return p->free_rows[bits == 64].at[--p->free_rows[bits == 64].count];
  p->words += count * (bits == 64 ? 2 * LANES : LANES);
  return at;
}

static const struct symbol *find_symbol(const struct parser *p, const char *name) {
  for (unsigned i = p->symbols_count; i-- > 0;) {
    const struct symbol *s = &p->symbols[i];
    if (strcmp(s->name, name) == 0 && s->meaning != IS_RANGE)
      return s;
    size_t prefix = strlen(s->name);
    if (s->meaning == IS_RANGE && strncmp(s->name, name, prefix) == 0 && isdigit(name[prefix]) &&
        strtoul(name + prefix, NULL, 10) < s->count)
      return s;
  }
  return NULL;
}

static unsigned bits_of_type(const char *type) {
  static const struct {
    const char *name;
    unsigned bits;
  } types[] = {{"pred", 1}, {"b8", 8},   {"u8", 8},   {"s8", 8},   {"b16", 16}, {"u16", 16}, {"s16", 16}, {"b32", 32},
               {"u32", 32}, {"s32", 32}, {"f32", 32}, {"b64", 64}, {"u64", 64}, {"s64", 64}, {"f64", 64}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strcmp(types[i].name, type) == 0)
      return types[i].bits;
  return 0;
}

/* -- operands ------------------------------------------------------------------------------------------------------ */
static struct ptx_operand constant(struct parser *p, uint64_t value, unsigned bits) {
  struct ptx_module *m = p->module;
  uint32_t words = bits == 64 ? 2 * LANES : LANES;
  value = bits == 64 ? value : bits == 16 ? (uint16_t)value : bits == 1 ? value & 1 : (uint32_t)value;
  for (uint32_t at = 0; at < p->constants;) { /* the first word of a row says how wide it is: see below */
    uint32_t kind = m->all_defined[at / LANES];
    const row32 *row = m->constants + at;
    if (kind == words && (words == LANES ? row[0] == value : *(const row64 *)row == value))
      return (struct ptx_operand){at, PTX_CONSTANT, (uint8_t)bits};
    at += kind;
  }
  while (p->constants + words > p->constants_room) {
    p->constants_room = p->constants_room ? 2 * p->constants_room : 64 * LANES;
    m->constants = realloc(m->constants, p->constants_room * sizeof *m->constants);
    m->all_defined = realloc(m->all_defined, p->constants_room / LANES * sizeof *m->all_defined);
    if (!m->constants || !m->all_defined)
      ptx_refuse("no memory for PTX");
  }
  uint32_t at = p->constants;
  for (unsigned lane = 0; lane < LANES; lane++)
    if (words == LANES)
      m->constants[at + lane] = (uint32_t)value;
    else
      ((row64 *)(m->constants + at))[lane] = value;
  m->all_defined[at / LANES] = words;
  p->constants += words;
  return (struct ptx_operand){at, PTX_CONSTANT, (uint8_t)bits};
}

static const char *const specials[PTX_SPECIALS] = {"%tid.x",    "%tid.y",    "%tid.z",   "%ntid.x",  "%ntid.y",
                                                   "%ntid.z",   "%ctaid.x",  "%ctaid.y", "%ctaid.z", "%nctaid.x",
                                                   "%nctaid.y", "%nctaid.z", "%laneid"};

static struct ptx_operand of_symbol(const struct symbol *s, const char *name) {
  uint32_t nth = s->meaning == IS_RANGE ? (uint32_t)strtoul(name + strlen(s->name), NULL, 10) : 0;
  return (struct ptx_operand){s->at + nth * (s->bits == 64 ? 2 * LANES : LANES), PTX_REGISTER, s->bits};
}

/* A register, or a constant of that many bits. */
static struct ptx_operand operand(struct parser *p, const char *text, unsigned bits) {
  for (unsigned i = 0; i < PTX_SPECIALS; i++)
    if (strcmp(text, specials[i]) == 0)
      return (struct ptx_operand){i * LANES, PTX_REGISTER, 32};
  if (strcmp(text, "_") == 0)
    return (struct ptx_operand){0, PTX_NONE, 0};
  const struct symbol *s = find_symbol(p, text);
  if (s && (s->meaning == IS_REGISTER || s->meaning == IS_RANGE)) {
    if (!p->any_width && (s->bits == 64) != (bits == 64))
      misread(p, "a register of another width");
    return of_symbol(s, text);
  }
  if (s)
    return constant(p, s->at, bits);
  if (!isdigit(text[0]) && text[0] != '-')
    misread(p, "an unknown operand");
  if (text[0] == '0' && (text[1] == 'f' || text[1] == 'd'))
    return constant(p, strtoull(text + 2, NULL, 16), bits);
  return constant(p, text[0] == '-' ? (uint64_t)strtoll(text, NULL, 0) : strtoull(text, NULL, 0), bits);
}

/* Cuts the text at top-level commas, and off the blanks around each piece. */
static unsigned cut(struct parser *p, char *text, char *pieces[MOST_PIECES]) {
  unsigned count = 0;
  int nested = 0;
  for (char *at = text; *at;) {
    at += strspn(at, " \t\n");
    if (!*at)
      break;
    if (count == MOST_PIECES)
      misread(p, "too many operands");
    pieces[count++] = at;
    for (; *at && (*at != ',' || nested); at++)
      nested += *at == '{' || *at == '(' || *at == '[' ? 1 : *at == '}' || *at == ')' || *at == ']' ? -1 : 0;
    char *end = at;
    if (*at)
      at++;
    while (end > pieces[count - 1] && isspace(end[-1]))
      end--;
    *end = '\0';
  }
  return count;
}

/* One operand, or those in braces. */
static unsigned operands(struct parser *p, char *text, unsigned bits, struct ptx_operand *list) {
  char *pieces[MOST_PIECES];
  if (text[0] != '{') {
    list[0] = operand(p, text, bits);
    return 1;
  }
  text[strlen(text) - 1] = '\0';
  unsigned count = cut(p, text + 1, pieces);
  if (count >= MOST_OPERANDS)
    misread(p, "too many operands");
  for (unsigned i = 0; i < count; i++)
    list[i] = operand(p, pieces[i], bits);
  return count;
}

/* "[symbol+offset]" or "[register+offset]" into from[0] and the offset; the symbol of a parameter comes back. */
static const struct symbol *address(struct parser *p, char *text, struct ptx_ins *i) {
  size_t length = strlen(text);
  if (text[0] != '[' || text[length - 1] != ']')
    misread(p, "no address");
  text[length - 1] = '\0';
  text++;
  char *plus = strchr(text, '+');
  if (plus) {
    i->offset = strtoll(plus + 1, NULL, 0);
    *plus = '\0';
  }
  const struct symbol *s = find_symbol(p, text);
  if (!s)
    misread(p, "an address of nothing known");
  if (i->space == PTX_PARAM && (s->meaning == IS_PARAMETER || s->meaning == IS_REGISTER) && text[0] != '%')
    return s;
  if (s->meaning == IS_SHARED || s->meaning == IS_PARAMETER)
    i->from[0] = constant(p, s->at, i->space == PTX_SHARED ? 32 : 64);
  else
    i->from[0] = of_symbol(s, text);
  i->sources = 1;
  return NULL;
}

/* -- instructions -------------------------------------------------------------------------------------------------- */
static uint32_t emit(struct parser *p, const struct ptx_ins *ins) {
  struct ptx_module *m = p->module;
  m->code = more_room(m->code, m->instructions, &p->code_room, sizeof *m->code);
  struct ptx_ins *new = &m->code[m->instructions];
  *new = *ins;
  for (unsigned k = 0; k < MOST_SOURCES; k++) /* constants, and none: as the special registers */
    new->known[k] = k < ins->sources && ins->from[k].kind == PTX_REGISTER ? ins->from[k].at / LANES : 0;
  return m->instructions++;
}

static void emit_move(struct parser *p, struct ptx_ins i, struct ptx_operand to, struct ptx_operand from) {
  i.op = PTX_ARITHMETIC;
  i.run = ptx_arithmetic(to.bits == 64 ? "mov.b64" : "mov.b32", 7)->run;
  i.targets = i.sources = 1;
  i.to[0] = to;
  i.from[0] = from;
  if ((to.bits == 64) != (from.bits == 64))
    misread(p, "a parameter of another width");
  emit(p, &i);
}

static void use_label(struct parser *p, const char *name) {
  p->uses = more_room(p->uses, p->uses_count, &p->uses_room, sizeof *p->uses);
  char *copy = strdup(name);
  p->uses[p->uses_count++] = (struct label){copy, strlen(copy), p->module->instructions};
}

static struct ptx_function *find_function(struct ptx_module *m, const char *name) {
  for (uint32_t i = 0; i < m->count; i++)
    if (strcmp(m->functions[i].name, name) == 0)
      return &m->functions[i];
  return NULL;
}

static void read_call(struct parser *p, struct ptx_ins i, char **pieces, unsigned count) {
  char *arguments[MOST_PIECES];
  unsigned at = 0;
  struct ptx_operand result = {0, PTX_NONE, 0};
  if (pieces[0][0] == '(') {
    pieces[0][strlen(pieces[0]) - 1] = '\0';
    cut(p, pieces[0] + 1, arguments);
    result = of_symbol(find_symbol(p, arguments[0]), arguments[0]);
    at = 1;
  }
  const struct ptx_function *callee = at < count ? find_function(p->module, pieces[at++]) : NULL;
  if (!callee || callee->is_entry)
    misread(p, "a call of nothing known");
  unsigned passed = 0;
  if (at < count) {
    pieces[at][strlen(pieces[at]) - 1] = '\0';
    passed = cut(p, pieces[at] + 1, arguments);
  }
  if (passed != callee->count)
    misread(p, "a call with other arguments");
  for (unsigned k = 0; k < passed; k++)
    emit_move(p, i, callee->parameters[k].row, of_symbol(find_symbol(p, arguments[k]), arguments[k]));
  i.op = PTX_CALL;
  i.target = (uint32_t)(callee - p->module->functions); /* for now: it may not have been read yet */
  emit(p, &i);
  if (result.kind)
    emit_move(p, i, result, callee->result);
}

static bool one_of(const char *text, const char *list) {
  size_t length = strlen(text);
  for (const char *at = strstr(list, text); at; at = strstr(at + 1, text))
    if ((at == list || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
      return true;
  return false;
}

static bool read_how(const char *word, struct ptx_ins *i) {
  static const struct {
    const char *word;
    enum ptx_how how;
  } hows[] = {{"add", PTX_ADD}, {"and", PTX_AND},   {"or", PTX_OR},         {"xor", PTX_XOR},
              {"min", PTX_MIN}, {"max", PTX_MAX},   {"exch", PTX_EXCHANGE}, {"cas", PTX_SWAP},
              {"any", PTX_ANY}, {"all", PTX_ALL},   {"popc", PTX_COUNT},    {"ballot", PTX_BALLOT},
              {"up", PTX_UP},   {"idx", PTX_INDEX}, {"down", PTX_DOWN},     {"bfly", PTX_BUTTERFLY}};
  for (size_t k = 0; k < sizeof hows / sizeof *hows; k++)
    if (strcmp(hows[k].word, word) == 0) {
      i->how = (uint8_t)hows[k].how;
      return true;
    }
  return false;
}

/* The modifiers of an opcode, up to its type: the type's bits. */
static unsigned read_modifiers(struct parser *p, char *opcode, struct ptx_ins *i) {
  unsigned bits = 0;
  char *rest = NULL;
  strtok_r(opcode, ".", &rest);
  i->vector = 1;
  for (char *word; (word = strtok_r(NULL, ".", &rest));)
    if (one_of(word, "global shared param"))
      i->space = word[0] == 'g' ? PTX_GLOBAL : word[0] == 's' ? PTX_SHARED : PTX_PARAM;
    else if (one_of(word, "v2 v4"))
      i->vector = (uint8_t)(word[1] - '0');
    else if (one_of(word, "acquire release acq_rel relaxed volatile")) {
      i->strong = true;
      i->acquires = word[0] == 'a';
      i->releases = strstr(word, "rel") && strcmp(word, "relaxed") != 0;
    } else if (bits_of_type(word)) {
      bits = bits_of_type(word);
      i->is_signed = word[0] == 's';
      i->is_float = word[0] == 'f';
    } else if (!read_how(word, i) && !one_of(word, "gpu sys cta nc cs cg ca lu cv wt wb uni sync red weak"))
      misread(p, "an unknown modifier");
  if (!bits)
    misread(p, "no type");
  i->bytes = (uint8_t)(bits / 8);
  return bits;
}

static void read_memory(struct parser *p, struct ptx_ins i, char *opcode, char **pieces, unsigned count) {
  i.op = opcode[0] == 'l' ? PTX_LOAD : opcode[0] == 's' ? PTX_STORE : PTX_ATOMIC;
  bool has_target = opcode[0] != 's' && opcode[0] != 'r';
  unsigned bits = read_modifiers(p, opcode, &i), at = has_target ? 1 : 0;
  if (count <= at)
    misread(p, "too few operands");
  p->any_width = i.op != PTX_ATOMIC;
  if (has_target && strcmp(pieces[0], "_") != 0)
    i.targets = (uint8_t)operands(p, pieces[0], bits, i.to);
  const struct symbol *parameter = address(p, pieces[at], &i);
  if (parameter && parameter->meaning == IS_REGISTER && i.op == PTX_LOAD) {
    p->any_width = false;
    emit_move(p, i, i.to[0], of_symbol(parameter, pieces[at]));
    return;
  }
  if (parameter && i.op == PTX_STORE) {
    p->any_width = false;
    emit_move(p, i, of_symbol(parameter, pieces[at]), operand(p, pieces[at + 1], bits));
    return;
  }
  if (i.space == PTX_PARAM && i.op == PTX_LOAD) {
    i.op = PTX_PARAMETER;
    i.offset += parameter ? parameter->at : 0;
  } else if (i.space == PTX_PARAM)
    misread(p, "a parameter is written");
  for (unsigned k = at + 1; k < count; k++)
    i.sources += operands(p, pieces[k], bits, i.from + i.sources);
  p->any_width = false;
  unsigned data = i.op == PTX_LOAD || i.op == PTX_PARAMETER ? i.targets : i.op == PTX_STORE ? i.sources - 1u : 1;
  if (data != i.vector)
    misread(p, "a vector of another length");
  emit(p, &i);
}

static void read_arithmetic(struct parser *p, struct ptx_ins i, const char *opcode, char **pieces, unsigned count) {
  const struct ptx_arithmetic *a = ptx_arithmetic(opcode, strlen(opcode));
  bool braces = strncmp(opcode, "mov.b", 5) == 0 && count == 2 && (pieces[0][0] == '{' || pieces[1][0] == '{');
  if (!a)
    misread(p, "an unknown instruction");
  if (count != a->sources + 1u)
    misread(p, "another number of operands");
  i.op = PTX_ARITHMETIC;
  i.run = a->run;
  i.picks = strncmp(opcode, "selp", 4) == 0;
  i.is_float = strstr(opcode, ".f") != NULL;
  if (braces) {
    unsigned part = pieces[0][0] == '{' ? 0 : 1, bits = a->to == 64 ? 32 : 16;
    i.op = part ? PTX_PACK : PTX_UNPACK;
    i.bytes = (uint8_t)(bits / 8);
    i.targets = (uint8_t)operands(p, pieces[0], part ? a->to : bits, i.to);
    i.sources = (uint8_t)operands(p, pieces[1], part ? bits : a->to, i.from);
    if (i.targets + i.sources != 3)
      misread(p, "a vector of another length");
  } else {
    const char *type = strrchr(opcode, '.') + 1;
    unsigned narrow = bits_of_type(type) < 32 ? bits_of_type(type) : 0;
    i.targets = 1;
    i.sources = a->sources;
    i.to[0] = operand(p, pieces[0], a->to);
    for (unsigned k = 0; k < a->sources; k++)
      i.from[k] = operand(p, pieces[k + 1], narrow && a->from[k] == 32 ? narrow : a->from[k]);
  }
  emit(p, &i);
}

/* Shuffles, votes, matches, reductions: the target, perhaps with a predicate, and then the sources. */
static void read_together(struct parser *p, struct ptx_ins i, enum ptx_op op, char *opcode, char **pieces,
                          unsigned count) {
  unsigned bits = read_modifiers(p, opcode, &i);
  char *bar = count ? strchr(pieces[0], '|') : NULL;
  i.op = (uint8_t)op;
  if (bar)
    *bar = '\0';
  i.to[i.targets++] = operand(p, pieces[0], op == PTX_MATCH ? 32 : bits);
  if (bar)
    i.to[i.targets++] = operand(p, bar + 1, 1);
  for (unsigned k = 1; k < count; k++)
    i.from[i.sources++] = operand(p, pieces[k], k == 1 && op == PTX_MATCH ? bits : 32);
  if (i.sources != (op == PTX_SHUFFLE ? 4 : 2))
    misread(p, "another number of operands");
  emit(p, &i);
}

static void read_instruction(struct parser *p, char *text) {
  struct ptx_ins i = {.line = p->line, .text = p->text};
  char *pieces[MOST_PIECES];
  if (text[0] == '@') {
    i.guard_inverted = text[1] == '!';
    char *end = text + strcspn(text, " \t\n");
    *end = '\0';
    i.guard = operand(p, text + 1 + i.guard_inverted, 1);
    text = end + 1 + strspn(end + 1, " \t\n");
  }
  char *opcode = text, *rest = text + strcspn(text, " \t\n");
  if (*rest)
    *rest++ = '\0';
  unsigned count = cut(p, rest, pieces);
  size_t head = strcspn(opcode, ".");
  char base[16] = "";
  snprintf(base, sizeof base, "%.*s", (int)head, opcode);
  if (one_of(base, "ld st atom red"))
    read_memory(p, i, opcode, pieces, count);
  else if (one_of(base, "shfl vote match redux")) {
    static const enum ptx_op ops[] = {['s'] = PTX_SHUFFLE, ['v'] = PTX_VOTE, ['m'] = PTX_MATCH, ['r'] = PTX_REDUCE};
    read_together(p, i, ops[(unsigned char)base[0]], opcode, pieces, count);
  } else if (strcmp(opcode, "bra") == 0 || strcmp(opcode, "bra.uni") == 0) {
    i.op = PTX_BRANCH;
    use_label(p, pieces[0]);
    emit(p, &i);
  } else if (strcmp(base, "call") == 0)
    read_call(p, i, pieces, count);
  else if (strcmp(opcode, "ret") == 0 || strcmp(opcode, "exit") == 0 || strcmp(opcode, "ret.uni") == 0) {
    i.op = PTX_RETURN;
    emit(p, &i);
  } else if (strcmp(opcode, "bar.sync") == 0 || strcmp(opcode, "barrier.sync") == 0) {
    if (count != 1 || strcmp(pieces[0], "0") != 0)
      misread(p, "a barrier of a part of the block");
    i.op = PTX_BARRIER;
    i.how = PTX_SYNC;
    emit(p, &i);
  } else if (strncmp(opcode, "bar.red.", 8) == 0) {
    i.op = PTX_BARRIER;
    read_modifiers(p, opcode, &i);
    i.targets = i.sources = 1;
    i.to[0] = operand(p, pieces[0], i.how == PTX_COUNT ? 32 : 1);
    i.from[0] = operand(p, pieces[2], 1);
    emit(p, &i);
  } else if (strcmp(opcode, "bar.warp.sync") == 0) {
    i.op = PTX_WARP_BARRIER;
    i.sources = 1;
    i.from[0] = operand(p, pieces[0], 32);
    emit(p, &i);
  } else if (one_of(base, "membar fence")) {
    i.op = PTX_FENCE;
    i.strong = !strstr(opcode, ".cta");
    emit(p, &i);
  } else if (strcmp(base, "nanosleep") == 0) {
    i.op = PTX_SLEEP;
    emit(p, &i);
  } else
    read_arithmetic(p, i, opcode, pieces, count);
}

/* -- declarations -------------------------------------------------------------------------------------------------- */
/* The last word of a declaration, without its "[n]" or "<n>"; the number in it. */
static char *declared_name(char *text, uint32_t *count) {
  char *end = text + strlen(text);
  while (end > text && isspace(end[-1]))
    *--end = '\0';
  char *name = end;
  while (name > text && !isspace(name[-1]))
    name--;
  char *bracket = name + strcspn(name, "[<");
  *count = *bracket ? (uint32_t)strtoul(bracket + 1, NULL, 10) : 0;
  *bracket = '\0';
  return name;
}

static unsigned word_after(const char *text, const char *word) {
  const char *at = strstr(text, word);
  return at ? (unsigned)strtoul(at + strlen(word), NULL, 10) : 0;
}

/* The type of a declaration: the last word that is one. */
static unsigned declared_bits(struct parser *p, const char *text) {
  char word[16];
  unsigned bits = 0;
  for (const char *at = strchr(text, '.'); at; at = strchr(at + 1, '.')) {
    snprintf(word, sizeof word, "%.*s", (int)strcspn(at + 1, " \t\n"), at + 1);
    bits = bits_of_type(word) ? bits_of_type(word) : bits;
  }
  if (!bits)
    misread(p, "no type");
  return bits;
}

static uint32_t aligned_to(uint32_t at, uint32_t alignment) { return (at + alignment - 1) / alignment * alignment; }

static void declare_shared(struct parser *p, char *text) {
  unsigned bits = declared_bits(p, text), alignment = word_after(text, ".align ");
  uint32_t count;
  if (strstr(text, "[]"))
    misread(p, "dynamic shared memory");
  const char *name = declared_name(text, &count);
  p->shared = aligned_to(p->shared, alignment ? alignment : bits / 8);
  declare(p, name, IS_SHARED, 32, p->shared, 0);
  p->shared += (count ? count : 1) * bits / 8;
}

static void read_declaration(struct parser *p, char *text) {
  uint32_t count;
  if (strncmp(text, ".reg", 4) == 0) {
    unsigned bits = declared_bits(p, text);
    bool range = strchr(text, '<') != NULL;
    char *pieces[MOST_PIECES];
    if (strchr(text, ',')) {
      unsigned names = cut(p, text, pieces);
      for (unsigned i = 0; i < names; i++)
        declare(p, declared_name(pieces[i], &count), IS_REGISTER, bits, take_rows(p, bits, 1), 0);
      return;
    }
    const char *name = declared_name(text, &count);
    declare(p, name, range ? IS_RANGE : IS_REGISTER, bits, take_rows(p, bits, range ? count : 1), count);
  } else if (strncmp(text, ".param", 6) == 0) {
    unsigned bits = declared_bits(p, text);
    const char *name = declared_name(text, &count);
    if (count)
      misread(p, "an argument that is no number");
    declare(p, name, IS_REGISTER, bits, take_rows(p, bits, 1), 0);
  } else if (strncmp(text, ".shared", 7) == 0)
    declare_shared(p, text);
  else if (strncmp(text, ".pragma", 7) != 0)
    misread(p, "an unknown declaration");
}

static void read_statement(struct parser *p, const char *begin, const char *end) {
  char text[MOST_STATEMENT];
  if ((size_t)(end - begin) >= sizeof text)
    misread(p, "a long statement");
  memcpy(text, begin, (size_t)(end - begin));
  text[end - begin] = '\0';
  if (text[0] == '.')
    read_declaration(p, text);
  else if (text[0])
    read_instruction(p, text);
}

/* -- functions ----------------------------------------------------------------------------------------------------- */
static void open_scope(struct parser *p) {
  if (p->depth == MOST_SCOPES)
    misread(p, "too many scopes");
  p->scopes[p->depth++] = p->symbols_count;
}

static void close_scope(struct parser *p) {
  unsigned from = p->scopes[--p->depth];
  for (unsigned i = from; p->depth && i < p->symbols_count; i++) {
    const struct symbol *s = &p->symbols[i];
    bool wide = s->bits == 64;
    if (s->meaning == IS_REGISTER && p->free_rows[wide].count < MOST_FREE)
      p->free_rows[wide].at[p->free_rows[wide].count++] = s->at;
  }
  forget_symbols(p, from);
}

static const char *skip_blanks(struct parser *p, const char *at) {
  for (; isspace(*at); at++)
    p->line += *at == '\n';
  return at;
}

/* From behind the opening brace to behind the closing one. */
static const char *read_body(struct parser *p, const char *at) {
  p->labels_count = p->uses_count = 0;
  unsigned depth = p->depth;
  open_scope(p);
  for (;;) {
    at = skip_blanks(p, at);
    p->text = at;
    if (*at == '{') {
      open_scope(p);
      at++;
      continue;
    }
    if (*at == '}') {
      close_scope(p);
      at++;
      if (p->depth == depth)
        break;
      continue;
    }
    const char *end = at + strcspn(at, ";:\n");
    if (*end == ':') {
      p->labels = more_room(p->labels, p->labels_count, &p->labels_room, sizeof *p->labels);
      p->labels[p->labels_count++] = (struct label){at, (size_t)(end - at), p->module->instructions};
      at = end + 1;
      continue;
    }
    end = at + strcspn(at, ";");
    if (!*end)
      misread(p, "no end");
    read_statement(p, at, end);
    for (; at < end; at++)
      p->line += *at == '\n';
    at++;
  }
  struct ptx_ins last = {.op = PTX_RETURN, .line = p->line, .text = "}"};
  emit(p, &last);
  for (unsigned i = 0; i < p->uses_count; i++) {
    const struct label *use = &p->uses[i];
    unsigned k = 0;
    while (k < p->labels_count &&
           (p->labels[k].length != use->length || memcmp(p->labels[k].name, use->name, use->length) != 0))
      k++;
    if (k == p->labels_count)
      ptx_refuse("PTX: no label %s", use->name);
    p->module->code[use->at].target = p->labels[k].at;
    free((char *)use->name);
  }
  return at;
}

/* The parameters between two parentheses: of an entry with offsets, of a function with rows. */
static void read_parameters(struct parser *p, struct ptx_function *f, char *text) {
  char *pieces[MOST_PIECES];
  unsigned count = cut(p, text, pieces);
  f->parameters = calloc(count + 1, sizeof *f->parameters);
  if (!f->parameters)
    ptx_refuse("no memory for PTX");
  for (unsigned i = 0; i < count; i++) {
    unsigned bits = declared_bits(p, pieces[i]), alignment = word_after(pieces[i], ".align ");
    uint32_t length;
    const char *name = declared_name(pieces[i], &length);
    struct ptx_parameter *q = &f->parameters[f->count++];
    q->name = strdup(name);
    q->size = (length ? length : 1) * bits / 8;
    q->at = aligned_to(f->parameter_bytes, alignment ? alignment : bits / 8);
    f->parameter_bytes = q->at + q->size;
    if (!f->is_entry)
      q->row = (struct ptx_operand){take_rows(p, bits, 1), PTX_REGISTER, (uint8_t)bits};
  }
}

static struct ptx_function *new_function(struct parser *p, const char *name, bool is_entry) {
  struct ptx_module *m = p->module;
  m->functions = more_room(m->functions, m->count, &p->functions_room, sizeof *m->functions);
  m->functions[m->count] = (struct ptx_function){.name = strdup(name), .is_entry = is_entry};
  return &m->functions[m->count++];
}

/* A function from its ".func" or ".entry" on, if it is of the wanted kind. */
static const char *read_function(struct parser *p, const char *at, bool is_entry, bool wanted) {
  char *text = strndup(at, strcspn(at, "{;")), *rest = text + 1 + strcspn(text + 1, " \t\n");
  char *result = NULL, *name;
  const char *brace = at + strlen(text);
  rest += strspn(rest, " \t\n");
  if (*rest == '(') {
    result = rest + 1;
    rest = strchr(rest, ')');
    *rest++ = '\0';
    rest += strspn(rest, " \t\n");
  }
  name = rest;
  rest += strcspn(rest, " \t\n(");
  char *list = strchr(rest, '('), *close = list ? strchr(list, ')') : NULL;
  *rest = '\0';
  for (; at < brace; at++)
    p->line += *at == '\n';
  struct ptx_function *f = wanted ? find_function(p->module, name) : NULL;
  if (wanted && !f) {
    f = new_function(p, name, is_entry);
    if (list && close) {
      *close = '\0';
      read_parameters(p, f, list + 1);
    }
    if (result) {
      unsigned bits = declared_bits(p, result);
      uint32_t none;
      f->result = (struct ptx_operand){take_rows(p, bits, 1), PTX_REGISTER, (uint8_t)bits};
      declare(p, declared_name(result, &none), IS_REGISTER, bits, f->result.at, 0); /* its name is the function's */
    }
  }
  free(text);
  if (*brace == ';')
    return brace + 1;
  if (!wanted) {
    int depth = 0;
    for (;; at++) {
      p->line += *at == '\n';
      depth += *at == '{' ? 1 : *at == '}' ? -1 : 0;
      if (!*at || depth == 0)
        return *at ? at + 1 : at;
    }
  }
  uint32_t index = (uint32_t)(f - p->module->functions);
  unsigned symbols = p->symbols_count;
  uint32_t shared = p->shared;
  p->function = f;
  if (is_entry)
    p->words = p->callee_words;
  for (uint32_t i = 0; i < f->count; i++)
    declare(p, f->parameters[i].name, is_entry ? IS_PARAMETER : IS_REGISTER, f->parameters[i].row.bits,
            is_entry ? f->parameters[i].at : f->parameters[i].row.at, 0);
  uint32_t begin = p->module->instructions;
  const char *end = read_body(p, brace + 1);
  f = &p->module->functions[index];
  f->begin = begin;
  f->shared = p->shared;
  f->words = p->words;
  forget_symbols(p, symbols);
  p->free_rows[0].count = p->free_rows[1].count = 0;
  if (is_entry)
    p->shared = shared;
  return end;
}

/* One pass over the module: functions and variables, or entries. */
static void read_module(struct parser *p, const char *at, bool entries) {
  p->line = 1;
  for (at = skip_blanks(p, at); *at; at = skip_blanks(p, at)) {
    static const char *const linkages[] = {".visible", ".weak", ".extern"};
    p->text = at;
    for (unsigned i = 0; i < 3; i++)
      if (strncmp(at, linkages[i], strlen(linkages[i])) == 0)
        at = skip_blanks(p, at + strlen(linkages[i]));
    if (strncmp(at, ".func", 5) == 0 || strncmp(at, ".entry", 6) == 0)
      at = read_function(p, at, at[1] == 'e', entries == (at[1] == 'e'));
    else if (strncmp(at, ".shared", 7) == 0) {
      const char *end = at + strcspn(at, ";");
      if (!entries)
        read_statement(p, at, end);
      at = *end ? end + 1 : end;
    } else if (strncmp(at, ".version", 8) == 0 || strncmp(at, ".target", 7) == 0 ||
               strncmp(at, ".address_size", 13) == 0)
      at += strcspn(at, "\n");
    else
      misread(p, "an unknown part");
  }
}

/* A copy whose comments are blanks. */
static char *without_comments(const char *text) {
  char *copy = strdup(text);
  for (char *at = copy; copy && (at = strstr(at, "//"));)
    for (; *at && *at != '\n'; at++)
      *at = ' ';
  return copy;
}

struct ptx_module *ptx_parse(const char *text) {
  struct parser p = {.module = calloc(1, sizeof *p.module), .words = PTX_SPECIALS * LANES};
  struct ptx_module *m = p.module;
  if (!m || !(m->text = without_comments(text)))
    ptx_refuse("no memory for PTX");
  read_module(&p, m->text, false);
  p.callee_words = p.words;
  read_module(&p, m->text, true);
  for (uint32_t i = 0; i < m->instructions; i++)
    if (m->code[i].op == PTX_CALL)
      m->code[i].target = m->functions[m->code[i].target].begin;
  for (uint32_t i = 0; i < p.constants / LANES; i++)
    m->all_defined[i] = UINT32_MAX;
  forget_symbols(&p, 0);
  free(p.symbols);
  free(p.labels);
  free(p.uses);
  return m;
}

static char *read_text(const char *path) {
  FILE *file = fopen(path, "re");
  char *text = NULL;
  size_t size = 0;
  if (!file || getdelim(&text, &size, '\0', file) < 0)
    ptx_refuse("cannot read PTX from %s", path);
  fclose(file);
  return text;
}

const struct ptx_module *ptx_load(const char *text, const char *path) {
  static struct known {
    const char *text;
    struct ptx_module *module;
    struct known *next;
  } * all;
  char *own = text ? strdup(text) : read_text(path);
  for (const struct known *k = all; k && own; k = k->next)
    if (strcmp(k->text, own) == 0) {
      free(own);
      return k->module;
    }
  struct known *new = malloc(sizeof *new);
  if (!own || !new)
    ptx_refuse("no memory for PTX");
  *new = (struct known){own, ptx_parse(own), all};
  all = new;
  return new->module;
}

const struct ptx_function *ptx_find(const struct ptx_module *module, const char *name) {
  for (uint32_t i = 0; i < module->count; i++)
    if (module->functions[i].is_entry && strcmp(module->functions[i].name, name) == 0)
      return &module->functions[i];
  return NULL;
}
