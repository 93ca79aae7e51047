package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/cmd/internal/child"
	"github.com/thole-dev/thole/cmd/internal/ending"
)

// plugin is what the demo shows. It owns one Pod per object.
const plugin = "podmanager"

const (
	// The story is told to its end before anything else is said: until nothing
	// has happened for calm, and for at most busy.
	calm = 400 * time.Millisecond
	busy = 10 * time.Second

	manyFacts = 1024 // that may wait to be told
)

// demo is one demo, from an empty directory to none.
type demo struct {
	options
	out    *printer
	ending *ending.Ending

	dir      string        // holds everything that the demo makes
	over     chan struct{} // closed when the children are about to be stopped
	fail     context.CancelCauseFunc
	children []*child.Process // in the order of their start
	facts    chan fact

	manifests
	cluster *rest.Config
	client  dynamic.Interface
	listen  string // address of the host
	zero    time.Time

	latest     *object // the sample, as seen last
	reconciled bool    // the host has told the end of a run of it
	complaints []string
}

// run is the whole demo. An error is a [*failure].
func (d *demo) run() (err error) {
	if err := d.check(); err != nil {
		return &failure{step: "start the demo", err: err, advice: "make demo builds and finds what is needed"}
	}
	if d.dir, err = os.MkdirTemp("", "thole-demo-"); err != nil {
		return &failure{step: "make a directory", err: err, advice: "set TMPDIR to a directory that can be written"}
	}
	if err := os.Mkdir(d.path(logs), 0o700); err != nil {
		return &failure{step: "make a directory", err: err}
	}
	d.over = make(chan struct{})
	d.facts = make(chan fact, manyFacts)
	ctx, cancel := context.WithCancelCause(d.ending.Asked)
	defer cancel(nil)
	d.fail = cancel
	if !d.once {
		ending.WhenUnread(d.out.out, d.ending.Ask)
	}
	return d.finish(d.perform(ctx), cancel)
}

// check looks for what the demo is given before anything is started.
func (d *demo) check() (err error) {
	for _, path := range []string{d.devcluster, d.thole, d.pluginFile()} {
		if _, err := os.Stat(path); err != nil {
			return err
		}
	}
	d.manifests, err = readManifests(d.manifestDir())
	return err
}

// perform is the demo while everything goes well.
func (d *demo) perform(ctx context.Context) error {
	deadline := time.AfterFunc(d.timeout, func() { d.fail(errNotReady) })
	defer deadline.Stop()
	begun := newStopwatch()
	d.out.title("thole demo")
	for _, s := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"start the control plane", d.startControlPlane},
		{"start the host", d.startHost},
		{"apply the CRD", d.applyCRD},
		{"wait for the plugin", d.awaitPlugin},
		{"watch what happens", d.watch},
		{"apply the sample", d.applySample},
		{"wait for Ready", d.awaitReady},
	} {
		if err := s.do(ctx); err != nil {
			return d.failed(ctx, s.name, err)
		}
	}
	deadline.Stop()
	took := stopwatch{d.zero}.elapsed()
	if err := d.tellWhileBusy(ctx); err != nil {
		return d.failed(ctx, "follow the story", err)
	}
	d.out.say("Ready " + took + " after it was applied, " + begun.elapsed() + " after the start.")
	if d.once {
		return nil
	}
	d.invite()
	return d.failed(ctx, "follow the story", d.tellUntil(ctx, func(fact) bool { return false }))
}

func (d *demo) applyCRD(ctx context.Context) error {
	if err := apply(ctx, d.client, crdResource, d.crd); err != nil {
		return err
	}
	d.out.step("applied", "customresourcedefinition "+d.crd.GetName())
	return served(ctx, d.client, d.resource)
}

func (d *demo) applySample(ctx context.Context) error {
	d.zero = time.Now()
	if err := apply(ctx, d.client, d.resource, d.sample); err != nil {
		return err
	}
	d.out.step("applied", plugin+" "+d.sample.GetNamespace()+"/"+d.sample.GetName())
	return nil
}

func (d *demo) awaitReady(ctx context.Context) error {
	return d.tellUntil(ctx, func(fact) bool { return d.latest != nil && isReady(d.latest) })
}

// start starts a child and lets its early end be the demo's.
func (d *demo) start(name, log string, cmd *exec.Cmd, said io.Writer) error {
	cmd.SysProcAttr = processAttributes()
	p, err := child.Start(name, d.logPath(log), cmd, said)
	if err != nil {
		return err
	}
	d.children = append(d.children, p)
	go p.Watch(d.over, d.fail)
	return nil
}

// finish stops the children, the last one first, and removes the directory.
// The logs stay if the demo has failed.
func (d *demo) finish(err error, cancel context.CancelCauseFunc) error {
	interrupted := errors.Is(err, ending.ErrInterrupted)
	d.out.say("Stopping ...")
	close(d.over)
	cancel(nil)
	clock := newStopwatch()
	var stopped []error
	for _, p := range slices.Backward(d.children) {
		stopped = append(stopped, p.Stop(d.ending.Hurry))
	}
	if !interrupted || d.once {
		stopped = append(stopped, err)
	}
	kept := err != nil && !interrupted
	if kept {
		stopped = append(stopped, keepLogs(d.dir))
	} else {
		stopped = append(stopped, child.RemoveAll(d.dir))
	}
	err = errors.Join(stopped...)
	if err == nil {
		d.out.write("Stopped after " + clock.elapsed() + "; nothing is left of the demo.\n")
	}
	return err
}
