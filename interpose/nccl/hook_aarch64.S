/* SPDX-License-Identifier: BSD-3-Clause
 * dlsym, dlopen and the stubs: see hook.h. The arguments survive the C part, and the real function sees the caller's
 * return address.
 */
#define RTLD_DEEPBIND 8
#define STUB 32				/* TAGC_HOOK_STUB */

	.text
	.globl	dlsym
	.type	dlsym, %function
dlsym:
	.cfi_startproc
	hint	#34			/* bti c */
	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset 29, -32
	.cfi_offset 30, -24
	stp	x0, x1, [sp, #16]
	mov	x2, x30			/* who asks */
	bl	tagc_hook_dlsym
	mov	x16, x0
	mov	x17, x1
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #32
	.cfi_restore 29
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	cbz	x16, 1f
	br	x16
1:	mov	x0, x17
	ret
	.cfi_endproc
	.size	dlsym, .-dlsym

	.globl	dlopen
	.type	dlopen, %function
dlopen:
	.cfi_startproc
	hint	#34			/* bti c */
	tst	w1, #RTLD_DEEPBIND
	b.ne	1f
	adrp	x16, tagc_hook_next_dlopen
	ldr	x16, [x16, #:lo12:tagc_hook_next_dlopen]
	cbz	x16, 1f
	br	x16
1:	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset 29, -32
	.cfi_offset 30, -24
	str	x0, [sp, #16]
	bl	tagc_hook_dlopen
	mov	x16, x0
	ldr	x0, [sp, #16]
	ldp	x29, x30, [sp], #32
	.cfi_restore 29
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	br	x16			/* x1 holds the flags */
	.cfi_endproc
	.size	dlopen, .-dlopen

/* tagc_real_stub = copy + 1, and on to the exported function with every argument where it is. */
	.macro	stub copy, name
0:	hint	#34
	adrp	x16, :gottprel:tagc_real_stub
	ldr	x16, [x16, #:gottprel_lo12:tagc_real_stub]
	mrs	x17, tpidr_el0
	mov	w9, #\copy + 1
	str	w9, [x17, x16]
	b	\name
	.org	0b + STUB	/* an error where the stub is longer */
	.endm

	.macro	no_stub
0:	udf	#0
	.org	0b + STUB
	.endm

	.globl	tagc_hook_stubs
	.hidden	tagc_hook_stubs
	.type	tagc_hook_stubs, %function
	.p2align 5
tagc_hook_stubs:
	.cfi_startproc
#define USED(name) no_stub
#define ENTRY(name) stub 0, name
#include "interpose/nccl/entries.def"
#define USED(name) no_stub
#define ENTRY(name) stub 1, name
#include "interpose/nccl/entries.def"
#define USED(name) no_stub
#define ENTRY(name) stub 2, name
#include "interpose/nccl/entries.def"
#define USED(name) no_stub
#define ENTRY(name) stub 3, name
#include "interpose/nccl/entries.def"
	.cfi_endproc
	.size	tagc_hook_stubs, .-tagc_hook_stubs
	.section .note.GNU-stack, "", %progbits
#ifdef __ARM_FEATURE_BTI_DEFAULT
	.section .note.gnu.property, "a", %note	/* that says: this object keeps to branch targets */
	.balign 8
	.word	4, 16, 5
	.asciz	"GNU"
	.word	0xc0000000, 4, 1, 0
#endif
