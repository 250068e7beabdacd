/* SPDX-License-Identifier: BSD-3-Clause
 * Includes the files that nvcc made (local.mk), unchanged. The assembler finds them from the top of the build folder.
 */
#include "kernels/device/fatbin.h"

__asm__(".pushsection .rodata\n"
        "  .hidden tagc_fatbin_begin, tagc_fatbin_end, tagc_fatbin_text\n"
        "  .globl tagc_fatbin_begin, tagc_fatbin_end, tagc_fatbin_text\n"
        "  .balign 64\n"
        "tagc_fatbin_begin:\n"
        "  .incbin \"kernels/kernels.fatbin\"\n"
        "tagc_fatbin_end:\n"
        "tagc_fatbin_text:\n"
        "  .incbin \"kernels/kernels.ptx\"\n"
        "  .byte 0\n"
        ".popsection\n");

extern const char tagc_fatbin_begin[] __attribute__((visibility("hidden")));
extern const char tagc_fatbin_end[] __attribute__((visibility("hidden")));
extern const char tagc_fatbin_text[] __attribute__((visibility("hidden")));

const void *tagc_fatbin(void) { return tagc_fatbin_begin; }
size_t tagc_fatbin_size(void) { return (size_t)(tagc_fatbin_end - tagc_fatbin_begin); }
const char *tagc_fatbin_ptx(void) { return tagc_fatbin_text; }
