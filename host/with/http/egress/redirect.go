package egress

import (
	"net/http"
	"net/url"
	"slices"

	contract "github.com/thole-dev/thole/abi/http"
)

// maxRedirects is how many redirects of a request are followed.
const maxRedirects = 10

// request is one request that is sent: that of the plugin, or one that a redirect leads to.
type request struct {
	method string
	url    *url.URL
	to     target
	header http.Header // without the credential
	body   []byte
	// crossed is set once a redirect has led to another origin, for all that follow: they
	// get no credential, even if they are back at the first one.
	crossed bool
}

func isRedirect(status int) bool {
	return slices.Contains([]int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect}, status)
}

// redirected returns the request that an answer leads to, which has yet to be checked
// like any other.
func (q *request) redirected(status int, locations []string) (*request, error) {
	u, t, err := q.resolve(locations)
	if err != nil {
		return nil, err
	}
	next := &request{method: q.method, url: u, to: t, header: q.header.Clone(), body: q.body, crossed: q.crossed}
	if q.to.scheme == https && t.scheme == http1 {
		return nil, denied("%s redirects from https to http, which is never followed", q.to.authority())
	}
	// As browsers do (WHATWG Fetch, "HTTP-redirect fetch").
	if status == http.StatusSeeOther && q.method != http.MethodHead && q.method != http.MethodGet ||
		status < http.StatusSeeOther && q.method == http.MethodPost {
		next.method, next.body = http.MethodGet, nil
		for _, name := range []string{"Content-Encoding", "Content-Language", "Content-Location", "Content-Type"} {
			next.header.Del(name)
		}
	}
	if t != q.to {
		next.crossed = true
		for _, name := range originHeaders {
			next.header.Del(name)
		}
	}
	return next, nil
}

// resolve returns where a redirect leads to.
func (q *request) resolve(locations []string) (*url.URL, target, error) {
	if len(locations) != 1 || checkCharacters(locations[0]) != nil {
		return nil, target{}, failed(contract.Redirects, "%s redirects without a valid target", q.to.authority())
	}
	relative, err := q.url.Parse(locations[0])
	if err == nil {
		if u, t, err := parseURL(relative.String()); err == nil {
			return u, t, nil
		}
	}
	return nil, target{}, failed(contract.Redirects, "%s redirects to what is not a URL of a host by https or http", q.to.authority())
}
