/* SPDX-License-Identifier: BSD-3-Clause
 * The report for programs: one JSON document. Names do not change meaning between versions; new ones may come.
 */
#include "interpose/doctor.h"
#include "layermap/drawing.h"

/* Where the next value goes: `first` says that no comma is due. */
struct json {
  FILE *out;
  bool first;
};

/* The comma and the name of what comes; no name inside an array. */
static void begin(struct json *j, const char *name)
{
  fputs(j->first ? "" : ",", j->out);
  j->first = false;
  if (name) {
    tagc_put_json(j->out, name);
    putc(':', j->out);
  }
}

static void open_as(struct json *j, const char *name, char bracket)
{
  begin(j, name);
  putc(bracket, j->out);
  j->first = true;
}

static void close_as(struct json *j, char bracket)
{
  putc(bracket, j->out);
  j->first = false;
}

static void text(struct json *j, const char *name, const char *value)
{
  begin(j, name);
  tagc_put_json(j->out, value);
}

/* null where there is nothing to say. */
static void text_or_null(struct json *j, const char *name, const char *value)
{
  if (value && *value) {
    text(j, name, value);
    return;
  }
  begin(j, name);
  fputs("null", j->out);
}

static void number(struct json *j, const char *name, long value)
{
  begin(j, name);
  fprintf(j->out, "%ld", value);
}

static void truth(struct json *j, const char *name, bool value)
{
  begin(j, name);
  fputs(value ? "true" : "false", j->out);
}

static void functions(struct json *j, const char *name, uint64_t set)
{
  open_as(j, name, '[');
  for (int i = 0; i < TAGC_FUNCTION_COUNT; i++)
    if (set & TAGC_FUNCTION_BIT(i))
      text(j, NULL, tagc_function_names[i]);
  close_as(j, ']');
}

static void put_target(struct json *j, const struct tagc_findings *f)
{
  static const char *const kinds[] = {"program", "library", "process", "python"};
  char words[48];
  open_as(j, "target", '{');
  text(j, "kind", kinds[f->kind]);
  text(j, "given", f->given);
  text_or_null(j, "path", f->path);
  text_or_null(j, "script", f->script);
  if (f->kind == TAGC_KIND_PROCESS)
    number(j, "pid", f->pid);
  if (f->walk.count) {
    const struct tagc_image *image = &f->walk.objects[0].image;
    text(j, "machine", tagc_machine_words(image, words));
    text_or_null(j, "interpreter", image->interpreter);
    truth(j, "static", tagc_image_is_static(image));
    text_or_null(j, "secure", f->secure_why);
  }
  close_as(j, '}');
  if (f->kind != TAGC_KIND_PYTHON)
    return;
  open_as(j, "python", '{');
  text_or_null(j, "executable", f->python.executable);
  text_or_null(j, "version", f->python.version);
  text_or_null(j, "torch", f->python.torch);
  text_or_null(j, "torch_version", f->python.torch_version);
  text_or_null(j, "nccl", f->python.nccl);
  close_as(j, '}');
}

static void put_object(struct json *j, const struct tagc_object *o)
{
  static const char *const roles[] = {"none", "calls", "dlsym", "contains-open", "contains", "nccl", "tagc"};
  open_as(j, NULL, '{');
  text(j, "path", o->path);
  text(j, "found", o->how);
  text(j, "role", roles[o->role]);
  text_or_null(j, "soname", o->image.soname);
  truth(j, "deleted", o->deleted);
  text_or_null(j, "problem", o->image.why);
  if (o->role == TAGC_ROLE_CALLS)
    functions(j, "imports", o->image.imported);
  if (o->role == TAGC_ROLE_CONTAINS || o->role == TAGC_ROLE_OPEN || o->role == TAGC_ROLE_NCCL) {
    text_or_null(j, "nccl_version", tagc_object_version(o));
    truth(j, "supported", tagc_version_supported(tagc_object_version(o)));
  }
  close_as(j, '}');
}

static void put_objects(struct json *j, const struct tagc_findings *f)
{
  open_as(j, "objects", '[');
  for (size_t i = 0; i < f->walk.count; i++)
    put_object(j, &f->walk.objects[i]);
  close_as(j, ']');
  open_as(j, "missing", '[');
  for (size_t i = 0; i < f->walk.missing_count; i++) {
    open_as(j, NULL, '{');
    text(j, "name", f->walk.missing[i].name);
    text(j, "needed_by", f->walk.objects[f->walk.missing[i].parent].path);
    close_as(j, '}');
  }
  close_as(j, ']');
  truth(j, "complete", !f->walk.cut);
  if (f->run_version)
    number(j, "ncclGetVersion", f->run_version);
}

static void put_preload(struct json *j, const struct tagc_findings *f)
{
  open_as(j, "library", '{');
  text_or_null(j, "path", f->library.path);
  text_or_null(j, "source", f->library.source);
  text_or_null(j, "problem", f->library.problem);
  truth(j, "preloaded", f->library.preloaded);
  if (f->kind == TAGC_KIND_PROCESS)
    truth(j, "mapped", f->process.mapped);
  close_as(j, '}');
  open_as(j, "preload", '[');
  for (size_t i = 0; i < f->preload_count; i++) {
    open_as(j, NULL, '{');
    text(j, "path", f->preload[i].path);
    text(j, "source", f->preload[i].source);
    text_or_null(j, "problem", f->preload[i].problem);
    close_as(j, '}');
  }
  close_as(j, ']');
}

static void put_variables(struct json *j, const char *name, const struct tagc_variable *rows, size_t count)
{
  open_as(j, name, '[');
  for (size_t i = 0; i < count; i++) {
    open_as(j, NULL, '{');
    text(j, "name", rows[i].name);
    text(j, "value", rows[i].value);
    text(j, "source", rows[i].source);
    text_or_null(j, "problem", rows[i].problem);
    close_as(j, '}');
  }
  close_as(j, ']');
}

static void put_machine(struct json *j, const struct tagc_findings *f)
{
  open_as(j, "gpu", '{');
  text_or_null(j, "driver", f->driver);
  number(j, "devices", f->gpus);
  text_or_null(j, "libcuda", f->libcuda);
  close_as(j, '}');
  open_as(j, "network", '{');
  text_or_null(j, "rule", f->interface_rule);
  open_as(j, "interfaces", '[');
  for (size_t i = 0; i < f->interface_count; i++) {
    const struct tagc_interface *n = &f->interfaces[i];
    open_as(j, NULL, '{');
    text(j, "name", n->name);
    truth(j, "chosen", n->chosen);
    text(j, "state", n->state);
    number(j, "mtu", n->mtu);
    number(j, "speed_mbit", n->speed);
    text(j, "addresses", n->addresses);
    close_as(j, '}');
  }
  close_as(j, ']');
  close_as(j, '}');
}

void tagc_report_json(const struct tagc_findings *f, FILE *out)
{
  static const char *const verdicts[] = {"works", "fails", "unknown"};
  struct json j = {out, true};
  open_as(&j, NULL, '{');
  text(&j, "tagc_doctor", PACKAGE_VERSION);
  put_target(&j, f);
  put_objects(&j, f);
  put_preload(&j, f);
  put_variables(&j, "options", f->tagc, f->tagc_count);
  put_variables(&j, "nccl_variables", f->nccl, f->nccl_count);
  put_machine(&j, f);
  open_as(&j, "notes", '[');
  for (size_t i = 0; i < f->note_count; i++)
    text(&j, NULL, f->notes[i]);
  close_as(&j, ']');
  text(&j, "verdict", verdicts[f->verdict]);
  number(&j, "status", (long)f->verdict);
  text(&j, "words", f->words);
  close_as(&j, '}');
  putc('\n', out);
}
