package arena

import "time"

// The budget records in ledgers how many bytes this process was granted and has not touched, for other processes with
// the same limits. It records them before they are used, as credit. Once memory is touched the kernel counts it, too,
// but does not report that; so the budget updates the ledgers regularly, at growing intervals while nothing changes,
// until all granted memory is touched.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// others returns the number of bytes that other processes have in the ledger of a limit. mu is held.
func (b *Budget) others(limit string) uint64 {
	l, ok := b.ledgers[limit]
	if !ok && len(b.accounts) > 0 { // without accounts nothing would close it
		l = openLedger(limit)
		if b.ledgers == nil {
			b.ledgers = map[string]*ledger{}
		}
		b.ledgers[limit] = l
		if l != nil {
			l.put(b.posted)
		}
	}
	if l == nil {
		return 0
	}
	return l.others()
}

// availableAlone is available with the ledgers locked: no other process is granted memory of the same limits until
// end is called. mu is held.
func (b *Budget) availableAlone() (free uint64, end func()) {
	for {
		known := len(b.ledgers)
		end = b.alone()
		if free = b.available(); len(b.ledgers) == known {
			return free, end
		}
		end() // reading has found limits that are not locked
	}
}

// alone locks the ledgers until end is called. mu is held.
func (b *Budget) alone() (end func()) {
	for _, l := range b.ledgers {
		if l != nil {
			l.lock()
		}
	}
	return func() {
		for _, l := range b.ledgers { // lockcheck: mu is held until end is called
			if l != nil {
				l.unlock()
			}
		}
	}
}

// post brings the ledgers up to date, and schedules the next time. mu is held.
func (b *Budget) post() {
	if len(b.ledgers) == 0 {
		return
	}
	n := b.promised() + b.credit
	if n != b.posted {
		b.posted, b.pause = n, firstPause
		for _, l := range b.ledgers {
			if l != nil {
				l.put(n)
			}
		}
	}
	switch {
	case n == 0:
	case b.pending == nil:
		b.pending = time.AfterFunc(b.pause, b.tellAgain)
	default:
		b.pending.Reset(b.pause)
	}
}

func (b *Budget) tellAgain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.credit = 0 // others may need it
	b.pause = min(2*b.pause, lastPause)
	b.post()
}

// forget closes the ledgers, after the last account was closed. mu is held.
func (b *Budget) forget() {
	if b.pending != nil {
		b.pending.Stop()
	}
	for _, l := range b.ledgers {
		if l != nil {
			l.close()
		}
	}
	b.ledgers, b.pending, b.posted, b.credit = nil, nil, 0, 0
}
