package page

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	g "maragu.dev/gomponents"

	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/runner"
)

// page serves the status page: /ui, and /ui/plugins/PLUGIN.
type page struct {
	version  string                       // of the host
	replica  string                       // the name of this one; "": there is no other
	plugins  func() []runner.PluginStatus // of the host, once it was made
	lastRuns func() map[string][]dispatch.LastRun
	numbers  func() (map[string]Numbers, error)
	logger   hclog.Logger

	started time.Time
	history history
	rates   rates

	mu      sync.Mutex // held while a snapshot is made
	current *snapshot  // nil: it is not valid any more
}

// validity is for how long a snapshot is shown: however many look at pages, nothing is collected more often.
const validity = time.Second

// What the overview has.
const (
	overviewFailing = 20
	overviewSlowest = 10
	overviewLoads   = 20
)

// pageSize is how many objects the page of a plugin has.
const pageSize = 100

// newPage returns the page of a host.
func newPage(env runner.Environment) *page {
	p := &page{
		version: env.Version, logger: env.Logger.Named(name),
		numbers: func() (map[string]Numbers, error) { return numbersOf(env.Metrics.Controllers) },
		started: time.Now(), history: history{byPlugin: map[string][]Load{}},
	}
	if env.Pod != nil {
		p.replica = env.Pod.Name
	}
	return p
}

// snapshot returns one that is not older than [validity].
func (p *page) snapshot() (*snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != nil {
		return p.current, nil
	}
	s, err := p.collect()
	if err != nil {
		return nil, err
	}
	p.current = s
	time.AfterFunc(validity, func() { // it may take megabytes, and perhaps nobody asks again
		p.mu.Lock()
		defer p.mu.Unlock()
		p.current = nil
	})
	return s, nil
}

//go:embed page.css
var style string

//go:embed page.js
var script string

// policy lets a page have its own style and script and nothing else, whatever is in it.
var policy = fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	sourceHash(style), sourceHash(script))

// sourceHash returns what Content Security Policy (Level 3, section 2.3.1) calls a hash-source.
func sourceHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// handler returns what serves the page. Links are relative: it may be behind a proxy that adds a prefix.
func (p *page) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/ui", p.serve)
	mux.HandleFunc("/ui/plugins/{plugin}", p.serve)
	mux.HandleFunc("/ui/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "../ui")
		w.WriteHeader(http.StatusMovedPermanently)
	})
	return mux
}

func (p *page) serve(w http.ResponseWriter, r *http.Request) {
	s, err := p.snapshot()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if plugin := r.PathValue("plugin"); plugin != "" {
		p.servePlugin(w, s, plugin, r.URL.Query())
		return
	}
	o := p.overview(s)
	p.write(w, http.StatusOK, o.html())
}

// frame is what all pages have.
type frame struct {
	*snapshot
	Title            string
	Version, Replica string
	Started          time.Time
	Home             string // the link to the overview; "": this is it
	Loads            []Load
}

func (p *page) frame(s *snapshot, title string) frame {
	return frame{snapshot: s, Title: title, Version: p.version, Replica: p.replica, Started: p.started}
}

// overview is the data of /ui.
type overview struct {
	frame
	Plugins          []pluginView // the bad ones first
	Failing, Slowest []*objectView
	MoreFailing      int // that are not in Failing
}

func (p *page) overview(s *snapshot) overview {
	o := overview{frame: p.frame(s, "Status"), Plugins: slices.Clone(s.Plugins)}
	slices.SortStableFunc(o.Plugins, badFirst)
	failing := s.where(func(o *objectView) bool { return o.Failure != nil }, byFailure)
	o.Failing = first(failing, overviewFailing)
	o.MoreFailing = len(failing) - len(o.Failing)
	o.Slowest = first(s.where(func(*objectView) bool { return true }, orders["slowest"]), overviewSlowest)
	o.Loads = first(p.history.of(""), overviewLoads)
	return o
}

func first[T any](all []T, n int) []T { return all[:min(n, len(all))] }

// pluginPage is the data of /ui/plugins/PLUGIN.
type pluginPage struct {
	frame
	View *pluginView // nil: there is none of that name
	query
	Orders   []string
	Found    int           // objects that the query selects
	From, To int           // of Found, those that are shown, from 1
	Shown    []*objectView // From to To
	Earlier  string        // the link to those before; "": there are none
	Later    string        // to those after
}

// query is what a request selects of the objects of a plugin.
type query struct {
	Object string // a part of namespace/name
	Only   string // the name of a controller
	Order  string // one of orders
	page   int    // from 0
}

func newQuery(values url.Values) query {
	q := query{Object: values.Get("object"), Only: values.Get("controller"), Order: values.Get("order")}
	if orders[q.Order] == nil {
		q.Order = orderNames[0]
	}
	if n, err := strconv.Atoi(values.Get("page")); err == nil && n > 0 {
		q.page = n
	}
	return q
}

// link returns the link to another page of the same objects.
func (q query) link(page int) string {
	v := url.Values{"order": {q.Order}, "page": {strconv.Itoa(page)}}
	if q.Object != "" {
		v.Set("object", q.Object)
	}
	if q.Only != "" {
		v.Set("controller", q.Only)
	}
	return "?" + v.Encode()
}

func (p *page) servePlugin(w http.ResponseWriter, s *snapshot, name string, values url.Values) {
	data := pluginPage{frame: p.frame(s, "Plugin "+name), View: s.plugin(name), query: newQuery(values), Orders: orderNames}
	data.Home, data.Loads = "../../ui", p.history.of(name)
	code := http.StatusOK
	switch {
	case data.View != nil:
		data.find(name)
	case len(data.Loads) == 0:
		http.Error(w, "there is no plugin of that name", http.StatusNotFound)
		return
	default: // it was removed
		code = http.StatusNotFound
	}
	p.write(w, code, data.html())
}

// find finds the objects that are shown.
func (d *pluginPage) find(plugin string) {
	found := d.where(func(o *objectView) bool {
		return o.Plugin == plugin && (d.Only == "" || d.Only == o.Controller) && strings.Contains(o.Object.String(), d.Object)
	}, orders[d.Order])
	d.Found = len(found)
	d.page = min(d.page, max(0, d.Found-1)/pageSize)
	from := d.page * pageSize
	d.Shown = first(found[from:], pageSize)
	d.From, d.To = from+1, from+len(d.Shown)
	if d.page > 0 {
		d.Earlier = d.link(d.page - 1)
	}
	if d.To < d.Found {
		d.Later = d.link(d.page + 1)
	}
}

func (p *page) write(w http.ResponseWriter, code int, document g.Node) {
	var text bytes.Buffer
	if err := document.Render(&text); err != nil {
		p.logger.Error("cannot make the status page", "error", err)
		http.Error(w, "the page cannot be made: the log of the host states why", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(text.Bytes()) // whoever asked may have gone
}
