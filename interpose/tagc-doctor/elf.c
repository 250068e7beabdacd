/* SPDX-License-Identifier: BSD-3-Clause
 * libelf checks that its data lie inside the file. This file checks everything built from them again: counts are
 * bounded, texts must end, and no loop is longer than the file.
 */
#include "interpose/tagc-doctor/elf.h"

#include <ctype.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const tagc_function_names[TAGC_FUNCTION_COUNT] = {
#define ENTRY(name) #name,
#include "interpose/nccl/entries.def"
};
_Static_assert(TAGC_FUNCTION_COUNT <= 64, "a set of functions has 64 bits");

/* All names looked for are shorter than NAME_LENGTH; longer paths are invalid. */
enum { NAME_LENGTH = 64, TEXT_MAX = 4096, VERSIONS_MAX = 4096, SECTIONS_MAX = 4096 };

/* The relevant addresses and sizes of the dynamic section, by tag. */
struct dynamic {
  uint64_t strtab, strsz, symtab, hash, gnu_hash;
  uint64_t rela, relasz, rel, relsz, jmprel, pltrelsz, pltrel;
  uint64_t verneed, verneednum, verdef, verdefnum;
};

struct reader {
  Elf *elf;
  struct tagc_image *image;
  uint64_t size; /* of the file */
  size_t segments;
  struct dynamic dynamic;
  Elf_Data *texts, *symbols; /* the dynamic string and symbol tables, or NULL */
};

static void refuse_image(struct tagc_image *image, const char *why) {
  image->state = TAGC_IMAGE_BAD;
  snprintf(image->why, sizeof image->why, "%s", why);
}

/* The file's contents at an address, up to `want` bytes; NULL: none. */
static Elf_Data *at_address(struct reader *r, uint64_t address, uint64_t want, Elf_Type type) {
  GElf_Phdr segment;
  for (size_t i = 0; address && i < r->segments; i++) {
    if (!gelf_getphdr(r->elf, (int)i, &segment) || segment.p_type != PT_LOAD || address < segment.p_vaddr ||
        address - segment.p_vaddr >= segment.p_filesz)
      continue;
    uint64_t skip = address - segment.p_vaddr, there = segment.p_filesz - skip;
    if (want > there)
      want = there;
    return want ? elf_getdata_rawchunk(r->elf, (int64_t)(segment.p_offset + skip), want, type) : NULL;
  }
  return NULL;
}

/* The text at an offset of a string table if it ends within `limit` bytes, else NULL. */
static const char *text_in(const Elf_Data *table, uint64_t offset, size_t limit) {
  if (!table || !table->d_buf || offset >= table->d_size)
    return NULL;
  const char *text = (const char *)table->d_buf + offset;
  size_t there = table->d_size - offset;
  return memchr(text, '\0', there < limit ? there : limit) ? text : NULL;
}

static char *copy_text(const struct reader *r, uint64_t offset) {
  const char *text = text_in(r->texts, offset, TEXT_MAX);
  return text ? strdup(text) : NULL;
}

/* Checks that every segment lies in the file: ld.so would map it anyway. Also finds the interpreter. */
static bool read_segments(struct reader *r) {
  GElf_Phdr segment;
  for (size_t i = 0; i < r->segments; i++) {
    if (!gelf_getphdr(r->elf, (int)i, &segment)) {
      refuse_image(r->image, "damaged: its program headers lie outside the file");
      return false;
    }
    if (segment.p_type != PT_LOAD && segment.p_type != PT_DYNAMIC && segment.p_type != PT_INTERP)
      continue;
    if (segment.p_offset > r->size || segment.p_filesz > r->size - segment.p_offset) {
      refuse_image(r->image, "cut short: a segment ends beyond the file");
      return false;
    }
    if (segment.p_type != PT_INTERP || r->image->has_interpreter)
      continue;
    r->image->has_interpreter = true;
    Elf_Data *data = elf_getdata_rawchunk(r->elf, (int64_t)segment.p_offset, segment.p_filesz, ELF_T_BYTE);
    if (data && data->d_size && data->d_size <= TEXT_MAX)
      r->image->interpreter = strndup(data->d_buf, data->d_size);
  }
  return true;
}

static void note_dynamic_entry(struct dynamic *d, const GElf_Dyn *entry) {
  switch (entry->d_tag) {
  case DT_STRTAB: d->strtab = entry->d_un.d_ptr; break;
  case DT_STRSZ: d->strsz = entry->d_un.d_val; break;
  case DT_SYMTAB: d->symtab = entry->d_un.d_ptr; break;
  case DT_HASH: d->hash = entry->d_un.d_ptr; break;
  case DT_GNU_HASH: d->gnu_hash = entry->d_un.d_ptr; break;
  case DT_RELA: d->rela = entry->d_un.d_ptr; break;
  case DT_RELASZ: d->relasz = entry->d_un.d_val; break;
  case DT_REL: d->rel = entry->d_un.d_ptr; break;
  case DT_RELSZ: d->relsz = entry->d_un.d_val; break;
  case DT_JMPREL: d->jmprel = entry->d_un.d_ptr; break;
  case DT_PLTRELSZ: d->pltrelsz = entry->d_un.d_val; break;
  case DT_PLTREL: d->pltrel = entry->d_un.d_val; break;
  case DT_VERNEED: d->verneed = entry->d_un.d_ptr; break;
  case DT_VERNEEDNUM: d->verneednum = entry->d_un.d_val; break;
  case DT_VERDEF: d->verdef = entry->d_un.d_ptr; break;
  case DT_VERDEFNUM: d->verdefnum = entry->d_un.d_val; break;
  default: break;
  }
}

static Elf_Data *find_dynamic_section(struct reader *r) {
  GElf_Phdr segment;
  for (size_t i = 0; i < r->segments; i++)
    if (gelf_getphdr(r->elf, (int)i, &segment) && segment.p_type == PT_DYNAMIC && segment.p_filesz)
      return elf_getdata_rawchunk(r->elf, (int64_t)segment.p_offset, segment.p_filesz, ELF_T_DYN);
  return NULL;
}

/* Reads the dynamic section: addresses first, as texts need the string table. */
static void read_dynamic(struct reader *r) {
  Elf_Data *data = find_dynamic_section(r);
  struct tagc_image *image = r->image;
  GElf_Dyn entry;
  for (int i = 0; data && gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; i++) {
    note_dynamic_entry(&r->dynamic, &entry);
    image->symbolic |= entry.d_tag == DT_SYMBOLIC || (entry.d_tag == DT_FLAGS && entry.d_un.d_val & DF_SYMBOLIC);
    image->pie |= entry.d_tag == DT_FLAGS_1 && entry.d_un.d_val & DF_1_PIE;
  }
  r->texts = at_address(r, r->dynamic.strtab, r->dynamic.strsz, ELF_T_BYTE);
  r->symbols = at_address(r, r->dynamic.symtab, UINT64_MAX, ELF_T_SYM);
  image->needed = calloc(TAGC_NEEDED_MAX, sizeof *image->needed);
  for (int i = 0; data && gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; i++) {
    char **text = entry.d_tag == DT_SONAME    ? &image->soname
                  : entry.d_tag == DT_RPATH   ? &image->rpath
                  : entry.d_tag == DT_RUNPATH ? &image->runpath
                                              : NULL;
    if (text && !*text)
      *text = copy_text(r, entry.d_un.d_val);
    if (entry.d_tag != DT_NEEDED || !image->needed || image->needed_count == TAGC_NEEDED_MAX)
      continue;
    image->needed[image->needed_count] = copy_text(r, entry.d_un.d_val);
    image->needed_count += image->needed[image->needed_count] != NULL;
  }
}

/* The number of dynamic symbols; only the hash tables tell it. */
static uint64_t count_dynamic_symbols(struct reader *r) {
  Elf_Data *data = at_address(r, r->dynamic.hash, 8, ELF_T_WORD);
  if (data && data->d_size == 8)
    return ((const uint32_t *)data->d_buf)[1];
  data = at_address(r, r->dynamic.gnu_hash, UINT64_MAX, ELF_T_WORD);
  size_t words = data ? data->d_size / 4 : 0;
  if (words < 4)
    return 0;
  const uint32_t *table = data->d_buf;
  uint64_t buckets = table[0], first = table[1], filter = (uint64_t)table[2] * (r->image->is64 ? 2 : 1);
  uint64_t chains = 4 + filter + buckets, last = 0;
  if (chains > words)
    return first;
  for (uint64_t i = 4 + filter; i < chains; i++)
    if (table[i] > last)
      last = table[i];
  if (last < first)
    return first; /* no exports */
  while (last - first < words - chains && !(table[chains + last - first] & 1))
    last++;
  return last + 1;
}

/* The bit of a function that we intercept, 0 for other names. */
static uint64_t function_bit(const char *name) {
  if (name && strncmp(name, "nccl", 4) == 0)
    for (int i = 0; i < TAGC_FUNCTION_COUNT; i++)
      if (strcmp(name, tagc_function_names[i]) == 0)
        return TAGC_FUNCTION_BIT(i);
  return 0;
}

/* The dynamic linker binds exactly the calls that a relocation names. */
static void note_relocation(struct reader *r, uint64_t index) {
  GElf_Sym symbol;
  if (!index || index > INT32_MAX || !gelf_getsym(r->symbols, (int)index, &symbol))
    return;
  const char *name = text_in(r->texts, symbol.st_name, NAME_LENGTH);
  uint64_t bit = function_bit(name);
  if (symbol.st_shndx == SHN_UNDEF) {
    r->image->imported |= bit;
    r->image->asks_dlsym |= name && strcmp(name, "dlsym") == 0;
    r->image->second_names |= name && strncmp(name, "pnccl", 5) == 0;
  } else if (GELF_ST_VISIBILITY(symbol.st_other) == STV_DEFAULT && GELF_ST_BIND(symbol.st_info) != STB_LOCAL)
    r->image->open_calls |= bit;
}

static void read_relocations(struct reader *r, uint64_t address, uint64_t size, bool addends) {
  Elf_Data *data = r->symbols ? at_address(r, address, size, addends ? ELF_T_RELA : ELF_T_REL) : NULL;
  GElf_Rela rela;
  GElf_Rel rel;
  for (int i = 0; data && addends && gelf_getrela(data, i, &rela); i++)
    note_relocation(r, GELF_R_SYM(rela.r_info));
  for (int i = 0; data && !addends && gelf_getrel(data, i, &rel); i++)
    note_relocation(r, GELF_R_SYM(rel.r_info));
}

static void read_exports(struct reader *r) {
  uint64_t count = r->symbols ? count_dynamic_symbols(r) : 0;
  GElf_Sym symbol;
  for (uint64_t i = 1; i < count && i <= INT32_MAX && gelf_getsym(r->symbols, (int)i, &symbol); i++) {
    const char *name = symbol.st_shndx == SHN_UNDEF ? NULL : text_in(r->texts, symbol.st_name, NAME_LENGTH);
    r->image->exported |= function_bit(name);
    if (name && GELF_ST_TYPE(symbol.st_info) != STT_OBJECT && tagc_unknown_is(name))
      tagc_unknown_add(&r->image->unknown, name);
  }
}

/* The minor of "GLIBC_2.minor", 0 for other names. */
static unsigned glibc_minor(const char *name) {
  unsigned minor = 0;
  if (name && strncmp(name, "GLIBC_2.", 8) == 0 && isdigit((unsigned char)name[8]))
    sscanf(name + 8, "%4u", &minor);
  return minor;
}

static void read_versions(struct reader *r) {
  struct tagc_image *image = r->image;
  Elf_Data *data = at_address(r, r->dynamic.verneed, UINT64_MAX, ELF_T_VNEED);
  GElf_Verneed need;
  GElf_Vernaux version;
  int budget = VERSIONS_MAX;
  for (uint64_t i = 0, at = 0; data && i < r->dynamic.verneednum && at < INT32_MAX && budget > 0;
       i++, at += need.vn_next) {
    if (!gelf_getverneed(data, (int)at, &need))
      break;
    uint64_t inner = at + need.vn_aux;
    for (int j = 0; j < need.vn_cnt && inner < INT32_MAX && budget-- > 0 && gelf_getvernaux(data, (int)inner, &version);
         j++, inner += version.vna_next) {
      unsigned minor = glibc_minor(text_in(r->texts, version.vna_name, NAME_LENGTH));
      if (minor > image->glibc_needed)
        image->glibc_needed = minor;
    }
    if (!need.vn_next)
      break;
  }
  data = at_address(r, r->dynamic.verdef, UINT64_MAX, ELF_T_VDEF);
  GElf_Verdef definition;
  GElf_Verdaux name;
  for (uint64_t i = 0, at = 0; data && i < r->dynamic.verdefnum && i < VERSIONS_MAX && at < INT32_MAX; i++) {
    if (!gelf_getverdef(data, (int)at, &definition) || at + definition.vd_aux > INT32_MAX ||
        !gelf_getverdaux(data, (int)(at + definition.vd_aux), &name))
      break;
    unsigned minor = glibc_minor(text_in(r->texts, name.vda_name, NAME_LENGTH));
    if (minor > image->glibc_defined)
      image->glibc_defined = minor;
    if (!definition.vd_next)
      break;
    at += definition.vd_next;
  }
}

bool tagc_nccl_version_text(const char *text, size_t size, char version[TAGC_NCCL_VERSION_SIZE]) {
  static const char before[] = "NCCL version ";
  size_t at = sizeof before - 1, start = at, dots = 0;
  if (size <= at || memcmp(text, before, at) != 0)
    return false;
  for (; at < size && at - start < TAGC_NCCL_VERSION_SIZE; at++) {
    bool dot = text[at] == '.' && at > start && text[at - 1] != '.';
    if (!dot && !isdigit((unsigned char)text[at]))
      break;
    dots += dot;
  }
  size_t length = at - start, left = size - at;
  if (dots != 2 || text[at - 1] == '.' || length >= TAGC_NCCL_VERSION_SIZE)
    return false;
  /* Other programs' messages say "NCCL version 2.10.3 or later": accept only NCCL's own endings. */
  bool ends = !left || text[at] == '\0' || text[at] == '\n' || (left >= 5 && memcmp(text + at, "+cuda", 5) == 0) ||
              (left >= 9 && memcmp(text + at, " compiled", 9) == 0);
  if (ends)
    snprintf(version, TAGC_NCCL_VERSION_SIZE, "%.*s", (int)length, text + start);
  return ends;
}

static void search_texts(struct tagc_image *image, const Elf_Data *data) {
  if (!data || !data->d_buf)
    return;
  const char *start = data->d_buf, *end = start + data->d_size, *hit = start;
  static const char function[] = "ncclReduceScatter";
  image->names_nccl |= memmem(start, data->d_size, "libnccl.so", 10) != NULL ||
                       memmem(start, data->d_size, function, sizeof function) != NULL;
  while (!image->nccl_version[0] && (hit = memmem(hit, (size_t)(end - hit), "NCCL version ", 13)) != NULL)
    if (!tagc_nccl_version_text(hit, (size_t)(end - hit), image->nccl_version))
      hit++;
}

/* The string table in section `index`. Not elf_strptr(): its check of one text can take as long as the table. */
static Elf_Data *string_table(struct reader *r, size_t index) {
  GElf_Shdr header;
  Elf_Scn *section = index ? elf_getscn(r->elf, index) : NULL;
  if (!section || !gelf_getshdr(section, &header) || header.sh_type != SHT_STRTAB)
    return NULL;
  return elf_getdata_rawchunk(r->elf, (int64_t)header.sh_offset, header.sh_size, ELF_T_BYTE);
}

static void read_hidden(struct reader *r, const GElf_Shdr *table) {
  Elf_Data *data = elf_getdata_rawchunk(r->elf, (int64_t)table->sh_offset, table->sh_size, ELF_T_SYM);
  Elf_Data *texts = string_table(r, table->sh_link);
  GElf_Sym symbol;
  for (int i = 1; data && gelf_getsym(data, i, &symbol); i++)
    if (symbol.st_shndx != SHN_UNDEF && GELF_ST_TYPE(symbol.st_info) != STT_FILE)
      r->image->hidden |= function_bit(text_in(texts, symbol.st_name, NAME_LENGTH));
}

/* Reads what the dynamic linker ignores: hidden symbols, and texts. In total no more than the file's length, whatever
 * its section headers say. Without sections of texts, searches the read-only segments. */
static void read_sections(struct reader *r) {
  size_t index = 0, examined = 0;
  uint64_t budget = r->size;
  bool searched = false;
  Elf_Data *names = elf_getshdrstrndx(r->elf, &index) == 0 ? string_table(r, index) : NULL;
  GElf_Shdr header;
  for (Elf_Scn *section = NULL; examined < SECTIONS_MAX && (section = elf_nextscn(r->elf, section)) != NULL;) {
    if (!gelf_getshdr(section, &header) || header.sh_size > budget)
      continue;
    const char *name = text_in(names, header.sh_name, NAME_LENGTH);
    if (header.sh_type == SHT_PROGBITS && name &&
        (strncmp(name, ".rodata", 7) == 0 || strncmp(name, ".lrodata", 8) == 0)) {
      search_texts(r->image, elf_getdata_rawchunk(r->elf, (int64_t)header.sh_offset, header.sh_size, ELF_T_BYTE));
      searched = true;
    } else if (header.sh_type == SHT_SYMTAB)
      read_hidden(r, &header);
    else
      continue;
    budget -= header.sh_size;
    examined++;
  }
  GElf_Phdr segment;
  for (size_t i = 0; !searched && i < r->segments; i++)
    if (gelf_getphdr(r->elf, (int)i, &segment) && segment.p_type == PT_LOAD && !(segment.p_flags & PF_W) &&
        segment.p_filesz <= budget) {
      search_texts(r->image, elf_getdata_rawchunk(r->elf, (int64_t)segment.p_offset, segment.p_filesz, ELF_T_BYTE));
      budget -= segment.p_filesz;
    }
}

static void read_elf(struct reader *r) {
  struct tagc_image *image = r->image;
  GElf_Ehdr header;
  if (elf_kind(r->elf) != ELF_K_ELF || !gelf_getehdr(r->elf, &header)) {
    refuse_image(image,
                 elf_kind(r->elf) == ELF_K_AR ? "an archive, not a program or shared library" : "not an ELF file");
    return;
  }
  image->is64 = header.e_ident[EI_CLASS] == ELFCLASS64;
  image->machine = header.e_machine;
  image->type = header.e_type;
  if (header.e_ident[EI_DATA] != (__BYTE_ORDER == __LITTLE_ENDIAN ? ELFDATA2LSB : ELFDATA2MSB)) {
    image->state = TAGC_IMAGE_FOREIGN;
    return;
  }
  if (header.e_type != ET_EXEC && header.e_type != ET_DYN) {
    refuse_image(image, header.e_type == ET_REL    ? "an object file, not a program or shared library"
                        : header.e_type == ET_CORE ? "a core file, not a program or shared library"
                                                   : "neither a program nor a shared library");
    return;
  }
  if (elf_getphdrnum(r->elf, &r->segments) != 0 || !r->segments) {
    refuse_image(image, "damaged: it has no program headers");
    return;
  }
  if (!read_segments(r))
    return;
  read_dynamic(r);
  const struct dynamic *d = &r->dynamic;
  read_relocations(r, d->rela, d->relasz, true);
  read_relocations(r, d->rel, d->relsz, false);
  read_relocations(r, d->jmprel, d->pltrelsz, d->pltrel == DT_RELA);
  read_exports(r);
  read_versions(r);
  read_sections(r);
  image->open_calls &= image->symbolic ? 0 : image->exported;
  image->hidden &= ~image->exported;
}

void tagc_image_read(struct tagc_image *image, const void *bytes, size_t size) {
  memset(image, 0, sizeof *image);
  struct reader r = {.image = image, .size = size};
  if (size < EI_NIDENT || memcmp(bytes, ELFMAG, SELFMAG) != 0) {
    refuse_image(image, size ? "not an ELF file" : "an empty file");
    return;
  }
  elf_version(EV_CURRENT);
  r.elf = elf_memory((char *)bytes, size); /* read-only: nothing here makes libelf write */
  if (r.elf)
    read_elf(&r);
  else
    refuse_image(image, "not a readable ELF file");
  elf_end(r.elf);
}

void tagc_image_free(struct tagc_image *image) {
  for (size_t i = 0; i < image->needed_count; i++)
    free(image->needed[i]);
  free(image->needed);
  free(image->interpreter);
  free(image->soname);
  free(image->rpath);
  free(image->runpath);
  memset(image, 0, sizeof *image);
}

bool tagc_image_is_static(const struct tagc_image *image) {
  return image->state == TAGC_IMAGE_GOOD && !image->has_interpreter && (image->type == ET_EXEC || image->pie);
}
