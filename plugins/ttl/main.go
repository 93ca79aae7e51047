// Command ttl is a plugin: it deletes objects of the kinds below at the time that an
// annotation of the object sets. It does not poll: a run before that time requests the
// next one at that time.
package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/thole-dev/thole/sdk"
)

//go:generate go run github.com/thole-dev/thole/cmd/thole-tools generate

// kinds are the kinds whose objects may have a time to live. To add one, add a line, and
// the rights to get, list, watch and delete its objects.
var kinds = []sdk.Kind{
	{APIVersion: "v1", Kind: "ConfigMap"},
	{APIVersion: "v1", Kind: "Namespace"},
	{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
	{APIVersion: "v1", Kind: "Pod"},
	{APIVersion: "v1", Kind: "Secret"},
	{APIVersion: "batch/v1", Kind: "Job"},
}

const (
	afterAnnotation = "ttl.thole.dev/expires-after" // since the object's creation
	atAnnotation    = "ttl.thole.dev/expires-at"
)

func init() {
	sdk.Plugin("ttl", "0.1.0")
	for _, kind := range kinds {
		sdk.Register(sdk.Controller[none, none]{
			Name:      strings.ToLower(kind.Kind),
			For:       kind,
			Select:    sdk.Select(sdk.Followed{Kind: kind, Selector: sdk.Selector{MetadataOnly: true}}),
			Writes:    []sdk.Kind{kind},
			Reconcile: func(r *request) (sdk.Action, error) { return reconcile(r, kind) },
		})
	}
}

// none is the spec and the status, which this plugin does not use.
type none struct{}

type request = sdk.Request[none, none]

// maxRequeue is the longest time after which the next run is requested. The ABI has a
// limit of 100 years, and one run per year costs nothing.
const maxRequeue = 365 * day

// reconcile deletes the object if its time has come, and otherwise requests a run at that time.
func reconcile(r *request, kind sdk.Kind) (sdk.Action, error) {
	after, hasAfter := r.Annotations[afterAnnotation]
	at, hasAt := r.Annotations[atAnnotation]
	if !hasAfter && !hasAt {
		return sdk.Empty(), nil
	}
	if hasAfter && hasAt {
		return sdk.Action{}, invalid("set one of " + afterAnnotation + " and " + atAnnotation + ", not both")
	}
	end, err := expiresAt(at)
	if hasAfter {
		end, err = expiresAfter(r.CreationTimestamp.Time(), after)
	}
	if err != nil {
		return sdk.Action{}, err
	}
	if left := end.Sub(r.Now); left > 0 {
		return sdk.RequeueAfter(min(left, maxRequeue)), nil
	}
	ref := kind.Ref(r.Namespace, r.Name)
	ref.UID = r.UID
	r.Delete(ref)
	r.Event(sdk.Normal, "Expired", "deleted: its time to live ended at "+end.UTC().Format(time.RFC3339))
	return sdk.AwaitChange(), nil
}

// invalid returns the error for annotations that cannot be used. Only a change of them can
// help, so the object is stalled.
func invalid(message string) error { return sdk.Stalled("InvalidTTL", errors.New(message)) }

// expiresAfter returns the time that the annotation expires-after sets.
func expiresAfter(created time.Time, text string) (time.Time, error) {
	d, ok := parseDuration(strings.TrimSpace(text))
	if !ok {
		return created, invalid("annotation " + afterAnnotation + " is " + strconv.Quote(text) +
			": expected a duration of more than 0 such as 90m, 36h, 7d or 1d12h")
	}
	return created.Add(d), nil
}

// expiresAt returns the time that the annotation expires-at sets.
func expiresAt(text string) (time.Time, error) {
	end, err := time.Parse(time.RFC3339, strings.TrimSpace(text))
	if err != nil {
		return end, invalid("annotation " + atAnnotation + " is " + strconv.Quote(text) +
			": expected a time in RFC 3339 such as 2027-01-31T18:00:00Z or 2027-01-31T18:00:00+01:00")
	}
	return end, nil
}

const day = 24 * time.Hour

// parseDuration parses a duration in Go's notation with optional days before it: 7d, 36h,
// 1d12h30m. ok is false if it is malformed, 0, negative or too long for a time.Duration
// (292 years).
func parseDuration(text string) (d time.Duration, ok bool) {
	var sum time.Duration
	if days, rest, found := strings.Cut(text, "d"); found {
		n, err := strconv.ParseUint(days, 10, 32)
		if err != nil || n > uint64(1<<63-1)/uint64(day) {
			return 0, false
		}
		if sum, text = time.Duration(n)*day, rest; text == "" {
			return sum, sum > 0
		}
		if text[0] < '0' || text[0] > '9' { // such as 1d-2h
			return 0, false
		}
	}
	d, err := time.ParseDuration(text)
	return sum + d, err == nil && d >= 0 && sum+d > 0
}

func main() {}
