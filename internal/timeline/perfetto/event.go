package perfetto

import (
	"bufio"
	"encoding/json"
	"strconv"
)

// event builds an event of the trace. Its methods add fields; write ends it.
type event struct {
	out  *bufio.Writer
	buf  []byte
	some bool // an event was written
}

// quoted returns text as JSON.
func quoted(text string) string {
	b, _ := json.Marshal(text) // strings always are JSON
	return string(b)
}

// start begins an event of a phase. name and category are JSON.
func (e *event) start(phase byte, name, category string, at track) *event {
	e.buf = append(e.buf[:0], `{"ph":"`...)
	e.buf = append(e.buf, phase)
	e.buf = append(e.buf, `","name":`...)
	e.buf = append(e.buf, name...)
	if category != "" {
		e.buf = append(e.buf, `,"cat":`...)
		e.buf = append(e.buf, category...)
	}
	e.number(`,"pid":`, int64(at.pid))
	e.number(`,"tid":`, int64(at.tid))
	return e
}

// number adds a field; key is the JSON text of the name with the punctuation around it.
func (e *event) number(key string, value int64) *event {
	e.buf = append(e.buf, key...)
	e.buf = strconv.AppendInt(e.buf, value, 10)
	return e
}

// text adds a field whose value is JSON.
func (e *event) text(key, value string) *event {
	e.buf = append(e.buf, key...)
	e.buf = append(e.buf, value...)
	return e
}

// micros adds a time: the format counts microseconds, and three decimals keep the nanoseconds.
func (e *event) micros(key string, nanoseconds int64) *event {
	e.number(key, nanoseconds/1000)
	if rest := nanoseconds % 1000; rest != 0 {
		e.buf = append(e.buf, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
	}
	return e
}

// write ends the event; tail closes open brackets before that.
func (e *event) write(tail string) {
	if e.some {
		e.out.WriteString(",\n") //nolint:errcheck // Flush returns the first error
	}
	e.some = true
	e.out.Write(e.buf)            //nolint:errcheck
	e.out.WriteString(tail + "}") //nolint:errcheck
}
