package guest

import (
	"strconv"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/daemon"
)

// Daemon is the daemon of a controller, with the author's types erased.
type Daemon struct {
	Controller string // its name
	// Step makes a step. An error is part of the result.
	Step func(Host, *daemon.Request) (abi.Code, *daemon.Result)
	// Warm encodes and decodes the zero value of the state; see [Warm].
	Warm func() error
}

var daemons []*Daemon

// AddDaemon adds the daemon of a controller. A plugin that does not call it does not contain the
// code of daemons.
func AddDaemon(d *Daemon) {
	daemons = append(daemons, d)
	exportDaemon()
}

// Step makes a step of a daemon for the text of an [daemon.Request] and returns the text of an
// [daemon.Result].
func Step(h Host, request []byte) (abi.Code, []byte) {
	q, err := daemon.DecodeRequest(request)
	if err != nil {
		return badStep("read request: " + err.Error())
	}
	for _, d := range daemons {
		if d.Controller == q.Controller {
			code, result := d.Step(h, q)
			return code, daemon.EncodeResult(result)
		}
	}
	return badStep("the plugin has no daemon for controller " + strconv.Quote(q.Controller))
}

// badStep is [badRequest] for a step.
func badStep(message string) (abi.Code, []byte) {
	return abi.CodeRetry, daemon.EncodeResult(&daemon.Result{Error: &abi.Failure{Reason: "BadRequest", Message: message}})
}
