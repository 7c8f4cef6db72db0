/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * LeNet without an operating system: the machine `virt` of QEMU with a 64-bit RISC-V processor, and an NVDLA on its PCI
 * bus. Everything that is this board's is above main(): a port replaces it. `cargo xtask embedded` builds and runs it.
 *
 * Addresses of the machine: hw/riscv/virt.c of QEMU.
 */
#include "nvdla_embedded.h"

#define TEST		0x00100000UL	/* powers the machine off */
#define MTIME		0x0200bff8UL	/* ticks of 100 ns */
#define UART		0x10000000UL
#define PCI_CONFIG	0x30000000UL	/* 4 KiB per function */
#define PCI_MEMORY	0x40000000UL
#define NVDLA_ID	0x4e5610deU

#define POWER_OFF	0x5555U
#define FAILURE		0x13333U

#define ARENA_BYTES	(4U << 20)
#define WORK_BYTES	(64U << 10)
#define SIDE		28U

extern const uint8_t loadable[], loadable_end[], picture[], picture_end[];
extern uint8_t arena[];
extern const uint64_t stack_start[], stack_end[];

static struct nvdla_device device;
static struct nvdla_network network;
static uint64_t work[WORK_BYTES / sizeof(uint64_t)];
static char message[256];

static void print(const char *text)
{
	while (*text)
		*(volatile uint8_t *)UART = (uint8_t)*text++;
}

static void print_number(uint64_t number)
{
	char digits[21];
	char *first = digits + 20;

	*first = 0;
	do {
		*--first = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	print(first);
}

static void stop(uint32_t code)
{
	*(volatile uint32_t *)TEST = code;
	for (;;)
		;
}

static void check(int result, const char *what)
{
	if (!result)
		return;
	print(what);
	print(": error ");
	print_number((uint64_t)-result);
	print(" ");
	print(message);
	print("\n");
	stop(FAILURE);
}

static uint32_t read_register(void *window, uint32_t offset)
{
	uint32_t value = *(volatile uint32_t *)((uintptr_t)window + offset);

	__asm__ volatile("fence" ::: "memory");
	return value;
}

static void write_register(void *window, uint32_t offset, uint32_t value)
{
	__asm__ volatile("fence" ::: "memory");
	*(volatile uint32_t *)((uintptr_t)window + offset) = value;
}

static uint64_t now(void *window)
{
	(void)window;
	return *(volatile uint64_t *)MTIME * 100;
}

/* Finds the NVDLA, and gives its register window an address. */
static void *find_nvdla(void)
{
	for (uintptr_t slot = 0; slot < 32; slot++) {
		volatile uint32_t *config = (volatile uint32_t *)(PCI_CONFIG + (slot << 15));

		if (config[0] != NVDLA_ID)
			continue;
		config[4] = PCI_MEMORY;
		/* Memory accesses, and accesses by the device. */
		config[1] |= 6;
		return (void *)PCI_MEMORY;
	}
	print("there is no NVDLA on the bus\n");
	stop(FAILURE);
	return NULL;
}

/* The most bytes of the stack that were used. */
static uint64_t stack_used(void)
{
	const volatile uint64_t *at = stack_start;

	while (at < stack_end && *at == 0x5a5a5a5a5a5a5a5aUL)
		at++;
	return (uint64_t)(stack_end - (const uint64_t *)at) * sizeof(*at);
}

int main(void)
{
	struct nvdla_board board = {
		.context = find_nvdla(),
		.read = read_register,
		.write = write_register,
		.now = now,
	};
	struct nvdla_memory memory = {
		.loadable = loadable,
		.loadable_bytes = (size_t)(loadable_end - loadable),
		.arena = arena,
		.arena_bytes = ARENA_BYTES,
		.address = (uintptr_t)arena,
		.work = work,
		.work_bytes = sizeof(work),
	};
	struct nvdla_needs needs;
	struct nvdla_tensor input, output;
	const uint8_t *pixels = picture_end - SIDE * SIDE;
	uint32_t best = 0;
	int8_t score = INT8_MIN;

	check(nvdla_embedded_open(&device, &board, message, sizeof(message)), "open");
	check(nvdla_embedded_needs(&device, loadable, memory.loadable_bytes, &needs, message, sizeof(message)), "needs");
	check(nvdla_embedded_load(&network, &device, &memory, message, sizeof(message)), "load");
	if (!nvdla_embedded_tensor(&network, false, 0, &input) || !nvdla_embedded_tensor(&network, true, 0, &output))
		check(-1, "the network has no input or output");

	for (uint32_t pixel = 0; pixel < SIDE * SIDE; pixel++) {
		uint32_t place[4] = { 0, 0, pixel / SIDE, pixel % SIDE };
		size_t at = nvdla_embedded_offset(&network, false, 0, place);

		/* As the runtime converts a grey value to int8: the nearest to 127/255 of it. */
		((int8_t *)input.data)[at] = (int8_t)((pixels[pixel] * 254U + 255U) / 510U);
	}
	check(nvdla_embedded_run(&device, &network, 10000, message, sizeof(message)), "run");
	for (uint32_t class = 0; class < output.channels; class++) {
		uint32_t place[4] = { 0, class, 0, 0 };
		int8_t value = ((int8_t *)output.data)[nvdla_embedded_offset(&network, true, 0, place)];

		if (value > score) {
			score = value;
			best = class;
		}
	}
	print("class ");
	print_number(best);
	print(" with ");
	print_number((uint64_t)score);
	print("\narena ");
	print_number(needs.arena);
	print("\nwork ");
	print_number(needs.work + sizeof(device) + sizeof(network));
	print("\nstack ");
	print_number(stack_used());
	print("\n");
	stop(POWER_OFF);
	return 0;
}
