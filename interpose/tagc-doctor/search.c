/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/tagc-doctor/search.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FOLDERS_MAX = 256, LOOKUPS_MAX = 20000, PARENTS_MAX = 64, CACHE_MAX = 16 << 20 };

const char *tagc_base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

char *tagc_file_text(const char *path, size_t max, size_t *size) {
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  char *text = file < 0 ? NULL : malloc(max + 1);
  size_t used = 0;
  ssize_t n = 0;
  while (text && used < max && (n = read(file, text + used, max - used)) > 0)
    used += (size_t)n;
  int saved = n < 0 ? errno : 0;
  if (file >= 0)
    close(file);
  if (n < 0) {
    free(text);
    errno = saved;
    return NULL;
  }
  if (text)
    text[used] = '\0';
  if (size)
    *size = used;
  return text;
}

bool tagc_file_image(const char *path, struct tagc_image *image, struct stat *status) {
  struct stat own;
  if (!status)
    status = &own;
  /* Non-blocking, as a FIFO may have no writer. */
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return false;
  int wrong = fstat(file, status) != 0   ? errno
              : S_ISDIR(status->st_mode) ? EISDIR
              : S_ISREG(status->st_mode) ? 0
                                         : EINVAL;
  size_t size = wrong ? 0 : (size_t)status->st_size;
  void *bytes = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0) : NULL;
  if (bytes == MAP_FAILED)
    wrong = errno;
  close(file);
  if (wrong) {
    errno = wrong;
    return false;
  }
  tagc_image_read(image, bytes, size);
  if (bytes)
    munmap(bytes, size);
  return true;
}

/* -- the role of an object --------------------------------------------------------------------------------------- */
/* RCCL has NCCL's functions, and needs AMD's runtime. */
static bool is_rccl(const struct tagc_image *image, const char *name) {
  bool found = strncmp(name, "librccl", 7) == 0;
  for (size_t i = 0; i < image->needed_count; i++)
    found |= strncmp(image->needed[i], "libamdhip64.so", 14) == 0;
  return found;
}

static enum tagc_role role_of(const struct tagc_object *object) {
  const struct tagc_image *image = &object->image;
  const char *name = image->soname ? image->soname : tagc_base_name(object->path);
  const uint64_t call = TAGC_FUNCTION_BIT(TAGC_FUNCTION_ncclReduceScatter);
  if (image->state != TAGC_IMAGE_GOOD)
    return TAGC_ROLE_NOTHING;
  if (strncmp(name, "libtagc-preload.so", 18) == 0)
    return TAGC_ROLE_OURS;
  /* libnccl.so.2, librccl.so.1 and similar names. */
  if (!image->has_interpreter && strncmp(name, "lib", 3) == 0 && strstr(name, "ccl.so") && image->exported & call)
    return is_rccl(image, name) ? TAGC_ROLE_RCCL : TAGC_ROLE_NCCL;
  bool defines = (image->exported | image->hidden) & call;
  if (defines && image->asks_dlsym && !image->nccl_version[0])
    return TAGC_ROLE_ASKS; /* forwarding functions with NCCL's names: stubs, tracers */
  if (defines)
    return image->open_calls & call ? TAGC_ROLE_OPEN : TAGC_ROLE_CONTAINS;
  if (image->imported)
    return TAGC_ROLE_CALLS;
  if (image->nccl_version[0])
    return TAGC_ROLE_CONTAINS; /* symbols stripped */
  return image->names_nccl && image->asks_dlsym ? TAGC_ROLE_ASKS : TAGC_ROLE_NOTHING;
}

/* The version in the file name, links resolved: libnccl.so.2.28.9. */
static void note_file_version(struct tagc_object *object, const char *read_from) {
  char real[PATH_MAX], text[64];
  const char *name = tagc_base_name(realpath(read_from, real) ? real : read_from), *dots = strstr(name, ".so.");
  if (!dots)
    return;
  int n = snprintf(text, sizeof text, "NCCL version %s", dots + 4);
  if (n > 0 && (size_t)n < sizeof text)
    tagc_nccl_version_text(text, (size_t)n, object->file_version);
}

int tagc_walk_add(struct tagc_walk *walk, const char *path, const char *read_from, const char *how, int parent) {
  struct stat status;
  struct tagc_image image;
  if (walk->count == TAGC_OBJECTS_MAX) {
    walk->cut = true;
    errno = E2BIG;
    return -1;
  }
  if (stat(read_from, &status) == 0)
    for (size_t i = 0; i < walk->count; i++)
      if (walk->objects[i].inode == status.st_ino && walk->objects[i].device == status.st_dev)
        return (int)i;
  if (!tagc_file_image(read_from, &image, &status))
    return -1;
  struct tagc_object *object = &walk->objects[walk->count];
  *object = (struct tagc_object){.path = strdup(path),
                                 .how = how,
                                 .parent = parent,
                                 .image = image,
                                 .device = status.st_dev,
                                 .inode = status.st_ino};
  if (!object->path) {
    tagc_image_free(&image);
    return -1;
  }
  object->role = role_of(object);
  if (object->role == TAGC_ROLE_NCCL)
    note_file_version(object, read_from);
  return (int)walk->count++;
}

bool tagc_walk_start(struct tagc_walk *walk, const char *library_path) {
  memset(walk, 0, sizeof *walk);
  walk->library_path = library_path;
  walk->objects = calloc(TAGC_OBJECTS_MAX, sizeof *walk->objects);
  walk->cache = tagc_file_text("/etc/ld.so.cache", CACHE_MAX, &walk->cache_size);
  return walk->objects != NULL;
}

/* -- where a library is ------------------------------------------------------------------------------------------ */

/* True for an ELF file that object `parent` could use. ld.so skips files of another class or machine. */
static bool usable(const struct tagc_walk *walk, const char *path, int parent) {
  unsigned char head[20];
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  ssize_t n = file < 0 ? -1 : read(file, head, sizeof head);
  if (file >= 0)
    close(file);
  if (n != sizeof head || memcmp(head, ELFMAG, SELFMAG) != 0)
    return false;
  if (parent < 0 || walk->objects[parent].image.state != TAGC_IMAGE_GOOD)
    return true;
  uint16_t machine;
  memcpy(&machine, head + 18, sizeof machine); /* e_machine is there in both classes */
  const struct tagc_image *image = &walk->objects[parent].image;
  return machine == image->machine && (head[EI_CLASS] == ELFCLASS64) == image->is64;
}

/* A folder of a list, with $ORIGIN replaced. False: other tokens. */
static bool expand(const char *element, size_t length, const char *origin_of, char *folder, size_t size) {
  size_t skip = length >= 7 && memcmp(element, "$ORIGIN", 7) == 0     ? 7
                : length >= 9 && memcmp(element, "${ORIGIN}", 9) == 0 ? 9
                                                                      : 0;
  if (memchr(element + skip, '$', length - skip))
    return false;
  if (!length)
    return (size_t)snprintf(folder, size, ".") < size;
  int n;
  if (skip) {
    char real[PATH_MAX];
    const char *path = origin_of ? realpath(origin_of, real) : NULL, *slash = path ? strrchr(path, '/') : NULL;
    if (!slash)
      return false;
    n = snprintf(folder, size, "%.*s%.*s", (int)(slash - path), path, (int)(length - skip), element + skip);
  } else
    n = snprintf(folder, size, "%.*s", (int)length, element);
  return n >= 0 && (size_t)n < size;
}

static bool in_folders(const struct tagc_walk *walk, const char *list, const char *origin_of, const char *name,
                       int parent, char *found, size_t size) {
  char folder[PATH_MAX];
  for (int i = 0; list && i < FOLDERS_MAX; i++) {
    size_t length = strcspn(list, ":;");
    if (expand(list, length, origin_of, folder, sizeof folder)) {
      int n = snprintf(found, size, "%s/%s", folder, name);
      if (n > 0 && (size_t)n < size && usable(walk, found, parent))
        return true;
    }
    list = list[length] ? list + length + 1 : NULL;
  }
  return false;
}

/* The cache of glibc 2.2 and newer, alone or behind one of the older format. */
struct cache_header {
  char magic[20];
  uint32_t count, text_size, rest[5];
};
struct cache_entry {
  int32_t flags;
  uint32_t name, path, os_version;
  uint64_t hardware;
};
_Static_assert(sizeof(struct cache_header) == 48 && sizeof(struct cache_entry) == 24, "the format of ld.so.cache");

static const char *cache_text(const char *base, size_t size, uint32_t offset) {
  return offset < size && memchr(base + offset, '\0', size - offset) ? base + offset : NULL;
}

static bool in_cache(const struct tagc_walk *walk, const char *name, int parent, char *found, size_t size) {
  static const char magic[] = "glibc-ld.so.cache1.1";
  const char *base = walk->cache ? memmem(walk->cache, walk->cache_size, magic, 20) : NULL;
  size_t there = base ? walk->cache_size - (size_t)(base - walk->cache) : 0;
  struct cache_header header;
  if (there < sizeof header)
    return false;
  memcpy(&header, base, sizeof header);
  for (uint32_t i = 0; i < header.count && sizeof header + (i + UINT64_C(1)) * sizeof(struct cache_entry) <= there;
       i++) {
    struct cache_entry entry;
    memcpy(&entry, base + sizeof header + i * sizeof entry, sizeof entry);
    const char *key = cache_text(base, there, entry.name), *path = cache_text(base, there, entry.path);
    if (!key || !path || entry.hardware || strcmp(key, name) != 0 || strlen(path) >= size)
      continue;
    strcpy(found, path);
    if (usable(walk, found, parent))
      return true;
  }
  return false;
}

bool tagc_walk_look_up(struct tagc_walk *walk, const char *name, int parent, char *found, size_t size,
                       const char **how) {
#if defined(__x86_64__)
  static const char defaults[] = "/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:/lib64:/usr/lib64:/lib:/usr/lib";
#else
  static const char defaults[] = "/lib/aarch64-linux-gnu:/usr/lib/aarch64-linux-gnu:/lib64:/usr/lib64:/lib:/usr/lib";
#endif
  const struct tagc_object *object = parent < 0 ? NULL : &walk->objects[parent];
  if (walk->lookups++ >= LOOKUPS_MAX) {
    walk->cut = true;
    return false;
  }
  if (strchr(name, '/')) {
    *how = "its path";
    return expand(name, strlen(name), object ? object->path : NULL, found, size) && usable(walk, found, parent);
  }
  *how = "RPATH";
  if (!object || !object->image.runpath)
    for (int p = parent, i = 0; p >= 0 && i < PARENTS_MAX; p = walk->objects[p].parent, i++)
      if (!walk->objects[p].image.runpath &&
          in_folders(walk, walk->objects[p].image.rpath, walk->objects[p].path, name, parent, found, size))
        return true;
  *how = "LD_LIBRARY_PATH";
  if (in_folders(walk, walk->library_path && *walk->library_path ? walk->library_path : NULL, NULL, name, parent, found,
                 size))
    return true;
  *how = "RUNPATH";
  if (object && in_folders(walk, object->image.runpath, object->path, name, parent, found, size))
    return true;
  *how = "ld.so.cache";
  if (in_cache(walk, name, parent, found, size))
    return true;
  *how = "default folder";
  return in_folders(walk, defaults, NULL, name, parent, found, size);
}

int tagc_walk_named(const struct tagc_walk *walk, const char *name) {
  for (size_t i = 0; i < walk->count; i++) {
    const char *soname = walk->objects[i].image.soname;
    if ((soname && strcmp(soname, name) == 0) || strcmp(tagc_base_name(walk->objects[i].path), name) == 0)
      return (int)i;
  }
  return -1;
}

/* True if the walk has a library of that name, found or missing. */
static bool known(const struct tagc_walk *walk, const char *name) {
  if (tagc_walk_named(walk, name) >= 0)
    return true;
  for (size_t i = 0; i < walk->missing_count; i++)
    if (strcmp(walk->missing[i].name, name) == 0)
      return true;
  return false;
}

void tagc_walk_needed(struct tagc_walk *walk) {
  char found[PATH_MAX];
  const char *how;
  for (size_t i = 0; i < walk->count; i++) /* the count grows during the loop */
    for (size_t j = 0; j < walk->objects[i].image.needed_count; j++) {
      const char *name = walk->objects[i].image.needed[j];
      if (known(walk, name))
        continue;
      if (tagc_walk_look_up(walk, name, (int)i, found, sizeof found, &how) &&
          tagc_walk_add(walk, found, found, how, (int)i) >= 0)
        continue;
      if (walk->missing_count == TAGC_MISSING_MAX)
        walk->cut = true;
      else
        walk->missing[walk->missing_count++] = (struct tagc_missing){walk->objects[i].image.needed[j], (int)i};
    }
}

size_t tagc_walk_count(const struct tagc_walk *walk, enum tagc_role role) {
  size_t count = 0;
  for (size_t i = 0; i < walk->count; i++)
    count += walk->objects[i].role == role;
  return count;
}

int tagc_walk_first(const struct tagc_walk *walk, enum tagc_role role) {
  for (size_t i = 0; i < walk->count; i++)
    if (walk->objects[i].role == role)
      return (int)i;
  return -1;
}
