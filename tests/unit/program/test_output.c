/* SPDX-License-Identifier: BSD-3-Clause
 * env/program/output: a file is replaced whole, or stays; names of the same file.
 */
#include "env/program/output.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/tap.h"

/* Writes a text into a file, and leaves it whole or not. */
static int puts_into(const char *path, const char *text, bool whole) {
  struct tagc_output output;
  if (!tagc_output_open(&output, path))
    return errno;
  fputs(text, output.to);
  return tagc_output_close(&output, whole);
}

static void has_text(const char *path, const char *want, const char *what) {
  char text[100] = "";
  FILE *file = fopen(path, "r");
  if (file) {
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
  }
  ok(file && strcmp(text, want) == 0, "%s: %s", what, text);
}

static int count_files(void) {
  struct dirent **entries;
  const int count = scandir(".", &entries, NULL, NULL);
  for (int i = 0; i < count; i++)
    free(entries[i]);
  free(entries);
  return count - 2;
}

static void test_replacing(void) {
  struct stat about;
  ok(puts_into("file", "old", true) == 0, "a new file");
  chmod("file", 0640);
  ok(puts_into("file", "new", true) == 0 && stat("file", &about) == 0 && (about.st_mode & 0777) == 0640,
     "a file in its place has its mode");
  has_text("file", "new", "and the contents");
  puts_into("file", "half", false);
  has_text("file", "new", "what is dropped changes nothing");
  ok(count_files() == 1, "and leaves nothing beside it");
  ok(symlink("file", "link") == 0 && puts_into("link", "through", true) == 0 && lstat("link", &about) == 0 &&
       S_ISLNK(about.st_mode),
     "a link stays one");
  has_text("file", "through", "and leads to the file");
  ok(puts_into("none/file", "x", true) == ENOENT, "there is no such folder");
  if (access("/dev/full", W_OK) == 0)
    ok(puts_into("/dev/full", "x", true) == ENOSPC, "a full disk");
}

/* The first write fails, later ones do not, as on a pipe that was full for a moment. */
static ssize_t writes_later(void *failed, const char *data, size_t size) {
  (void)data;
  if (*(bool *)failed)
    return (ssize_t)size;
  *(bool *)failed = true;
  errno = EAGAIN;
  return 0; /* as fopencookie(3) wants it */
}

static void test_lost(void) {
  static char large[100000];
  bool failed = false;
  FILE *to = fopencookie(&failed, "w", (cookie_io_functions_t){.write = writes_later});
  memset(large, 'x', sizeof large - 1);
  ok(to && fputs(large, to) < 0 && fflush(to) == 0 && tagc_output_flush(to) == EIO,
     "what was lost earlier is an error, though the end was written");
  if (to)
    fclose(to);
}

static void test_names(void) {
  ok(tagc_output_is("file", "./file") && tagc_output_is("link", "file"), "one file of two names");
  ok(!tagc_output_is("file", "other") && !tagc_output_is("other", "file"), "a file, and one that is not there");
  ok(tagc_output_is("new", "./new") && tagc_output_is("folder/../new", "new"), "one file that is not there yet");
  ok(!tagc_output_is("new", "newer") && !tagc_output_is("new", "folder/new") && !tagc_output_is("new", "none/new"),
     "two that are not there yet");
  ok(!tagc_output_is("/dev/null", "/dev/null"), "a device takes several");
}

int main(void) {
  char folder[] = "/tmp/tagc-test-output.XXXXXX";
  if (!mkdtemp(folder) || chdir(folder) != 0)
    return 1;
  test_replacing();
  test_lost();
  if (mkdir("folder", 0700) != 0)
    return 1;
  test_names();
  rmdir("folder");
  unlink("link");
  unlink("file");
  rmdir(folder);
  return tap_done();
}
