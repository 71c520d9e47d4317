/* The part of libcuda.c for memory apart from its addresses, and for memory of other processes. */

/* Memory apart from its addresses: files that are mapped, in the window where the GPU is, and if they are the host's where the program is.
 * The name of a file says whose it is. */
enum { extent = 2 << 20 };
struct place { int kind, id; };
struct chunk { int fd, gpu, uses, imported; uint64_t n; };
static struct mount { struct mount *next; address start; struct chunk *of; } *mounts;
static struct area { struct area *next; address start; uint64_t n; int free; } *areas;

static int gpu_of(struct place p) { return p.kind == 3 ? -1 : p.kind == 1 && p.id >= 0 && p.id < gpus() ? p.id : -2; }

static struct chosen *choice(address addr)
{
	for (int i = 0; i < choices; i++)
		if (addr - chosen[i].start < chosen[i].n) return &chosen[i];
	return NULL;
}

/* choose reserves n bytes at a place of choice, if nothing is there. all is locked. */
static int choose(address hint, size_t n)
{
	int i = 0, none = PROT_NONE, kind = MAP_ANONYMOUS | MAP_PRIVATE | MAP_NORESERVE;
	while (i < choices && chosen[i].n) i++;
	if (hint == 0 || i == sizeof chosen / sizeof *chosen) return 0;
	void *want = (void *)(uintptr_t)hint, *got = mmap(want, n, none, kind | MAP_FIXED_NOREPLACE, -1, 0);
	if (got != want) return 0;
	void *twin = mmap(NULL, n, none, kind, -1, 0);
	if (twin == MAP_FAILED) return munmap(got, n), 0;
	chosen[i] = (struct chosen){hint, n, (uintptr_t)twin - hint};
	if (i == choices) choices++;
	return 1;
}

EXPORT result cuMemAddressReserve(address *addr, size_t n, size_t alignment, address hint, unsigned long long flags)
{
	NEED_CONTEXT;
	if (n == 0 || n % extent || alignment != extent || flags) return invalid;
	pthread_mutex_lock(&all);
	struct area *a = areas;
	if (choose(hint, n)) {
		*addr = hint;
		pthread_mutex_unlock(&all);
		return success;
	}
	while (a && !(a->free && a->n == n)) a = a->next;
	address start = (unused + extent - 1) & -(address)extent;
	if (!a && n <= window + WINDOW - start) {
		a = malloc(sizeof *a);
		*a = (struct area){areas, start, n, 0};
		areas = a;
		unused = start + n;
	}
	if (a) a->free = 0, *addr = a->start;
	pthread_mutex_unlock(&all);
	return a ? success : no_memory;
}

EXPORT result cuMemAddressFree(address addr, size_t n)
{
	NEED_CONTEXT;
	pthread_mutex_lock(&all);
	struct area *a = areas;
	while (a && (a->free || a->start != addr || a->n != n)) a = a->next;
	for (struct mount *m = mounts; m; m = m->next)
		if (m->start - addr < n) BUG("memory is mapped in what is released");
	struct chosen *c = choice(addr);
	if (a) a->free = 1;
	if (c && c->start == addr && c->n == n) {
		munmap(at(addr), n);
		munmap((void *)(uintptr_t)addr, n);
		c->n = 0;
	}
	pthread_mutex_unlock(&all);
	return a || c ? success : invalid;
}

struct prop { int kind, types; struct place at; void *unused; char more[8]; };

EXPORT result cuMemCreate(struct chunk **c, size_t n, const struct prop *p, unsigned long long flags)
{
	NEED_CONTEXT;
	int gpu = gpu_of(p->at);
	char name[32];
	if (n == 0 || n % extent || p->kind != 1 || p->types != 1 || gpu == -2 || flags) return invalid;
	pthread_mutex_lock(&all);
	int fits = gpu < 0 ? n <= (uint64_t)16 << 30 : n <= TOTAL - contexts[gpu].live - ((uint64_t)100 << 20);
	if (fits && gpu >= 0) contexts[gpu].live += n;
	pthread_mutex_unlock(&all);
	if (!fits) return no_memory;
	snprintf(name, sizeof name, "imitated-gpu %d", gpu);
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, n) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) return no_memory;
	*c = malloc(sizeof **c);
	**c = (struct chunk){fd, gpu, 1, 0, n};
	return success;
}

/* unuse is the end of a handle or a mapping; with the last one the memory goes. all is locked. */
static void unuse(struct chunk *c)
{
	if (--c->uses) return;
	if (c->gpu >= 0 && !c->imported) contexts[c->gpu].live -= c->n;
	close(c->fd);
	free(c);
}

EXPORT result cuMemRelease(struct chunk *c)
{
	NEED_CONTEXT;
	pthread_mutex_lock(&all);
	unuse(c);
	pthread_mutex_unlock(&all);
	return success;
}

EXPORT result cuMemMap(address addr, size_t n, size_t offset, struct chunk *c, unsigned long long flags)
{
	NEED_CONTEXT;
	result r = invalid;
	pthread_mutex_lock(&all);
	for (struct area *a = areas; a; a = a->next)
		if (!a->free && addr - a->start < a->n && n <= a->n - (addr - a->start)) r = success;
	struct chosen *own = choice(addr);
	if (own && n <= own->n - (addr - own->start)) r = success;
	for (struct mount *m = mounts; m; m = m->next)
		if (m->start < addr + n && addr < m->start + m->of->n) r = invalid;
	if (offset || flags || n != c->n || addr % extent) r = invalid;
	if (!r && mmap(at(addr), n, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, c->fd, 0) == MAP_FAILED) r = no_memory;
	if (!r) {
		struct mount *m = malloc(sizeof *m);
		*m = (struct mount){mounts, addr, c};
		mounts = m;
		c->uses++;
	}
	pthread_mutex_unlock(&all);
	return r;
}

static struct mount **mount_at(address addr, size_t n)
{
	struct mount **p = &mounts;
	while (*p && ((*p)->start != addr || (*p)->of->n != n)) p = &(*p)->next;
	return p;
}

EXPORT result cuMemUnmap(address addr, size_t n)
{
	NEED_CONTEXT;
	pthread_mutex_lock(&all);
	struct mount **p = mount_at(addr, n), *m = *p;
	if (m) {
		mmap(at(addr), n, PROT_NONE, MAP_ANONYMOUS | MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, -1, 0);
		mmap((void *)(uintptr_t)addr, n, PROT_NONE, MAP_ANONYMOUS | MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, -1, 0);
		*p = m->next;
		unuse(m->of);
		free(m);
	}
	pthread_mutex_unlock(&all);
	return m ? success : invalid;
}

struct access { struct place to; int flags; };

EXPORT result cuMemSetAccess(address addr, size_t n, const struct access *access, size_t count)
{
	NEED_CONTEXT;
	pthread_mutex_lock(&all);
	struct mount *m = *mount_at(addr, n);
	int gpu = gpu_of(access->to);
	result r = m && count == 1 && access->flags == 3 && gpu != -2 && (gpu >= 0 || m->of->gpu < 0) ? success : invalid;
	if (!r && mprotect(at(addr), n, PROT_READ | PROT_WRITE)) r = no_memory;
	if (!r && gpu < 0 && mmap((void *)(uintptr_t)addr, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, m->of->fd, 0) == MAP_FAILED) r = no_memory;
	pthread_mutex_unlock(&all);
	return r;
}

EXPORT result cuMemExportToShareableHandle(int *fd, struct chunk *c, int type, unsigned long long flags)
{
	NEED_CONTEXT;
	if (type != 1 || flags) return invalid;
	*fd = fcntl(c->fd, F_DUPFD_CLOEXEC, 0);
	return *fd < 0 ? no_memory : success;
}

EXPORT result cuMemImportFromShareableHandle(struct chunk **c, void *handle, int type)
{
	NEED_CONTEXT;
	char link[64], name[64] = "";
	int fd = (int)(uintptr_t)handle, gpu;
	struct stat st;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	if (type != 1 || fstat(fd, &st) || readlink(link, name, sizeof name - 1) < 0 || sscanf(name, "/memfd:imitated-gpu %d", &gpu) != 1) return unknown; /* as an H200 says */
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0) return no_memory;
	*c = malloc(sizeof **c);
	**c = (struct chunk){fd, gpu, 1, 1, st.st_size};
	return success;
}

/* Allocations of other processes: a handle says where in the file of a process one is. */
struct ipc { char magic[8]; uint64_t process, file, offset, n, unused[3]; };

static struct block *block_at(address addr, int kind)
{
	struct block *b = blocks;
	while (b && (b->start != addr || b->kind != kind)) b = b->next;
	return b;
}

EXPORT result cuIpcGetMemHandle(struct ipc *h, address addr)
{
	NEED_CONTEXT;
	pthread_mutex_lock(&all);
	struct block *b = block_at(addr, on_device);
	if (b && backing >= 0) {
		b->shared = 1;
		*h = (struct ipc){"imitate", getpid(), backing, addr - window, b->size, {0}};
	}
	pthread_mutex_unlock(&all);
	return b && backing >= 0 ? success : invalid;
}

EXPORT result cuIpcOpenMemHandle_v2(address *addr, struct ipc h, unsigned flags)
{
	NEED_CONTEXT;
	if (memcmp(h.magic, "imitate", 8) || flags != 1 || h.n > TOTAL || h.offset % page) return invalid;
	if (h.process == (uint64_t)getpid()) return no_context; /* as the real one: not where it comes from */
	char name[64];
	uint64_t mapped = (h.n + 2 * page - 1) & -(uint64_t)page;
	snprintf(name, sizeof name, "/proc/%llu/fd/%llu", (unsigned long long)h.process, (unsigned long long)h.file);
	pthread_mutex_lock(&all);
	struct block *b = blocks;
	while (b && (b->kind != foreign || b->from[0] != h.process || b->from[1] != h.offset)) b = b->next;
	if (b) b->opened++;
	else {
		int fd = open(name, O_RDWR | O_CLOEXEC);
		address start = unused;
		if (fd >= 0 && unused + mapped <= window + WINDOW && mmap(at(start), mapped - page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, h.offset) != MAP_FAILED) {
			unused += mapped;
			b = malloc(sizeof *b);
			*b = (struct block){blocks, start, h.n, mapped, current, foreign, 0, 1, {h.process, h.offset}};
			blocks = b;
		}
		if (fd >= 0) close(fd);
	}
	if (b) *addr = b->start;
	pthread_mutex_unlock(&all);
	return b ? success : invalid;
}

EXPORT result cuIpcCloseMemHandle(address addr)
{
	NEED_CONTEXT;
	pthread_mutex_lock(&all);
	struct block *b = block_at(addr, foreign), **p = &blocks;
	if (b && --b->opened == 0) {
		mmap(at(b->start), b->mapped, PROT_NONE, MAP_ANONYMOUS | MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, -1, 0);
		while (*p != b) p = &(*p)->next;
		*p = b->next;
		free(b);
	}
	pthread_mutex_unlock(&all);
	return b ? success : invalid;
}

EXPORT result cuMemGetAddressRange_v2(address *start, size_t *n, address addr)
{
	NEED_CONTEXT;
	pthread_mutex_lock(&all);
	struct block *b = blocks;
	while (b && addr - b->start >= b->size) b = b->next;
	if (b) *start = b->start, *n = b->size;
	pthread_mutex_unlock(&all);
	return b ? success : invalid;
}
