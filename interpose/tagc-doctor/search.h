/* SPDX-License-Identifier: BSD-3-Clause
 * The objects of a program, found as the dynamic linker would find them: DT_NEEDED, breadth first; a name with a slash
 * is a path; others are looked for in the DT_RPATH of the object and of those that brought it in (where they have no
 * DT_RUNPATH), in LD_LIBRARY_PATH, in the object's DT_RUNPATH, in /etc/ld.so.cache, and in the default folders. $ORIGIN
 * is known; folders with other tokens ($LIB, $PLATFORM) and glibc-hwcaps subfolders are not looked into. Files for
 * another machine are passed over.
 */
#ifndef INTERPOSE_TAGC_DOCTOR_SEARCH_H
#define INTERPOSE_TAGC_DOCTOR_SEARCH_H

#include <sys/stat.h>

#include "interpose/tagc-doctor/elf.h"

/* What an object has to do with NCCL. */
enum tagc_role {
  TAGC_ROLE_NOTHING,
  TAGC_ROLE_CALLS,    /* imports NCCL's functions: intercepted */
  TAGC_ROLE_ASKS,     /* asks dlsym for NCCL's functions: intercepted by the hook */
  TAGC_ROLE_OPEN,     /* holds NCCL, but calls it through the dynamic linker: intercepted */
  TAGC_ROLE_CONTAINS, /* holds NCCL and calls it directly: out of reach */
  TAGC_ROLE_NCCL,     /* the NCCL library; from here on nothing that calls one */
  TAGC_ROLE_OURS,     /* libtagc-preload.so */
  TAGC_ROLE_RCCL      /* NCCL's functions for AMD's GPUs */
};

enum { TAGC_OBJECTS_MAX = 2048, TAGC_MISSING_MAX = 64 };

struct tagc_object {
  char *path;      /* as it was found; allocated */
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
  bool cut;                 /* there was more than the limits allow */
  const char *library_path; /* LD_LIBRARY_PATH, or NULL */
  char *cache;              /* /etc/ld.so.cache, or NULL */
  size_t cache_size;
};

/* False where there is no memory. `library_path` may be NULL. */
bool tagc_walk_start(struct tagc_walk *walk, const char *library_path);

/* Reads the file at `read_from` as an object of the name `path` (they differ for processes). Returns its index, that of
 * the same file read before, or -1 with errno set. */
int tagc_walk_add(struct tagc_walk *walk, const char *path, const char *read_from, const char *how, int parent);

/* Adds what the objects need, and what that needs. */
void tagc_walk_needed(struct tagc_walk *walk);

/* Looks for a library of that name on behalf of object `parent` (-1: none); its path is written to `found`. */
bool tagc_walk_look_up(struct tagc_walk *walk, const char *name, int parent, char *found, size_t size,
                       const char **how);

/* Objects of a role; and the first of them, -1: none. */
size_t tagc_walk_count(const struct tagc_walk *walk, enum tagc_role role);
int tagc_walk_first(const struct tagc_walk *walk, enum tagc_role role);

/* A whole small file (of /proc, say), with a NUL behind it; NULL with errno set. More than `max` bytes are not read. */
char *tagc_file_text(const char *path, size_t max, size_t *size);

/* Reads an ELF file. False with errno set where it cannot be opened (EISDIR for a folder, EINVAL for other things that
 * are no files). */
bool tagc_file_image(const char *path, struct tagc_image *image, struct stat *status);

const char *tagc_base_name(const char *path);

#endif
