/* SPDX-License-Identifier: BSD-3-Clause
 * libFuzzer target: any config.json, and any header of safetensors, gives a model that a map can express, or a
 * complaint. The first byte selects the format; the rest is the text. With two files a line "--" ends the first header.
 * After a header come zero bytes of data; the four bytes after the first one give their number.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "layermap/tagc-map/config.h"
#include "layermap/tagc-map/safetensors.h"
#include "layermap/model/mapfile.h"
#include "tests/fuzz/input.h"

static char paths[2][32];

/* Makes a file with a path: the text, and zeros after it. */
static int make_file(int number, const void *prefix, size_t prefix_bytes, const uint8_t *text, size_t bytes,
                     uint64_t zeros) {
  int fd = memfd_create("fuzz", MFD_CLOEXEC);
  MUST(fd >= 0 && write(fd, prefix, prefix_bytes) == (ssize_t)prefix_bytes && write(fd, text, bytes) == (ssize_t)bytes);
  MUST(ftruncate(fd, (off_t)(prefix_bytes + bytes + zeros)) == 0);
  snprintf(paths[number], sizeof paths[number], "/proc/self/fd/%d", fd);
  return fd;
}

static int make_checkpoint(int number, const uint8_t *header, size_t bytes, uint64_t zeros) {
  unsigned char length[8];
  for (int i = 0; i < 8; i++)
    length[i] = (unsigned char)((uint64_t)bytes >> (8 * i));
  return make_file(number, length, sizeof length, header, bytes, zeros);
}

static void check_model(struct tagc_model *model, const struct tagc_complaint *complaint) {
  if (!model) {
    MUST(memchr(complaint->text, '\0', sizeof complaint->text) && complaint->text[0]);
    for (const char *c = complaint->text; *c; c++)
      MUST((unsigned char)*c >= ' ' && *c != 127);
    return;
  }
  char *text = NULL;
  size_t length = 0;
  FILE *file = open_memstream(&text, &length);
  MUST(file);
  if (tagc_mapfile_write(file, model)) {
    struct tagc_complaint of_map;
    struct tagc_model *again = (fflush(file), tagc_mapfile_parse(text, length, &of_map));
    MUST(again && again->place_count == model->place_count && tagc_model_elements(again) == tagc_model_elements(model));
    tagc_model_free(again);
  } else
    MUST(errno == EINVAL); /* a name that maps do not have */
  fclose(file);
  free(text);
  tagc_model_free(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct input in = {data, data + size};
  struct tagc_complaint complaint = {0};
  int which = input_byte(&in) % 3, fds[2] = {-1, -1};
  uint64_t zeros = which ? input_number(&in, 4) : 0;
  size_t left = input_left(&in);
  if (which == 0) {
    fds[0] = make_file(0, "", 0, in.at, left, 0);
    check_model(tagc_map_from_config(paths[0], false, NULL, &complaint), &complaint);
  } else {
    const uint8_t *cut = which == 2 && left ? memmem(in.at, left, "\n--\n", 4) : NULL;
    size_t first = cut ? (size_t)(cut - in.at) : left;
    char *const names[2] = {paths[0], paths[1]};
    fds[0] = make_checkpoint(0, in.at, first, zeros);
    if (cut)
      fds[1] = make_checkpoint(1, cut + 4, left - first - 4, zeros);
    check_model(tagc_map_from_safetensors(names, cut ? 2 : 1, &complaint), &complaint);
  }
  for (int i = 0; i < 2; i++)
    if (fds[i] >= 0)
      close(fds[i]);
  return 0;
}
