/* SPDX-License-Identifier: BSD-3-Clause
 * The imports of a shared object, read from its file: from a small object made by hand, from all kinds of damage to it,
 * and from real ones. The input lies before an inaccessible page: reading a byte too far ends this program.
 */
#include "interpose/nccl/imports.h"

#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/tap.h"

#if defined __x86_64__
enum { MACHINE = EM_X86_64, ANOTHER_MACHINE = EM_AARCH64 };
#else
enum { MACHINE = EM_AARCH64, ANOTHER_MACHINE = EM_X86_64 };
#endif

/* The strings, and their offsets. */
static const char strings[] = "\0puts\0ncclReduceScatter\0ncclGetVersion\0libc.so.6\0libnccl.so.2";
enum { PUTS = 1, REDUCE_SCATTER = 6, GET_VERSION = 24, LIBC = 39, LIBNCCL = 49 };

/* A whole object: its addresses are offsets in the file plus BASE. */
enum { BASE = 0x10000 };
struct object {
  Elf64_Ehdr header;
  Elf64_Phdr segments[2];
  Elf64_Sym symbols[3];
  char strings[sizeof strings];
  uint32_t hash[4], gnu_hash[4];
  Elf64_Dyn dynamic[8];
};
#define AT(member) (BASE + offsetof(struct object, member))

static struct object sound(void) {
  struct object o = {
    .header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
               .e_type = ET_DYN,
               .e_machine = MACHINE,
               .e_phoff = offsetof(struct object, segments),
               .e_phentsize = sizeof(Elf64_Phdr),
               .e_phnum = 2},
    .segments = {{.p_type = PT_LOAD, .p_vaddr = BASE, .p_filesz = sizeof o, .p_memsz = sizeof o},
                 {.p_type = PT_DYNAMIC, .p_offset = offsetof(struct object, dynamic), .p_filesz = sizeof o.dynamic}},
    .symbols = {{0}, {.st_name = PUTS}, {.st_name = REDUCE_SCATTER}},
    .hash = {1, 3, 0, 0},
    .gnu_hash = {1, 3, 1, 0},
    .dynamic = {{DT_NEEDED, {LIBC}},
                {DT_NEEDED, {LIBNCCL}},
                {DT_SYMTAB, {AT(symbols)}},
                {DT_STRTAB, {AT(strings)}},
                {DT_STRSZ, {sizeof strings}},
                {DT_HASH, {AT(hash)}},
                {DT_GNU_HASH, {AT(gnu_hash)}},
                {DT_NULL, {0}}},
  };
  memcpy(o.strings, strings, sizeof strings);
  return o;
}

/* Memory for an object directly before a forbidden page. */
static uint8_t *end_of_page;

static void make_page(void) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (sizeof(struct object) / page + 1) * page;
  uint8_t *memory = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory + room, page, PROT_NONE) != 0)
    exit(99);
  end_of_page = memory + room;
}

static bool scan_bytes(const void *bytes, size_t size, struct tagc_imports *imports) {
  memset(imports, 0x5a, sizeof *imports);
  memcpy(end_of_page - size, bytes, size);
  return tagc_imports_scan(end_of_page - size, size, imports);
}

static bool scan(const struct object *o, struct tagc_imports *imports) { return scan_bytes(o, sizeof *o, imports); }

static void is_sound(const struct object *o, bool nccl, const char *library, const char *what) {
  struct tagc_imports imports;
  bool good = scan(o, &imports);
  ok(good && imports.nccl == nccl && strcmp(imports.library, library) == 0, "%s: %s%s, needs '%s'", what,
     good ? "" : "refused, ", imports.nccl ? "imports NCCL" : "does not import NCCL", imports.library);
}

static void is_refused(const struct object *o, const char *what) {
  struct tagc_imports imports;
  bool good = scan(o, &imports);
  ok(!good && !imports.nccl && !*imports.library, "%s: refused", what);
}

static void test_sound(void) {
  struct object o = sound();
  is_sound(&o, true, "libnccl.so.2", "an object that imports ncclReduceScatter");
  o.dynamic[6].d_tag = DT_DEBUG;
  is_sound(&o, true, "libnccl.so.2", "with the older hash table alone");
  o.dynamic[5].d_tag = DT_DEBUG;
  is_sound(&o, true, "libnccl.so.2", "with no hash table");
  o.dynamic[6].d_tag = DT_GNU_HASH;
  is_sound(&o, true, "libnccl.so.2", "with the newer hash table alone");
  o.gnu_hash[1] = 1;
  is_sound(&o, true, "libnccl.so.2", "with the newer hash table, empty");
  o = sound();
  o.symbols[2].st_shndx = 1;
  is_sound(&o, false, "libnccl.so.2", "ncclReduceScatter is its own");
  o = sound();
  o.symbols[2].st_name = GET_VERSION;
  is_sound(&o, false, "libnccl.so.2", "a function of NCCL that is not intercepted");
  o.symbols[2].st_name = REDUCE_SCATTER + 1;
  is_sound(&o, false, "libnccl.so.2", "the end of such a name");
  o = sound();
  o.dynamic[1].d_tag = DT_RUNPATH;
  is_sound(&o, true, "", "no library that looks like NCCL is needed");
}

static void test_damaged(void) {
  struct object o = sound();
  o.header.e_machine = ANOTHER_MACHINE;
  is_refused(&o, "another machine");
  o = sound();
  o.header.e_ident[EI_CLASS] = ELFCLASS32;
  is_refused(&o, "32 bit");
  o = sound();
  o.header.e_type = ET_EXEC;
  is_refused(&o, "a program that is not position-independent");
  o = sound();
  o.header.e_phoff = UINT64_MAX - 8;
  is_refused(&o, "segments far behind the end");
  o = sound();
  o.header.e_phnum = 65535;
  is_refused(&o, "65535 segments");
  o = sound();
  o.segments[1].p_filesz = UINT64_MAX;
  is_refused(&o, "a dynamic section without end");
  o = sound();
  o.dynamic[4].d_un.d_val = UINT64_MAX;
  is_refused(&o, "names without end");
  o = sound();
  o.dynamic[2].d_un.d_ptr = UINT64_MAX - 3;
  is_refused(&o, "symbols that are in no segment");
  o = sound();
  o.segments[0].p_offset = UINT64_MAX - BASE;
  is_refused(&o, "a segment that is not in the file");
  o = sound();
  o.hash[1] = UINT32_MAX;
  o.symbols[2].st_name = PUTS;
  is_sound(&o, false, "libnccl.so.2", "a hash table that promises too many symbols");
  o = sound();
  o.symbols[2].st_name = UINT32_MAX;
  o.dynamic[1].d_un.d_val = UINT64_MAX;
  is_sound(&o, false, "", "names that are in no table");
  o = sound();
  memset(o.strings + LIBC, 'n', sizeof o.strings - LIBC);
  o.dynamic[1].d_un.d_val = LIBC;
  is_sound(&o, true, "", "a name that does not end");
}

/* Every prefix, and a change of every byte: an answer must come, and be empty on failure. */
static void test_all_damage(void) {
  static const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
  struct object o = sound();
  struct tagc_imports imports;
  int wrong = 0, accepted = 0;
  for (size_t size = 0; size < sizeof o; size++) {
    bool good = scan_bytes(&o, size, &imports);
    wrong += !good && (imports.nccl || *imports.library);
    accepted += good;
  }
  ok(wrong == 0, "%zu prefixes of it (%d of them readable)", sizeof o, accepted);
  wrong = accepted = 0;
  for (size_t i = 0; i < sizeof o; i++)
    for (size_t v = 0; v < sizeof values; v++) {
      o = sound();
      ((uint8_t *)&o)[i] = values[v];
      bool good = scan(&o, &imports);
      wrong += !memchr(imports.library, 0, sizeof imports.library) || (!good && (imports.nccl || *imports.library));
      accepted += good;
    }
  ok(wrong == 0, "each of its bytes changed to %zu values (%d of them readable)", sizeof values, accepted);
  uint64_t random = 1;
  wrong = accepted = 0;
  for (int round = 0; round < 20000; round++) {
    o = sound();
    for (int i = 0; i < 4; i++) {
      random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
      memcpy((uint8_t *)&o + (random >> 33) % (sizeof o - 8), &random, 1 + (random >> 20) % 8);
    }
    accepted += scan(&o, &imports);
    wrong += !memchr(imports.library, 0, sizeof imports.library);
  }
  ok(wrong == 0, "20000 objects with four random changes (%d of them readable)", accepted);
}

static void is_file(const char *path, bool readable, bool nccl, const char *library, const char *what) {
  struct tagc_imports imports;
  bool good = tagc_imports_read(path, &imports);
  ok(good == readable && imports.nccl == nccl && strcmp(imports.library, library) == 0, "%s: %s, %s, needs '%s'", what,
     good ? "read" : "not read", imports.nccl ? "imports NCCL" : "does not import NCCL", imports.library);
}

static void test_files(void) {
  const char *build = getenv("abs_top_builddir");
  char path[4096], pipe_path[] = "/tmp/tagc-imports.XXXXXX";
  snprintf(path, sizeof path, "%s/tests/e2e/nccl/nccl_plugin.so", build ? build : ".");
  is_file(path, true, true, "libnccl.so.2", "a plugin that is linked with NCCL");
  snprintf(path, sizeof path, "%s/tests/standin/libnccl.so.2", build ? build : ".");
  is_file(path, true, false, "", "an NCCL itself");
  is_file("/dev/null", false, false, "", "a device");
  is_file("/", false, false, "", "a folder");
  is_file("/nowhere/at/all.so", false, false, "", "nothing");
  is_file(__FILE__, false, false, "", "text");
  if (mkdtemp(pipe_path)) {
    snprintf(path, sizeof path, "%s/pipe", pipe_path);
    ok(mkfifo(path, 0600) == 0, "a pipe that nobody writes to");
    is_file(path, false, false, "", "it is not waited for");
    unlink(path);
    rmdir(pipe_path);
  }
}

int main(void) {
  make_page();
  test_sound();
  test_damaged();
  test_all_damage();
  test_files();
  return tap_done();
}
