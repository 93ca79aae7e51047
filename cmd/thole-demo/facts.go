package main

import (
	"context"
	"time"

	"github.com/thole-dev/thole/cmd/internal/words"
)

const mostComplaints = 5

// notice hands a fact to the one who tells the story. Facts of the time when
// nobody listens any more are dropped, so that no source is held up.
func (d *demo) notice(f fact) {
	if f.record != nil && f.record.Text != words.HostStarts && len(tell(f)) == 0 {
		return // a debug message, of which there are many
	}
	f.at = time.Now()
	select {
	case d.facts <- f:
	case <-d.over:
	}
}

// tellUntil tells facts until done says that one was waited for.
func (d *demo) tellUntil(ctx context.Context, done func(fact) bool) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case f := <-d.facts:
			d.take(f)
			if done(f) {
				return nil
			}
		}
	}
}

// tellWhileBusy tells facts until there are none for a while, the end of the
// run that made the sample Ready among them: the host logs it some time after
// the status is seen.
func (d *demo) tellWhileBusy(ctx context.Context) error {
	limit := time.After(busy)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case f := <-d.facts:
			d.take(f)
		case <-time.After(calm):
			if d.reconciled {
				return nil
			}
		case <-limit:
			return nil
		}
	}
}

// take tells a fact and remembers what is needed later.
func (d *demo) take(f fact) {
	d.remember(f)
	for _, l := range tell(f) {
		if !d.zero.IsZero() {
			d.out.line(f.at.Sub(d.zero), l)
		} else if l.tone == bad {
			d.out.step(l.subject, l.text)
		}
	}
}

func (d *demo) remember(f fact) {
	switch {
	case f.record != nil && f.record.Listen != "":
		d.listen = f.record.Listen
	case f.record != nil && f.record.complaint():
		d.complaints = append(d.complaints, f.record.Level+" "+words.OneLine(f.record.String()))
		d.complaints = d.complaints[max(0, len(d.complaints)-mostComplaints):]
	case f.record != nil && f.record.Text == words.Reconciled && f.record.Object == d.sample.GetNamespace()+"/"+d.sample.GetName():
		d.reconciled = true
	case f.change != nil && f.change.new != nil && d.isSample(f.change.new):
		d.latest = f.change.new
	}
}

func (d *demo) isSample(o *object) bool {
	return o.GetKind() == d.sample.GetKind() && o.GetNamespace() == d.sample.GetNamespace() && o.GetName() == d.sample.GetName()
}
