/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/* The first instructions: the stack, filled with a pattern by which its use is measured, and the network's files. */

	.section .text.start, "ax"
	.globl _start
_start:
	csrr	t0, mhartid
	bnez	t0, 3f
	la	sp, stack_end
	la	t0, stack_start
	li	t1, 0x5a5a5a5a5a5a5a5a
1:	sd	t1, 0(t0)
	addi	t0, t0, 8
	bltu	t0, sp, 1b
	la	t0, bss_start
	la	t1, bss_end
2:	bgeu	t0, t1, 4f
	sd	zero, 0(t0)
	addi	t0, t0, 8
	j	2b
4:	call	main
3:	wfi
	j	3b

	.section .network, "a"
	.balign 8
	.globl loadable, loadable_end, picture, picture_end
loadable:
	.incbin "lenet.nvdla"
loadable_end:
	.balign 8
picture:
	.incbin "seven.pgm"
picture_end:
