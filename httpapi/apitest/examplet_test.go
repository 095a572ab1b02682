package apitest_test

import (
	"context"
	"fmt"
	"testing"
)

// exampleT is the testing.TB of examples, which have no *testing.T.
type exampleT struct {
	testing.TB // nil: calling another method panics
	cleanups   []func()
}

func newExampleT() *exampleT { return &exampleT{} }

func (t *exampleT) Helper()                  {}
func (t *exampleT) Context() context.Context { return context.Background() }
func (t *exampleT) Cleanup(f func())         { t.cleanups = append(t.cleanups, f) }
func (t *exampleT) Fatal(args ...any)        { panic(fmt.Sprint(args...)) }

func (t *exampleT) cleanup() {
	for _, f := range t.cleanups {
		f()
	}
}
