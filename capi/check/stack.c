/*
 * The functions that led to a call or an access. libunwind caches the unwinding of functions and so takes some
 * hundred nanoseconds; libgcc's unwinder works from the same tables and takes microseconds; without either, frame
 * pointers are followed. The libraries are opened for us alone: libunwind has a backtrace() that must not replace the
 * program's.
 */
#define _GNU_SOURCE
#include "checker.h"

#include <dlfcn.h>
#include <link.h>
#include <unwind.h>

enum { OURS = 8 }; /* the most of our own functions on top of a stack */

typedef int (*walk_function)(void **buffer, int size);
typedef _Unwind_Reason_Code (*unwind_function)(_Unwind_Trace_Fn each, void *argument);
typedef _Unwind_Ptr (*address_function)(struct _Unwind_Context *context);

static _Atomic walk_function walk; /* immutable after preparing, like all here */
static _Atomic unwind_function unwind;
static _Atomic address_function address_of;

struct search {
	uintptr_t address;
	struct span found;
	int64_t offset; /* offset of the address in the file */
};

static int module(struct dl_phdr_info *info, size_t size, void *argument)
{
	struct search *s = argument;
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t low = info->dlpi_addr + p->p_vaddr;
		if (p->p_type == PT_LOAD && p->p_flags & PF_X && s->address - low < p->p_memsz) {
			s->found = (struct span){low, low + p->p_memsz};
			s->offset = (int64_t)(p->p_offset + (s->address - low));
			return 1;
		}
	}
	return 0;
}

struct span check_text_of(const void *function)
{
	struct search s = {.address = (uintptr_t)function};
	dl_iterate_phdr(module, &s);
	return s.found;
}

int64_t check_file_offset(uintptr_t address)
{
	struct search s = {.address = address, .offset = -1};
	dl_iterate_phdr(module, &s);
	return s.offset;
}

/* Threads that prepare at the same time write the same values. */
void check_stack_prepare(void)
{
	void *library = NULL;
	if (!dlsym(RTLD_DEFAULT, "__tsan_init")) /* libunwind locks a mutex when a thread ends, as attach.c must not */
		library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
	if (library)
		walk = (walk_function)(uintptr_t)dlsym(library, "unw_backtrace");
	if (walk)
		return;
	library = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return;
	address_of = (address_function)(uintptr_t)dlsym(library, "_Unwind_GetIP");
	if (address_of)
		unwind = (unwind_function)(uintptr_t)dlsym(library, "_Unwind_Backtrace");
}

struct trace {
	void **buffer;
	int n, size;
};

static _Unwind_Reason_Code each(struct _Unwind_Context *context, void *argument)
{
	struct trace *t = argument;
	if (t->n == t->size)
		return _URC_END_OF_STACK;
	t->buffer[t->n++] = (void *)address_of(context);
	return _URC_NO_REASON;
}

/*
 * Frame pointers lead from frame to frame: the caller's, and the address to return to. In a program without frame
 * pointers that register has any value, so each is checked before use.
 */
static int follow(void **buffer, int size)
{
	struct frame {
		struct frame *up;
		void *address;
	} *f = __builtin_frame_address(0);
	enum { PAGE = 4096, FAR = 1 << 20 };
	int n = 0;
	while (n < size && f->address) {
		uintptr_t here = (uintptr_t)f, up = (uintptr_t)f->up;
		buffer[n++] = f->address;
		if (up <= here || up - here > FAR || up % sizeof(void *))
			break;
		if (up / PAGE != here / PAGE && !(check_readable(up & -(uintptr_t)PAGE) && check_readable((up + 8) & -(uintptr_t)PAGE)))
			break;
		f = f->up;
	}
	return n;
}

int check_ours(uintptr_t address)
{
	return check_in(check_own_text, address - 1) || check_in(check_shim_text, address - 1);
}

uint32_t check_stack(uint64_t *stack, uint32_t room)
{
	void *buffer[ROPEWAY_DEPTH + OURS];
	struct trace t = {buffer, 0, ROPEWAY_DEPTH + OURS};
	if (walk)
		t.n = walk(buffer, t.size);
	else if (unwind)
		unwind(each, &t);
	else
		t.n = follow(buffer, t.size);
	int first = 0;
	while (first < t.n && check_ours((uintptr_t)buffer[first]))
		first++;
	uint32_t n = 0;
	/* Below a function that the core called are the core's own frames, which unwinders can only guess. */
	while (n < room && first + (int)n < t.n && buffer[first + n] && !check_in(check_core_text, (uintptr_t)buffer[first + n] - 1)) {
		stack[n] = (uintptr_t)buffer[first + n];
		n++;
	}
	return n;
}
