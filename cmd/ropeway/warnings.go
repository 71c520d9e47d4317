package main

import (
	"context"
	"log/slog"
)

// warnings returns a logger that prints warnings of the runtime, a line each, and nothing else.
func warnings(print func(line string)) *slog.Logger { return slog.New(warningHandler{print}) }

type warningHandler struct{ print func(line string) }

func (h warningHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

func (h warningHandler) Handle(_ context.Context, r slog.Record) error {
	h.print("ropeway: " + r.Message)
	return nil
}

// WithAttrs and WithGroup are not used: the runtime's warnings are sentences.
func (h warningHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h warningHandler) WithGroup(string) slog.Handler      { return h }
