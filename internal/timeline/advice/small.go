package advice

import (
	"fmt"
	"slices"

	"ropeway/internal/observe"
)

// small advises on copies of 64 KiB or less, eight or more in a row from one thread to one stream in one direction,
// that could be one batch, if the saved calls took long enough to notice, not counting their waits for work.
func small(v *view) *Advice {
	s := smallCopies{view: v}
	saves := int64(0) // the largest of one thread: threads call at the same time
	for _, thread := range sortedKeys(v.threads) {
		s.saves = 0
		for _, i := range v.threads[thread] {
			s.call(i)
		}
		s.endGroup()
		saves = max(saves, s.saves)
	}
	if saves < v.worth {
		return nil
	}
	slices.Sort(s.sizes)
	median := s.sizes[len(s.sizes)/2]
	batch := "aclrtMemcpyBatchAsync"
	if s.async == 0 {
		batch = "aclrtMemcpyBatch"
	}
	return &Advice{
		Rule:  Small,
		Title: fmt.Sprintf("Make %s of %s", plural(s.groups, "batch"), plural(len(s.tasks), "small copy")),
		Text: fmt.Sprintf("%s of %s or less follow one another, in %s of the same thread, stream and direction. "+
			"Each is a call of its own, "+
			"and the calls took %s besides the copying. %s takes a whole group in one call.",
			plural(len(s.tasks), "copy"), size(s.sizes[len(s.sizes)-1]), plural(s.groups, "group"),
			duration(s.overhead), batch),
		Saves: saves, Tasks: firstOf(s.tasks), Calls: firstOf(s.calls),
		Numbers: []Number{{"copies", fmt.Sprint(len(s.tasks))}, {"groups", fmt.Sprint(s.groups)},
			{"size in the middle", size(median)},
			{"bytes", size(s.bytes)}, {"time in their calls", duration(s.overhead)},
			{"a call", duration(s.overhead / int64(len(s.tasks)))}},
	}
}

// smallCopies collects groups. The current one is open.
type smallCopies struct {
	*view
	key   smallKey
	group []int // calls
	spent int64 // time of the calls of the group, without waits
	most  int64 // of one of these calls

	groups, async int
	tasks, calls  []int
	sizes         []uint64
	bytes         uint64
	overhead      int64
	saves         int64 // of the current thread
}

// smallKey has the common properties of the copies of a group.
type smallKey struct {
	function, stream int
	direction        observe.Direction
}

// call processes the next call of a thread.
func (s *smallCopies) call(i int) {
	c := &s.run.Calls[i]
	if len(s.tasksOf(i)) == 0 && c.Blocked == 0 && !s.is(c).waits {
		return // a query, which does not require copying at once
	}
	key, fits := s.fits(i)
	if !fits || key != s.key {
		s.endGroup()
	}
	if !fits {
		return
	}
	spent := max(0, s.ended(c)-c.Start-c.Blocked)
	s.key, s.group = key, append(s.group, i)
	s.spent += spent
	s.most = max(s.most, spent)
}

// fits reports whether a call made one small copy and nothing else. An asynchronous call that waited copied pageable
// memory and does not fit.
func (s *smallCopies) fits(i int) (smallKey, bool) {
	c := &s.run.Calls[i]
	tasks := s.tasksOf(i)
	if len(tasks) != 1 || s.is(c).async && c.Blocked > 0 {
		return smallKey{}, false
	}
	t := &s.run.Tasks[tasks[0]]
	hostSide := t.Direction == observe.HostToDevice || t.Direction == observe.DeviceToHost
	return smallKey{c.Function, t.Stream, t.Direction}, t.Kind == observe.Copy && hostSide && t.Bytes <= smallCopy
}

// endGroup counts the group if it is long enough, and starts a new one.
func (s *smallCopies) endGroup() {
	if len(s.group) >= leastInGroup {
		s.groups++
		s.overhead += s.spent
		s.saves += s.spent - s.most
		if s.is(&s.run.Calls[s.group[0]]).async {
			s.async++
		}
		for _, i := range s.group {
			task := s.tasksOf(i)[0]
			t := &s.run.Tasks[task]
			s.tasks, s.calls = append(s.tasks, task), append(s.calls, i)
			s.sizes = append(s.sizes, t.Bytes)
			s.bytes += t.Bytes
		}
	}
	s.group, s.spent, s.most = s.group[:0], 0, 0
}
