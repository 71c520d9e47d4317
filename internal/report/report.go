// Package report makes the page that shows a run: one file of HTML that needs nothing else.
package report

import (
	"bytes"
	"compress/gzip"
	_ "embed" // the page
	"encoding/base64"
	"encoding/json"
	"errors"
	"html"
	"io"
	"regexp"

	"ropeway/internal/timeline"
)

// page is built from web/report by Vite. The script with the id "data" is where the run goes.
//
//go:embed page.html
var page []byte

// place is where the run goes in the page.
var place = regexp.MustCompile(`(?s)<script[^>]*\bid="data"[^>]*>.*?</script>`)

// plainLimit is how many bytes of JSON stand in the page as they are; more are compressed.
const plainLimit = 256 << 10

// Write writes the page that shows the run. docs is the address of the documentation (make site), which ends with a
// slash: the page links to it, if it is not "".
func Write(w io.Writer, run *timeline.Run, docs string) error {
	data, err := JSON(run)
	if err != nil {
		return err
	}
	head := page
	if docs != "" {
		meta := `<head>` + "\n" + `<meta name="ropeway-docs" content="` + html.EscapeString(docs) + `">`
		head = bytes.Replace(page, []byte("<head>"), []byte(meta), 1)
	}
	return fill(w, head, data)
}

// Wrote reports whether a text is a page that Write wrote.
func Wrote(text []byte) bool {
	return bytes.Contains(text, []byte(`<meta name="generator" content="ropeway">`))
}

// JSON is the run, with statistics and advice, as the page reads it.
func JSON(run *timeline.Run) ([]byte, error) {
	return json.Marshal(dataOf(run)) // it escapes <, so nothing in it ends the script
}

// fill writes the page with data in its place.
func fill(w io.Writer, page, data []byte) error {
	at := place.FindIndex(page)
	if at == nil {
		return errors.New(`BUG: the report's page has no script with the id "data"`)
	}
	kind := "application/json"
	if len(data) > plainLimit {
		kind = "application/gzip;base64"
		var packed bytes.Buffer
		to, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
		if err != nil {
			return err
		}
		if _, err := to.Write(data); err != nil {
			return err
		}
		if err := to.Close(); err != nil {
			return err
		}
		data = base64.StdEncoding.AppendEncode(nil, packed.Bytes())
	}
	for _, part := range [][]byte{page[:at[0]], []byte(`<script type="` + kind + `" id="data">`), data,
		[]byte("</script>"), page[at[1]:]} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}
