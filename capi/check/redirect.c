/*
 * From a signal handler into a function.
 *
 * The frame that the kernel pushed (info, context, registers of the floating-point unit) is copied to the interrupted thread's
 * own stack, in the kernel's layout, and the thread continues there in the function with that frame on top. For the
 * kernel, being in a handler is only a stack and a mask; our handlers block no signals, so the function is no longer
 * in one. The function's return address is a piece of code that returns the frame to the kernel, exactly like libc's
 * for handlers; unwinders know it by its bytes, so they see through to the interrupted code.
 *
 * The stack may be near its end, or be a small one for signal handlers: then the frame goes to a spare stack of the thread.
 * Shadow stacks (x86-64 with CET) would refuse the return; nothing enables them for programs today that preload libraries.
 */
#define _GNU_SOURCE
#include "checker.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	ROOM = 64 << 10,   /* stack for a call into the core, and for an interpreter */
	SPARE = CHECK_SPARE,
	PAGE = 4096,
};

/* The kernel copies the signal set before it checks the other arguments; the access also makes a stack grow. */
int check_readable(uintptr_t page)
{
	return syscall(SYS_rt_sigprocmask, -1, page, NULL, 8) != 0 && errno != EFAULT;
}

/* Whether the thread's stack continues below base. The mapped part is cached. */
static int has_room(struct self *me, uintptr_t base)
{
	uintptr_t want = (base - ROOM) & ~(uintptr_t)(PAGE - 1);
	uintptr_t from = base & ~(uintptr_t)(PAGE - 1);
	int inside = base <= me->high && base >= me->low;
	if (inside)
		from = me->low;
	for (uintptr_t page = from; page > want;) {
		page -= PAGE;
		if (!check_readable(page))
			return 0;
	}
	if (!inside)
		me->high = base;
	if (!inside || want < me->low)
		me->low = want;
	return 1;
}

/* The top of the thread's spare stack. */
static uintptr_t spare(struct self *me)
{
	if (!me->spare) {
		void *stack = mmap(NULL, SPARE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (stack == MAP_FAILED)
			return 0;
		me->spare = stack;
	}
	return (uintptr_t)me->spare + SPARE;
}

int check_on_stack(const stack_t *stack, uintptr_t address)
{
	return !(stack->ss_flags & SS_DISABLE) && address - (uintptr_t)stack->ss_sp < stack->ss_size;
}

/* The end of the copy of the frame: nothing below is in use. */
static uintptr_t base_for(const ucontext_t *context, uintptr_t sp)
{
	struct self *me = check_self();
	uintptr_t here = (uintptr_t)__builtin_frame_address(0), base;
	if (me->spare && sp - (uintptr_t)me->spare < SPARE)
		return sp - 128; /* interrupted on the spare stack itself */
	if (!check_on_stack(&context->uc_stack, here))
		base = here - PAGE; /* the kernel's frame and ours lie on the interrupted stack, above */
	else if (check_on_stack(&context->uc_stack, sp))
		return spare(me);
	else
		base = sp - 128; /* the red zone of the interrupted function */
	return has_room(me, base) ? base : spare(me);
}

/* The signals that the runtime of the core, and we, cannot do without: see ropeway_restore_mask of the shim. */
static uint64_t never_blocked(uint64_t mask)
{
	static const int wanted[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGURG};
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
		mask &= ~((uint64_t)1 << (wanted[i] - 1));
	return mask;
}

/* Updates the state that the thread returns to: a first call into the core gives the thread a signal stack. */
static void update_context(ucontext_t *context)
{
	uint64_t mask;
	if (context->uc_stack.ss_flags & SS_DISABLE)
		sigaltstack(NULL, &context->uc_stack);
	memcpy(&mask, &context->uc_sigmask, sizeof mask);
	mask = never_blocked(mask);
	memcpy(&context->uc_sigmask, &mask, sizeof mask);
}

__attribute__((used)) static void enter(int signal, siginfo_t *info, void *context, handler function);

#if defined(__x86_64__)

#include <xmmintrin.h>

enum {
	CONTEXT = 304,    /* of the kernel's struct: libc's is larger */
	SOFTWARE = 464,   /* offset of the size of the floating-point state */
	MAGIC = 0x46505853,
};

struct frame {
	const void *back;
	unsigned char context[CONTEXT];
	siginfo_t info;
};

/*
 * Returns the frame above the stack pointer to the kernel. Its unwind information equals libc's: each register of the
 * interrupted code is in the context, to which the stack pointer points. It begins one byte early because a return
 * address is looked up by the byte before.
 */
#define AT(offset) "0x77, " #offset " & 0x7f | 0x80, " #offset " >> 7" /* stack pointer + offset, for offsets of two bytes */
#define SAVED(reg, offset) ".cfi_escape 0x10, " #reg ", 3, " AT(offset) "\n"

extern const char ropeway_check_back[] __attribute__((visibility("hidden")));
__asm__(".pushsection .text\n"
	".p2align 4\n"
	".cfi_startproc\n"
	".cfi_signal_frame\n"
	".cfi_escape 0x0f, 4, " AT(160) ", 6\n" /* the frame above begins where the saved stack pointer points */
	SAVED(8, 40) SAVED(9, 48) SAVED(10, 56) SAVED(11, 64) SAVED(12, 72) SAVED(13, 80) SAVED(14, 88) SAVED(15, 96)
	SAVED(5, 104) SAVED(4, 112) SAVED(6, 120) SAVED(3, 128) SAVED(1, 136) SAVED(0, 144) SAVED(2, 152) SAVED(7, 160)
	SAVED(16, 168)
	"nop\n"
	".globl ropeway_check_back\n"
	".hidden ropeway_check_back\n"
	".type ropeway_check_back, @function\n"
	"ropeway_check_back:\n"
	".byte 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00\n" /* mov $15, %rax: exactly these bytes, debuggers look for them */
	".byte 0x0f, 0x05\n"                               /* syscall */
	".cfi_endproc\n"
	"ud2\n"
	".popsection\n");

static size_t float_size(const unsigned char *state)
{
	uint32_t magic, size;
	if (!state)
		return 0;
	memcpy(&magic, state + SOFTWARE, sizeof magic);
	memcpy(&size, state + SOFTWARE + 4, sizeof size);
	return magic == MAGIC ? size : 512;
}

void check_redirect(int signal, siginfo_t *info, void *context, handler function)
{
	ucontext_t *c = context;
	int error = errno;
	size_t size = float_size((void *)c->uc_mcontext.fpregs);
	uintptr_t top = base_for(c, (uintptr_t)c->uc_mcontext.gregs[REG_RSP]);
	errno = error;
	if (!top)
		return;
	unsigned char *floats = (unsigned char *)((top - size) & ~(uintptr_t)63);
	struct frame *f = (struct frame *)((((uintptr_t)floats - sizeof *f) & ~(uintptr_t)15) - 8);
	f->back = ropeway_check_back;
	memcpy(f->context, c, CONTEXT);
	memcpy(&f->info, info, sizeof f->info);
	if (size) {
		memcpy(floats, c->uc_mcontext.fpregs, size);
		((ucontext_t *)f->context)->uc_mcontext.fpregs = (fpregset_t)floats;
	}
	__asm__ volatile("mov %0, %%rsp\n\t"
			 "mov %2, %%rbp\n\t" /* for debuggers that follow frame pointers */
			 "jmp *%1"
			 :
			 : "r"(f), "r"(enter), "r"(c->uc_mcontext.gregs[REG_RBP]), "D"(signal), "S"(&f->info), "d"(f->context), "c"(function)
			 : "memory");
	__builtin_unreachable();
}

static void plain_floats(void)
{
	_mm_setcsr(0x1f80);
	__asm__ volatile("fninit");
}

#elif defined(__aarch64__)

enum { EXTRA = 0x45585401 };

struct frame {
	siginfo_t info;
	ucontext_t context;
};

extern const char ropeway_check_back[] __attribute__((visibility("hidden")));
__asm__(".pushsection .text\n"
	".p2align 6\n"
	".skip 64\n"
	".globl ropeway_check_back\n"
	".hidden ropeway_check_back\n"
	".type ropeway_check_back, %function\n"
	"ropeway_check_back:\n"
	"	mov x8, #139\n"
	"	svc #0\n"
	"	brk #0\n"
	".p2align 6\n"
	".popsection\n");

/* A record of the state that follows the general registers. */
struct record {
	uint32_t magic, size;
	uint64_t data; /* of an EXTRA record: where more state is, right after the context */
	uint32_t more; /* and its size */
};

static struct record *find_extra(ucontext_t *c)
{
	unsigned char *p = (unsigned char *)c->uc_mcontext.__reserved, *end = p + sizeof c->uc_mcontext.__reserved;
	while (p + sizeof(struct record) <= end) {
		struct record *r = (struct record *)p;
		if (!r->magic || r->size < 8)
			return NULL;
		if (r->magic == EXTRA)
			return r;
		p += r->size;
	}
	return NULL;
}

void check_redirect(int signal, siginfo_t *info, void *context, handler function)
{
	ucontext_t *c = context;
	int error = errno;
	struct record *extra = find_extra(c);
	size_t size = sizeof *c;
	if (extra)
		size = extra->data + extra->more - (uintptr_t)c;
	uintptr_t top = base_for(c, c->uc_mcontext.sp);
	errno = error;
	if (!top)
		return;
	struct frame *f = (struct frame *)((top - size - sizeof f->info) & ~(uintptr_t)15);
	memcpy(&f->info, info, sizeof f->info);
	memcpy(&f->context, c, size);
	if (extra)
		find_extra(&f->context)->data += (uintptr_t)&f->context - (uintptr_t)c;
	register long x0 __asm__("x0") = signal;
	register void *x1 __asm__("x1") = &f->info;
	register void *x2 __asm__("x2") = &f->context;
	register handler x3 __asm__("x3") = function;
	register const void *x30 __asm__("x30") = ropeway_check_back;
	register const void *x16 __asm__("x16") = (void *)(uintptr_t)enter; /* with branch protection (BTI), a jump through x16 is allowed */
	__asm__ volatile("mov sp, %0\n\t"
			 "mov x29, %1\n\t" /* for debuggers that follow frame pointers */
			 "br x16"
			 :
			 : "r"(f), "r"(c->uc_mcontext.regs[29]), "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(x30), "r"(x16)
			 : "memory");
	__builtin_unreachable();
}

static void plain_floats(void)
{
	__asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
}

#endif

/* A redirected thread continues here. */
static void enter(int signal, siginfo_t *info, void *context, handler function)
{
	int error = errno;
	plain_floats();
	function(signal, info, context);
	update_context(context);
	errno = error;
}
