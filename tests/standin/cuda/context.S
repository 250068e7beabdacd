/* SPDX-License-Identifier: BSD-3-Clause
 * void context_switch(void **from, void *to): pushes the registers that a function must preserve, stores the stack
 * pointer in *from, and continues at the stack kept in `to`. void context_begin(void): the first code on a new stack.
 * fibre_create() lays that out as context_switch() would have left it. It calls fibre_main(), which does not return.
 *
 * Rounding modes are not switched: kernels leave them alone.
 */
	.text
	.globl	context_switch
	.hidden	context_switch
	.type	context_switch, %function
	.globl	context_begin
	.hidden	context_begin
	.type	context_begin, %function

#if defined __x86_64__
context_switch:
	.cfi_startproc
	endbr64
	push	%rbp
	push	%rbx
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	mov	%rsp, (%rdi)
	mov	%rsi, %rsp
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbx
	pop	%rbp
	pop	%rcx			/* a ret would go elsewhere than its call, which processors do not foresee */
	notrack jmp	*%rcx
	.cfi_endproc
	.size	context_switch, .-context_switch

context_begin:
	.cfi_startproc
	.cfi_undefined rip		/* nobody called */
	call	fibre_main@PLT
	ud2
	.cfi_endproc
	.size	context_begin, .-context_begin

#elif defined __aarch64__
context_switch:
	.cfi_startproc
	hint	#34			/* bti c */
	sub	sp, sp, #160
	stp	x19, x20, [sp]
	stp	x21, x22, [sp, #16]
	stp	x23, x24, [sp, #32]
	stp	x25, x26, [sp, #48]
	stp	x27, x28, [sp, #64]
	stp	x29, x30, [sp, #80]
	stp	d8, d9, [sp, #96]
	stp	d10, d11, [sp, #112]
	stp	d12, d13, [sp, #128]
	stp	d14, d15, [sp, #144]
	mov	x9, sp
	str	x9, [x0]
	mov	sp, x1
	ldp	x19, x20, [sp]
	ldp	x21, x22, [sp, #16]
	ldp	x23, x24, [sp, #32]
	ldp	x25, x26, [sp, #48]
	ldp	x27, x28, [sp, #64]
	ldp	x29, x30, [sp, #80]
	ldp	d8, d9, [sp, #96]
	ldp	d10, d11, [sp, #112]
	ldp	d12, d13, [sp, #128]
	ldp	d14, d15, [sp, #144]
	add	sp, sp, #160
	ret
	.cfi_endproc
	.size	context_switch, .-context_switch

context_begin:
	.cfi_startproc
	.cfi_undefined x30		/* nobody called */
	bl	fibre_main
	udf	#0
	.cfi_endproc
	.size	context_begin, .-context_begin
#endif

	.section .note.GNU-stack, "", %progbits
