package randprog

import (
	"fmt"
	"slices"
	"strings"
)

// refuse makes a call that must return a code and change nothing.
func (g *gen) refuse(t *thread, s *stream) {
	d := g.some(func(b *buffer) bool { return b.kind == "device" && b.dev == s.ctx.dev })
	h := g.some(func(b *buffer) bool { return b.kind == "pinned" })
	if d == nil || h == nil {
		return
	}
	n := min(len(d.want), len(h.want))
	const far = 1 << 30
	calls := []struct {
		call string
		code int
	}{
		{"aclrtMemcpyAsync 0 N H N 4 S", 100000},
		{"aclrtMemcpyAsync D N 0 N 4 S", 100000},
		{"aclrtMemcpy 0 N H N 4", 100000},
		{"aclrtMemcpyAsync D N H N 6 S", 100000},
		{"aclrtMemcpyAsync D M H N 4 S", 107000},
		{"aclrtMemcpy D M H N 4", 107000},
		{"aclrtMemcpyAsync D F H F 4 S", 107000},
		{"aclrtMemcpyAsync H F D F 4 S", 107000},
		{"aclrtMemcpy D F H F 4", 107000},
		{"aclrtMemsetAsync D F 1 F S", 107000},
		{"aclrtMemset D M 1 N", 107000},
		{"aclrtMemsetD32Async D 7 1 2 S", 100000},
		{"aclrtMemsetD32Async D+1 4 1 1 S", 100000},
		{"aclrtMemcpyAsync H N H N 4 S", 207000},
		{"aclrtMemcpy2dAsync D 1 H 2 2 1 4 S", 100000},
		{"aclrtMemcpy2dAsync D F H F 1 2 4 S", 107000},
		{"aclrtFreeHost D", 107000},
		{"aclrtFree D+1", 107000},
		{"aclrtHostRegisterV2 D 1 268435456", 107000},
		{"aclrtHostUnregister D", 507911},
		{"aclrtMalloc T 0 0", 100000},
		{"aclrtMemcpyBatchAsync [ D ] [ 1 ] [ H ] [ 1 ] 1 [ V 0 1 0 ] [ 0 ] 1 [ 0 ] S", 100000},
		{"aclrtMemcpyBatchAsync [ D ] [ 1 ] [ H ] [ 1 ] 1 [ V 0 0 0 ] [ 1 ] 1 [ 0 ] S", 107000},
		{"aclrtMemcpyBatchAsync [ D ] [ F ] [ H ] [ F ] 1 [ V 0 0 0 ] [ 0 ] 1 [ 0 ] S", 107000},
	}
	o := &op{thread: t, ctx: s.ctx, reads: []*object{&d.object, &h.object, &s.object}}
	gone := slices.DeleteFunc(slices.Clone(g.p.streams), func(s *stream) bool {
		return s.end == nil || s.end.index > t.known.at(s.end.thread.id) && s.end.thread != t
	})
	c, stream := pick(g, calls), s.ref()
	switch other := pick(g, g.ctxs); {
	case len(gone) > 0 && g.IntN(4) == 0:
		c.call, c.code, stream = "aclrtMemcpyAsync D 1 H 1 4 S", 107017, pick(g, gone).ref()
	case other != s.ctx && s.slot >= 0 && g.IntN(2) == 0:
		c.call, c.code, o.ctx = "aclrtMemsetAsync D 1 1 1 S", 107003, other
	}
	words := strings.NewReplacer("D", d.ref(), "H", h.ref(), "N", fmt.Sprint(n), "M", fmt.Sprint(n-1),
		"F", fmt.Sprint(far), "S", stream, "T", fmt.Sprintf("&%d", t.status), "V", fmt.Sprint(1<<32|d.dev))
	name, args, _ := strings.Cut(c.call, " ")
	o.text = fmt.Sprintf("%s %s = %d", name, words.Replace(args), c.code)
	g.do(o)
}
