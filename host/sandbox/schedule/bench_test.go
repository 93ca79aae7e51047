package schedule

import (
	"testing"
	"time"
)

type nobody struct{}

func (nobody) Waited(time.Duration) {}
func (nobody) HandedOver()          {}

// BenchmarkCall is what a call pays for its slot when nobody else wants one.
func BenchmarkCall(b *testing.B) {
	p := New(Config{Slots: 2}).Plugin(nobody{})
	for b.Loop() {
		t, err := p.Acquire(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		t.Release()
	}
}

// BenchmarkTick is what a long call pays at each of its ticks.
func BenchmarkTick(b *testing.B) {
	t, err := New(Config{Slots: 2}).Plugin(nobody{}).Acquire(b.Context())
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

// BenchmarkHostFunction is what a call pays for a host function that answers
// at once.
func BenchmarkHostFunction(b *testing.B) {
	t, err := New(Config{Slots: 2}).Plugin(nobody{}).Acquire(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer t.Release()
	for b.Loop() {
		t.Leave()
		if _, err := t.Return(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
