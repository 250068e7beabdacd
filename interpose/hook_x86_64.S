/* SPDX-License-Identifier: BSD-3-Clause
 * dlsym(handle, name): see hook.h. The arguments survive the C part, and the real dlsym sees the caller's return address.
 */
	.text
	.globl	dlsym
	.type	dlsym, @function
dlsym:
	.cfi_startproc
	endbr64
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
	.section .note.GNU-stack, "", @progbits
#ifdef __CET__
#include <cet.h>		/* the note that says: this object keeps to shadow stacks and branch targets */
#endif
