package report

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
)

// ErrNoReport reports that a page was not written by Write.
var ErrNoReport = errors.New("this is no report of a run")

// Program is the command whose run a page shows. Little of the run is read for it.
func Program(page []byte) ([]string, error) {
	at := place.FindIndex(page)
	if at == nil {
		return nil, ErrNoReport
	}
	script := page[at[0]:at[1]]
	head, text, _ := bytes.Cut(script, []byte(">"))
	var in io.Reader = bytes.NewReader(text)
	if bytes.Contains(head, []byte("base64")) {
		packed, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, in))
		if err != nil {
			return nil, ErrNoReport
		}
		in = packed
	}
	d := json.NewDecoder(in)
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, ErrNoReport
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, ErrNoReport
		}
		if key == "program" {
			var program []string
			if err := d.Decode(&program); err != nil {
				return nil, ErrNoReport
			}
			return program, nil
		}
		var other json.RawMessage
		if err := d.Decode(&other); err != nil {
			return nil, ErrNoReport
		}
	}
	return nil, ErrNoReport
}
