package explain

import (
	"errors"
	"fmt"
	"net"
	"net/url"
)

// Unreachable says of an error of the HTTP client that no answer came, and
// from where; ok is false for another error. The text is the same for the same
// trouble: it has neither the request nor the local port, which differ with
// each attempt.
func Unreachable(err error) (text string, ok bool) {
	var request *url.Error
	if !errors.As(err, &request) {
		return "", false
	}
	host := request.URL
	if at, invalid := url.Parse(request.URL); invalid == nil {
		host = at.Host
	}
	cause := request.Err
	if connection := (*net.OpError)(nil); errors.As(cause, &connection) {
		cause = connection.Err
	}
	return fmt.Sprintf("the API server at %s cannot be reached (%v)", host, cause), true
}
