package pluginlist

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Plugin is what a host says of one plugin, as far as it is printed. Fields
// that a host of another version does not have are zero.
type Plugin struct {
	Name        string   `json:"name"`
	State       string   `json:"state"`
	Digest      string   `json:"digest"` // of the running generation, in hex
	Version     string   `json:"version"`
	Generation  int      `json:"generation"`
	Controllers []string `json:"controllers"`
	Loads       int      `json:"loads"` // generations that began to run
	Rollbacks   int      `json:"rollbacks"`

	LastError      string `json:"lastError"`
	RejectedFor    string `json:"rejectedFor"`    // the step at which the newest module was refused
	RejectedDigest string `json:"rejectedDigest"` // of the module that was
	// CannotFollow tells of each kind whose changes do not reach the plugin now
	// why they do not.
	CannotFollow []string `json:"cannotFollow"`
}

// List is the answer of a host.
type List struct {
	plugins []Plugin
	raw     []json.RawMessage // each as the host said it
}

const (
	askTimeout    = 20 * time.Second
	longestAnswer = 64 << 20
)

// Ask gets the plugins of the host at an address such as
// http://127.0.0.1:8080; the scheme may be left out.
func Ask(ctx context.Context, address string) (*List, error) {
	base, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("plugins").String(), nil)
	if err != nil {
		return nil, err
	}
	request.Close = true // nothing more is asked
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the host: %w", err)
	}
	defer answer.Body.Close()
	list, err := read(answer)
	if err != nil {
		return nil, fmt.Errorf("%s is not answered as a host does: %w", request.URL, err)
	}
	return list, nil
}

// ParseAddress checks an address without asking.
func ParseAddress(address string) error {
	_, err := parseAddress(address)
	return err
}

func parseAddress(address string) (*url.URL, error) {
	full := address
	if !strings.Contains(full, "://") {
		full = "http://" + full
	}
	u, err := url.Parse(full)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("address %q is none of a host: name it as http://127.0.0.1:8080", address)
	}
	return u, nil
}

func read(answer *http.Response) (*List, error) {
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New(answer.Status)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, longestAnswer))
	if err != nil {
		return nil, err
	}
	return decode(body)
}

func decode(body []byte) (*List, error) {
	l := &List{}
	if err := json.Unmarshal(body, &l.raw); err != nil || l.raw == nil {
		return nil, errors.New("its answer is no list of plugins")
	}
	for _, raw := range l.raw {
		var p Plugin
		// A field of another type than ours is left out, and the rest is read.
		mismatch := new(json.UnmarshalTypeError)
		if err := json.Unmarshal(raw, &p); err != nil && !errors.As(err, &mismatch) || p.Name == "" {
			return nil, errors.New("its answer holds what is no plugin")
		}
		l.plugins = append(l.plugins, p)
	}
	return l, nil
}

// Find returns the plugin of that name.
func (l *List) Find(name string) (p Plugin, ok bool) {
	i := slices.IndexFunc(l.plugins, func(p Plugin) bool { return p.Name == name })
	if i < 0 {
		return Plugin{}, false
	}
	return l.plugins[i], true
}

// Select leaves only the named plugins, in the order of the host; no names
// leave all. Names that the host does not have are an error.
func (l *List) Select(names []string) (*List, error) {
	if len(names) == 0 {
		return l, nil
	}
	missing := map[string]bool{}
	for _, name := range names {
		missing[name] = true
	}
	wanted := &List{raw: []json.RawMessage{}}
	for i, p := range l.plugins {
		if _, ok := missing[p.Name]; ok {
			wanted.plugins, wanted.raw = append(wanted.plugins, p), append(wanted.raw, l.raw[i])
			missing[p.Name] = false
		}
	}
	var errs []error
	for _, name := range names {
		if missing[name] {
			missing[name] = false // told once
			errs = append(errs, fmt.Errorf("the host has no plugin %q", name))
		}
	}
	return wanted, errors.Join(errs...)
}
