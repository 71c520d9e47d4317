package advice

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"ropeway/internal/timeline"
)

// mostLines is the largest number of lines of the program in an advice.
const mostLines = 3

// lines returns the lines of the program with the calls of an advice, the most frequent first. A task counts for the
// call that submitted it.
func lines(run *timeline.Run, a *Advice) (texts []string) {
	calls := map[int]bool{}
	for _, c := range a.Calls {
		calls[c] = true
	}
	for _, t := range a.Tasks {
		calls[run.Tasks[t].Call] = true
	}
	count := map[int]int{}
	for c := range calls {
		if c >= 0 && c < len(run.Calls) {
			if s := run.Calls[c].Site; s >= 0 && s < len(run.Sites) {
				count[s]++
			}
		}
	}
	sites := slices.SortedFunc(maps.Keys(count), func(x, y int) int {
		return cmp.Or(cmp.Compare(count[y], count[x]),
			cmp.Compare(x, y))
	})
	for _, s := range sites[:min(len(sites), mostLines)] {
		text := run.Sites[s].String()
		if n := count[s]; n > 1 {
			text += fmt.Sprintf(" (%d calls)", n)
		}
		texts = append(texts, text)
	}
	return texts
}
