/* Copyright (c) 2026, the kubenode.ipvs authors
 * GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * User-mode Linux on processors with more register state than it knows (AMX: Intel since Sapphire Rapids).
 *
 * Linux 6.1's user-mode kernel reads and writes its processes' registers by ptrace in 2,696 bytes, which end with AVX-512 and
 * PKRU (arch/x86/um/user-offsets.c). The host takes a whole XSAVE area or none (xstateregs_set in arch/x86/kernel/fpu/regset.c),
 * so that there not even init starts: "Kernel panic - not syncing: Attempted to kill init!". Upstream asks the host for the size since
 * 6.13. Preloaded by molecule/lab/kernel, this makes a short write a whole one; what is beyond the short one is in its initial
 * state, as it is in every process that did not ask the host for AMX, and no process of user-mode Linux can.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

enum {
	PRESENT = 512, /* where XSAVE's header tells which components are not in their initial state */
	KNOWN = (1 << 10) - 1, /* components 0 (x87) to 9 (PKRU) */
	MOST = 1 << 16,
};

/* Not on the stack: a user-mode kernel's has 16 KiB. There is one processor, and nothing interrupts it here. */
static _Alignas(64) unsigned char area[MOST];

long ptrace(enum __ptrace_request request, ...)
{
	static long (*original)(enum __ptrace_request, ...);
	static size_t size;
	struct iovec whole = { area, MOST };
	va_list arguments;

	va_start(arguments, request);
	pid_t pid = va_arg(arguments, pid_t);
	void *address = va_arg(arguments, void *);
	void *data = va_arg(arguments, void *);
	va_end(arguments);
	if (!original)
		original = (long (*)(enum __ptrace_request, ...))dlsym(RTLD_NEXT, "ptrace");
	if (request != PTRACE_SETREGSET || address != (void *)NT_X86_XSTATE)
		return original(request, pid, address, data);
	if (!size) {
		if (original(PTRACE_GETREGSET, pid, address, &whole) < 0)
			return -1;
		size = whole.iov_len;
		memset(area, 0, MOST);
	}
	const struct iovec *given = data;
	if (given->iov_len >= size)
		return original(request, pid, address, data);
	memcpy(area, given->iov_base, given->iov_len);
	*(uint64_t *)(area + PRESENT) &= KNOWN;
	whole.iov_len = size;
	return original(request, pid, address, &whole);
}
