/* SPDX-License-Identifier: BSD-3-Clause
 * The self-test of a device: a correct one passes, and one with any wrong bit does not.
 */
#include "kernels/device/self_test.h"

#include <string.h>

#include "tests/unit/tap.h"

/* Host memory under another name: its codecs are the host's, except for one byte. */
static struct tagc_device liar;
static const char *lies_in, *lies_about = "";
static unsigned calls, lies_from; /* the first wrong call of a codec */
static uint64_t largest;          /* elements of a shard */

static bool lies(const struct tagc_codec *codec, const char *where) {
  return lies_in && codec && strcmp(where, lies_in) == 0 && strcmp(codec->name, lies_about) == 0 &&
         calls++ >= lies_from;
}

static bool measure(const struct tagc_device *self, const struct tagc_codec *codec, struct tagc_job *job,
                    void *stream) {
  const bool done = tagc_device_host.measure(self, codec, job, stream);
  if (lies(codec, "measured exponents"))
    job->exponents[job->layout.exponent_bytes] ^= 1;
  return done;
}

static bool prepare(const struct tagc_device *self, const struct tagc_codec *codec, struct tagc_job *job,
                    void *stream) {
  const bool done = tagc_device_host.prepare(self, codec, job, stream);
  if (lies(codec, "exponents"))
    job->exponents[job->layout.exponent_bytes] ^= 1;
  return done;
}

static bool encode(const struct tagc_device *self, const struct tagc_codec *codec, struct tagc_job *job, void *stream) {
  const bool done = tagc_device_host.encode(self, codec, job, stream);
  largest = job->shape.n > largest ? job->shape.n : largest;
  if (lies(codec, "a message"))
    job->message_out[2 * job->layout.message_bytes - 1] ^= 1;
  if (lies(codec, "a sketch"))
    job->sketch_out[job->layout.sketch_count] ^= 1;
  if (lies(codec, "a residual"))
    *(char *)job->residual ^= 1;
  return done && !lies(codec, "nothing");
}

static bool decode(const struct tagc_device *self, const struct tagc_codec *codec, struct tagc_job *job, void *stream) {
  const bool done = tagc_device_host.decode(self, codec, job, stream);
  if (lies(codec, "a result"))
    *(char *)job->recv ^= 1;
  return done;
}

static bool tell(const struct tagc_device *self, const struct tagc_job *job, int64_t *words, void *stream) {
  const bool done = tagc_device_host.pack_flags(self, job, words, stream);
  if (lies(tagc_codec_find(lies_about), "what was seen"))
    words[TAGC_FLAG_NONFINITE] ^= 1;
  return done;
}

static bool flush(const struct tagc_device *self, struct tagc_job *job, void *out, void *stream) {
  const bool done = tagc_device_host.flush(self, job, out, stream);
  if (lies(tagc_codec_find(lies_about), "a flush"))
    *(char *)out ^= 1;
  return done;
}

static void *no_memory(const struct tagc_device *self, size_t bytes, void *stream) {
  (void)self, (void)bytes, (void)stream;
  return NULL;
}

/* -- all-gathers --------------------------------------------------------------------------------------------------- */

static bool allgather_lies(const struct tagc_allgather_codec *codec, const char *where) {
  return lies_in && strcmp(where, lies_in) == 0 && strcmp(codec->name, lies_about) == 0 && calls++ >= lies_from;
}

static bool allgather_encode(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                             struct tagc_allgather_job *job, void *stream) {
  const bool done = tagc_device_host.allgather_encode(self, codec, job, stream);
  if (allgather_lies(codec, "a payload"))
    job->payloads[job->layout.payload_bytes - 1] ^= 1;
  return done && !allgather_lies(codec, "nothing");
}

static bool allgather_decode(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                             struct tagc_allgather_job *job, void *stream) {
  const bool done = tagc_device_host.allgather_decode(self, codec, job, stream);
  if (allgather_lies(codec, "a result"))
    ((char *)job->recv)[1] ^= 1;
  if (allgather_lies(codec, "what is kept"))
    *(char *)job->reference ^= 1;
  return done;
}

static bool allgather_refused(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                              struct tagc_allgather_job *job, void *stream, bool *refused) {
  const bool done = tagc_device_host.allgather_refused(self, codec, job, stream, refused);
  if (lies_in && strcmp(lies_in, "a refusal") == 0 && calls++ >= lies_from)
    *refused ^= true;
  return done;
}

static bool allgather_digest(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                             struct tagc_allgather_job *job, void *stream) {
  *job->digest ^= allgather_lies(codec, "a digest");
  return tagc_device_host.allgather_digest(self, codec, job, stream);
}

static const struct tagc_allgather_codec *allgather_codec(const char *name) {
  int i = 0;
  while (strcmp(tagc_allgather_codec_at(i)->name, name) != 0)
    i++;
  return tagc_allgather_codec_at(i);
}

static void found_allgather(const char *about, const char *in, unsigned from, enum tagc_self_test wanted,
                            const char *said) {
  char why[160] = "";
  lies_about = about;
  lies_in = in;
  lies_from = from;
  calls = 0;
  const enum tagc_self_test result = tagc_self_test_allgather(&liar, allgather_codec(about), NULL, why, sizeof why);
  ok(result == wanted && strstr(why, said), "all-gathers with %s: %s is wrong from call %u on: %s", about, in, from + 1,
     why);
  lies_in = NULL;
}

static bool all_gathers_are_right(void) {
  char why[160] = "";
  bool good = true;
  for (int i = 0; tagc_allgather_codec_at(i); i++)
    good =
      good &&
      tagc_self_test_allgather(&liar, tagc_allgather_codec_at(i), NULL, why, sizeof why) == TAGC_SELF_TEST_PASSED &&
      !*why;
  return good;
}

static void check_allgathers(void) {
  ok(all_gathers_are_right(), "all-gathers: the host does what the host does");
  liar.allgather_encode = allgather_encode;
  liar.allgather_decode = allgather_decode;
  liar.allgather_refused = allgather_refused;
  liar.allgather_digest = allgather_digest;
  ok(all_gathers_are_right(), "and so does a device that has not begun to lie");
  found_allgather("bf16", "a payload", 3, TAGC_SELF_TEST_FAILED, "codec bf16: a payload differs");
  found_allgather("q8", "a payload", 7, TAGC_SELF_TEST_FAILED, "codec q8: a payload differs");
  found_allgather("lossless", "a result", 5, TAGC_SELF_TEST_FAILED, "codec lossless: a result differs");
  found_allgather("delta", "what is kept", 9, TAGC_SELF_TEST_FAILED, "codec delta: what is kept differs");
  found_allgather("support", "a payload", 2, TAGC_SELF_TEST_FAILED, "codec support: a payload differs");
  found_allgather("support", "a result", 6, TAGC_SELF_TEST_FAILED, "codec support: a result differs");
  found_allgather("support", "a refusal", 1, TAGC_SELF_TEST_FAILED,
                  "codec support: whether a shard is refused differs");
  found_allgather("exact", "a payload", 4, TAGC_SELF_TEST_FAILED, "codec exact: a payload differs");
  found_allgather("exact", "what is kept", 5, TAGC_SELF_TEST_FAILED, "codec exact: what is kept differs");
  /* The result is refused. */
  found_allgather("exact", "a digest", 1, TAGC_SELF_TEST_FAILED, "codec exact: the digest of what is kept differs");
  found_allgather("delta", "a result", 2, TAGC_SELF_TEST_FAILED, "codec delta: a result differs");
  found_allgather("lossless", "a refusal", 3, TAGC_SELF_TEST_FAILED,
                  "codec lossless: whether a shard is refused differs");
  found_allgather("lossless", "nothing", 2, TAGC_SELF_TEST_NOT_RUN, "codec lossless: the device fails");
  liar.alloc = no_memory;
  found_allgather("q8", "nothing", 99, TAGC_SELF_TEST_NOT_RUN, "codec q8: no memory");
  liar.alloc = tagc_device_host.alloc;
}

/* ------------------------------------------------------------------------------------------------------------------ */

static enum tagc_self_test run_self_test(const char *codec, char why[160]) {
  *why = '\0';
  return tagc_self_test_codec(&liar, tagc_codec_find(codec), NULL, why, 160);
}

/* The codec is wrong from call `from` on. */
static void found(const char *about, const char *in, unsigned from, const char *said) {
  char why[160];
  lies_about = about;
  lies_in = in;
  lies_from = from;
  calls = 0;
  const enum tagc_self_test result = run_self_test(about, why);
  ok(result == TAGC_SELF_TEST_FAILED && strstr(why, about) && strstr(why, said), "%s: %s is wrong from call %u on: %s",
     about, in, from + 1, why);
  lies_in = NULL;
}

static bool all_are_right(void) {
  char why[160];
  bool good = true;
  for (const struct tagc_codec *const *codec = tagc_codecs; *codec; codec++)
    good = good && run_self_test((*codec)->name, why) == TAGC_SELF_TEST_PASSED && !*why;
  return good;
}

/* A reported failure is no verdict. */
static void untried(const char *codec, const char *said) {
  char why[160];
  const enum tagc_self_test result = run_self_test(codec, why);
  ok(result == TAGC_SELF_TEST_NOT_RUN && strstr(why, codec) && strstr(why, said), "%s cannot be tried: %s", codec, why);
}

int main(void) {
  liar = tagc_device_host;
  ok(all_are_right(), "the host does what the host does");
  liar.measure = measure;
  liar.prepare = prepare;
  liar.encode = encode;
  liar.decode = decode;
  liar.pack_flags = tell;
  liar.flush = flush;
  ok(all_are_right(), "and so does a device that has not begun to lie");
  found("lhc", "exponents", 0, "exponents differ");
  found("lhc", "measured exponents", 2, "measured exponents differ");
  found("lhc", "a sketch", 1, "a sketch differs");
  found("lhc", "a sketch", 11, "a sketch differs"); /* the last call, of several stripes */
  found("lhc", "a message", 2, "a message differs");
  found("sparse", "a residual", 5, "a residual differs");
  found("q8", "a flush", 0, "a flush differs");
  found("sparse", "a flush", 3, "a flush differs");
  found("bf16", "what was seen", 1, "what was seen differs");
  static const char *const codecs[] = {"none", "precise", "bf16", "q8", "q4", "q3", "q2", "sparse", "lhc"};
  for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
    found(codecs[i], "a result", (unsigned)(5 * i % 9), "a result differs");
  found("precise", "a message", 13, "a message differs"); /* of two levels, with a list */
  found("precise", "a result", 14, "a result differs");   /* of values, as the list is full */
  lies_about = "q4";
  lies_in = "nothing";
  lies_from = 3;
  calls = 0;
  untried("q4", "the device fails");
  lies_in = NULL;
  liar.alloc = no_memory;
  untried("q8", "no memory");
  liar.alloc = tagc_device_host.alloc;
  ok(all_are_right(), "and later they can be");
  const uint64_t on_gpu = largest;
  liar.emulated = true;
  largest = 0;
  const bool right = all_are_right();
  ok(right && 6 * largest < on_gpu, "an emulated GPU gets shards of %llu elements, not %llu",
     (unsigned long long)largest, (unsigned long long)on_gpu);
  found("lhc", "a sketch", 11, "a sketch differs"); /* the last call */
  liar.emulated = false;
  check_allgathers();
  return tap_done();
}
