package core

import (
	"context"
	"log/slog"
	"strconv"
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/core/message"
)

// The log has errors that calls returned, lines of aclAppLog, and (at info) start and end of the library and its
// devices. Successful calls are not logged. Lines of a disabled level are not formatted.

// logLevel converts a level of aclAppLog; values out of range become the nearest level.
func logLevel(l abi.LogLevel) slog.Level {
	l = min(max(l, abi.LogLevelDebug), abi.LogLevelError)
	return slog.LevelDebug + slog.Level(l)*(slog.LevelInfo-slog.LevelDebug)
}

// Logs reports whether lines of aclAppLog at a level are written. A front end calls it before it formats one.
func (rt *Runtime) Logs(level abi.LogLevel) bool { return rt.LogsAt(logLevel(level)) }

func (rt *Runtime) LogsAt(level slog.Level) bool {
	return rt.log != nil && rt.log.Enabled(context.Background(), level)
}

// AppLog is aclAppLog. text is the formatted message. The line goes to [Options.Log].
func (t *Thread) AppLog(level abi.LogLevel, function, file *byte, line uint32, text *byte) {
	if !t.Runtime.Logs(level) {
		return
	}
	from := CString(file) + ":" + strconv.FormatUint(uint64(line), 10) + " " + CString(function)
	t.WriteLog(logLevel(level), from+": "+strings.TrimRight(CString(text), "\n"))
}

// LogError logs an error that is returned to the program.
func (t *Thread) LogError(err *Error) {
	level := slog.LevelError
	if err.Minor {
		level = slog.LevelInfo
	}
	if !t.Runtime.LogsAt(level) {
		return
	}
	said := strings.TrimPrefix(message.WithoutCode(err, err.Code), err.API+": ")
	t.WriteLog(level, said, slog.Int("code", int(err.Code)), slog.String("function", err.API))
}

// LogInfo logs an action of a call, such as setting a device.
func (t *Thread) LogInfo(api, text string, attrs ...slog.Attr) {
	if t.Runtime.LogsAt(slog.LevelInfo) {
		t.WriteLog(slog.LevelInfo, text, append(attrs, slog.String("function", api))...)
	}
}

// WriteLog logs a line of this thread.
func (t *Thread) WriteLog(level slog.Level, text string, attrs ...slog.Attr) {
	t.Runtime.log.LogAttrs(context.Background(), level, text, append(attrs, slog.Uint64("tid", uint64(t.id)))...)
}
