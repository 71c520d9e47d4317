/* Graphs: nodes are kept as the calls that they stand for, and made one after the other when the graph is launched, those that do not
 * depend on each other in the order in which they were added. A node depends on nodes that were added before it. */

struct node_kernel { struct function *f; unsigned x, y, z, bx, by, bz, shared; void **params, **extra; void *kernel; struct context *of; };
struct node_copy {
	size_t src_x, src_y, src_z, src_lod; unsigned src_type; const void *src_host; address src; void *src_array, *unused0; size_t src_pitch, src_height;
	size_t dst_x, dst_y, dst_z, dst_lod; unsigned dst_type; void *dst_host; address dst; void *dst_array, *unused1; size_t dst_pitch, dst_height;
	size_t width, height, depth;
};
struct node_fill { address dst; size_t pitch; unsigned value, element; size_t width, height; };
struct node { struct node *next; int kind; struct node_kernel kernel; unsigned char params[4096]; size_t n; struct node_copy copy; struct node_fill fill; };
struct graph { struct node *first, **last; int execs; struct context *of; };

enum { kernel_node, copy_node, fill_node };

static result add_node(struct node **node, struct graph *g, struct node *const *after, size_t count, struct node n)
{
	for (size_t i = 0; i < count; i++) {
		struct node *o = g->first;
		while (o && o != after[i]) o = o->next;
		if (!o) return invalid;
	}
	*node = malloc(sizeof n);
	**node = n;
	(*node)->next = NULL;
	*g->last = *node;
	g->last = &(*node)->next;
	return success;
}

static result set_kernel(struct node *n, const struct node_kernel *k)
{
	if (!k->of || k->kernel || k->params || (k->extra && (k->extra[0] != (void *)1 || k->extra[2] != (void *)2 || k->extra[4]))) return invalid;
	size_t bytes = k->extra ? *(size_t *)k->extra[3] : 0;
	if (bytes > sizeof n->params || bytes < 8 * (size_t)k->f->kernel->words) return invalid;
	n->kind = kernel_node, n->kernel = *k, n->n = bytes;
	if (bytes) memcpy(n->params, k->extra[1], bytes);
	return success;
}

EXPORT result cuGraphCreate(struct graph **graph, unsigned flags)
{
	NEED_CONTEXT;
	if (flags) return invalid;
	struct graph *g = calloc(1, sizeof *g);
	g->last = &g->first, g->of = current;
	*graph = g;
	return success;
}

EXPORT result cuGraphAddKernelNode_v2(struct node **node, struct graph *g, struct node *const *after, size_t count, const struct node_kernel *k)
{
	struct node n = {0};
	result r = set_kernel(&n, k);
	return r ? r : add_node(node, g, after, count, n);
}

EXPORT result cuGraphAddMemcpyNode(struct node **node, struct graph *g, struct node *const *after, size_t count, const struct node_copy *c, struct context *of)
{
	if (of != g->of || c->src_type != 4 || c->dst_type != 4 || c->height != 1 || c->depth != 1) return invalid;
	return add_node(node, g, after, count, (struct node){.kind = copy_node, .copy = *c});
}

EXPORT result cuGraphAddMemsetNode(struct node **node, struct graph *g, struct node *const *after, size_t count, const struct node_fill *f, struct context *of)
{
	if (of != g->of || f->height != 1 || (f->element != 1 && f->element != 4) || f->dst % f->element) return invalid;
	return add_node(node, g, after, count, (struct node){.kind = fill_node, .fill = *f});
}

/* An executable graph is the graph itself: the driver changes no graph after that. */
EXPORT result cuGraphInstantiateWithFlags(struct graph **exec, struct graph *g, unsigned long long flags)
{
	NEED_CONTEXT;
	if (flags) return invalid;
	*exec = g;
	g->execs++;
	return success;
}

EXPORT result cuGraphExecKernelNodeSetParams_v2(struct graph *exec, struct node *node, const struct node_kernel *k)
{
	if (!exec->execs) BUG("a graph that has gone is changed");
	return set_kernel(node, k);
}

EXPORT result cuGraphLaunch(struct graph *exec, struct stream *s)
{
	NEED_CONTEXT;
	if (!exec->execs) BUG("a graph that has gone is launched");
	for (struct node *n = exec->first; n; n = n->next) {
		const struct node_kernel *k = &n->kernel;
		void *extra[] = {(void *)1, n->params, (void *)2, &n->n, NULL};
		result r = n->kind == copy_node ? cuMemcpyAsync(n->copy.dst, n->copy.src, n->copy.width, s)
			: n->kind == fill_node && n->fill.element == 1 ? cuMemsetD8Async(n->fill.dst, n->fill.value, n->fill.width, s)
			: n->kind == fill_node ? cuMemsetD32Async(n->fill.dst, n->fill.value, n->fill.width, s)
			: cuLaunchKernel(k->f, k->x, k->y, k->z, k->bx, k->by, k->bz, k->shared, s, NULL, n->n ? extra : NULL);
		if (r) return r;
	}
	return success;
}

EXPORT result cuGraphExecDestroy(struct graph *exec)
{
	for (struct node *n = exec->first; n; n = n->next)
		if (n->kind == kernel_node && !n->kernel.f->of->text) BUG("a graph outlives a module whose kernel it has");
	exec->execs--;
	return success;
}

EXPORT result cuGraphDestroy(struct graph *g)
{
	if (g->execs) return success; /* the driver destroys the executable first */
	for (struct node *n = g->first, *next; n; n = next) {
		next = n->next;
		free(n);
	}
	free(g);
	return success;
}
