package effect

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

// Annotate sets an annotation of the primary to a value, or removes it if the value is empty.
// Nothing is written if the primary has the value, or does not exist any more. The patch names
// the resourceVersion of what it changes, which is the Before of the report: if the primary has
// changed meanwhile, the patch is made again for what it is now.
func (p *Performer) Annotate(ctx context.Context, t Target, name, value string) (report Report, failure *Failure) {
	changed := func(from, to *object.Object) bool { return from.ResourceVersion != to.ResourceVersion }
	before, reply, err := p.update(ctx, t, changed, func(_ object.Resource, o *object.Object) (*patch, error) {
		if o == nil || o.Annotations[name] == value {
			return nil, nil
		}
		return &patch{
			patchType: types.MergePatchType, manager: p.manager(t.Controller),
			body: annotationPatch(o, name, value), growth: len(value) - len(o.Annotations[name]),
		}, nil
	})
	if err != nil {
		return report, failed(abi.VerbPatch, t.Object.Ref(), err)
	}
	if reply != nil && p.add(&report, abi.VerbPatch, before, reply, sumStrings(name, value)) {
		report.Primary, report.Before = like(t.Object, reply), before
	}
	return report, nil
}

func annotationPatch(o *object.Object, name, value string) []byte {
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("metadata").Object(func() {
			w.Name("resourceVersion").String(o.ResourceVersion)
			w.Name("annotations").Object(func() {
				if w.Name(name); value == "" {
					w.Raw(nil) // a null
				} else {
					w.String(value)
				}
			})
		})
	})
	return w.Bytes()
}
