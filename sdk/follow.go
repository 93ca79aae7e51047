package sdk

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk/internal/guest"
)

// This file has what a controller follows.

// Followed is a kind, and what is followed of it.
//
//	type Followed struct {
//		Kind
//		Selector
//		// PollInterval is the time in ms between two lists of a kind that can be listed and not watched;
//		// less than 1000 counts as 1000, 0 as 30 s. It has no effect on other kinds.
//		PollInterval int64
//	}
type Followed = abi.Followed

// Selector is what is followed of a kind: objects in these namespaces that match both
// selectors, and with MetadataOnly nothing of them but apiVersion, kind and metadata.
//
//	type Selector struct {
//		Namespaces    []string // none: all
//		LabelSelector string   // in the notation of kubectl
//		FieldSelector string   // in the notation of kubectl, with fields that the API server supports for the kind
//		MetadataOnly  bool     // of the objects only apiVersion, kind and metadata are kept
//	}
//
//	func (s Selector) IsZero() bool // reports whether the selector selects all of every object
type Selector = abi.Selector

// Selection is what [Select] returns. It is a function so that plugins without one do
// not contain its code.
type Selection func(*abi.Controller)

// Select narrows what is followed of kinds in For, Owns and Reads, with one entry for
// each of these. What is not followed costs the host no memory, cannot be read, and runs
// nothing when it changes. An object that ceases to match is like one that was deleted.
//
//   - Get of an object that is not among those followed is [ErrDenied], whether or not it
//     exists. List must have the selectors of the entry, and may have more.
//   - With MetadataOnly of the kind in For, a [Request] has an empty Spec and Status, and a
//     run that sets Status or a condition fails.
//   - Of a kind in Owns only MetadataOnly can be selected. See [Managed] too.
//   - [Poll] is such an entry, too: how often a kind is listed that cannot be watched.
func Select(entries ...Followed) Selection {
	refuseStatus = (*Run).refuseStatus
	return func(c *abi.Controller) {
		for i, e := range entries {
			if slices.Contains(abi.Kinds(entries[:i]), e.Kind) {
				refuse(c, e, " twice")
			}
			if !narrow(c, e) {
				refuse(c, e, ", which is in none of For, Owns and Reads")
			}
		}
	}
}

// Poll returns an entry of [Select] or of a [Watch] that follows all objects of a kind that can be
// listed and not watched, by a list at that interval, of at least a second; without it the interval is
// 30 s. It has no effect on a kind that can be watched.
func Poll(kind Kind, interval time.Duration) Followed {
	return Followed{Kind: kind, PollInterval: milliseconds(interval)}
}

// narrow sets the selector of the kind, and reports whether the controller has the kind.
func narrow(c *abi.Controller, e Followed) bool {
	found := false
	set := func(w *Followed) {
		if w.Kind == e.Kind {
			w.Selector, w.PollInterval, found = e.Selector, e.PollInterval, true
		}
	}
	set(&c.For)
	for i := range c.Owns {
		set(&c.Owns[i])
	}
	for i := range c.Reads {
		set(&c.Reads[i])
	}
	return found
}

func refuse(c *abi.Controller, e Followed, why string) {
	panic("sdk.Register: controller " + strconv.Quote(c.Name) + " selects " + strconv.Quote(e.Kind.String()) + why)
}

// refuseStatus is set by [Select], without which there is no such run.
var refuseStatus func(*Run)

// refuseStatus makes the run end as stalled if it has set what cannot be written of a
// primary of which only the metadata is followed.
func (r *Run) refuseStatus() {
	if r.invalid == nil && (r.result.Status != nil || len(r.result.Conditions) > 0) {
		r.invalid = Stalled("MetadataOnly", errors.New("status and conditions of the primary cannot be set: Select follows only its metadata"))
	}
}

// Managed lets the host follow, of the kinds in Owns, what the plugin has applied itself,
// and not all objects of the cluster. It labels these objects thole.dev/managed-by. List
// returns the plugin's own objects then, and [Adopt] needs the kind in Reads as well.
// Managed must be called from an init function.
func Managed() { guest.Managed() }

// Watch is a kind whose objects belong to primaries, and how: By an owner reference of
// the object, by its label or annotation Key with the name of the primary, or by the
// Field of the primary with the name of the object. Names may have a namespace and a
// slash before them. What is followed of the kind is part of the Watch, and not of
// [Select].
//
//	type Watch struct {
//		Followed
//		By    WatchBy
//		Key   string // of the label or annotation
//		Field string // of the primary
//	}
type Watch = abi.Watch

// WatchBy is how the objects of a [Watch] and primaries belong together.
type WatchBy = abi.WatchBy

// The values of [WatchBy].
const (
	ByOwner      WatchBy = abi.WatchByOwner      // an owner reference of the object to the primary
	ByLabel      WatchBy = abi.WatchByLabel      // a label of the object with the name of a primary in its namespace
	ByAnnotation WatchBy = abi.WatchByAnnotation // an annotation of the object with the name of a primary
	ByField      WatchBy = abi.WatchByField      // a field of the primary with the name of an object
)
