package dispatch

import (
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sandbox"
)

// The parts of an [abi.ListReply] around its objects.
var (
	listBegin = []byte(`{"items":[`)
	listComma = []byte(`,`)
	listEnd   = []byte(`]}`)
)

// listReply is an [abi.ListReply] whose objects are not copied.
func listReply(items []*object.Object) sandbox.Reply {
	r := sandbox.Reply{Size: len(listBegin) + max(len(items)-1, 0)*len(listComma) + len(listEnd)}
	for _, o := range items {
		r.Size += len(o.Raw)
	}
	part := -1 // the parts are listBegin, the objects with listComma between them, and listEnd
	r.Next = func() []byte {
		part++
		switch {
		case part == 0:
			return listBegin
		case part >= 2*len(items):
			return listEnd
		case part%2 == 1:
			return items[part/2].Raw
		}
		return listComma
	}
	return r
}
