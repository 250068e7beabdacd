/* SPDX-License-Identifier: BSD-3-Clause
 * The relation of one ELF image to NCCL. A pure function of the image's bytes, which may be hostile.
 *
 * It sees the image as the dynamic linker does: the dynamic section, found through the program headers. Section headers
 * only serve for hidden symbols and texts. Threads: any; nothing is shared.
 */
#ifndef INTERPOSE_TAGC_DOCTOR_ELF_H
#define INTERPOSE_TAGC_DOCTOR_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/nccl/unknown.h"

/* The intercepted functions; a set of them is a uint64_t, one bit each. */
enum tagc_function {
#define ENTRY(name) TAGC_FUNCTION_##name,
#include "interpose/nccl/entries.def"
  TAGC_FUNCTION_COUNT
};
#define TAGC_FUNCTION_BIT(function) (UINT64_C(1) << (function))

extern const char *const tagc_function_names[TAGC_FUNCTION_COUNT];

enum tagc_image_state {
  TAGC_IMAGE_GOOD,
  TAGC_IMAGE_FOREIGN, /* another byte order: nothing below `type` is known */
  TAGC_IMAGE_BAD      /* not a program or shared library, or damaged: see `why` */
};

enum { TAGC_NEEDED_MAX = 1024, TAGC_NCCL_VERSION_SIZE = 24 };

struct tagc_image {
  enum tagc_image_state state;
  char why[96];
  bool is64;
  uint16_t machine, type;                       /* e_machine, e_type */
  bool has_interpreter, pie, symbolic;          /* PT_INTERP; DF_1_PIE; DT_SYMBOLIC or DF_SYMBOLIC */
  char *interpreter, *soname, *rpath, *runpath; /* NULL: none */
  char **needed;                                /* DT_NEEDED, in order */
  size_t needed_count;
  uint64_t imported;                /* undefined, and named by a dynamic relocation */
  uint64_t open_calls;              /* defined here and exported, yet named by a dynamic relocation */
  uint64_t exported, hidden;        /* defined in the dynamic symbol table; only in .symtab */
  struct tagc_unknown_list unknown; /* functions of an NCCL that it exports, and that the library does not know */
  bool second_names;                /* imports functions of NCCL under their second names (pncclAllReduce) */
  bool asks_dlsym;                  /* imports dlsym */
  bool names_nccl;                  /* contains the text "libnccl.so", or the separate text "ncclReduceScatter" */
  char nccl_version[TAGC_NCCL_VERSION_SIZE]; /* from a text "NCCL version 2.28.9+cuda13.0"; "": none */
  unsigned glibc_needed, glibc_defined;      /* the highest minor of GLIBC_2.minor that it needs, or defines */
};

/* Reads an image of `size` bytes. Always succeeds; image->state has the outcome. Free with tagc_image_free(). */
void tagc_image_read(struct tagc_image *image, const void *bytes, size_t size);
void tagc_image_free(struct tagc_image *image);

/* True if the kernel starts it without a dynamic linker: such a program preloads nothing. */
bool tagc_image_is_static(const struct tagc_image *image);

/* Copies the version from a text as NCCL's libraries contain it ("NCCL version 2.28.9+cuda13.0", "... 2.18.3 compiled
 * with"). False: `text` (of `size` bytes) does not start with one. */
bool tagc_nccl_version_text(const char *text, size_t size, char version[TAGC_NCCL_VERSION_SIZE]);

#endif
