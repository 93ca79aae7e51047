package schedule

import (
	"testing"
	"time"
)

type noMetrics struct{}

func (noMetrics) Waited(time.Duration) {}
func (noMetrics) HandedOver()          {}

// BenchmarkCall is the cost of a slot for a call when no other call wants one.
func BenchmarkCall(b *testing.B) {
	p := New(2).Plugin(noMetrics{})
	for b.Loop() {
		t, err := p.Acquire(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		t.Release()
	}
}

// BenchmarkTick is the cost of a tick for a long call.
func BenchmarkTick(b *testing.B) {
	t, err := New(2).Plugin(noMetrics{}).Acquire(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer t.Release()
	for b.Loop() {
		if _, err := t.Yield(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHostFunction is the cost of a host function that returns at once.
func BenchmarkHostFunction(b *testing.B) {
	t, err := New(2).Plugin(noMetrics{}).Acquire(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer t.Release()
	for b.Loop() {
		t.Block()
		if _, err := t.Unblock(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
