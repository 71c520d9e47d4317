package finding

import (
	"encoding/json"
	"io"
)

// WriteJSON writes the report as one JSON value.
func (r *Report) WriteJSON(w io.Writer) error {
	with := *r
	if with.Findings == nil {
		with.Findings = []*Entry{} // an empty list rather than null
	}
	return writeJSON(w, &with)
}

// ReadJSON reads the output of [Report.WriteJSON].
func ReadJSON(from io.Reader) (*Report, error) {
	var r Report
	if err := json.NewDecoder(from).Decode(&r); err != nil {
		return nil, err
	}
	return &r, nil
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
