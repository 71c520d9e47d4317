package observe

import (
	"errors"
	"sync"
)

// Tee tells both of everything. Times are the first one's: the second has to do with nanoseconds of a clock that is not its own.
func Tee(first, second Observer) Observer {
	return &tee{first: first, second: second, numbers: map[string]uint16{}}
}

type tee struct {
	first, second Observer

	mu        sync.Mutex
	numbers   map[string]uint16 // guarded by mu; of functions, by name
	functions [functions][2]uint16
}

// functions is how many there can be; the API has far less.
const functions = 1 << 12

func (t *tee) Now() int64 { return t.first.Now() }

func (t *tee) Submitted(task Task) {
	t.first.Submitted(task)
	t.second.Submitted(task)
}

func (t *tee) Ran(stream int32, number uint32, began, ended int64, how Result) {
	t.first.Ran(stream, number, began, ended, how)
	t.second.Ran(stream, number, began, ended, how)
}

func (t *tee) Called(c Call) {
	first, second := t.split(c)
	t.first.Called(first)
	t.second.Called(second)
}

func (t *tee) Copied(c Call, task Task) {
	first, second := t.split(c)
	t.first.Copied(first, task)
	t.second.Copied(second, task)
}

// split is a call with the number that each has for its function.
func (t *tee) split(c Call) (first, second Call) {
	both := t.functions[c.Function%functions]
	first, second = c, c
	first.Function, second.Function = both[0], both[1]
	return first, second
}

// Function gives a name one number that stands for those of both. An entry is written once, before anybody has its number.
func (t *tee) Function(name string) uint16 {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, known := t.numbers[name]
	if !known && len(t.numbers) < functions {
		n = uint16(len(t.numbers))
		t.numbers[name] = n
		t.functions[n] = [2]uint16{t.first.Function(name), t.second.Function(name)}
	}
	return n
}

func (t *tee) Device(device int32, name string) {
	t.first.Device(device, name)
	t.second.Device(device, name)
}

func (t *tee) Stream(stream, device int32, isDefault bool) {
	t.first.Stream(stream, device, isDefault)
	t.second.Stream(stream, device, isDefault)
}

func (t *tee) Thread(id uint32) {
	t.first.Thread(id)
	t.second.Thread(id)
}

func (t *tee) Left(id uint32) {
	t.first.Left(id)
	t.second.Left(id)
}

func (t *tee) Ended() {
	t.first.Ended()
	t.second.Ended()
}

func (t *tee) Close() error { return errors.Join(t.first.Close(), t.second.Close()) }
