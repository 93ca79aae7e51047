package egress

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	contract "github.com/thole-dev/thole/abi/http"
)

// reserved are the headers that a plugin cannot set: they are the client's, or about one
// connection.
var reserved = []string{
	"Accept-Encoding", "Connection", "Content-Length", "Expect", "Host", "Http2-Settings", "Keep-Alive",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

func isReserved(name string) bool {
	name = http.CanonicalHeaderKey(name)
	return slices.Contains(reserved, name) || strings.HasPrefix(name, "Proxy-")
}

// requestHeader returns the header that a plugin asks for.
func requestHeader(lines []contract.Header, userAgent string) (http.Header, error) {
	header := http.Header{"User-Agent": {userAgent}}
	own := map[string]bool{}
	for _, line := range lines {
		name := http.CanonicalHeaderKey(line.Name)
		switch {
		case !httpguts.ValidHeaderFieldName(line.Name), !httpguts.ValidHeaderFieldValue(line.Value):
			return nil, invalid("a header of the request is not valid") // without its value, which may be a secret
		case isReserved(name):
			return nil, invalid("the header %s is set by the host: remove it", name)
		}
		if !own[name] {
			header.Del(name)
		}
		own[name] = true
		header[name] = append(header[name], line.Value)
	}
	return header, nil
}

// partly are headers that ask for a part of an answer: of RFC 9110, of older clients, and of Azure.
var partly = []string{"Range", "Request-Range", "X-Ms-Range"}

// checkHeader returns an error if the plugin sets the header of the credential that the host adds, or
// asks for a part of the answer, which could be a part of a credential of any entry.
func (c *Client) checkHeader(r *rule, header http.Header) error {
	for _, name := range partly {
		if header[name] != nil && (c.secrets.withheld.any() || slices.ContainsFunc(c.rules, func(r *rule) bool { return r.SecretRef != nil })) {
			return invalid("the header %s is not supported with a policy that has a credential: remove it", name)
		}
	}
	if r.SecretRef == nil {
		return nil
	}
	if name := http.CanonicalHeaderKey(cmp.Or(r.Header, authorization)); header[name] != nil {
		return invalid("the header %s has the credential of the policy's entry: remove it", name)
	}
	return nil
}

const authorization = "Authorization"

// originHeaders are the headers that are for the host to which the plugin sends them, and not
// for another one that it redirects to.
var originHeaders = []string{authorization, "Cookie", "Cookie2", "Proxy-Authorization", "Www-Authenticate"}

// ofConnection are the headers of an answer that a plugin does not get.
var ofConnection = []string{"Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// replyHeader returns the header of an answer, ordered by name. Lines that are too long are left out,
// and so are those beyond the limit: a request that was handled must not fail because of them.
func replyHeader(header http.Header) (lines []contract.Header) {
	for _, name := range slices.Sorted(maps.Keys(header)) {
		if slices.Contains(ofConnection, name) || strings.HasPrefix(name, "Proxy-") {
			continue
		}
		for _, value := range header[name] {
			line := contract.Header{Name: strings.ToValidUTF8(name, "\ufffd"), Value: strings.ToValidUTF8(value, "\ufffd")}
			if len(line.Value) <= contract.MaxHeader && len(lines) < contract.MaxHeaders {
				lines = append(lines, line)
			}
		}
	}
	return lines
}
