package tholetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Request is a request that arrived at the proxy.
type Request struct {
	Verb       string // of RBAC, or "apply"
	Group      string
	Resource   string // with its subresource: pods/status; "" for discovery and probes
	Namespace  string
	Name       string
	UserAgent  string
	Code       int  // of the reply to the client; 0: none was sent
	ServerCode int  // of the API server's reply; 0: there is none
	Created    bool // the API server created an object
	Time       time.Time
	Duration   int64  // in milliseconds
	Rule       string // those that were applied, separated by "; "
}

// Rule is a rule of the proxy and how often it was used.
type Rule struct {
	Rule             string
	Matched, Applied int
	Ended            bool // by "for"
}

// SetRules replaces the rules by others, one per line. An error names the line.
func (p *Proxy) SetRules(text string) error { return p.send(http.MethodPut, "/rules", text) }

// AddRules adds rules after those that exist.
func (p *Proxy) AddRules(text string) error { return p.send(http.MethodPost, "/rules", text) }

// Rules returns how often each rule was used.
func (p *Proxy) Rules() []Rule {
	p.tb.Helper()
	var rules []Rule
	p.read("/rules", &rules)
	return rules
}

// Requests returns every request since the start or [Proxy.ForgetRequests], in the
// order of their arrival.
func (p *Proxy) Requests() []Request {
	p.tb.Helper()
	var requests []Request
	p.read("/requests", &requests)
	return requests
}

// ForgetRequests makes the proxy forget the requests so far.
func (p *Proxy) ForgetRequests() {
	p.tb.Helper()
	if err := p.send(http.MethodDelete, "/requests", ""); err != nil {
		p.tb.Fatal(err)
	}
}

// SetProcess names the process that rules of the faults "kill" and "stop" signal.
func (p *Proxy) SetProcess(pid int) {
	p.tb.Helper()
	if err := p.send(http.MethodPut, "/process", strconv.Itoa(pid)); err != nil {
		p.tb.Fatal(err)
	}
}

func (p *Proxy) read(path string, value any) {
	p.tb.Helper()
	body, err := p.request(http.MethodGet, path, "")
	if err == nil {
		err = json.Unmarshal(body, value)
	}
	if err != nil {
		p.tb.Fatal(err)
	}
}

func (p *Proxy) send(method, path, body string) error {
	_, err := p.request(method, path, body)
	return err
}

func (p *Proxy) request(method, path, body string) ([]byte, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: getTimeout}
	request, err := http.NewRequest(method, p.control+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("control the fault proxy: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("control the fault proxy: %w", err)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return nil, fmt.Errorf("fault proxy: %s", strings.TrimSpace(string(text)))
	}
	return text, nil
}
