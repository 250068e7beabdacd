/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/nccl/linker.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#if defined __x86_64__
enum { SLOT_OF_CALL = R_X86_64_JUMP_SLOT, SLOT_OF_ADDRESS = R_X86_64_GLOB_DAT };
#elif defined __aarch64__
enum { SLOT_OF_CALL = R_AARCH64_JUMP_SLOT, SLOT_OF_ADDRESS = R_AARCH64_GLOB_DAT };
#endif

/* The version that every C library for this machine has, at least to run old programs. Asking for a missing version
 * would allocate the text for dlerror(): a preloaded malloc that calls dlsym would come back here for ever. */
#if defined __x86_64__
#define BASELINE "GLIBC_2.2.5"
#elif defined __aarch64__
#define BASELINE "GLIBC_2.17"
#endif

TAGC_BEFORE_SANITIZERS tagc_dlsym_function *tagc_linker_dlsym(void) {
  static _Atomic(tagc_dlsym_function *) known;
  tagc_dlsym_function *found = atomic_load_explicit(&known, memory_order_relaxed);
  if (found)
    return found;
  /* By version: dlvsym skips those of other preloaded libraries, which have no versions. */
  found = (tagc_dlsym_function *)dlvsym(RTLD_NEXT, "dlsym", BASELINE);
  atomic_store_explicit(&known, found, memory_order_relaxed);
  return found;
}

TAGC_BEFORE_SANITIZERS tagc_dlsym_function *tagc_linker_next_dlsym(void) {
  static _Atomic(tagc_dlsym_function *) known;
  tagc_dlsym_function *found = atomic_load_explicit(&known, memory_order_relaxed);
  if (found)
    return found;
  found = (tagc_dlsym_function *)tagc_linker_dlsym()(RTLD_NEXT, "dlsym");
  atomic_store_explicit(&known, found, memory_order_relaxed);
  return found;
}

TAGC_BEFORE_SANITIZERS tagc_dlopen_function *tagc_linker_next_dlopen(void) {
  static _Atomic(tagc_dlopen_function *) known;
  tagc_dlopen_function *found = atomic_load_explicit(&known, memory_order_relaxed);
  if (found)
    return found;
  found = (tagc_dlopen_function *)tagc_linker_dlsym()(RTLD_NEXT, "dlopen");
  atomic_store_explicit(&known, found, memory_order_relaxed);
  return found;
}

struct search {
  uintptr_t address;
  struct tagc_object *found;
  bool past_us; /* this library has been visited */
};

static void span(const struct dl_phdr_info *info, uintptr_t *low, uintptr_t *high, const void **dynamic) {
  *dynamic = NULL;
  *low = UINTPTR_MAX;
  *high = 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    uintptr_t begins = info->dlpi_addr + segment->p_vaddr, ends = begins + segment->p_memsz;
    if (segment->p_type == PT_DYNAMIC)
      *dynamic = (const void *)begins;
    if (segment->p_type != PT_LOAD)
      continue;
    *low = begins < *low ? begins : *low;
    *high = ends > *high ? ends : *high;
  }
}

/* Objects come in load order: the program, preloaded libraries, all others. */
static int visit_object(struct dl_phdr_info *info, size_t size, void *argument) {
  struct search *search = argument;
  uintptr_t low, high, us = (uintptr_t)&tagc_linker_find;
  const void *dynamic;
  (void)size;
  span(info, &low, &high, &dynamic);
  if (low <= search->address && search->address < high) {
    *search->found = (struct tagc_object){
      low, high, info->dlpi_name ? info->dlpi_name : "", !search->past_us, info->dlpi_addr, dynamic};
    return 1;
  }
  search->past_us |= low <= us && us < high;
  return 0;
}

bool tagc_linker_find(const void *address, struct tagc_object *object) {
  struct search search = {(uintptr_t)address, object, false};
  return dl_iterate_phdr(visit_object, &search) == 1;
}

/* The parts of the dynamic section that name an object's imported and exported functions. */
struct references {
  const Elf64_Sym *symbols;
  const char *strings;
  size_t string_bytes;
  const uint32_t *hash, *gnu_hash;
  const Elf64_Rela *tables[2];
  size_t bytes[2];
};

/* Far more than linkers make. */
enum { MOST_DYNAMIC = 8192 };

static bool is_within(const struct tagc_object *object, uintptr_t address, size_t bytes) {
  uintptr_t at = address - object->low, size = object->high - object->low;
  return at < size && bytes <= size - at;
}

/* An address of the dynamic section: glibc has added the base to it, other libraries leave it as in the file. */
static const void *find_address(const struct tagc_object *object, uintptr_t value) {
  uintptr_t address = is_within(object, value, 1) ? value : value + object->base;
  return is_within(object, address, 1) ? (const void *)address : NULL;
}

static struct references find_references(const struct tagc_object *object) {
  struct references r = {0};
  const Elf64_Dyn *d = object->dynamic;
  for (int i = 0; d && i < MOST_DYNAMIC && is_within(object, (uintptr_t)d, sizeof *d) && d->d_tag != DT_NULL; i++, d++)
    switch (d->d_tag) {
    case DT_SYMTAB: r.symbols = find_address(object, d->d_un.d_ptr); break;
    case DT_STRTAB: r.strings = find_address(object, d->d_un.d_ptr); break;
    case DT_STRSZ: r.string_bytes = d->d_un.d_val; break;
    case DT_HASH: r.hash = find_address(object, d->d_un.d_ptr); break;
    case DT_GNU_HASH: r.gnu_hash = find_address(object, d->d_un.d_ptr); break;
    case DT_JMPREL: r.tables[0] = find_address(object, d->d_un.d_ptr); break;
    case DT_PLTRELSZ: r.bytes[0] = d->d_un.d_val; break;
    case DT_RELA: r.tables[1] = find_address(object, d->d_un.d_ptr); break;
    case DT_RELASZ: r.bytes[1] = d->d_un.d_val; break;
    default: break;
    }
  for (int i = 0; i < 2; i++)
    if (!r.symbols || !r.tables[i] || !is_within(object, (uintptr_t)r.tables[i], r.bytes[i]))
      r.bytes[i] = 0;
  if (!r.strings || !is_within(object, (uintptr_t)r.strings, r.string_bytes))
    r.string_bytes = 0;
  return r;
}

/* The name of a symbol; NULL: damaged. */
static const char *symbol_name(const struct tagc_object *object, const struct references *r, const Elf64_Sym *symbol) {
  if (!is_within(object, (uintptr_t)symbol, sizeof *symbol) || symbol->st_name >= r->string_bytes ||
      !memchr(r->strings + symbol->st_name, 0, r->string_bytes - symbol->st_name))
    return NULL;
  return r->strings + symbol->st_name;
}

/* The name of a relocation that holds the address of an imported function; else NULL. */
static const char *imported(const struct tagc_object *object, const struct references *r,
                            const Elf64_Rela *relocation) {
  uint64_t type = ELF64_R_TYPE(relocation->r_info);
  const Elf64_Sym *symbol = r->symbols + ELF64_R_SYM(relocation->r_info);
  if ((type != SLOT_OF_CALL && type != SLOT_OF_ADDRESS) || ELF64_R_SYM(relocation->r_info) == 0 ||
      !is_within(object, (uintptr_t)symbol, sizeof *symbol) || symbol->st_shndx != SHN_UNDEF)
    return NULL;
  return symbol_name(object, r, symbol);
}

bool tagc_linker_find_binding(const struct tagc_object *object, bool (*wanted)(const char *name),
                              struct tagc_binding *binding) {
  struct references r = find_references(object);
  struct tagc_object holder;
  for (int table = 0; table < 2; table++)
    for (size_t i = 0; i < r.bytes[table] / sizeof *r.tables[table]; i++) {
      const Elf64_Rela *relocation = &r.tables[table][i];
      const char *name = imported(object, &r, relocation);
      uintptr_t slot = object->base + relocation->r_offset;
      if (!name || !wanted(name) || slot % sizeof slot != 0 || !is_within(object, slot, sizeof slot))
        continue;
      void *address = (void *)__atomic_load_n((uintptr_t *)slot, __ATOMIC_RELAXED);
      /* Inside the object the address still waits to be bound, or the object has a function of its own. */
      if (tagc_object_holds(object, address) || !tagc_linker_find(address, &holder) || holder.before_us)
        continue;
      *binding = (struct tagc_binding){name, address};
      return true;
    }
  return false;
}

static bool holds_words(const struct tagc_object *object, const uint32_t *at, uint64_t count) {
  return count <= UINT32_MAX && is_within(object, (uintptr_t)at, count * sizeof *at);
}

/* The number of symbols, from the newer hash table: the chain of the last bucket ends with the last symbol. Without
 * exports, that of the imported ones, which come first. */
static uint32_t count_by_gnu_hash(const struct tagc_object *object, const uint32_t *table) {
  if (!holds_words(object, table, 4))
    return 0;
  const uint32_t buckets = table[0], first = table[1];
  const uint64_t filter = (uint64_t)table[2] * 2;
  uint32_t last = 0;
  if (!holds_words(object, table, 4 + filter + buckets))
    return 0;
  const uint32_t *bucket = table + 4 + filter, *chain = bucket + buckets;
  for (uint32_t i = 0; i < buckets; i++)
    last = bucket[i] > last ? bucket[i] : last;
  if (last < first)
    return first;
  while (holds_words(object, chain + (last - first), 1) && !(chain[last - first] & 1))
    last++;
  return last + 1;
}

static uint32_t count_dynamic(const struct tagc_object *object, const struct references *r) {
  if (!r->symbols || !r->strings)
    return 0;
  if (r->gnu_hash)
    return count_by_gnu_hash(object, r->gnu_hash);
  return r->hash && holds_words(object, r->hash, 2) ? r->hash[1] : 0;
}

void tagc_linker_visit_exports(const struct tagc_object *object, void (*visit)(const char *name, void *context),
                               void *context) {
  const struct references r = find_references(object);
  const uint32_t count = count_dynamic(object, &r);
  for (uint32_t i = 1; i < count; i++) {
    const char *name = symbol_name(object, &r, r.symbols + i);
    if (name && r.symbols[i].st_shndx != SHN_UNDEF && ELF64_ST_TYPE(r.symbols[i].st_info) != STT_OBJECT)
      visit(name, context);
  }
}

struct import_search {
  bool (*wanted)(const char *name);
  size_t skip;
  struct tagc_importer *found;
  bool past_us;
};

struct export_search {
  const char *name;
  bool found;
};

static void compare_export(const char *name, void *search_) {
  struct export_search *search = search_;
  search->found |= strcmp(name, search->name) == 0;
}

/* A wrapper of NCCL behind this library: its calls come from here. */
static bool is_wrapper(const struct tagc_object *object, const char *name) {
  struct export_search search = {.name = name};
  if (!object->before_us)
    tagc_linker_visit_exports(object, compare_export, &search);
  return search.found;
}

static bool search_imports(const struct tagc_object *object, const struct import_search *search) {
  const struct references r = find_references(object);
  const uint32_t count = count_dynamic(object, &r);
  for (uint32_t i = 1; i < count; i++) {
    const char *name = symbol_name(object, &r, r.symbols + i);
    if (!name || r.symbols[i].st_shndx != SHN_UNDEF || !search->wanted(name) || is_wrapper(object, name + search->skip))
      continue;
    struct tagc_importer *found = search->found;
    snprintf(found->object, sizeof found->object, "%s", *object->name ? object->name : "this program");
    snprintf(found->name, sizeof found->name, "%s", name);
    return true;
  }
  return false;
}

static int visit_importer(struct dl_phdr_info *info, size_t size, void *search_) {
  struct import_search *search = search_;
  struct tagc_object object = {.name = info->dlpi_name ? info->dlpi_name : "", .base = info->dlpi_addr};
  (void)size;
  span(info, &object.low, &object.high, &object.dynamic);
  object.before_us = !search->past_us;
  const bool us = tagc_object_holds(&object, (const void *)&tagc_linker_find);
  search->past_us |= us;
  return !us && search_imports(&object, search);
}

bool tagc_linker_find_importer(bool (*wanted)(const char *name), size_t skip, struct tagc_importer *importer) {
  struct import_search search = {wanted, skip, importer, false};
  return dl_iterate_phdr(visit_importer, &search) != 0;
}

void *tagc_linker_pin(const struct tagc_object *object) {
  return dlopen(*object->name ? object->name : NULL, RTLD_LAZY | RTLD_NOLOAD);
}
