package dispatch

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"strconv"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sandbox"
)

// This file has what lists ask for, their pages, and the replies with them.

// pages are the lists of a run that can be continued, by the token that the guest was
// given less one. A run makes no more of them than host calls.
type pages []page

// page is where a list goes on.
type page struct {
	list  uint64 // a hash of the call, as [abi.ListCall.List] has it
	after object.Key
}

// pageSeed keeps guests from finding two calls with the same hash.
var pageSeed = maphash.MakeSeed()

// add returns the token for what follows an object.
func (p *pages) add(call *abi.ListCall, last *object.Object) string {
	*p = append(*p, page{maphash.Bytes(pageSeed, call.List()), last.Key()})
	return strconv.Itoa(len(*p))
}

// find returns where a list goes on.
func (p pages) find(call *abi.ListCall) (after object.Key, err error) {
	n, err := strconv.Atoi(call.Continue)
	if err != nil || n < 1 || n > len(p) || p[n-1].list != maphash.Bytes(pageSeed, call.List()) {
		return after, errors.New("continue is not that of a list of this run with the same fields")
	}
	return p[n-1].after, nil
}

// aroundList is the most that the reply to a list has around the objects.
var aroundList = len(abi.ListReplyOpen) + len(abi.ListReplyClose(strconv.Itoa(math.MaxInt)))

// reading returns what a list asks for. The error says what is wrong with the call.
func (g *guestCall) reading(call *abi.ListCall) (l cache.Reading, err error) {
	l.Kind, l.Limit = abi.Kind{APIVersion: call.APIVersion, Kind: call.Kind}, call.Limit
	if call.OwnedBy == abi.OwnedBySelf {
		if l.Controller = string(g.given.UID); l.Controller == "" {
			return l, errors.New("ownedBy is " + string(abi.OwnedBySelf) + ", and the call is for no object that could own any")
		}
	}
	if l.Selector, err = labels.Parse(call.LabelSelector); err != nil {
		return l, fmt.Errorf("the label selector %q cannot be parsed: %w", call.LabelSelector, err)
	}
	if l.Fields, err = fieldpath.ParseSelector(call.FieldSelector); err == nil && call.Continue != "" {
		l.After, err = g.pages.find(call)
	}
	return l, err
}

// listReply is an [abi.ListReply] with a part of the objects. Whole objects are not
// copied; parts are made when the guest reads them.
func listReply(found cache.List, part fieldpath.Set, next string) sandbox.Reply {
	open, separator, end := []byte(abi.ListReplyOpen), []byte(abi.ListReplySeparator), []byte(abi.ListReplyClose(next))
	items, n := found.Items, -1 // open, the items with separators between them, and end
	return sandbox.Reply{
		Size: len(open) + found.Bytes + max(len(items)-1, 0)*len(separator) + len(end),
		Next: func() []byte {
			n++
			switch {
			case n == 0:
				return open
			case n >= 2*len(items):
				return end
			case n%2 == 1:
				text, _ := part.Project(items[n/2].Raw) // was made before, for its size
				return text
			}
			return separator
		},
	}
}
