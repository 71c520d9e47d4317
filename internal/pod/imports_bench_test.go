package pod

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// BenchmarkImports measures how long processes on one machine take to import from each other, each from all others one
// after the other, all at the same time, and how much processor time: what internal/pod/simulate is compared with.
// Links are as between machines.
func BenchmarkImports(b *testing.B) {
	for _, n := range []int{2, 4, 8} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var took, first, cpu []float64
			for range 5 {
				t, f, c := importAll(b, n)
				took, first, cpu = append(took, t), append(first, f), append(cpu, c)
			}
			links := float64(n * (n - 1))
			b.Logf("%d processes, %.0f links: %.1f ms, at best %.1f; processor time of a link %.2f ms at best; "+
				"the first by itself %.1f ms at best", n, links, 1e3*median(took), 1e3*slices.Min(took),
				1e3*slices.Min(cpu)/links, 1e3*slices.Min(first))
			b.ReportMetric(0, "ns/op")
		})
	}
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// importAll is one round: how long the slowest of n processes took for its imports, how long one import took before,
// with nothing else going on, and the processor time of all processes for all imports but that.
func importAll(b *testing.B, n int) (took, first, cpu float64) {
	file := podFile(b, n+2, "")
	number := func(text string) (v float64) {
		if _, err := fmt.Sscan(text, &v); err != nil {
			b.Fatal(err)
		}
		return v
	}
	var all []*server
	var handles []string
	for i := range n + 2 {
		s := launch(b, file, i)
		all, handles = append(all, s), append(handles, s.Does("export 4096"))
	}
	all[n].Does("imports %s", handles[n+1])
	first = number(all[n+1].Does("imports %s", handles[n]))
	all, handles = all[:n], handles[:n]
	for _, s := range all {
		cpu -= number(s.Does("cpu"))
	}
	for i, s := range all {
		others := slices.Delete(slices.Clone(handles), i, i+1)
		slices.Reverse(others[:i]) // not all at one owner at first
		s.Send("imports " + strings.Join(others, " "))
	}
	for _, s := range all {
		text, ok := strings.CutPrefix(s.Line(), "ok ")
		if !ok {
			b.Fatal(text)
		}
		took = max(took, number(text))
	}
	for _, s := range all {
		cpu += number(s.Does("cpu"))
	}
	for _, s := range all {
		s.Kill()
	}
	return took, first, cpu
}
