// Command hostile is a plugin that reads as much as its limits allow, in the way that
// the text of its object names: by calls of the host whose replies it does not fetch, so
// that they cost it nothing. Each run reads something else than the one before.
package main

import (
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/thole-dev/thole/sdk"
)

type spec struct {
	Text string `json:"text"`
}

type status struct{}

// calls is the number of reads of a run, a little less than what a call may make.
const calls = 9_900

var kind = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}

// indexes are as many as a kind may have.
func indexes() (all []sdk.Index) {
	for i, field := range []string{
		"data.text", "data.absent", "metadata.uid", "metadata.name", "metadata.resourceVersion", "metadata.generateName",
		"metadata.finalizers[*]", "metadata.ownerReferences[*].uid",
	} {
		all = append(all, sdk.Index{Name: "by-" + strconv.Itoa(i), Kind: kind, Field: field})
	}
	return all
}

func init() {
	sdk.Register(sdk.Controller[spec, status]{
		Name:      "hostile",
		For:       sdk.Kind{APIVersion: "e2e.thole.dev/v1", Kind: "Hostile"},
		Reads:     []sdk.Kind{kind},
		Indexes:   indexes(),
		Retry:     sdk.RetryPolicy{Initial: 100 * time.Millisecond, Cap: 100 * time.Millisecond},
		Reconcile: reconcile,
	})
}

func reconcile(r *sdk.Request[spec, status]) (sdk.Action, error) {
	way, failing := strings.CutSuffix(r.Spec.Text, " and fails")
	run := hex.EncodeToString(r.Seed[:8])
	switch one, ok := ways[way]; {
	case way == "pages":
		if err := readPages(r.Run, run); err != nil {
			return sdk.Action{}, err
		}
	case ok:
		for i := range calls {
			one(run + "-" + strconv.Itoa(i))
		}
	default:
		return sdk.Action{}, sdk.Stalled("NoSuchWay", errors.New(way))
	}
	if failing {
		return sdk.Action{}, errors.New("as its text says")
	}
	return sdk.RequeueAfter(time.Second), nil
}

// readPages reads everything one object at a time, by a label that is in many values.
func readPages(r *sdk.Run, unique string) error {
	left := calls
	for left > 0 {
		query := sdk.Query{Kind: kind, LabelSelector: "absent-" + unique + " notin (" + longList + strconv.Itoa(left) + ")"}
		for _, err := range sdk.Pages[struct{}](r, query, 1, sdk.Fields("/metadata/uid")) {
			if err != nil {
				return err
			}
			if left--; left == 0 {
				break
			}
		}
		left--
	}
	return nil
}

// ways are what a text can name. A way makes one read, different for each text that it
// is passed.
var ways = map[string]func(unique string){
	"missing names": func(unique string) {
		send(get, `"name":"`+longName+unique+`"`)
	},
	"selectors of nothing": func(unique string) { send(list, `"labelSelector":"absent=`+unique+`"`) },
	"selectors of all":     func(unique string) { send(list, `"labelSelector":"!absent-`+unique+`"`) },
	"long selectors": func(unique string) {
		send(list, `"labelSelector":"absent notin (`+longList+unique+`)"`)
	},
	"other fields": func(unique string) {
		send(list, `"fields":["/metadata/labels/`+unique+`","/data/`+unique+`","/metadata/annotations"]`)
	},
	"many values": func(unique string) { send(list, `"labelSelector":"absent-`+unique+` in (`+longList+unique+`)"`) },
	"indexes": func(unique string) {
		send(list, `"fieldSelector":"data.text=`+unique+`,metadata.name!=`+unique+`"`)
		send(list, `"fieldSelector":"metadata.uid=`+unique+`"`)
	},
	"everything": func(string) { send(list, "") },
	"everything by name": func(unique string) {
		number := unique[strings.LastIndexByte(unique, '-')+1:]
		send(get, `"name":"loot-`+number+`"`)
	},
}

var (
	longName = strings.Repeat("x", 200)
	longList = strings.Repeat("x,", 500)
)

// message is where the messages of a run are built, which need no memory of their own.
var message = make([]byte, 0, 4<<10)

func send(call func(unsafe.Pointer, uint32) int64, members string) {
	message = append(message[:0], `{"apiVersion":"v1","kind":"ConfigMap"`...)
	if members != "" {
		message = append(append(message, ','), members...)
	}
	message = append(message, '}')
	const invalid = -5
	if call(unsafe.Pointer(unsafe.SliceData(message)), uint32(len(message))) == invalid {
		panic("the host cannot read " + string(message))
	}
}

//go:wasmimport thole/v1 get
func hostGet(ptr unsafe.Pointer, length uint32) int64

//go:wasmimport thole/v1 list
func hostList(ptr unsafe.Pointer, length uint32) int64

func get(ptr unsafe.Pointer, length uint32) int64  { return hostGet(ptr, length) }
func list(ptr unsafe.Pointer, length uint32) int64 { return hostList(ptr, length) }

func main() {}
