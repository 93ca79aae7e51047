package wasmtest_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/sdktest/wasmtest"
)

const reviewDir = "sdk/sdktest/wasmtest/testdata/review"

func reviewedSite(spec string) string {
	return `{"apiVersion":"example.com/v1","kind":"Site","metadata":{"namespace":"default","name":"shop"},"spec":{` + spec + `}}`
}

func TestCompiledReviews(t *testing.T) {
	w := wasmtest.New(t, "review", build(t, reviewDir))
	w.As("ann")
	w.ReviewCreate(reviewedSite(`"ports":[{"name":"web","tls":{"a":1.0}},{"port":8080,"x":null}],"other":9007199254740993`)).ExpectAllowed().
		ExpectObject(`{"metadata":{"labels":{"defaulted":"true"}},"spec":{"replicas":1,"ports":[{"name":"web","tls":{"a":1.0},"port":80},{"port":8080,"x":null}],"other":9007199254740993}}`)
	if r := w.ReviewCreate(reviewedSite(`"do":"deny"`)).ExpectDenied("Invalid", "spec.do: requested").ExpectWarnings("it was to be expected"); r.Audit["rule"] != "deny" {
		t.Errorf("the audit annotations are %q", r.Audit)
	}
	site := w.Create(reviewedSite(`"replicas":1`))
	w.ReviewDelete(site).ExpectDenied("Protected", "ann may not delete shop")

	w.ReviewUpdate(site, `{"spec":{"do":"quota","replicas":3}}`).ExpectFailure(abi.ClassRetry, "NotFound")
	w.Create(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"quota"},"data":{"replicas":"2"}}`)
	w.ReviewUpdate(site, `{"spec":{"do":"quota","replicas":3}}`).ExpectDenied("Forbidden", "the quota is 2")
	w.ReviewUpdate(site, `{"spec":{"do":"quota","replicas":2}}`).ExpectAllowed()
	w.FailReads(sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}, abi.CodeUnavailable)
	w.ReviewUpdate(site, `{"spec":{"do":"quota","replicas":2}}`).ExpectFailure(abi.ClassRetry, "Unavailable")

	for range 2 {
		w.ReviewUpdate(site, `{"spec":{"do":"kept"}}`).ExpectDenied("Forbidden", "1")
	}
	w.ReviewUpdate(site, `{"spec":{"do":"panic"}}`).ExpectFailure(abi.ClassPanic, "")
	w.ReviewUpdate(site, `{"spec":{"replicas":"many"}}`).ExpectDenied("Invalid", "spec.replicas: expected an integer")
	w.Reconcile("default/shop").ExpectReady()
}

// TestCompiledMutatorOfDeepObject: the stack of the guest suffices for what a host accepts.
func TestCompiledMutatorOfDeepObject(t *testing.T) {
	w := wasmtest.New(t, "review", build(t, reviewDir))
	deep := func(levels int, text string) string {
		return `"deep":` + strings.Repeat(`{"a":[`, levels/2) + `"` + text + `"` + strings.Repeat(`]}`, levels/2)
	}
	levels := abi.MaxDepth - 3 // in the result, its object and the spec
	w.ReviewCreate(reviewedSite(deep(levels, "old"))).ExpectAllowed().ExpectObject(`{"spec":{` + deep(levels, "new") + `}}`)
	w.ReviewCreate(sdk.Raw(reviewedSite(deep(levels+2, "old")))).ExpectFailure(abi.ClassABI, "InvalidResult")
	w.ReviewCreate(sdk.Raw(reviewedSite(`"ports":`+strings.Repeat("[", 1_000)+strings.Repeat("]", 1_000)))).ExpectDenied("Invalid", "spec.ports[0]")
}

func TestCompiledConversion(t *testing.T) {
	w := wasmtest.New(t, "review", build(t, reviewDir))
	w.Convert(reviewedSite(`"do":"x","replicas":3`), "v1beta1").
		ExpectObject(`{"apiVersion":"example.com/v1beta1","spec":{"action":"x","size":3}}`)
	w.RoundTrip(reviewedSite(`"do":"x","replicas":3`), "v1beta1")
	w.Convert(reviewedSite(`"do":"fail"`), "v1beta1").ExpectFailure(abi.ClassStalled, "Wrong")
	w.Convert(reviewedSite(``), "v3").ExpectFailure(abi.ClassStalled, "UnknownVersion")
}

func TestReviewsImportOnlyWhatTheyCall(t *testing.T) {
	if got, want := tholeImports(t, build(t, reviewDir)), []string{"get", "input", "output"}; !slices.Equal(got, want) {
		t.Errorf("imports are %q, expected %q", got, want)
	}
}

// A validator that does not return costs no more than its fuel.
func TestSpinningValidatorEndsAtItsFuel(t *testing.T) {
	guest := wasmtest.Load(t, "review", build(t, reviewDir))
	q := &webhooks.ReviewRequest{Controller: "review", Operation: webhooks.OperationCreate, Object: []byte(reviewedSite(`"do":"spin"`))}
	back, err := guest.Call(t.Context(), webhooks.ExportValidate, sandbox.Call{Request: webhooks.EncodeReviewRequestParts(q), Fuel: 10_000_000})
	fault, ok := errors.AsType[*sandbox.Fault](err)
	if !ok || fault.Class != abi.ClassTimeout || back.Usage.Fuel > 11_000_000 {
		t.Errorf("it ends with %v, after %d", err, back.Usage.Fuel)
	}
}

// A plugin without reviews refuses each: the manifest has none, so that a host never asks.
func TestReviewByAPluginWithoutReviewsIsRefused(t *testing.T) {
	guest := wasmtest.Load(t, "bare", build(t, bareDir))
	for _, name := range webhooks.Exports() {
		back, err := guest.Call(t.Context(), name, call("bare", "{}"))
		if err != nil || back.Code != abi.CodeStalled || len(back.Output) > 0 {
			t.Errorf("%s returns %d %s, %v", name, back.Code, back.Output, err)
		}
	}
}
