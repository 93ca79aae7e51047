package receives

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/utils/clock"

	"github.com/thole-dev/thole/host/access"
	"github.com/thole-dev/thole/host/kube"
)

// Config configures a [Handler].
type Config struct {
	// Receivers returns the controllers that receive events, of the plugins that run.
	Receivers func() []Receiver
	// Starting reports whether a plugin is being started of which it is not known yet what it receives.
	Starting  func() bool
	Tokens    kube.Creator[*authenticationv1.TokenReview]
	Access    *access.Reviewer
	Audiences []string // that a token must be for, at least one
	Metrics   Metrics
	Logger    hclog.Logger

	clock       clock.PassiveClock // default: the real one
	bodyTimeout time.Duration      // default: that of the constant
}

// Metrics counts events.
type Metrics interface {
	// Received counts events of a plugin by the status that they were answered with, one of [Codes]. A
	// request that is refused counts as one, of the plugin "" if that is not known.
	Received(plugin string, code, events int)
}

// Handler serves POST /events and POST /events/PLUGIN.
type Handler struct {
	Config
	callers *access.Tokens
	room    room
	logs    logs
}

const (
	// requestTimeout bounds what the host does for one request, without its body.
	requestTimeout = 15 * time.Second
	// retryLimited is when a request may be sent again that was too much.
	retryLimited = time.Second
)

// New returns a handler.
func New(c Config) *Handler {
	if c.clock == nil {
		c.clock = clock.RealClock{}
	}
	c.bodyTimeout = cmp.Or(c.bodyTimeout, bodyTimeout)
	return &Handler{
		Config: c, callers: access.NewTokens(access.TokensConfig{Reviews: c.Tokens, Audiences: c.Audiences, Clock: c.clock}), logs: newLogs(),
	}
}

// ServeHTTP implements [http.Handler]. The path value "plugin" names one plugin, "" all.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), h.bodyTimeout+requestTimeout)
	defer cancel()
	q := &request{h: h, w: w, Request: r.WithContext(ctx)}
	if refused := q.serve(); refused != nil {
		h.Metrics.Received(refused.plugin, refused.status, 1)
		h.logs.refused(h.Logger, refused, q.caller)
		refused.write(w, q.bodyRead)
	}
}

// request is one request.
type request struct {
	*http.Request
	h        *Handler
	w        http.ResponseWriter
	caller   *access.Caller // nil until it is known
	bodyRead bool
}

// serve answers a request, unless it is refused.
func (q *request) serve() *refusal {
	h := q.h
	receivers := h.Receivers()
	switch {
	case q.Method != http.MethodPost:
		return refuse(http.StatusMethodNotAllowed, "events are sent by POST")
	case len(receivers) == 0 && h.Starting():
		return busy("the plugins of the host are being started: try again")
	case len(receivers) == 0:
		return refuse(http.StatusNotFound, "no plugin that runs receives events")
	}
	var refused *refusal
	if q.caller, refused = h.callerOf(q.Context(), q.Request); refused != nil {
		return refused
	}
	leave := h.room.enter(q.caller)
	if leave == nil {
		return busy("%d requests of the user, or %d of all, are being served: try again", maxOfCaller, maxRequests)
	}
	defer leave()
	events, refused := q.events()
	if refused != nil {
		return refused
	}
	receivers = h.Receivers() // the body has taken its time
	if plugin := q.PathValue("plugin"); plugin != "" {
		receivers = slices.DeleteFunc(slices.Clone(receivers), func(r Receiver) bool { return r.Plugin != plugin })
	}
	targets, refused := q.resolve(events, receivers)
	if refused != nil {
		return refused
	}
	return q.queue(targets)
}

// events reads the events of the request.
func (q *request) events() ([]*received, *refusal) {
	m, refused := modeOf(q.Header)
	if refused != nil {
		return nil, refused
	}
	body, refused := q.h.readBody(q.w, q.Request)
	if refused != nil {
		return nil, refused
	}
	q.bodyRead = true
	return decode(q.Request, m, body)
}

// maxRequestObjects bounds what the events of one request make run together.
const maxRequestObjects = 10_000

// resolve returns what the events make run. If one of them makes nothing run, all are refused.
func (q *request) resolve(events []*received, receivers []Receiver) (all []target, _ *refusal) {
	objects := 0
	for _, e := range events {
		targets, refused := q.h.resolve(q.Context(), q.caller, e, receivers)
		if refused != nil && refused.status == http.StatusNotFound && q.h.Starting() && refused.plugin == "" {
			refused = busy("%s; plugins are being started: try again", refused.text)
		}
		if refused != nil {
			return nil, refused.within(e)
		}
		for _, t := range targets {
			if objects += len(t.keys); objects > maxRequestObjects {
				return nil, refuse(http.StatusRequestEntityTooLarge, "the batch is for more than %d objects: send smaller ones", maxRequestObjects).of(t.receiver.Plugin)
			}
		}
		all = append(all, targets...)
	}
	return all, nil
}

// share is what the events of a request are for one plugin.
type share struct {
	rate   *rate.Limiter
	events int
}

// queue makes run what the events are for, if the rates of all their plugins allow it.
func (q *request) queue(targets []target) *refusal {
	if refused := q.h.stillRuns(targets); refused != nil {
		return refused
	}
	shares := sharesOf(targets)
	if refused := take(shares, q.h.clock.Now()); refused != nil {
		return refused
	}
	objects := 0
	for _, t := range targets {
		for _, key := range t.keys {
			if t.receiver.Controller.Signal(key, t.event.json) { // else it was deleted meanwhile
				objects++
			}
		}
	}
	for plugin, s := range shares {
		q.h.Metrics.Received(plugin, http.StatusAccepted, s.events)
	}
	accepted(q.w, objects)
	return nil
}

// stillRuns refuses events for a controller that was replaced, or whose plugin this replica has ceased to
// lead, while the API server was asked what the caller may do.
func (h *Handler) stillRuns(targets []target) *refusal {
	receivers := h.Receivers()
	for _, t := range targets {
		if !slices.ContainsFunc(receivers, func(r Receiver) bool { return r.takes() && r.Controller == t.receiver.Controller }) {
			return notHere(t.receiver)
		}
	}
	return nil
}

// notHere refuses events for a controller that this replica does not run.
func notHere(r Receiver) *refusal {
	return busy("this replica of the host does not run the plugin %s: another one does, or will in a moment", quoted(r.Plugin)).of(r.Plugin)
}

// sharesOf counts the events of each plugin, of which one may be for several of its controllers.
func sharesOf(targets []target) map[string]*share {
	shares, last := map[string]*share{}, map[string]*received{}
	for _, t := range targets {
		plugin := t.receiver.Plugin
		if shares[plugin] == nil {
			shares[plugin] = &share{rate: t.receiver.Rate}
		}
		if last[plugin] != t.event {
			shares[plugin].events++
			last[plugin] = t.event
		}
	}
	return shares
}

// take takes the events of all shares from the rates of their plugins, or nothing.
func take(shares map[string]*share, now time.Time) *refusal {
	var taken []*rate.Reservation
	for plugin, s := range shares {
		reserved := s.rate.ReserveN(now, s.events)
		wait := reserved.DelayFrom(now)
		if taken = append(taken, reserved); !reserved.OK() || wait > 0 {
			for _, r := range taken {
				r.CancelAt(now)
			}
			limited := refuse(http.StatusTooManyRequests, "the plugin %s receives too many events: receives.eventsPerSecond of its policy bounds them", quoted(plugin)).of(plugin)
			limited.again = min(max(wait, retryLimited), time.Minute)
			return limited
		}
	}
	return nil
}
