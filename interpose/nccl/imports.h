/* SPDX-License-Identifier: BSD-3-Clause
 * Does a shared object import NCCL's functions? Read from its file, before it is loaded, for the dlopen hook.
 *
 * The file may be anything: every offset and size in it is checked against its end. Allocates nothing, takes no lock;
 * any thread. errno may change.
 */
#ifndef INTERPOSE_NCCL_IMPORTS_H
#define INTERPOSE_NCCL_IMPORTS_H

#include <stdbool.h>
#include <stddef.h>

struct tagc_imports {
  bool nccl;        /* it has an undefined symbol with the name of an intercepted function */
  char library[64]; /* the needed library that looks like NCCL ("libnccl.so.2"); "": none */
};

/* Reads an ELF object from memory. False if it is none for this machine, or is damaged; *imports is then empty. */
bool tagc_imports_scan(const void *bytes, size_t size, struct tagc_imports *imports);

/* The same for a file. False also if it cannot be read. */
bool tagc_imports_read(const char *path, struct tagc_imports *imports);

#endif
