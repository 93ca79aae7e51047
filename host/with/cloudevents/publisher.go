package cloudevents

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/host/with/http/egress"
)

const (
	// perSecond bounds the requests to one sink.
	perSecond = 1000
	// flushTime is for how long events are sent after the end of a plugin.
	flushTime = 5 * time.Second
)

// Config configures a [Publisher].
type Config struct {
	Plugin  string
	Metrics func(sink string) Metrics
	// Dropped is called when events were dropped, once a minute at most for a sink and a reason and when the
	// sink ends. It must not block.
	Dropped func(Drop)
	Logger  hclog.Logger
}

// Publisher publishes the events of one plugin, of all its revisions. Its methods may be called
// concurrently.
type Publisher struct {
	config Config

	mu     sync.RWMutex
	prefix string
	sinks  []*sink
}

// New returns a publisher without sinks. It must be closed.
func New(c Config) *Publisher { return &Publisher{config: c} }

// Configure makes the settings of a revision, which were checked, count from now on. A sink with the
// same name and URL keeps its buffer; the buffer of one that is gone is dropped. secrets reads the
// Secrets of the sinks, nil if they name none. Configure must not be called concurrently. It reports
// whether there is a sink that was not there before.
func (p *Publisher) Configure(settings Settings, secrets egress.SecretReader) (added bool) {
	before := map[identity]*sink{}
	for _, s := range p.current() {
		before[s.identity] = s
	}
	var sinks []*sink
	for _, wanted := range settings.Sinks {
		id := identity{wanted.name(), wanted.URL}
		s := before[id]
		if s == nil {
			s, added = p.newSink(id, wanted, secrets), true
		} else {
			s.retarget(p.target(wanted, s.state, secrets))
		}
		delete(before, id)
		sinks = append(sinks, s)
	}
	p.mu.Lock()
	p.prefix, p.sinks = settings.TypePrefix, sinks
	p.mu.Unlock()
	for _, gone := range before {
		gone.end(0, dropRemoved)
	}
	return added
}

func (p *Publisher) current() []*sink {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.sinks // is replaced, never changed
}

func (p *Publisher) newSink(id identity, wanted Sink, secrets egress.SecretReader) *sink {
	state := egress.NewStateWithoutCircuits()
	return newSink(id, p.target(wanted, state, secrets), state, newReport(id.name, p.config.Dropped, p.logger(id.name), p.config.Metrics(id.name)))
}

func (p *Publisher) logger(sink string) hclog.Logger { return p.config.Logger.With("sink", sink) }

// target returns how a sink is reached.
func (p *Publisher) target(wanted Sink, state *egress.State, secrets egress.SecretReader) *target {
	e, _ := wanted.Entry() // was checked
	return &target{
		url: wanted.URL, mode: wanted.mode(),
		hosts: []egress.Host{{Host: e.Host, Methods: e.Methods}},
		client: egress.New(egress.Config{
			Plugin: p.config.Plugin, Entries: egress.Entries{e}, State: state, AtOnce: laneCount, PerSecond: perSecond,
			Secrets: secrets, Logger: p.logger(wanted.name()),
		}),
	}
}

// Publish puts an event into the buffers of all sinks. It never blocks: where there is no room, the event
// is dropped, so that those before it still arrive in their order.
func (p *Publisher) Publish(e Event) {
	p.mu.RLock() // also so that a sink that is ended gets no event after that
	defer p.mu.RUnlock()
	if len(p.sinks) == 0 {
		return
	}
	ready, err := encode(e, p.prefix, time.Now())
	if err != nil {
		p.config.Logger.Error("a CloudEvent cannot be published", "error", err)
		return
	}
	for _, s := range p.sinks {
		if !s.add(ready) {
			s.report.dropped(dropFull, 1, "the buffer of the sink is full")
		}
	}
}

// Close sends what is in the buffers, for 5 s at most, and drops the rest. No event may be published
// after that.
func (p *Publisher) Close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	sinks := p.sinks
	p.sinks = nil
	p.mu.Unlock()
	var ending sync.WaitGroup
	for _, s := range sinks {
		ending.Go(func() { s.end(flushTime, dropStopped) })
	}
	ending.Wait()
}
