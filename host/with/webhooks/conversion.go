package webhooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sandbox"
)

// maxConversions bounds the objects of one review that are converted at once.
const maxConversions = 8

// convert answers a ConversionReview: all objects, or none.
func (s *Server) convert(ctx context.Context, q *request) answer {
	var body apiextensionsv1.ConversionReview
	if err := decodeReview(q.body, &body); err != nil {
		return refused(http.StatusBadRequest, "%v", err)
	}
	a := body.Request
	switch {
	case body.APIVersion != apiextensionsv1.SchemeGroupVersion.String() || body.Kind != "ConversionReview":
		return refused(http.StatusBadRequest, "it is a %s of %s, not a ConversionReview of %s", quoted(body.Kind), quoted(body.APIVersion), apiextensionsv1.SchemeGroupVersion)
	case a == nil || a.UID == "" || a.DesiredAPIVersion == "":
		return refused(http.StatusBadRequest, "the ConversionReview has no request, or that has no uid or no desiredAPIVersion")
	}
	r := &apiextensionsv1.ConversionResponse{UID: a.UID}
	result, err := resultConverted, error(nil)
	if c := s.controllerOf(ctx, q); c == nil {
		err = errNotRunning
	} else if wrong := isConverted(c, a); wrong != nil {
		return refused(shownStatus, "%v", wrong)
	}
	if err == nil {
		r.ConvertedObjects, err = s.convertAll(ctx, q, a)
	}
	r.Result = metav1.Status{Status: metav1.StatusSuccess}
	if err != nil {
		_, message := s.failed(q, err) // there is no failure policy for a conversion
		result, r.ConvertedObjects = resultFailed, nil
		r.Result = metav1.Status{Status: metav1.StatusFailure, Message: message}
	}
	return answer{result: result, body: &apiextensionsv1.ConversionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "ConversionReview"},
		Response: r,
	}}
}

// isConverted returns an error if the controller does not convert what is asked for.
func isConverted(c Controller, a *apiextensionsv1.ConversionRequest) error {
	rev := c.Revision()
	wanted, err := schema.ParseGroupVersion(a.DesiredAPIVersion)
	switch m := &rev.Controller; {
	case err != nil || wanted.Group != m.For.Group():
		return fmt.Errorf("it converts %s to versions of its group, not to %s", m.For.Kind, quoted(a.DesiredAPIVersion))
	case !c.Offers(rev).Convert:
		return errors.New("its manifest converts nothing")
	}
	return nil
}

// convertAll converts the objects of a review, each by one call. The results take room as the body
// does.
func (s *Server) convertAll(ctx context.Context, q *request, a *apiextensionsv1.ConversionRequest) ([]runtime.RawExtension, error) {
	out := make([]runtime.RawExtension, len(a.Objects))
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(maxConversions)
	var size atomic.Int64
	for i := range a.Objects {
		all.Go(func() error {
			if ctx.Err() != nil { // another object could not be converted
				return context.Cause(ctx)
			}
			converted, err := s.convertOne(ctx, q, a.Objects[i].Raw, a.DesiredAPIVersion)
			if err != nil {
				return err
			}
			n := int64(len(converted))
			if size.Add(n) > maxConverted {
				return fmt.Errorf("the objects of the request have more than %d MiB when they are converted: list fewer at once, by limit or --chunk-size of kubectl, or let the plugin return less", maxConverted>>20)
			}
			out[i].Raw = converted
			return q.held.take(n)
		})
	}
	return out, all.Wait()
}

// convertOne converts an object. The guest is not given managedFields; the API server puts them back
// as they were.
func (s *Server) convertOne(ctx context.Context, q *request, raw []byte, wanted string) (converted []byte, err error) {
	o, err := object.Parse(raw, abi.Kind{})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s %s to %s: %w", o.Kind, o.Key(), wanted, err)
		}
	}()
	if c := s.Controller(q.export, q.plugin, q.controller); c != nil && !isKind(c.Revision(), o.Kind) {
		return nil, fmt.Errorf("it converts %s", c.Revision().Controller.For.Kind)
	}
	if o.Kind.APIVersion == wanted {
		return raw, nil
	}
	sent := contract.ConvertRequest{Controller: q.controller, APIVersion: wanted, Object: o.Raw}
	var decoded bool
	var failed error
	take := func(returned sandbox.Return) {
		decoded = true
		converted, failed = conversionOf(&sent, returned, raw)
	}
	returned, err := s.call(ctx, q, dispatch.ExportCall{
		Object: o.Key(),
		Begin: func(rev *dispatch.Revision, now time.Time, seed [32]byte) ([][]byte, error) {
			sent.Now, sent.Seed, sent.Config = now, seed, rev.Config
			return contract.EncodeConvertRequestParts(&sent), nil
		},
		Decode: take,
	})
	if err != nil {
		return nil, err
	}
	if !decoded {
		take(returned)
	}
	return converted, failed
}

// isKind reports whether a controller converts a kind, whatever its version is.
func isKind(rev *dispatch.Revision, kind abi.Kind) bool {
	m := rev.Controller.For.Kind
	return kind.Kind == m.Kind && kind.Group() == m.Group()
}

// conversionOf decodes and checks what a guest has returned for the object raw.
func conversionOf(sent *contract.ConvertRequest, returned sandbox.Return, raw []byte) ([]byte, error) {
	result, err := contract.DecodeConvertResult(returned.Output)
	if err != nil {
		return nil, invalid(err)
	}
	if err := codeError(returned.Code, result.Error); err != nil {
		return nil, err
	}
	if err := sent.CheckResult(result); err != nil {
		return nil, invalid(err)
	}
	if !bytes.Contains(raw, lastApplied) {
		return result.Object, nil
	}
	return withAnnotations(raw, sent.Object, result.Object)
}

// lastApplied is the annotation that guests are not given, in quotes.
var lastApplied = []byte(`"kubectl.kubernetes.io/last-applied-configuration"`)

// withAnnotations returns a converted object with the annotations of raw that the guest was not
// given. The API server puts back the rest of metadata, but for labels.
func withAnnotations(raw, given, converted []byte) ([]byte, error) {
	before, err := decodeMap(raw)
	if err != nil {
		return nil, err
	}
	seen, err := decodeMap(given)
	if err != nil {
		return nil, err
	}
	after, err := decodeMap(converted)
	if err != nil {
		return nil, invalid(err)
	}
	was, _ := before["metadata"].(map[string]any)
	shown, _ := seen["metadata"].(map[string]any)
	if is, ok := after["metadata"].(map[string]any); ok {
		keepAnnotations(was, shown, is)
	}
	return encode(after)
}
