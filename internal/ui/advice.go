package ui

// Advice is an error with what to do about it.
type Advice struct {
	Err  error
	Next string
}

func (a *Advice) Error() string { return a.Err.Error() }
func (a *Advice) Unwrap() error { return a.Err }
