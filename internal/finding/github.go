package finding

import (
	"io"
	"strconv"
	"strings"
)

// escaped escapes the text of GitHub's workflow commands, escapedIn also that of their properties.
var (
	escaped   = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	escapedIn = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// WriteGitHub writes each finding as an annotation of GitHub Actions: a line that the runner shows at the finding's
// file and line. Suppressed findings are left out.
func (r *Report) WriteGitHub(w io.Writer, l Layout) error {
	var b strings.Builder
	for _, e := range r.Findings {
		if e.Suppressed != "" {
			continue
		}
		level := string(e.Severity)
		if e.Severity == Notice {
			level = "notice"
		}
		b.WriteString("::" + level + " ")
		if f := e.Offence.innermost(); f != nil && f.File != "" {
			b.WriteString("file=" + escapedIn.Replace(Below(l.Dir, f.File)) + ",")
			if f.Line > 0 {
				b.WriteString("line=" + strconv.Itoa(f.Line) + ",")
			}
		}
		lines := []string{Printable(e.Summary)}
		for i := range e.Others {
			if at := l.Place(&e.Others[i]); at != "" {
				lines = append(lines, Printable(e.Others[i].happened())+": "+at)
			}
		}
		if e.Advice != "" {
			lines = append(lines, Printable(e.Advice))
		}
		text := escaped.Replace(strings.Join(lines, "\n"))
		b.WriteString("title=" + escapedIn.Replace("ropeway: "+e.Rule) + "::" + text + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
