package core

import (
	"errors"
	"time"

	"ropeway/internal/core/message"
	"ropeway/internal/driver"
)

// remember keeps err for aclGetRecentErrMsg.
func (t *Thread) remember(err *Error) {
	if t.Shared {
		return
	}
	x := message.Text{At: time.Now(), Err: err, Code: err.Code, Null: err.Text == "is NULL", Unbuilt: err.Unbuilt,
		Lost: errors.Is(err, driver.ErrLost)}
	s := &t.Runtime.callbacks
	if !t.Runtime.SharedTexts.Load() {
		t.texts = t.texts.With(x)
		return
	}
	Locked(&s.mu, func() { s.texts = s.texts.With(x) })
}

// GetRecentErrMsg is aclGetRecentErrMsg: the errors since its last call in this thread (or in the process, by
// err_msg_mode), oldest first; "" stands for NULL. It clears them.
//
// The vendor queries the device for its own messages. In a thread without a context that fails, and the failure becomes
// a text and the thread's last error.
func (t *Thread) GetRecentErrMsg() string {
	if t.Shared {
		return ""
	}
	if t.Current() == nil {
		// the call is not a mistake of the program
		t.Done(NoCurrentContext("aclGetRecentErrMsg").Because(NoCause, 0))
	}
	s := &t.Runtime.callbacks
	var list message.Texts
	if t.Runtime.SharedTexts.Load() {
		Locked(&s.mu, func() { list, s.texts = s.texts, nil })
	} else {
		list, t.texts = t.texts, nil
	}
	return list.String()
}
