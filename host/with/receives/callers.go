package receives

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/thole-dev/thole/host/access"
)

// callerOf returns who sends a request.
func (h *Handler) callerOf(ctx context.Context, r *http.Request) (*access.Caller, *refusal) {
	token, ok := access.Bearer(r.Header)
	if !ok {
		return nil, refuse(http.StatusUnauthorized, "there is no bearer token: send the header Authorization: Bearer TOKEN, once")
	}
	caller, err := h.callers.Caller(ctx, access.AddressOf(r), token)
	switch {
	case errors.Is(err, access.ErrAsking):
		return nil, busy("the host is asking about %d other requests who sends them: try again", access.MaxAsking)
	case err != nil:
		return nil, busy("the API server cannot be asked whose token it is: try again").because(err)
	case caller == nil:
		return nil, refuse(http.StatusUnauthorized, "the token is not valid for %s: make one with kubectl create token NAME --audience %s", strings.Join(h.Audiences, " or "), h.Audiences[0])
	}
	return caller, nil
}
