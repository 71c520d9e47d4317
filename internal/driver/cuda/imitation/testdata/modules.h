/* Modules and launches. The library has its own kernels, and knows those of programs by their names: whatever the PTX says, an
 * entry does what the function of the same name below does. A cubin or fatbin is PTX after 64 bytes that begin as theirs do. */

struct kernel { const char *name; void (*run)(struct order *); int words; };

struct variable { const char *name; uint32_t value; address at; };
struct module { struct context *of; int ours; char *text; struct variable scale; };

#define ARG(o, i) (((uint64_t *)(o)->params)[i])

static int mounted(address a, uint64_t n)
{
	for (struct mount *m = mounts; m; m = m->next)
		if (a >= m->start && a - m->start + n <= m->of->n) return 1;
	return 0;
}

/* fault is what becomes of a kernel that reaches for what is not there: its context is broken. */
static int fault(struct order *o, address a, uint64_t n)
{
	int found = 0;
	pthread_mutex_lock(&all);
	for (struct block *b = blocks; b && !found; b = b->next) found = a >= b->start && a - b->start + n <= b->size;
	found = found || mounted(a, n);
	pthread_mutex_unlock(&all);
	if (!found) ((struct context *)o->large)->broken = 700;
	return ((struct context *)o->large)->broken;
}

static uint32_t *word(address base, uint64_t i) { return (uint32_t *)at(base + 4 * i); }

static void user_sum(struct order *o)
{
	for (int k = 0; k < 3; k++)
		if (fault(o, ARG(o, k), 4 * ARG(o, 3))) return;
	for (uint64_t i = 0; i < ARG(o, 3); i++) *word(ARG(o, 2), i) = *word(ARG(o, 0), i) + *word(ARG(o, 1), i);
}

static void user_add(struct order *o)
{
	for (int k = 0; k < 3; k++)
		if (fault(o, ARG(o, k), 4 * ARG(o, 3))) return;
	for (uint64_t i = 0; i < ARG(o, 3); i++)
		*(float *)word(ARG(o, 2), i) = *(float *)word(ARG(o, 0), i) + *(float *)word(ARG(o, 1), i);
}

static void user_times(struct order *o)
{
	if (fault(o, ARG(o, 0), 4 * ARG(o, 1))) return;
	for (uint64_t i = 0; i < ARG(o, 1); i++) *word(ARG(o, 0), i) *= *word(o->dst, 0);
}

static void user_follow(struct order *o)
{
	if (fault(o, ARG(o, 0), 8)) return;
	address a = *(address *)at(ARG(o, 0));
	if (!fault(o, a, 4)) ++*word(a, 0);
}

/* In order, which the real one promises nothing about: programs give it the same bytes twice, or none in common. */
static void user_mix(struct order *o)
{
	if (fault(o, ARG(o, 0), ARG(o, 2)) || fault(o, ARG(o, 1), ARG(o, 2))) return;
	unsigned char *to = at(ARG(o, 0)), *from = at(ARG(o, 1));
	for (uint64_t i = 0; i < ARG(o, 2); i++) to[i] += from[i] * ARG(o, 3) + i;
}

static void user_nothing(struct order *o) { (void)o; }
static void user_wild(struct order *o) { if (!fault(o, ARG(o, 0), 4)) *word(ARG(o, 0), 0) = 1; }
static void user_trap(struct order *o) { ((struct context *)o->large)->broken = 719; }
static void user_linger(struct order *o)
{
	struct timespec t = {ARG(o, 0) / 1000000000, ARG(o, 0) % 1000000000};
	nanosleep(&t, NULL);
}

static void user_place(struct order *o)
{
	uint64_t n = 1;
	for (int i = 0; i < 3; i++) n *= (uint64_t)o->blocks[i] * o->threads[i];
	if (fault(o, ARG(o, 0), 4 * n)) return;
	for (uint64_t i = 0; i < n; i++) *word(ARG(o, 0), i) = i;
}

enum { own_kernels = 5 };
static struct kernel kernels[] = {
	{"ropeway_gather", gather, 0}, {"ropeway_descriptor", descriptor, 0}, {"ropeway_offset", offset, 0}, {"ropeway_move", move, 0}, {"ropeway_few", few, 0},
	{"sum", user_sum, 4}, {"add", user_add, 4}, {"times", user_times, 2}, {"follow", user_follow, 1}, {"mix", user_mix, 4}, {"nothing", user_nothing, 0}, {"wild", user_wild, 1},
	{"trap", user_trap, 0}, {"linger", user_linger, 1}, {"place", user_place, 1},
};

/* Functions of modules of programs: which kernel, of which module. They stay, as their handles may be looked at. */
struct function { struct kernel *kernel; struct module *of; };

static int has_entry(const char *text, const char *name)
{
	char line[300];
	snprintf(line, sizeof line, ".entry %s(", name);
	return strstr(text, line) != NULL;
}

EXPORT result cuModuleLoadDataEx(struct module **module, const char *image, unsigned count, int *options, void **values)
{
	NEED_CONTEXT;
	const char *text = image;
	if (!memcmp(image, "\x7f" "ELF", 4) || !memcmp(image, "\x50\xed\x55\xba", 4)) text += 64;
	if (!strstr(text, ".entry") || strstr(text, "nonsense")) {
		for (unsigned i = 0; i + 1 < count; i++)
			if (options[i] == 5) snprintf(values[i], (size_t)(uintptr_t)values[i + 1], "line 1: this is no PTX");
		return 218;
	}
	struct module *m = calloc(1, sizeof *m);
	*m = (struct module){.of = current, .ours = strstr(text, "ropeway_gather") != NULL, .text = strdup(text)};
	if (strstr(text, " scale")) {
		m->scale = (struct variable){"scale", 3, 0};
		if (take(&m->scale.at, 4, on_device)) return no_memory;
		*word(m->scale.at, 0) = m->scale.value;
	}
	*module = m;
	return success;
}

EXPORT result cuModuleLoadData(struct module **module, const char *image) { return cuModuleLoadDataEx(module, image, 0, NULL, NULL); }

EXPORT result cuModuleUnload(struct module *m)
{
	NEED_CONTEXT;
	if (m->scale.at) drop(m->scale.at, on_device);
	free(m->text);
	m->text = NULL;
	return success;
}

EXPORT result cuModuleGetFunction(struct function **f, struct module *m, const char *name)
{
	for (size_t i = m->ours ? 0 : own_kernels; i < (m->ours ? own_kernels : sizeof kernels / sizeof *kernels); i++)
		if (!strcmp(kernels[i].name, name) && has_entry(m->text, name)) {
			*f = calloc(1, sizeof **f);
			**f = (struct function){&kernels[i], m};
			return success;
		}
	return not_found;
}

EXPORT result cuModuleGetGlobal_v2(address *addr, size_t *n, struct module *m, const char *name)
{
	if (!m->scale.at || strcmp(name, "scale")) return not_found;
	*addr = m->scale.at, *n = 4;
	return success;
}

EXPORT result cuFuncGetAttribute(int *value, int attribute, struct function *f) { (void)f; *value = 256; return attribute == 0 ? success : invalid; }
EXPORT result cuFuncSetAttribute(struct function *f, int attribute, int value) { (void)f; return attribute == 8 && value <= 200 << 10 ? success : invalid; }

EXPORT result cuFuncGetParamInfo(struct function *f, size_t index, size_t *offset, size_t *size)
{
	if (index >= (size_t)f->kernel->words) return invalid;
	*offset = 8 * index, *size = 8;
	return success;
}

EXPORT result cuLaunchKernel(struct function *f, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared,
	struct stream *s, void **params, void **extra)
{
	NEED_CONTEXT;
	struct kernel *k = f->kernel;
	struct order o = {.run = k->run, .blocks = {x, y, z}, .threads = {bx, by, bz}};
	size_t n = extra ? *(size_t *)extra[3] : 0;
	if (!f->of->text) BUG("a kernel of a module that was unloaded is launched");
	if (s->of != f->of->of) return 400;
	if (params || (extra && (extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4]))) return invalid;
	if (n > 4096 || (n > sizeof o.params && k->run != few) || n < 8 * (size_t)k->words || shared > 200 << 10) return invalid;
	if (!x || !y || !z || !bx || !by || !bz || (uint64_t)bx * by * bz > 1024) return invalid;
	if (k->run == few) o.large = malloc(n);
	else o.large = f->of->of, o.dst = f->of->scale.at;
	if (n) memcpy(k->run == few ? o.large : o.params, extra[1], n);
	return put(s, o);
}

struct launch { unsigned x, y, z, bx, by, bz, shared; struct stream *stream; struct { int id, pad; int value[16]; } *attributes; unsigned count; };

EXPORT result cuLaunchKernelEx(const struct launch *l, struct function *f, void **params, void **extra)
{
	if (l->count != 1 || l->attributes->id != 2 || l->attributes->value[0] != 1) return invalid;
	if ((uint64_t)l->x * l->y * l->z > 8) return 720; /* more than run at the same time */
	return cuLaunchKernel(f, l->x, l->y, l->z, l->bx, l->by, l->bz, l->shared, l->stream, params, extra);
}
