package conformance

import "strings"

// checkedLater are tests of what the checker cannot hold back yet (checker: later): gates and what they wait for.
var checkedLater = []string{
	"Notify", "ValueWrite", "ValueWait", "IpcGetEventHandle", "IpcOpenEventHandle",
	"TestBehaviour/aclrtStreamWaitEvent", // an IPC event is among them
}

// needsGates tells whether a test is one of them.
func needsGates(name string) bool {
	for _, part := range checkedLater {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
