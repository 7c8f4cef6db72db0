// SPDX-License-Identifier: GPL-2.0-only
/*
 * Divisions of 64-bit numbers on 32-bit Arm, where the processor has none. The compiler calls a
 * function that the kernel does not have, because most drivers can avoid such a division. The rules
 * of NVDLA's layouts cannot: surfaces and lines have strides of 64 bits. None of these divisions is
 * on the way from an interrupt to a fence.
 */

#include <linux/math64.h>

#include "helpers.h"

u64 nvdla_divide(u64 value, u64 divisor, u64 *rest)
{
	return div64_u64_rem(value, divisor, rest);
}

/*
 * The operands are in r0 to r3, as nvdla_divide() has them. The quotient is returned in r0 and r1,
 * as there, and the rest in r2 and r3.
 */
__attribute__((naked)) void __aeabi_uldivmod(void)
{
	asm("push	{r4, lr}\n\t"
	    "sub	sp, sp, #16\n\t"
	    "add	r4, sp, #8\n\t"
	    "str	r4, [sp]\n\t"
	    "bl		nvdla_divide\n\t"
	    "ldr	r2, [sp, #8]\n\t"
	    "ldr	r3, [sp, #12]\n\t"
	    "add	sp, sp, #16\n\t"
	    "pop	{r4, pc}");
}
