package info

import (
	"errors"
	"strconv"
	"strings"

	"github.com/thole-dev/thole/sdk"
)

// sent is what the other system is sent.
type sent struct {
	SomeInfo  string `json:"someInfo"`
	OtherInfo string `json:"otherInfo"`
}

// Client is the InfoClient of the document: the other system keeps the information of each object
// under a path of its own, so that both requests can be repeated.
type Client struct {
	*sdk.Run

	service string // its URL
}

// ClientOf returns the client for one run. Where the other system is, the configuration of the
// plugin states: {service: "https://info.example.com"}.
func ClientOf(r *sdk.Run) (*Client, error) {
	var config struct {
		Service string `json:"service"`
	}
	if err := r.Config(&config); err != nil {
		return nil, err
	}
	if config.Service == "" {
		return nil, sdk.Stalled("NoService", errors.New("the configuration of the plugin has no service: write config: {service: URL} to its policy"))
	}
	return &Client{r, strings.TrimSuffix(config.Service, "/")}, nil
}

// ApplyInfo sends the information of an object.
func (c *Client) ApplyInfo(namespace, name, someInfo, otherInfo string) error {
	body, err := sdk.Encode(sent{someInfo, otherInfo})
	if err != nil {
		return err
	}
	return c.send("PUT", namespace, name, body)
}

// Delete removes the information of an object. That there is none is no error.
func (c *Client) Delete(namespace, name string) error {
	err := c.send("DELETE", namespace, name, nil)
	if status, ok := errors.AsType[StatusError](err); ok && status == 404 {
		return nil
	}
	return err
}

// send sends a request. Names of objects are of characters that a URL may have.
func (c *Client) send(method, namespace, name string, body []byte) error {
	answer, err := c.HTTP(sdk.HTTPRequest{
		Method: method, URL: c.service + "/info/" + namespace + "/" + name, Body: body,
		Headers: []sdk.HTTPHeader{{Name: "Content-Type", Value: "application/json"}},
	})
	switch {
	case err != nil:
		return err
	case !answer.OK():
		return StatusError(answer.Status)
	}
	return nil
}

// StatusError is an answer other than one of success.
type StatusError int

func (e StatusError) Error() string { return "the service answers with status " + strconv.Itoa(int(e)) }

// IsRetryable reports whether the same request may succeed later.
func IsRetryable(err error) bool {
	if status, ok := errors.AsType[StatusError](err); ok {
		return status >= 500 || status == 408 || status == 429
	}
	if failed, ok := errors.AsType[*sdk.HTTPError](err); ok {
		switch failed.Reason {
		case sdk.HTTPTimeout, sdk.HTTPUnreachable, sdk.HTTPCircuitOpen, sdk.HTTPLimited:
			return true
		}
	}
	return false
}
