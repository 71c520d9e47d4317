/*
 * An access to closed memory. The handler decides in a few lines whose fault it is; the interrupted thread reports a
 * fault that may be ours to the core, outside of the signal handler (redirect.c).
 *
 * The core opens the memory, permanently or for one instruction. In the second case the thread continues with the
 * trap flag set, and the trap after that instruction closes the memory again; on arm64, which has no such flag, see
 * below.
 *
 * Not reported are: accesses of the core itself, which follows pointers of the program (the page is opened); those of
 * a forked child, which has no core, and of a handler that interrupted the core (likewise); and faults in other
 * memory, which belong to the program or the Go runtime.
 */
#define _GNU_SOURCE
#include "checker.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../shim/access.h"

enum { PAGE = 4096 };

#if defined(__x86_64__)

enum { TRAP = 0x100 };

static uintptr_t instruction_of(const ucontext_t *c)
{
	return (uintptr_t)c->uc_mcontext.gregs[REG_RIP];
}

static uintptr_t stack_of(const ucontext_t *c)
{
	return (uintptr_t)c->uc_mcontext.gregs[REG_RSP];
}

/* Stops the thread after one instruction, if possible; reports whether it has stopped; and lets it continue. */
static void stop_after_one(struct self *me, ucontext_t *c)
{
	me->traced = 1;
	c->uc_mcontext.gregs[REG_EFL] |= TRAP;
}

static int has_stopped(const struct self *me, const siginfo_t *info, const ucontext_t *c)
{
	(void)c;
	return info->si_code == TRAP_TRACE && me->traced;
}

static void go_on(struct self *me, ucontext_t *c)
{
	(void)me;
	c->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP;
}

static void come_back(struct self *me, ucontext_t *c)
{
	(void)me;
	(void)c;
}

#elif defined(__aarch64__)

static uintptr_t instruction_of(const ucontext_t *c)
{
	return c->uc_mcontext.pc;
}

static uintptr_t stack_of(const ucontext_t *c)
{
	return c->uc_mcontext.sp;
}

/*
 * There is no trap flag, but all instructions have the same length, and loads and stores work at any address: a copy
 * of the instruction is run in memory of the thread, followed by a trap. There are two exceptions: loads relative to
 * the code, and exclusive accesses, which a trap cancels. For these the memory stays open until the thread's next
 * call.
 */
enum { BREAK = 0xd4200000 | 0x5277 << 5 };

static void stop_after_one(struct self *me, ucontext_t *c)
{
	uint32_t i = *(const uint32_t *)c->uc_mcontext.pc;
	int load_or_store = (i & 0x0a000000) == 0x08000000;
	int exclusive = (i & 0x3f000000) == 0x08000000, beside = (i & 0x3b000000) == 0x18000000;
	if (!load_or_store || exclusive || beside)
		return;
	if (!me->slot) {
		void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (page == MAP_FAILED)
			return;
		me->slot = page;
	}
	me->slot[0] = i;
	me->slot[1] = BREAK;
	__builtin___clear_cache((char *)me->slot, (char *)(me->slot + 2));
	me->left = c->uc_mcontext.pc;
	c->uc_mcontext.pc = (uintptr_t)me->slot;
}

static int has_stopped(const struct self *me, const siginfo_t *info, const ucontext_t *c)
{
	(void)info;
	return me->slot && c->uc_mcontext.pc == (uintptr_t)(me->slot + 1);
}

static void go_on(struct self *me, ucontext_t *c)
{
	c->uc_mcontext.pc = me->left + 4;
}

/* If the copied instruction faulted again, sets the thread's address back to the original instruction. */
static void come_back(struct self *me, ucontext_t *c)
{
	if (me->slot && c->uc_mcontext.pc == (uintptr_t)me->slot)
		c->uc_mcontext.pc = me->left;
}

#endif

int check_open_here(uintptr_t address, size_t length)
{
	uintptr_t page = address & ~(uintptr_t)(PAGE - 1);
	int error = errno;
	int ok = mprotect((void *)page, (address - page + (length ? length : 1) + PAGE - 1) & ~(size_t)(PAGE - 1),
			  PROT_READ | PROT_WRITE) == 0;
	errno = error;
	return ok;
}

void check_describe(ropeway_call *access, uintptr_t instruction)
{
	const ropeway_call *me = &check_self()->call;
	access->thread = me->thread;
	access->ignored = me->ignored;
	access->depth = check_stack(access->stack, ROPEWAY_DEPTH);
	if (instruction && !check_ours(instruction)) {
		if (!access->depth || access->stack[0] != instruction) { /* frame pointers give only callers */
			access->depth += access->depth < ROPEWAY_DEPTH;
			memmove(access->stack + 1, access->stack, (access->depth - 1) * sizeof access->stack[0]);
		}
		access->stack[0] = instruction + 1;
	}
	check_frames(access);
}

void check_touch(uintptr_t address, size_t length, int write, uintptr_t instruction, ropeway_touch *touch)
{
	ropeway_call access = {.function = ROPEWAY_NO_CALL};
	check_describe(&access, instruction);
	if (check_self()->kernel)
		access.thread = ROPEWAY_KERNEL_THREAD;
	memset(touch, 0, sizeof *touch);
	uint64_t a[] = {address, length, (uint64_t)write, instruction, (uintptr_t)&access, (uintptr_t)touch};
	struct self *asker = check_self();
	asker->asking++;
	check_core(ROPEWAY_TOUCH, NULL, a);
	asker->asking--;
}

void check_stepped(const ropeway_touch *touch)
{
	uint64_t a[] = {(uintptr_t)touch};
	struct self *me = check_self();
	me->asking++;
	check_core(ROPEWAY_STEPPED, NULL, a);
	me->asking--;
}

int check_open(uintptr_t address, size_t length, int write, struct opened *o)
{
	uintptr_t end = address + length < address ? UINTPTR_MAX : address + length;
	uintptr_t fence = check_fence_in(address, end), start = address;
	int any = 0;
	if (check_forked())
		return fence > address && check_open_here(address, fence - address);
	if (fence < end && !o->fence) {
		o->fence = fence;
		o->stores = write;
		o->after = end - fence;
		o->reach += fence - start;
		if ((!write || fence == start) && !o->probes) /* the kernel may have less to write */
			check_ran_over(o);
	} else if (!o->fence) {
		o->reach += end - start;
	}
	end = fence;
	while (address < end && o->n < STEPS) {
		ropeway_touch touch;
		check_touch(address, end - address, write, 0, &touch);
		if (touch.what == ROPEWAY_NOT_OURS)
			break;
		any = 1;
		if (touch.what == ROPEWAY_STEP)
			o->part[o->n++] = touch;
		if (touch.page + touch.length <= address)
			break;
		address = touch.page + touch.length;
	}
	return any;
}

void check_ran_over(struct opened *o)
{
	ropeway_touch touch;
	check_touch(o->fence, o->after, o->stores, 0, &touch);
}

void check_close(struct opened *o)
{
	while (o->n)
		check_stepped(&o->part[--o->n]);
}

void check_close_steps(struct self *me)
{
	while (me->steps)
		check_stepped(&me->step[--me->steps]);
}

/*
 * libc's functions that work on whole vectors. memcpy and similar functions access exactly their arguments. The
 * others search, and read to the end of their block of four vectors, which is on one page, after the match.
 */
static const char *const vectored[] = {
	"memcpy", "memmove", "mempcpy", /* exact; the rest is not */
	"memset", "memcmp", "bcmp", "memchr", "memrchr", "rawmemchr", "strlen", "strnlen", "strchr", "strchrnul", "strrchr", "strcmp", "strncmp",
	"strcasecmp", "strncasecmp", "strcpy", "stpcpy", "strncpy", "stpncpy", "strcat", "strncat", "strspn", "strcspn", "strpbrk", "strstr",
	"wcslen", "wcsnlen", "wcschr", "wcsrchr", "wcscmp", "wcsncmp", "wmemchr", "wmemcmp", "wmemset",
};
enum { EXACT = 3, VECTORED = sizeof vectored / sizeof *vectored, BLOCK = 256 };
enum { FIRST = 64 }; /* a function's first access is within this distance of its start, and those of its loops are not */
static _Atomic uintptr_t starts[VECTORED]; /* their addresses on this machine */

/* Threads that prepare at the same time write the same values. Sanitizers replace these functions, so they are looked
 * up in libc itself. */
void check_libc_prepare(void)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	for (int i = 0; i < VECTORED; i++)
		starts[i] = (uintptr_t)dlsym(libc ? libc : RTLD_DEFAULT, vectored[i]);
}

/* The libc function that contains an instruction: the nearest one that starts before it. */
static int function_at(uintptr_t instruction)
{
	int nearest = 0;
	for (int i = 0; i < VECTORED; i++)
		if (starts[i] <= instruction && (starts[i] > starts[nearest] || starts[nearest] > instruction))
			nearest = i;
	return nearest;
}

/*
 * The address and size by which an access is judged; size is 0 if unknown. An access of a searching function is
 * judged by its first byte or, if the function has read earlier bytes of the block, by the first of those.
 */
static uintptr_t judged_at(struct self *me, const ucontext_t *c, uintptr_t address, const struct repeat *r, size_t *size)
{
	uintptr_t instruction = instruction_of(c);
	*size = r->size ? r->size * r->left : check_access_size(c, address);
	int whole = *size < 16 || ropeway_is_write(c) || !check_in(check_libc_text, instruction);
	int function = whole ? 0 : function_at(instruction);
	if (whole || function < EXACT)
		return address;
	*size = 0;
	if (instruction - starts[function] < FIRST)
		memset(me->scanned, 0, sizeof me->scanned);
	for (int i = 0; i < 2; i++) /* some search two ranges in turn */
		if (me->scanned[i] && me->scanned[i] <= address && me->scanned[i] / BLOCK == address / BLOCK)
			return me->scanned[i];
	me->scanned[1] = me->scanned[0];
	return me->scanned[0] = address;
}

/* A thread that faulted on closed memory, redirected to its own stack. */
static void touched(int signal, siginfo_t *info, void *context)
{
	ucontext_t *c = context;
	struct self *me = check_known();
	uintptr_t address = (uintptr_t)info->si_addr;
	struct repeat r = check_repeat(c);
	ropeway_touch touch;
	size_t size;
	(void)signal;
	come_back(me, c);
	uintptr_t at = judged_at(me, c, address, &r, &size);
	check_touch(at, size, ropeway_is_write(c), instruction_of(c), &touch);
	me->kernel = 0;
	switch (touch.what) {
	case ROPEWAY_OPEN:
		return;
	case ROPEWAY_STEP:
		if (r.size) {
			check_repeat_part(&r, address, &touch, c);
			check_stepped(&touch);
			return;
		}
		if (me->steps == STEPS)
			check_close_steps(me);
		me->step[me->steps++] = touch;
		stop_after_one(me, c);
		return;
	}
	me->passed = address; /* it faults again, and then the program's handler gets the kernel's own signal */
}

/*
 * The core writes where the program asked it to. Memory that is being registered is closed to writes for less than a
 * millisecond, and must not be opened by force during that time: at the first fault, the core waits and retries.
 */
static int waits(struct self *me, uintptr_t address, const ucontext_t *c)
{
	struct timespec a_while = {0, 2000000};
	if (check_forked() || !ropeway_is_write(c) || me->waited == address)
		return 0;
	me->waited = address;
	syscall(SYS_nanosleep, &a_while, NULL);
	return 1;
}

/*
 * Whether the core cannot be called: the thread was in it when a signal arrived, and a handler of the program runs on
 * the alternate stack that threads in the core have. Functions that the core calls normally run on the thread's own
 * stack.
 */
static int interrupts_core(const struct self *me, const ucontext_t *c)
{
	if (me->asking)
		return 1;
	return (me->call.function != ROPEWAY_NO_CALL || !me->entered) && check_on_stack(&c->uc_stack, stack_of(c));
}

void check_on_fault(int signal, siginfo_t *info, void *context)
{
	uintptr_t address = (uintptr_t)info->si_addr;
	int error = errno;
	int device = info->si_code == SEGV_ACCERR && check_device(address);
	int watched = device || (info->si_code == SEGV_ACCERR && check_watched(address));
	int kernel = watched ? check_kernel(address, ropeway_is_write(context), context) : 0;
	if (kernel == ROPEWAY_OPENED)
		return;
	if (watched && !(device && kernel == ROPEWAY_INSIDE)) {
		struct self *me = check_self();
		me->kernel = kernel != 0;
		uintptr_t passed = me->passed, instruction = instruction_of(context);
		me->passed = 0;
		int alone = check_forked() || check_in(check_core_text, instruction) || interrupts_core(me, context);
		if (alone && !device && !check_fence(address)) { /* memory that is never opened: a wild pointer, for which the core returns an error code */
			int again = waits(me, address, context) || check_open_here(address, 1);
			errno = error;
			if (again)
				return;
		} else if (!alone && passed != address) {
			check_redirect(signal, info, context, touched);
		}
	}
	check_to_program(signal, info, context);
}

/* A thread that has run its one instruction. */
static void stepped(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	struct self *me = check_self();
	if (!check_forked())
		check_close_steps(me);
	go_on(me, context);
}

void check_on_trap(int signal, siginfo_t *info, void *context)
{
	if (has_stopped(check_self(), info, context))
		check_redirect(signal, info, context, stepped);
	check_to_program(signal, info, context);
}
