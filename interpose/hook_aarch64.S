/* SPDX-License-Identifier: BSD-3-Clause
 * dlsym(handle, name): see hook.h. The arguments survive the C part, and the real dlsym sees the caller's return address.
 */
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
	.section .note.GNU-stack, "", %progbits
#ifdef __ARM_FEATURE_BTI_DEFAULT
	.section .note.gnu.property, "a", %note	/* that says: this object keeps to branch targets */
	.balign 8
	.word	4, 16, 5
	.asciz	"GNU"
	.word	0xc0000000, 4, 1, 0
#endif
