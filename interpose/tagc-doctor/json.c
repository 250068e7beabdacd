/* SPDX-License-Identifier: BSD-3-Clause
 * The report for programs: one JSON document. Names keep their meaning in later versions; new ones may be added.
 */
#include "env/program/json.h"
#include "interpose/tagc-doctor/doctor.h"

static void functions(struct tagc_json *j, const char *name, uint64_t set) {
  tagc_json_open(j, name, '[');
  for (int i = 0; i < TAGC_FUNCTION_COUNT; i++)
    if (set & TAGC_FUNCTION_BIT(i))
      tagc_json_text(j, NULL, tagc_function_names[i]);
  tagc_json_close(j, ']');
}

static void put_target(struct tagc_json *j, const struct tagc_findings *f) {
  static const char *const kinds[] = {"program", "library", "process", "python"};
  char words[48];
  tagc_json_open(j, "target", '{');
  tagc_json_text(j, "kind", kinds[f->kind]);
  tagc_json_text(j, "given", f->given);
  tagc_json_text_or_null(j, "path", f->path);
  tagc_json_text_or_null(j, "script", f->script);
  if (f->kind == TAGC_KIND_PROCESS)
    tagc_json_number(j, "pid", f->pid);
  if (f->walk.count) {
    const struct tagc_image *image = &f->walk.objects[0].image;
    tagc_json_text(j, "machine", tagc_machine_words(image, words));
    tagc_json_text_or_null(j, "interpreter", image->interpreter);
    tagc_json_truth(j, "static", tagc_image_is_static(image));
    tagc_json_text_or_null(j, "secure", f->secure_why);
  }
  tagc_json_close(j, '}');
  if (f->kind != TAGC_KIND_PYTHON)
    return;
  tagc_json_open(j, "python", '{');
  tagc_json_text_or_null(j, "executable", f->python.executable);
  tagc_json_text_or_null(j, "version", f->python.version);
  tagc_json_text_or_null(j, "torch", f->python.torch);
  tagc_json_text_or_null(j, "torch_version", f->python.torch_version);
  tagc_json_text_or_null(j, "nccl", f->python.nccl);
  tagc_json_text_or_null(j, "jaxlib", f->python.jaxlib);
  tagc_json_text_or_null(j, "jaxlib_version", f->python.jaxlib_version);
  tagc_json_text_or_null(j, "jax_plugin", f->python.jax_plugin);
  tagc_json_close(j, '}');
}

static void put_object(struct tagc_json *j, const struct tagc_object *o) {
  static const char *const roles[] = {"none", "calls", "dlsym", "contains-open", "contains", "nccl", "tagc", "rccl"};
  tagc_json_text(j, "path", o->path);
  tagc_json_text(j, "found", o->how);
  tagc_json_text(j, "role", roles[o->role]);
  tagc_json_text_or_null(j, "soname", o->image.soname);
  tagc_json_truth(j, "deleted", o->deleted);
  tagc_json_text_or_null(j, "problem", o->image.why);
  if (o->role == TAGC_ROLE_CALLS)
    functions(j, "imports", o->image.imported);
  if (o->role == TAGC_ROLE_CONTAINS || o->role == TAGC_ROLE_OPEN || o->role == TAGC_ROLE_NCCL) {
    tagc_json_text_or_null(j, "nccl_version", tagc_object_version(o));
    tagc_json_truth(j, "supported", tagc_version_supported(tagc_object_version(o)));
  }
}

static void put_objects(struct tagc_json *j, const struct tagc_findings *f) {
  for (size_t i = tagc_json_list(j, "objects"); tagc_json_item(j, i, f->walk.count); i++)
    put_object(j, &f->walk.objects[i]);
  for (size_t i = tagc_json_list(j, "missing"); tagc_json_item(j, i, f->walk.missing_count); i++) {
    tagc_json_text(j, "name", f->walk.missing[i].name);
    tagc_json_text(j, "needed_by", f->walk.objects[f->walk.missing[i].parent].path);
  }
  tagc_json_truth(j, "complete", !f->walk.cut);
  if (f->run_version)
    tagc_json_number(j, "ncclGetVersion", f->run_version);
}

static void put_preload(struct tagc_json *j, const struct tagc_findings *f) {
  tagc_json_open(j, "library", '{');
  tagc_json_text_or_null(j, "path", f->library.path);
  tagc_json_text_or_null(j, "source", f->library.source);
  tagc_json_text_or_null(j, "problem", f->library.problem);
  tagc_json_truth(j, "preloaded", f->library.preloaded);
  if (f->kind == TAGC_KIND_PROCESS)
    tagc_json_truth(j, "mapped", f->process.mapped);
  tagc_json_close(j, '}');
  for (size_t i = tagc_json_list(j, "preload"); tagc_json_item(j, i, f->preload_count); i++) {
    tagc_json_text(j, "path", f->preload[i].path);
    tagc_json_text(j, "source", f->preload[i].source);
    tagc_json_text_or_null(j, "problem", f->preload[i].problem);
  }
}

static void put_variables(struct tagc_json *j, const char *name, const struct tagc_variable *rows, size_t count) {
  for (size_t i = tagc_json_list(j, name); tagc_json_item(j, i, count); i++) {
    tagc_json_text(j, "name", rows[i].name);
    tagc_json_text(j, "value", rows[i].value);
    tagc_json_text(j, "source", rows[i].source);
    tagc_json_text_or_null(j, "problem", rows[i].problem);
  }
}

static void put_machine(struct tagc_json *j, const struct tagc_findings *f) {
  tagc_json_open(j, "gpu", '{');
  tagc_json_text_or_null(j, "driver", f->driver);
  tagc_json_number(j, "devices", f->gpus);
  tagc_json_text_or_null(j, "libcuda", f->libcuda);
  tagc_json_close(j, '}');
  tagc_json_open(j, "network", '{');
  tagc_json_text_or_null(j, "rule", f->interface_rule);
  for (size_t i = tagc_json_list(j, "interfaces"); tagc_json_item(j, i, f->interface_count); i++) {
    const struct tagc_interface *n = &f->interfaces[i];
    tagc_json_text(j, "name", n->name);
    tagc_json_truth(j, "chosen", n->chosen);
    tagc_json_text(j, "state", n->state);
    tagc_json_number(j, "mtu", n->mtu);
    tagc_json_number(j, "speed_mbit", n->speed);
    tagc_json_text(j, "addresses", n->addresses);
  }
  tagc_json_close(j, '}');
}

void tagc_report_json(const struct tagc_findings *f, FILE *out) {
  static const char *const names[] = {"works", "fails", "unknown"};
  struct tagc_json j = {.out = out};
  tagc_json_open(&j, NULL, '{');
  tagc_json_text(&j, "tagc_doctor", PACKAGE_VERSION);
  put_target(&j, f);
  put_objects(&j, f);
  put_preload(&j, f);
  put_variables(&j, "options", f->tagc, f->tagc_count);
  put_variables(&j, "nccl_variables", f->nccl, f->nccl_count);
  put_machine(&j, f);
  tagc_json_open(&j, "notes", '[');
  for (size_t i = 0; i < f->note_count; i++)
    tagc_json_text(&j, NULL, f->notes[i]);
  tagc_json_close(&j, ']');
  tagc_json_text(&j, "verdict", names[f->diagnosis]);
  tagc_json_number(&j, "status", (int64_t)f->diagnosis);
  tagc_json_text(&j, "words", f->words);
  tagc_json_close(&j, '}');
  putc('\n', out);
}
