/* SPDX-License-Identifier: BSD-3-Clause
 * What a device has to show before it is trusted: an honest one is, and one that gets a bit wrong anywhere is not.
 */
#include "kernels/proof.h"

#include <string.h>

#include "tests/unit/tap.h"

/* Host memory that is no host: its codecs are the host's, but for one byte. */
static struct tagc_device liar;
static const char *lies_in, *lies_about;
static unsigned calls, lies_from;    /* the call of a codec with which it begins */

static bool lies(const struct tagc_codec *codec, const char *where)
{
  return lies_in && strcmp(where, lies_in) == 0 && strcmp(codec->name, lies_about) == 0 && calls++ >= lies_from;
}

static bool prepare(const struct tagc_device *self, const struct tagc_codec *codec, struct tagc_job *job, void *stream)
{
  const bool done = tagc_device_host.prepare(self, codec, job, stream);
  if (lies(codec, "exponents"))
    job->exponents[job->layout.exponent_bytes] ^= 1;
  return done;
}

static bool encode(const struct tagc_device *self, const struct tagc_codec *codec, struct tagc_job *job, void *stream)
{
  const bool done = tagc_device_host.encode(self, codec, job, stream);
  if (lies(codec, "a message"))
    job->message_out[2 * job->layout.message_bytes - 1] ^= 1;
  if (lies(codec, "a sketch"))
    job->sketch_out[job->layout.sketch_count] ^= 1;
  if (lies(codec, "a residual"))
    *(char *)job->residual ^= 1;
  return done && !lies(codec, "nothing");
}

static bool decode(const struct tagc_device *self, const struct tagc_codec *codec, struct tagc_job *job, void *stream)
{
  const bool done = tagc_device_host.decode(self, codec, job, stream);
  if (lies(codec, "a result"))
    *(char *)job->recv ^= 1;
  return done;
}

static void *no_memory(const struct tagc_device *self, size_t bytes, void *stream)
{
  (void)self, (void)bytes, (void)stream;
  return NULL;
}

static void found(const char *about, const char *in, unsigned from, const char *said)
{
  char why[160] = "";
  lies_about = about;
  lies_in = in;
  lies_from = from;
  calls = 0;
  const bool right = tagc_device_prove(&liar, NULL, why, sizeof why);
  ok(!right && strstr(why, about) && strstr(why, said), "%s: %s is wrong from call %u on: %s", about, in, from + 1, why);
}

int main(void)
{
  char why[160] = "";
  ok(tagc_device_prove(&tagc_device_host, NULL, why, sizeof why) && !*why, "the host does what the host does");
  liar = tagc_device_host;
  liar.prepare = prepare;
  liar.encode = encode;
  liar.decode = decode;
  ok(tagc_device_prove(&liar, NULL, why, sizeof why) && !*why, "and so does a device that has not begun to lie");
  found("lhc", "exponents", 0, "exponents differ");
  found("lhc", "a sketch", 1, "a sketch differs");
  found("lhc", "a message", 2, "a message differs");
  found("sparse", "a residual", 5, "a residual differs");
  static const char *const codecs[] = {"none", "bf16", "q8", "q4", "q2", "sparse", "lhc"};
  for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
    found(codecs[i], "a result", (unsigned)(5 * i % 6), "a result differs");
  found("q4", "nothing", 3, "the device fails");
  lies_in = NULL;
  liar.alloc = no_memory;
  ok(!tagc_device_prove(&liar, NULL, why, sizeof why) && strstr(why, "no memory"), "without memory nothing is proven: %s", why);
  return tap_done();
}
