/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-map: makes map files, shows maps or recorded calls, and compares the two. See tagc-map(1).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "env/program/command_line.h"
#include "env/program/output.h"
#include "env/program/terminal.h"
#include "env/units.h"
#include "layermap/model/mapfile.h"
#include "layermap/model/text.h"
#include "layermap/tagc-map/config.h"
#include "layermap/tagc-map/forecast.h"
#include "layermap/tagc-map/map.h"
#include "layermap/tagc-map/safetensors.h"

enum { FITS, DIFFERS, TROUBLE };
enum { SEQUENCES = 16 };

struct request {
  const char *output, *svg, *layout_name;
  enum tagc_layout_kind layout; /* of layout_name; TAGC_LAYOUTS: not given, or those of a forecast */
  int nranks;                   /* 0: not given */
  char **files;
  int count;
  /* Of forecast; 0: not given. */
  const char *config;
  uint64_t sequences[SEQUENCES];
  int sequence_count, micro_batch, accumulate, local;
  int type, gradients; /* enum tagc_dtype; gradients < 0: not given */
  uint64_t bucket;
  double sparsity;
  bool json, fused_experts;
};

static const char *const type_names[] = {"fp32", "fp16", "bf16", NULL}; /* as enum tagc_dtype */

/* 2048,4096 */
static bool set_sequences(void *to, const char *list) {
  struct request *request = to;
  request->sequence_count = 0;
  for (const char *at = list;; at++) {
    uint64_t number;
    if (request->sequence_count == SEQUENCES || !tagc_units_read(at, false, &number, &at) || number < 1 ||
        number > 1073741824)
      return false;
    request->sequences[request->sequence_count++] = number;
    if (*at != ',')
      return !*at;
  }
}

#define TO(type, field) .kind = TAGC_ARGUMENT_##type, .offset = offsetof(struct request, field)
/* clang-format off */
static const struct tagc_argument rows[] = {
  {.name = "output", .value = "FILE", TO(FILE, output), .letter = 'o',
   .help = "write the map there, not to the standard output"},
  {.name = "ranks", .value = "N", TO(INT, nranks), .accepts = "1 to 1048576",
   .help = "show, for a map: so many ranks share the buffers, else one; forecast: ranks of the job"},
  {.name = "layout", .value = "LAYOUT", TO(TEXT, layout_name),
   .help = "layout for the map: fsdp1, fsdp1_aligned, fsdp2, zero3 or megatron; show, for a map: draw this layout; "
           "default: that of the map, else fsdp1; forecast: see below"},
  {.name = "svg", .value = "FILE", TO(FILE, svg), .help = "show: also draw the parameters in the buffers"},
  {.name = "fused-experts", TO(FLAG, fused_experts),
   .help = "from-config, forecast: a block has its experts in two parameters, as in transformers 5; else each apart"},
  {.help = "Options of forecast:"},
  {.name = "config", .value = "FILE", TO(FILE, config), .help = "the model: a Hugging Face configuration"},
  {.name = "sequence", .value = "N", .kind = TAGC_ARGUMENT_CALL, .set = set_sequences,
   .accepts = "1 to 1073741824; up to 16 of them with commas", .help = "tokens of a sequence"},
  {.name = "micro-batch", .value = "N", TO(INT, micro_batch), .accepts = "1 to 1048576", .preset = "1",
   .with = "config", .help = "sequences of a micro-batch, on each rank of data parallelism"},
  {.name = "accumulate", .value = "N", TO(INT, accumulate), .accepts = "1 to 1048576", .preset = "1",
   .with = "config", .help = "micro-batches of a step"},
  {.name = "dtype", .value = "TYPE", TO(CHOICE, type), .names = type_names, .preset = "bf16",
   .with = "config", .help = "type of parameters and activations"},
  {.name = "gradients", .value = "TYPE", TO(CHOICE, gradients), .names = type_names,
   .help = "type in which gradients are reduced; default: that of the parameters; fp32 for megatron and titan"},
  {.name = "bucket", .value = "N", TO(COUNT, bucket), .accepts = "1 to 1000000000000",
   .help = "size of a bucket: MiB for ddp, default 25; elements for zero1, zero2 and zero3, default 500000000"},
  {.name = "ranks-per-host", .value = "N", TO(INT, local), .accepts = "1 to 1048576",
   .help = "ranks of a host, neighbours in number; shows the bytes to other hosts"},
  {.name = "sparsity", .value = "F", TO(REAL, sparsity), .accepts = "0 to 0.999999", .preset = "0.8",
   .with = "config", .help = "the part of gradients that sparse and lhc leave for later steps"},
  {.name = "json", TO(FLAG, json), .help = "write JSON"},
};
/* clang-format on */
_Static_assert(TAGC_CALLS_RANKS == 1048576, "as the row of --ranks says");

static const struct tagc_command_line command_line = {
  .program = "tagc-map",
  .head =
    "usage: tagc-map from-config [-o FILE] [--layout LAYOUT] [--fused-experts] CONFIG.JSON\n"
    "       tagc-map from-safetensors [-o FILE] [--layout LAYOUT] FILE...\n"
    "       tagc-map show [--ranks N] [--layout LAYOUT] [--svg FILE] MAP | CALLS\n"
    "       tagc-map check MAP CALLS\n"
    "       tagc-map forecast --layout LIST --ranks N --sequence N [OPTION...] --config CONFIG.JSON [CONFIG.JSON...]\n"
    "Makes, shows and checks maps: they tell libtagc-preload which layers its calls carry.\n"
    "\n"
    "  from-config        writes the map of a Hugging Face configuration\n"
    "  from-safetensors   writes the map of a checkpoint, and reads only its headers\n"
    "  show               prints a map, or the model that recorded calls reveal (TAGC_CALLS)\n"
    "  check              compares a map with recorded calls\n"
    "  forecast           prints the calls of a training step that nobody has run yet\n"
    "A file of show, check and from-config may be -, the standard input.\n"
    "\n",
  .tail =
    "\nThe LIST of forecast begins with ddp, fsdp1, fsdp2, zero1, zero2, zero3 or megatron. Details follow, with "
    "commas:\n"
    "  tp=N, pp=N   tensor and pipeline parallelism (fsdp2, megatron); sp: sequence parallelism (megatron)\n"
    "  hsdp=N       N ranks share a copy of the model (fsdp1, fsdp2)\n"
    "  zero1        the distributed optimizer (megatron); overlap: gradients are reduced in buckets\n"
    "  every        gradients are reduced in every micro-batch, not in the last one (ddp, fsdp1, fsdp2)\n"
    "  kept         parameters stay after the forward pass (fsdp2)\n"
    "  embed        the embedding is a unit (fsdp1, fsdp2); titan: torchtitan's units (fsdp2)\n"
    "\nExit status: 0 all is well; 1 check: the map does not fit the calls, show: nothing was found in them; 2 a file\n"
    "cannot be read or written, or wrong usage.\n",
  .indent = 21,
  .rows = rows,
  .count = sizeof rows / sizeof *rows,
};

static int refuse_usage(const char *what) { return tagc_refuse(&command_line, "%s", what); }

#define FAIL(...) tagc_fail(command_line.program, TROUBLE, __VA_ARGS__)

/* Reports a file's error in the form of compilers. */
static int complain(const char *path, const struct tagc_complaint *complaint) {
  if (!complaint->line)
    return FAIL("%s: %s", path, complaint->text);
  return FAIL("%s:%u:%u: %s", path, complaint->line, complaint->column, complaint->text);
}

static int fail(const char *path, const char *why) { return FAIL("%s: %s", path, why); }
static int no_memory(void) { return FAIL("no memory"); }

/* -- output files -------------------------------------------------------------------------------------------------- */

static const char unwritable[] = "no map can describe this model: see tagc-map(5) for names and limits";

static int finish(struct tagc_output *file, int wrong) {
  const int error = tagc_output_close(file, !wrong);
  if (!wrong && !error)
    return FITS;
  return fail(file->path, wrong == EINVAL ? unwritable : strerror(wrong ? wrong : error));
}

static int write_map(const struct request *request, const struct tagc_model *model) {
  if (!request->output) {
    if (tagc_mapfile_write(stdout, model))
      return FITS;
    if (errno == EINVAL)
      return fail(request->files[0], unwritable);
    const int error = errno;
    clearerr(stdout); /* main() would say that again, without the reason */
    return fail("cannot write", strerror(error));
  }
  struct tagc_output file;
  if (!tagc_output_open(&file, request->output))
    return fail(request->output, strerror(errno));
  return finish(&file, tagc_mapfile_write(file.to, model) ? 0 : errno ? errno : EIO);
}

/* -- commands ------------------------------------------------------------------------------------------------------ */

static int make(const struct request *request, struct tagc_model *model, const struct tagc_complaint *complaint) {
  if (!model && request->count == 1)
    return complain(request->files[0], complaint);
  if (!model) /* the complaint names the file */
    return FAIL("%s (line %u, column %u)", complaint->text, complaint->line, complaint->column);
  model->layout = request->layout;
  int status = write_map(request, model);
  tagc_model_free(model);
  return status;
}

static int from_config(const struct request *request) {
  struct tagc_complaint complaint = {0};
  if (request->count != 1)
    return refuse_usage("from-config takes one file");
  return make(request, tagc_map_from_config(request->files[0], request->fused_experts, stderr, &complaint), &complaint);
}

/* Says what in a map is a guess. */
static void note_guesses(const struct tagc_model *model) {
  size_t guessed = 0;
  for (size_t i = 0; model && i < model->place_count; i++)
    guessed += model->units[model->places[i].unit].is_guessed;
  if (guessed)
    fprintf(stderr,
            "tagc-map: the names do not tell in which order parameters are registered: %zu of %zu units and blocks are "
            "marked as guessed, and nothing inside them is selected; from-config may know it\n",
            guessed, model->place_count);
}

static int from_safetensors(const struct request *request) {
  struct tagc_complaint complaint = {0};
  if (request->count < 1)
    return refuse_usage("from-safetensors takes the files of a checkpoint");
  struct tagc_model *model = tagc_map_from_safetensors(request->files, request->count, &complaint);
  note_guesses(model);
  return make(request, model, &complaint);
}

static int show_tables(const struct request *request, struct tagc_map_table *tables, size_t count) {
  struct tagc_output picture;
  if (request->svg && !tagc_output_open(&picture, request->svg))
    return fail(request->svg, strerror(errno));
  for (size_t i = 0; i < count; i++) {
    if (i)
      putchar('\n');
    tagc_map_print(&tables[i], stdout);
  }
  if (!request->svg)
    return FITS;
  tagc_map_draw(tables, count, picture.to);
  return finish(&picture, 0);
}

static int show_model(const struct request *request, const struct tagc_model *model) {
  struct tagc_map_table table;
  enum tagc_layout_kind layout = request->layout != TAGC_LAYOUTS ? request->layout
                                 : model->layout != TAGC_LAYOUTS ? model->layout
                                                                 : TAGC_LAYOUT_FSDP1;
  if (!tagc_map_tabulate_model(&table, request->files[0], model, layout, request->nranks ? request->nranks : 1))
    return no_memory();
  int status = show_tables(request, &table, 1);
  tagc_map_table_free(&table);
  return status;
}

static int show_calls(const struct request *request, const struct tagc_call_file *calls) {
  size_t count = 0;
  int status = FITS;
  struct tagc_map_table *tables = calloc(calls->count ? calls->count : 1, sizeof *tables);
  if (!tables)
    return no_memory();
  for (size_t i = 0; i < calls->count && status == FITS; i++) {
    struct tagc_cycle *cycle = tagc_map_find_cycle(&calls->lists[i]);
    if (!cycle)
      status = no_memory();
    else if (!tagc_cycle_length(cycle))
      printf("%s: communicator %llu: no cycle in its %zu calls\n", request->files[0],
             (unsigned long long)calls->lists[i].communicator, calls->lists[i].count);
    else if (!tagc_map_tabulate_calls(&tables[count++], request->files[0], &calls->lists[i], cycle))
      status = no_memory();
    tagc_cycle_destroy(cycle);
  }
  if (!calls->count)
    printf("%s: no calls\n", request->files[0]);
  if (status == FITS)
    status = count ? show_tables(request, tables, count) : DIFFERS;
  for (size_t i = 0; i < count; i++)
    tagc_map_table_free(&tables[i]);
  free(tables);
  return status;
}

/* True if the text claims to be a file of calls. */
static bool is_calls(const char *bytes, size_t count) {
  struct tagc_text text;
  struct tagc_complaint complaint;
  tagc_text_begin(&text, bytes, count, &complaint);
  return tagc_text_line(&text) && tagc_word_is(tagc_text_word(&text), "tagc-calls");
}

static int run_show(const struct request *request) {
  struct tagc_complaint complaint;
  size_t bytes;
  if (request->count != 1)
    return refuse_usage("show takes one file");
  const char *path = request->files[0];
  char *text = tagc_text_load(path, TAGC_CALLS_BYTES, &bytes, &complaint);
  if (!text)
    return complain(path, &complaint);
  tagc_tame(request->files[0], '\0'); /* a title from here on */
  const bool has_calls = is_calls(text, bytes), for_map = request->nranks || request->layout != TAGC_LAYOUTS;
  struct tagc_call_file *calls = has_calls ? tagc_calls_parse(text, bytes, &complaint) : NULL;
  struct tagc_model *model = has_calls ? NULL : tagc_mapfile_parse(text, bytes, &complaint);
  free(text);
  int status = calls && for_map ? refuse_usage("--ranks and --layout are for maps; calls tell them")
               : calls          ? show_calls(request, calls)
               : model          ? show_model(request, model)
                                : complain(path, &complaint);
  tagc_calls_free(calls);
  tagc_model_free(model);
  return status;
}

/* Unlike tagc_mapfile_read(), it waits for a pipe. */
static struct tagc_model *load_map(const char *path, struct tagc_complaint *complaint) {
  size_t bytes;
  char *text = tagc_text_load(path, TAGC_MAPFILE_BYTES, &bytes, complaint);
  struct tagc_model *model = text ? tagc_mapfile_parse(text, bytes, complaint) : NULL;
  free(text);
  return model;
}

static int run_check(const struct request *request) {
  struct tagc_complaint complaint;
  if (request->count != 2)
    return refuse_usage("check takes a map and recorded calls");
  struct tagc_model *model = load_map(request->files[0], &complaint);
  if (!model)
    return complain(request->files[0], &complaint);
  struct tagc_call_file *calls = tagc_calls_read(request->files[1], &complaint);
  int status = calls ? tagc_map_check(model, calls, stdout) : complain(request->files[1], &complaint);
  tagc_calls_free(calls);
  tagc_model_free(model);
  return status;
}

/* -- forecast ------------------------------------------------------------------------------------------------------ */

/* What is missing; NULL: nothing. */
static const char *missing_option(const struct request *request) {
  return !request->config           ? "--config FILE"
         : !request->layout_name    ? "--layout LIST"
         : !request->nranks         ? "--ranks N"
         : !request->sequence_count ? "--sequence N"
                                    : NULL;
}

/* Fills what the layout does not say. */
static void set_job(const struct request *request, struct tagc_forecast_job *job) {
  const bool ddp = job->base == TAGC_FORECAST_DDP;
  job->ranks = request->nranks;
  job->local = request->local;
  job->micro_batch = request->micro_batch;
  job->accumulate = request->accumulate;
  job->type = (enum tagc_dtype)request->type;
  const bool in_fp32 = job->base == TAGC_FORECAST_MEGATRON || tagc_forecast_has(job, TAGC_FORECAST_TITAN);
  job->gradients = request->gradients >= 0 ? (enum tagc_dtype)request->gradients : in_fp32 ? TAGC_FLOAT32 : job->type;
  job->bucket = ddp ? (request->bucket ? request->bucket : 25) << 20 : request->bucket ? request->bucket : 500000000;
  job->first_bucket = request->bucket ? job->bucket : UINT64_C(1) << 20;
}

static void print_forecasts(const struct request *request, const struct tagc_forecast *forecasts, size_t count) {
  if (request->json)
    tagc_forecast_write_json(forecasts, count, request->sparsity, stdout);
  else if (count > 1)
    tagc_forecast_compare(forecasts, count, stdout);
  else
    tagc_forecast_print(forecasts, request->sparsity, stdout);
}

/* Notes on stderr what the forecast takes for granted, where programs differ. */
static void note_assumptions(const struct request *request, const struct tagc_forecast_job *job,
                             const struct tagc_model *model) {
  const struct tagc_parameter *first = model->units[0].parameters;
  const uint64_t multiple = 128 * (uint64_t)job->tp;
  bool has_experts = false;
  for (size_t i = 0; i < model->unit_count; i++)
    for (size_t k = 0; k < model->units[i].count; k++)
      has_experts |= (model->units[i].parameters[k].kinds & TAGC_KIND_EXPERT) != 0;
  if (job->base == TAGC_FORECAST_MEGATRON && first->rows % multiple)
    fprintf(stderr,
            "tagc-map: Megatron-LM pads a vocabulary of %" PRIu64 " to %" PRIu64 ", a multiple of 128 * tp, unless "
            "--make-vocab-size-divisible-by says otherwise: the forecast is of %" PRIu64 "\n",
            first->rows, (first->rows + multiple - 1) / multiple * multiple, first->rows);
  if (job->base == TAGC_FORECAST_FSDP2 && has_experts && !request->fused_experts)
    fputs(
      "tagc-map: each expert counts as parameters of its own (transformers 4); with --fused-experts those of a block "
      "count as two (transformers 5), which fully_shard pads to a multiple of the ranks\n",
      stderr);
}

/* Makes the forecasts of a model, one for each length of sequences. Returns an exit status. */
static int forecast_model(const struct request *request, struct tagc_forecast_job *job,
                          struct tagc_forecast *forecasts) {
  struct tagc_complaint complaint;
  char why[TAGC_FORECAST_WHY];
  struct tagc_model *model = tagc_map_from_config(job->config, request->fused_experts, stderr, &complaint);
  if (!model)
    return complain(job->config, &complaint);
  int status = FITS;
  note_assumptions(request, job, model);
  for (int i = 0; i < request->sequence_count && status == FITS; i++) {
    job->sequence = request->sequences[i];
    if (!tagc_forecast_check(job, model, why))
      status = request->count ? tagc_refuse(&command_line, "%s: %s", job->config, why) : refuse_usage(why);
    else if (!tagc_forecast_make(&forecasts[i], job, model))
      status = FAIL("no memory, or more than 2^53 bytes of one sort of call");
  }
  tagc_model_free(model);
  return status;
}

static int run_forecast(const struct request *request) {
  struct tagc_forecast_job job = {0};
  char why[TAGC_FORECAST_WHY];
  const char *const missing = missing_option(request);
  const int count = (1 + request->count) * request->sequence_count;
  if (missing)
    return tagc_refuse(&command_line, "forecast needs %s", missing);
  if (!tagc_forecast_read_layout(request->layout_name, &job, why))
    return tagc_refuse(&command_line, "--layout: %s", why);
  if (request->bucket && !tagc_forecast_has_buckets(&job))
    return tagc_refuse(&command_line, "--bucket is for ddp, zero1, zero2 and zero3, not for %s", request->layout_name);
  set_job(request, &job);
  struct tagc_forecast *forecasts = calloc((size_t)count, sizeof *forecasts);
  int status = forecasts ? FITS : FAIL("no memory");
  for (int i = 0; i <= request->count && status == FITS; i++) {
    job.config = i ? request->files[i - 1] : request->config;
    status = forecast_model(request, &job, forecasts + i * request->sequence_count);
  }
  if (status == FITS)
    print_forecasts(request, forecasts, (size_t)count);
  for (int i = 0; forecasts && i < count; i++)
    tagc_forecast_free(&forecasts[i]);
  free(forecasts);
  return status;
}

/* -- the command line ---------------------------------------------------------------------------------------------- */

enum { OUTPUT = 1, RANKS = 2, LAYOUT = 4, SVG = 8, FORECAST = 16, EXPERTS = 32 };

static const struct command {
  const char *name;
  int (*run)(const struct request *request);
  unsigned options; /* accepted ones */
  bool takes_stdin; /* as "-"; headers are found by seeking */
} commands[] = {
  {"from-config", from_config, OUTPUT | LAYOUT | EXPERTS, true},
  {"from-safetensors", from_safetensors, OUTPUT | LAYOUT, false},
  {"show", run_show, RANKS | LAYOUT | SVG, true},
  {"check", run_check, 0, true},
  {"forecast", run_forecast, RANKS | LAYOUT | FORECAST | EXPERTS, false},
};

/* Refuses an option of other commands. Returns an exit status, or -1. */
static int refuse_foreign(const struct request *request, const struct command *command) {
  const struct {
    const char *name;
    unsigned sort;
    bool given;
  } options[] = {{"output", OUTPUT, request->output},
                 {"ranks", RANKS, request->nranks},
                 {"layout", LAYOUT, request->layout_name},
                 {"svg", SVG, request->svg},
                 {"config", FORECAST, request->config},
                 {"sequence", FORECAST, request->sequence_count},
                 {"gradients", FORECAST, request->gradients >= 0},
                 {"bucket", FORECAST, request->bucket},
                 {"ranks-per-host", FORECAST, request->local},
                 {"json", FORECAST, request->json},
                 /* These need --config. */
                 {"micro-batch", FORECAST, false},
                 {"accumulate", FORECAST, false},
                 {"dtype", FORECAST, false},
                 {"sparsity", FORECAST, false},
                 {"fused-experts", EXPERTS, request->fused_experts}};
  enum { COUNT = sizeof options / sizeof *options };
  char accepted[240] = "none of the options";
  for (size_t i = 0, used = 0; i < COUNT; i++)
    if (options[i].sort & command->options)
      used += (size_t)snprintf(accepted + used, sizeof accepted - used, "%s--%s", used ? ", " : "", options[i].name);
  for (size_t i = 0; i < COUNT; i++)
    if (options[i].given && !(options[i].sort & command->options))
      return tagc_refuse(&command_line, "--%s is not for %s, which takes %s", options[i].name, command->name, accepted);
  return -1;
}

/* Nobody can make a recorded file again. Returns an exit status, or -1. */
static int protect_inputs(const struct request *request) {
  const char *const outputs[][2] = {{"--output", request->output}, {"--svg", request->svg}};
  for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
    for (int k = 0; k < request->count && outputs[i][1]; k++)
      if (tagc_output_is(outputs[i][1], request->files[k]))
        return tagc_refuse(&command_line, "%s would overwrite an input: %s", outputs[i][0], outputs[i][1]);
  return -1;
}

/* Finds the layout of a map. False: there is none of that name. */
static bool find_layout(struct request *request) {
  while (request->layout > 0)
    if (strcmp(request->layout_name, tagc_layout_names[--request->layout]) == 0)
      return true;
  return false;
}

static const struct command *find_command(const char *name) {
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (strcmp(commands[i].name, name) == 0)
      return &commands[i];
  return NULL;
}

static int run(char **argv) {
  static char standard_input[] = "/dev/stdin";
  struct request request = {.layout = TAGC_LAYOUTS, .gradients = -1};
  tagc_command_line_preset(&command_line, &request);
  int status = tagc_command_line_parse(&command_line, argv, &request, stdout);
  if (status >= 0)
    return status;
  if (!argv[1])
    return refuse_usage("nothing to do: give a command");
  const struct command *command = find_command(argv[1]);
  if (!command)
    return tagc_refuse(&command_line, "there is no command %s", argv[1]);
  status = refuse_foreign(&request, command);
  if (status >= 0)
    return status;
  if (request.layout_name && command->run != run_forecast && !find_layout(&request))
    return tagc_refuse(&command_line, "--layout %s: accepted is fsdp1, fsdp1_aligned, fsdp2, zero3 or megatron",
                       request.layout_name);
  request.files = argv + 2;
  for (; request.files[request.count]; request.count++)
    if (command->takes_stdin && strcmp(request.files[request.count], "-") == 0)
      request.files[request.count] = standard_input;
  status = protect_inputs(&request);
  return status >= 0 ? status : command->run(&request);
}

int main(int argc, char **argv) {
  (void)argc;
  const int status = run(argv), error = tagc_output_flush(stdout);
  return error ? fail("cannot write", strerror(error)) : status;
}
