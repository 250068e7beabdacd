/* SPDX-License-Identifier: BSD-3-Clause
 * dlsym, dlopen and the stubs: see hook.h. The arguments survive the C part, and the real function sees the caller's
 * return address.
 */
#define RTLD_DEEPBIND 8
#define STUB 32				/* TAGC_HOOK_STUB */

	.text
	.globl	dlsym
	.type	dlsym, @function
dlsym:
	.cfi_startproc
	endbr64
	movq	(%rsp), %rdx		/* who asks */
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	subq	$8, %rsp		/* calls want the stack 16-byte aligned */
	.cfi_adjust_cfa_offset 8
	call	tagc_hook_dlsym
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	testq	%rax, %rax
	jz	1f
	jmp	*%rax
1:	movq	%rdx, %rax
	ret
	.cfi_endproc
	.size	dlsym, .-dlsym

	.globl	dlopen
	.type	dlopen, @function
dlopen:
	.cfi_startproc
	endbr64
	testl	$RTLD_DEEPBIND, %esi
	jnz	1f
	movq	tagc_hook_next_dlopen(%rip), %rax
	testq	%rax, %rax
	jz	1f
	jmp	*%rax
1:	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	call	tagc_hook_dlopen
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	movl	%edx, %esi
	jmp	*%rax
	.cfi_endproc
	.size	dlopen, .-dlopen

/* tagc_real_stub = copy + 1, and on to the exported function with every argument where it is. */
	.macro	stub copy, name
0:	endbr64
	movq	tagc_real_stub@gottpoff(%rip), %r11
	movl	$\copy + 1, %fs:(%r11)
	jmp	\name
	.org	0b + STUB, 0xcc	/* an error where the stub is longer */
	.endm

	.macro	no_stub
0:	ud2
	.org	0b + STUB, 0xcc
	.endm

	.globl	tagc_hook_stubs
	.hidden	tagc_hook_stubs
	.type	tagc_hook_stubs, @function
	.p2align 5, 0xcc
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
	.section .note.GNU-stack, "", @progbits
#ifdef __CET__
#include <cet.h>		/* the note that says: this object keeps to shadow stacks and branch targets */
#endif
