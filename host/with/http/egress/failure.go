package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	contract "github.com/thole-dev/thole/abi/http"
	"github.com/thole-dev/thole/host/sanitize"
)

// ErrTooLarge is returned for an answer that is larger than the plugin may have it.
var ErrTooLarge = errors.New("the answer is larger than the limit")

// errNotSent is the result of a request that was not sent, for the circuit of its host.
var errNotSent = errors.New("the request was not sent")

var errCA = errors.New("must be certificates as PEM, and nothing else")

// DeniedError is a request that the manifest, the policy or the address of the host does not
// allow. Its text states what would allow it, and has no address that the plugin could
// not know.
type DeniedError struct{ Reason string }

func (e *DeniedError) Error() string { return e.Reason }

func denied(format string, args ...any) error {
	return &DeniedError{Reason: fmt.Sprintf(format, args...)}
}

// InvalidError is a call that is no request.
type InvalidError struct{ Reason string }

func (e *InvalidError) Error() string { return e.Reason }

func invalid(format string, args ...any) error {
	return &InvalidError{Reason: fmt.Sprintf(format, args...)}
}

// failure is why there is no answer. The plugin gets it as [contract.Reply].Error, and so its
// message has nothing of what the server sent, and no address.
type failure struct {
	reason  string // one of the HTTP constants of abi
	message string
}

func (f *failure) Error() string { return f.message }

func failed(reason, format string, args ...any) error {
	return &failure{reason: reason, message: fmt.Sprintf(format, args...)}
}

// breaks reports whether the circuit of the host counts the error: nothing came back in time. An
// answer of any status shows that the host works, and that it is the plugin's to decide what
// a 500 of one path means.
func breaks(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && (f.reason == contract.Timeout || f.reason == contract.Unreachable || f.reason == contract.TLS)
}

// answers reports whether the error shows that the host works, although its answer cannot be used.
func answers(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return errors.Is(err, ErrTooLarge) || ok && f.reason == contract.BadAnswer
}

// classifyError returns the failure that an error of the transport is. answered reports whether
// the server had begun to answer, uncertified whether it has asked for a client's certificate and got none.
func classifyError(ctx context.Context, err error, answered, uncertified bool) error {
	if of, ok := errors.AsType[*DeniedError](err); ok {
		return of
	}
	certificate, isTLS := certificateProblem(err)
	network, isNetwork := errors.AsType[net.Error](err)
	switch {
	case errors.Is(ctx.Err(), context.Canceled): // with the run
		return ctx.Err()
	case ctx.Err() != nil, isNetwork && network.Timeout(), errors.Is(err, os.ErrDeadlineExceeded):
		return failed(contract.Timeout, "there was no complete answer in time; the server may have handled the request")
	case isTLS:
		return failed(contract.TLS, "%s", certificate)
	case uncertified && !answered:
		return failed(contract.TLS, "the server asks for a client's certificate, of which there is none, and has closed the connection")
	case answered && !isNetwork && !isConnectionError(err):
		return failed(contract.BadAnswer, "the answer is not HTTP, or its header is too large")
	}
	return failed(contract.Unreachable, "%s", connectionProblem(err))
}

func isConnectionError(err error) bool {
	_, isErrno := errors.AsType[syscall.Errno](err)
	return isErrno || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// connectionProblem describes an error without the addresses in its text.
func connectionProblem(err error) string {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "the name of the host does not resolve"
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return "the connection failed: " + errno.Error()
	}
	return "the connection cannot be made, or broke"
}

// certificateProblem describes an error of the TLS handshake.
func certificateProblem(err error) (string, bool) {
	const text = "the server's certificate is not valid: "
	if e, ok := errors.AsType[x509.HostnameError](err); ok {
		return text + "it is not for the host " + sanitize.Line(e.Host), true
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if e.Reason == x509.Expired {
			return text + "it has expired, or is not valid yet", true
		}
		return text + "it may not be used like this", true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return text + "its authority is not known: the policy's entry may name it as ca", true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return strings.TrimSuffix(text, ": "), true
	}
	operation, isNetwork := errors.AsType[*net.OpError](err)
	isAlert := isNetwork && operation.Op == "remote error" // so crypto/tls returns what the server complains about
	_, isHeader := errors.AsType[tls.RecordHeaderError](err)
	if isAlert || isHeader || errors.Is(err, errHandshake) {
		return "the TLS handshake failed", true
	}
	return "", false
}
