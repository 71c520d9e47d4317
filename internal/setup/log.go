package setup

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// LogSettings are the level and the destinations of the log. The zero value writes nothing.
type LogSettings struct {
	Level  slog.Level // lowest level that is logged
	Stdout bool       // to standard output
	Dir    string     // to a file below; "" for none
}

// noLines is a level above that of all lines.
const noLines = slog.LevelError + 4

// levels are the values of ASCEND_GLOBAL_LOG_LEVEL, in order.
var levels = []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError, noLines}

const defaultLevel = 3

func (r *reader) log() LogSettings {
	// Read both, so that both are checked.
	one, other := r.printing(EnvSlogStdout), r.printing(EnvLogStdout)
	return LogSettings{Level: levels[r.logLevel()], Stdout: one || other, Dir: r.value(EnvLogPath)}
}

func (r *reader) logLevel() int {
	v := r.value(EnvLogLevel)
	if v == "" {
		return defaultLevel
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 || n >= len(levels) {
		r.ignore(EnvLogLevel, v, strconv.Itoa(defaultLevel), "it takes 0 (debug), 1 (info), 2 (warning), 3 (error) "+
			"or 4 (nothing)")
		return defaultLevel
	}
	return n
}

func (r *reader) printing(name string) bool {
	v := r.value(name)
	if v != "" && v != "0" && v != "1" {
		r.ignore(name, v, "0", onOff)
	}
	return v == "1"
}

// logger returns the log, nil if it has no destination. Problems with its file are printed to warn.
func (l LogSettings) logger(warn io.Writer) *slog.Logger {
	var to []io.Writer
	if l.Stdout {
		to = append(to, os.Stdout)
	}
	if l.Dir != "" {
		dir, err := filepath.Abs(l.Dir) // the program may change its directory before the first line
		if err != nil {
			dir = l.Dir
		}
		to = append(to, &logFile{dir: dir, warn: warn})
	}
	if len(to) == 0 || l.Level >= noLines {
		return nil
	}
	return newLogger(l.Level, to...)
}

// newLogger returns a logger that writes each line to all writers, in one call of Write, so that lines never mix.
func newLogger(level slog.Level, to ...io.Writer) *slog.Logger {
	h := slog.NewTextHandler(everywhere(to), &slog.HandlerOptions{Level: level})
	return slog.New(h).With("pid", os.Getpid())
}

// logWriter logs text written to it as warnings.
type logWriter struct{ log *slog.Logger }

func (w logWriter) Write(text []byte) (int, error) {
	w.log.Warn(strings.TrimRight(string(text), "\n"))
	return len(text), nil
}

// everywhere writes to all of several writers, even if some fail.
type everywhere []io.Writer

func (e everywhere) Write(line []byte) (int, error) {
	for _, w := range e {
		w.Write(line) //nolint:errcheck // a failing log must not stop the program
	}
	return len(line), nil
}

// logFile is a file that is created when the first line is written. The log's handler calls Write from one goroutine
// at a time.
type logFile struct {
	dir  string
	warn io.Writer // receives one message if the file cannot be created or written
	file *os.File
	lost bool
}

func (f *logFile) Write(line []byte) (n int, err error) {
	if f.lost {
		return len(line), nil
	}
	if f.file == nil {
		f.file, err = f.create()
	}
	if err == nil {
		n, err = f.file.Write(line)
	}
	if err != nil {
		f.lost = true
		fmt.Fprintf(f.warn, "ropeway: %s=%q: nothing is logged there: %v\n", EnvLogPath, f.dir, err)
	}
	return n, err
}

// create creates debug/plog/plog-<pid>_<time>.log, named like the vendor's.
func (f *logFile) create() (*os.File, error) {
	dir := filepath.Join(f.dir, "debug", "plog")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	now := strings.ReplaceAll(time.Now().Format("20060102150405.000"), ".", "")
	name := fmt.Sprintf("plog-%d_%s.log", os.Getpid(), now)
	return os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
}
