/* SPDX-License-Identifier: BSD-3-Clause
 * Reads what the dynamic linker would see: program headers -> dynamic section -> symbols and their names. Ignores
 * sections, which a stripped object may lack.
 */
#include "interpose/nccl/imports.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interpose/nccl/real.h"

#if defined __x86_64__
enum { MACHINE = EM_X86_64 };
#elif defined __aarch64__
enum { MACHINE = EM_AARCH64 };
#endif
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
enum { BYTE_ORDER_HERE = ELFDATA2LSB };
#else
enum { BYTE_ORDER_HERE = ELFDATA2MSB };
#endif

/* Far more than linkers make; these bound the time for a damaged file. */
enum { MOST_SEGMENTS = 256, MOST_DYNAMIC = 8192 };

struct file {
  const uint8_t *bytes;
  size_t size;
  Elf64_Ehdr header;
};

/* The tables of the dynamic section, as offsets in the file. */
struct dynamic {
  size_t begin, entries;
  size_t symbols, symbol_count;
  size_t strings, string_bytes;
};

/* Copies an element of the file, perhaps unaligned. False if the file ends too early. */
static bool read_bytes(const struct file *file, uint64_t offset, void *to, size_t bytes) {
  if (offset > file->size || bytes > file->size - offset)
    return false;
  memcpy(to, file->bytes + offset, bytes);
  return true;
}

static bool take_segment(const struct file *file, unsigned i, Elf64_Phdr *segment) {
  uint64_t begin = file->header.e_phoff;
  return begin <= file->size && read_bytes(file, begin + i * sizeof *segment, segment, sizeof *segment);
}

/* Finds the file offset of a virtual address; false: none. */
static bool find_offset(const struct file *file, uint64_t address, size_t *offset) {
  Elf64_Phdr segment;
  for (unsigned i = 0; i < file->header.e_phnum && take_segment(file, i, &segment); i++)
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz &&
        segment.p_offset <= file->size && address - segment.p_vaddr < file->size - segment.p_offset) {
      *offset = (size_t)(segment.p_offset + (address - segment.p_vaddr));
      return true;
    }
  return false;
}

static bool take_header(struct file *file) {
  const Elf64_Ehdr *h = &file->header;
  return read_bytes(file, 0, &file->header, sizeof file->header) && memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 &&
         h->e_ident[EI_CLASS] == ELFCLASS64 && h->e_ident[EI_DATA] == BYTE_ORDER_HERE && h->e_machine == MACHINE &&
         h->e_type == ET_DYN && h->e_phentsize == sizeof(Elf64_Phdr) && h->e_phnum <= MOST_SEGMENTS;
}

static bool take_dynamic(const struct file *file, const struct dynamic *d, size_t i, Elf64_Dyn *entry) {
  return i < d->entries && read_bytes(file, d->begin + i * sizeof *entry, entry, sizeof *entry) &&
         entry->d_tag != DT_NULL;
}

/* The number of symbols to read, from the hash tables: the older one has all of them, the newer one begins behind the
 * imported ones (at 1 when it is empty). Without either, linkers put the names right behind the symbols. */
static size_t count_symbols(const struct file *file, const struct dynamic *d, size_t hash, size_t gnu_hash) {
  size_t until_names = d->strings > d->symbols ? (d->strings - d->symbols) / sizeof(Elf64_Sym) : 0;
  uint32_t words[2];
  if (hash && read_bytes(file, hash, words, sizeof words))
    return words[1];
  if (gnu_hash && read_bytes(file, gnu_hash, words, sizeof words) && words[1] > 1)
    return words[1];
  return until_names;
}

static bool find_dynamic(const struct file *file, struct dynamic *d) {
  Elf64_Phdr segment = {0};
  Elf64_Dyn entry;
  size_t hash = 0, gnu_hash = 0;
  bool symbols = false, strings = false;
  for (unsigned i = 0; i < file->header.e_phnum && take_segment(file, i, &segment) && segment.p_type != PT_DYNAMIC; i++)
    ;
  if (segment.p_type != PT_DYNAMIC || segment.p_offset > file->size || segment.p_filesz / sizeof entry > MOST_DYNAMIC)
    return false;
  *d = (struct dynamic){.begin = segment.p_offset, .entries = segment.p_filesz / sizeof entry};
  for (size_t i = 0; take_dynamic(file, d, i, &entry); i++)
    switch (entry.d_tag) {
    case DT_SYMTAB: symbols = find_offset(file, entry.d_un.d_ptr, &d->symbols); break;
    case DT_STRTAB: strings = find_offset(file, entry.d_un.d_ptr, &d->strings); break;
    case DT_STRSZ: d->string_bytes = entry.d_un.d_val; break;
    case DT_HASH: find_offset(file, entry.d_un.d_ptr, &hash); break;
    case DT_GNU_HASH: find_offset(file, entry.d_un.d_ptr, &gnu_hash); break;
    default: break;
    }
  if (!symbols || !strings || d->string_bytes > file->size - d->strings)
    return false;
  d->symbol_count = count_symbols(file, d, hash, gnu_hash);
  return true;
}

/* A name of the string table; NULL if it does not end there, or is longer than any that matters here. */
static const char *string_at(const struct file *file, const struct dynamic *d, uint64_t at) {
  if (at >= d->string_bytes)
    return NULL;
  const char *name = (const char *)file->bytes + d->strings + at;
  size_t left = d->string_bytes - at, most = sizeof((struct tagc_imports *)0)->library;
  return memchr(name, 0, left < most ? left : most) ? name : NULL;
}

bool tagc_imports_scan(const void *bytes, size_t size, struct tagc_imports *imports) {
  struct file file = {.bytes = bytes, .size = size};
  struct dynamic dynamic;
  *imports = (struct tagc_imports){0};
  if (!take_header(&file) || !find_dynamic(&file, &dynamic))
    return false;
  Elf64_Sym symbol;
  for (size_t i = 1; i < dynamic.symbol_count && !imports->nccl; i++) {
    if (!read_bytes(&file, dynamic.symbols + i * sizeof symbol, &symbol, sizeof symbol))
      break;
    const char *name = symbol.st_shndx == SHN_UNDEF ? string_at(&file, &dynamic, symbol.st_name) : NULL;
    imports->nccl = name && tagc_real_find_entry(name) != TAGC_ENTRY_COUNT;
  }
  Elf64_Dyn entry;
  for (size_t i = 0; take_dynamic(&file, &dynamic, i, &entry); i++) {
    const char *name = entry.d_tag == DT_NEEDED ? string_at(&file, &dynamic, entry.d_un.d_val) : NULL;
    if (name && strstr(name, "nccl")) {
      strcpy(imports->library, name);
      break;
    }
  }
  return true;
}

bool tagc_imports_read(const char *path, struct tagc_imports *imports) {
  *imports = (struct tagc_imports){0};
  struct stat status;
  bool good = false;
  /* Non-blocking, because the name may be that of a pipe. */
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    return false;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
    size_t size = (size_t)status.st_size;
    void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes != MAP_FAILED) {
      good = tagc_imports_scan(bytes, size, imports);
      munmap(bytes, size);
    }
  }
  close(fd);
  return good;
}
