package cloudevents

import (
	"cmp"

	"github.com/thole-dev/thole/host/with/http/egress"
)

// Settings are where the events of a plugin are published, as its policy has it.
type Settings struct {
	// TypePrefix is put before the types of the events, with a dot: with com.example they are
	// com.example.widget.created and so on.
	TypePrefix string `json:"typePrefix,omitempty"`
	// Sinks are what receives the events of the plugin's controllers that publish them, up to 8. The
	// configuration must allow POST to their hosts.
	Sinks Sinks `json:"sinks,omitempty"`
}

// Secrets implements [config.PolicySection].
func (s Settings) Secrets() []SecretRef { return s.Sinks.Entries().Secrets() }

// Sinks are the sinks of a policy.
type Sinks []Sink

// EntryExample implements [config.EntryExampler].
func (Sinks) EntryExample() string {
	return "such as {url: 'https://events.example.com/in', mode: batch}"
}

// Sink receives events by HTTP.
type Sink struct {
	// Name is that of the sink in metrics and logs, a DNS label; the default is the host of its URL.
	Name string `json:"name,omitempty"`
	// URL is what the events are sent to by POST, of the scheme https or http.
	URL string `json:"url"`
	// Mode is how events are sent: structured, the default, as JSON with all attributes; binary,
	// with the attributes in headers; or batch, up to 100 of them as one JSON array.
	Mode Mode `json:"mode,omitempty"`
	// SecretRef names the Secret with the credential of the sink, like that of an entry of http. The
	// plugin's service account must be allowed to get it.
	SecretRef *SecretRef `json:"secretRef,omitempty"`
	// Header is that of the Secret's token; the default is Authorization, with "Bearer "
	// before the token.
	Header string `json:"header,omitempty"`
	// CA has the certificates of the authorities that the server's is verified by, as PEM;
	// default those of the system.
	CA string `json:"ca,omitempty"`
	// Addresses are those that may be dialled besides public ones: CIDRs, or loopback,
	// private or link-local.
	Addresses []string `json:"addresses,omitempty"`
	// Proxy is the URL of the proxy that the events are sent through, of the scheme http
	// or https. Those of the environment are ignored.
	Proxy string `json:"proxy,omitempty"`
}

// SecretRef names a Secret.
type SecretRef = egress.SecretRef

// Mode is a content mode of the HTTP binding of CloudEvents.
type Mode string

// Modes of sinks.
const (
	ModeStructured Mode = "structured"
	ModeBinary     Mode = "binary"
	ModeBatch      Mode = "batch"
)

func (s Sink) mode() Mode { return cmp.Or(s.Mode, ModeStructured) }

// name returns the name of a sink whose URL was checked.
func (s Sink) name() string {
	if s.Name != "" {
		return s.Name
	}
	e, _ := s.Entry()
	return e.Host
}

// Entry returns the entry of http that allows the requests to the sink. The error is what is wrong with
// its URL.
func (s Sink) Entry() (egress.Entry, error) {
	e, err := egress.EntryFor(s.URL, "POST")
	e.SecretRef, e.Header, e.CA, e.Addresses, e.Proxy = s.SecretRef, s.Header, s.CA, s.Addresses, s.Proxy
	return e, err
}

// Entries returns those of all sinks, which have been checked.
func (all Sinks) Entries() (entries egress.Entries) {
	for _, s := range all {
		e, _ := s.Entry()
		entries = append(entries, e)
	}
	return entries
}
