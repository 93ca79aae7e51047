// Package read has options of [sdk.Run.Get] and [sdk.Run.List] that read less. A change
// of what was not read does not run the primary.
//
//	err := r.Get(ref, &pod, read.Fields("/status/phase"))
//
//	for pod, err := range read.Pages[Pod](r.Run, sdk.Query{Kind: podKind}, 500, read.Fields("/status/phase")) {
//		if err != nil {
//			return sdk.Action{}, err
//		}
//	}
//
// A plugin that imports the package needs a host with the feature fields of thole/v1,
// and is refused by older ones: importing it names the feature in the manifest.
package read

import (
	"iter"
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/internal/guest"
)

func init() { guest.Feature(abi.FeatureFields) }

// Fields reads only these fields of the objects, and apiVersion, kind, and the name,
// namespace and uid of the metadata: metadata, spec, status, or JSON pointers (RFC 6901)
// such as /spec/replicas, /metadata/labels/example.com~1tier and
// /spec/containers/0/image; at most 16. Of an array, elements before one that is read
// are null.
func Fields(fields ...string) sdk.ReadOption {
	return func(o *guest.ReadOptions) { o.Fields = append(o.Fields, fields...) }
}

// Pages lists the objects that match the query as [sdk.Run.List] does, but reads at most
// limit of them at a time. All pages are of one state of the cluster. The loop may end
// early. An error is a [*sdk.ReadError], and ends the loop.
//
// Compiled by TinyGo, a plugin frees no memory during a run, that of earlier pages
// neither: what reduces it is [Fields].
func Pages[T sdk.Value](r *sdk.Run, query sdk.Query, limit int, options ...sdk.ReadOption) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		token := ""
		for {
			var page []T
			next := ""
			err := r.List(query, &page, append(slices.Clip(options), func(o *guest.ReadOptions) {
				o.Limit, o.Continue, o.Next = limit, token, &next
			})...)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, object := range page {
				if !yield(object, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			token = next
		}
	}
}
