package dot

import (
	"os/exec"
	"strings"
	"testing"

	"ropeway/internal/observe"
	"ropeway/internal/testenv"
	"ropeway/internal/timeline"
)

// TestWrite proves that nodes, streams, bytes and both kinds of edges are there, and that names are quoted.
func TestWrite(t *testing.T) {
	run := &timeline.Run{Streams: []timeline.Stream{{ID: 1}, {ID: 7}}, Models: []timeline.Model{{ID: 3, Tasks: 5,
		Nodes: []timeline.Node{
			{Kind: observe.Copy, Direction: observe.HostToDevice, Bytes: 4096, After: timeline.None},
			{Kind: observe.Record, After: timeline.None},
			{Kind: observe.Wait, Stream: 1, After: 1},
			{Kind: observe.Kernel, Kernel: `say "a\b"`, Stream: 1, After: timeline.None},
		}}}}
	var b strings.Builder
	testenv.OK(t, Write(&b, run))
	for _, want := range []string{
		`label="model 3: the first 4 of 5 tasks"`, `label="stream 7"`, `m0_0 [label="copy, host to device, 4096 bytes"]`,
		"m0_0 -> m0_1;", "m0_1 -> m0_2 [style=dashed];", "m0_2 -> m0_3;", `m0_3 [label="say \"a\\b\""]`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s is missing in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "m0_1 -> m0_2;") {
		t.Error("tasks of two streams are in the order of one")
	}
	if dot, err := exec.LookPath("dot"); err == nil {
		c := exec.Command(dot, "-Tsvg")
		c.Stdin = strings.NewReader(b.String())
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
}
