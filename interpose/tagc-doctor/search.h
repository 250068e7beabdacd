/* SPDX-License-Identifier: BSD-3-Clause
 * The objects of a program, as the dynamic linker would find them: DT_NEEDED, breadth first. A name with a slash is a
 * path. Others are searched in the DT_RPATH of the object and of those that brought it in (if they have no DT_RUNPATH),
 * in LD_LIBRARY_PATH, in the object's DT_RUNPATH, in /etc/ld.so.cache, and in the default folders. Handles $ORIGIN;
 * skips folders with other tokens ($LIB, $PLATFORM), and glibc-hwcaps subfolders. Skips files for another machine.
 */
#ifndef INTERPOSE_TAGC_DOCTOR_SEARCH_H
#define INTERPOSE_TAGC_DOCTOR_SEARCH_H

#include <sys/stat.h>

#include "interpose/tagc-doctor/elf.h"

/* The relation of an object to NCCL. */
enum tagc_role {
  TAGC_ROLE_NOTHING,
  TAGC_ROLE_CALLS,    /* imports NCCL's functions: intercepted */
  TAGC_ROLE_ASKS,     /* asks dlsym for NCCL's functions: intercepted by the hook */
  TAGC_ROLE_OPEN,     /* contains NCCL, but calls it through the dynamic linker: intercepted */
  TAGC_ROLE_CONTAINS, /* contains NCCL and calls it directly: out of reach */
  TAGC_ROLE_NCCL,     /* the NCCL library; it and all roles below call no NCCL */
  TAGC_ROLE_OURS,     /* libtagc-preload.so */
  TAGC_ROLE_RCCL      /* NCCL's functions for AMD's GPUs */
};

enum { TAGC_OBJECTS_MAX = 2048, TAGC_MISSING_MAX = 64 };

struct tagc_object {
  char *path;      /* as found; allocated */
  const char *how; /* where it was found, constant words */
  int parent;      /* index of the object that needs it, -1: none */
  bool deleted;    /* of a process: the file is gone */
  enum tagc_role role;
  struct tagc_image image;
  char file_version[TAGC_NCCL_VERSION_SIZE]; /* from the name of the file: libnccl.so.2.28.9 */
  dev_t device;
  ino_t inode;
};

struct tagc_missing {
  char *name;
  int parent;
};

struct tagc_walk {
  struct tagc_object *objects;
  size_t count;
  struct tagc_missing missing[TAGC_MISSING_MAX];
  size_t missing_count, lookups;
  bool cut;                 /* the limits cut it off */
  const char *library_path; /* LD_LIBRARY_PATH, or NULL */
  char *cache;              /* /etc/ld.so.cache, or NULL */
  size_t cache_size;
};

/* False: no memory. `library_path` may be NULL. */
bool tagc_walk_start(struct tagc_walk *walk, const char *library_path);

/* Reads the file `read_from` as an object named `path` (they differ for processes). Returns its index, an earlier one
 * for a file already read, or -1 with errno set. */
int tagc_walk_add(struct tagc_walk *walk, const char *path, const char *read_from, const char *how, int parent);

/* Adds the libraries that the objects need, recursively. */
void tagc_walk_needed(struct tagc_walk *walk);

/* The first object with this soname or file name, or -1. */
int tagc_walk_named(const struct tagc_walk *walk, const char *name);

/* Searches for a library for object `parent` (-1: none), and writes its path to `found`. */
bool tagc_walk_look_up(struct tagc_walk *walk, const char *name, int parent, char *found, size_t size,
                       const char **how);

/* The number of objects of a role, and the index of the first, or -1. */
size_t tagc_walk_count(const struct tagc_walk *walk, enum tagc_role role);
int tagc_walk_first(const struct tagc_walk *walk, enum tagc_role role);

/* The contents of a small file (of /proc, say), with a NUL at the end, at most `max` bytes. NULL with errno set. */
char *tagc_file_text(const char *path, size_t max, size_t *size);

/* Reads an ELF file. False with errno set: cannot be opened (EISDIR for a folder, EINVAL for other non-files). */
bool tagc_file_image(const char *path, struct tagc_image *image, struct stat *status);

const char *tagc_base_name(const char *path);

#endif
