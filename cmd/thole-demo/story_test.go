package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// objectOf is an object in YAML; "" is none.
func objectOf(t *testing.T, text string) *object {
	t.Helper()
	if text == "" {
		return nil
	}
	asJSON, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o := &object{}
	if err := o.UnmarshalJSON(asJSON); err != nil {
		t.Fatal(err)
	}
	return o
}

const manager = `
apiVersion: example.thole.dev/v1
kind: PodManager
metadata: {name: web, uid: a, generation: 1}
spec: {image: "nginx:1.29", env: [{name: A, value: "1"}]}
`

const event = `
apiVersion: v1
kind: Event
metadata: {name: web.1}
type: Normal
reason: PodCreated
message: "created\n  pod web"
involvedObject: {kind: PodManager, name: web}
`

func TestTellChange(t *testing.T) {
	pod := `
apiVersion: v1
kind: Pod
metadata:
  name: web
  uid: b
  managedFields: [{manager: thole/podmanager/podmanager, operation: Apply}]
  ownerReferences: [{apiVersion: example.thole.dev/v1, kind: PodManager, name: web, uid: a, controller: true}]
status: {phase: Pending}
`
	for name, c := range map[string]struct {
		old, new string
		want     []string
	}{
		"created":  {new: pod, want: []string{"pod/web: created by thole/podmanager/podmanager, owned by podmanager/web"}},
		"gone":     {old: pod, want: []string{"pod/web: gone"}},
		"the same": {old: pod, new: pod},
		"bookkeeping": {
			old: pod, new: strings.Replace(pod, "uid: b", "uid: b\n  resourceVersion: '7'\n  annotations: {thole.dev/applied: x}", 1),
		},
		"recreated": {
			old: pod, new: strings.Replace(pod, "uid: b", "uid: c", 1),
			want: []string{"pod/web: gone", "pod/web: created by thole/podmanager/podmanager, owned by podmanager/web"},
		},
		"phase": {
			old: pod, new: strings.Replace(pod, "Pending", "Running", 1),
			want: []string{"pod/web: status: phase Pending -> Running"},
		},
		"spec": {
			old: manager, new: strings.NewReplacer("1.29", "1.30", `"1"`, `""`).Replace(manager),
			want: []string{`podmanager/web: spec: env[A].value 1 -> "", image nginx:1.29 -> nginx:1.30`},
		},
		"metadata": {
			old:  manager,
			new:  strings.Replace(manager, "uid: a", "uid: a, labels: {tier: front}, annotations: {note: two words}", 1),
			want: []string{"podmanager/web: labels: tier front", `podmanager/web: annotations: note "two words"`},
		},
		"finalizers": {
			old:  strings.Replace(manager, "uid: a", "uid: a, finalizers: [old]", 1),
			new:  strings.Replace(manager, "uid: a", "uid: a, finalizers: [new]", 1),
			want: []string{"podmanager/web: finalizer new added", "podmanager/web: finalizer old removed"},
		},
		"deletion": {
			old:  strings.Replace(manager, "uid: a", "uid: a, finalizers: [f]", 1),
			new:  strings.Replace(manager, "uid: a", "uid: a, finalizers: [f], deletionTimestamp: '2026-11-20T10:00:00Z'", 1),
			want: []string{"podmanager/web: deletion requested, a finalizer holds it"},
		},
		"event": {new: event, want: []string{"event: PodCreated on podmanager/web: created pod web"}},
		"warning": {
			new:  strings.Replace(event, "Normal", "Warning", 1),
			want: []string{"event: bad: PodCreated on podmanager/web: created pod web"},
		},
		"event again": {
			old: event, new: event + "count: 3\n",
			want: []string{"event: PodCreated on podmanager/web: created pod web (3 times)"},
		},
		"event as before":    {old: event, new: event},
		"event that expired": {old: event},
	} {
		t.Run(name, func(t *testing.T) {
			got := tell(fact{change: &change{objectOf(t, c.old), objectOf(t, c.new)}})
			expectTold(t, got, c.want...)
		})
	}
}

func TestTellConditions(t *testing.T) {
	with := func(conditions string) *object {
		return objectOf(t, manager+"status: {conditions: ["+conditions+"]}\n")
	}
	readyNow := "{type: Ready, status: 'True', reason: Succeeded, message: all is well, lastTransitionTime: '2026-11-20T10:00:00Z'}"
	for name, c := range map[string]struct {
		old, new string
		want     []string
	}{
		"ready":     {new: readyNow, want: []string{"podmanager/web: good: Ready=True  Succeeded"}},
		"unchanged": {old: readyNow, new: strings.Replace(readyNow, "10:00", "11:00", 1)},
		"stalled": {
			old: readyNow,
			new: "{type: Ready, status: 'False', reason: NoImage, message: name one}, {type: Stalled, status: 'True', reason: NoImage, message: name one}",
			want: []string{
				"podmanager/web: wait: Ready=False  NoImage: name one",
				"podmanager/web: bad: Stalled=True  NoImage", // its message was told a line above
			},
		},
		"removed": {old: "{type: Stalled, status: 'True', reason: NoImage}", want: []string{"podmanager/web: condition Stalled removed"}},
	} {
		t.Run(name, func(t *testing.T) {
			expectTold(t, tell(fact{change: &change{with(c.old), with(c.new)}}), c.want...)
		})
	}
}

// The lines are as the host writes them.
func TestTellRecord(t *testing.T) {
	const reconcile = `"object":"default/web","plugin":"podmanager","generation":1,`
	for name, c := range map[string]struct{ log, want string }{
		"success": {
			`{"@level":"debug","@message":"reconciled",` + reconcile + `"result":"success","writes":3,"duration":"22.867ms","attempt":0}`,
			"reconcile: web: success, 3 writes, 23 ms",
		},
		"nothing to do": {
			`{"@level":"debug","@message":"reconciled",` + reconcile + `"result":"requeue_after","writes":0,"duration":"112µs","attempt":0,"next":"1m30s"}`,
			"reconcile: quiet: web: requeue after, nothing to write, 1 ms, again in 1m30s",
		},
		"waiting": {
			`{"@level":"info","@message":"reconcile waits",` + reconcile + `"result":"requeue_after","writes":1,"duration":"1.5s","attempt":0,"next":"30s","reason":"PodTerminating","message":"soon"}`,
			"reconcile: wait: web: waiting, 1 write, 1.5 s, again in 30 s; PodTerminating",
		},
		"failed": {
			`{"@level":"warn","@message":"reconcile failed",` + reconcile + `"result":"error","class":"retry","writes":1,"duration":"9ms","attempt":2,"next":"1.02s","reason":"Refused","message":"no\nquota"}`,
			"reconcile: bad: web: failed (retry), 1 write, 9 ms, attempt 2, again in 1.0 s; Refused: no quota",
		},
		"plugin runs": {
			`{"@level":"info","@message":"plugin runs","plugin":"podmanager","version":"0.1.0","generation":2,"controllers":["podmanager"]}`,
			"plugin/podmanager: good: runs: version 0.1.0, generation 2",
		},
		"plugin waits": {
			`{"@level":"info","@message":"plugin waits","plugin":"podmanager","reason":"no CRD"}`,
			"plugin/podmanager: waits: no CRD",
		},
		"plugin fails": {
			`{"@level":"error","@message":"plugin cannot run","plugin":"podmanager","step":"compile","error":"bad magic"}`,
			"plugin/podmanager: bad: plugin cannot run (compile): bad magic",
		},
		"plugin stops": {
			`{"@level":"info","@message":"plugin stopped","plugin":"podmanager"}`,
			"plugin/podmanager: stopped",
		},
		"complaint": {
			`{"@level":"error","@message":"list","@module":"thole.cache","error":"no route"}`,
			"host: bad: list: no route",
		},
		"field of another type": {
			`{"@level":"warn","@message":"odd","version":7,"reason":"why"}`,
			"host: bad: odd: why",
		},
		"debug message": {`{"@level":"debug","@message":"wrote","verb":"apply"}`, ""},
		"no record":     {`panic: runtime error`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []line
			w := &recordWriter{each: func(r *record) { got = append(got, tell(fact{record: r})...) }}
			for _, part := range []string{c.log[:5], c.log[5:], "\n", "\n"} { // a pipe cuts where it likes
				if _, err := w.Write([]byte(part)); err != nil {
					t.Fatal(err)
				}
			}
			if c.want == "" {
				expectTold(t, got)
				return
			}
			expectTold(t, got, c.want)
		})
	}
}

func TestDifferences(t *testing.T) {
	from := map[string]any{"a": "1", "b": []any{"x"}, "c": map[string]any{"d": true}, "gone": nil}
	to := map[string]any{"a": int64(1), "b": []any{"x", "y"}, "e": "f", "g": strings.Repeat("ä", 70), "h": "i"}
	want := `b[1] y, c.d removed, e f, g ` + strings.Repeat("ä", 60) + `..., and 1 more`
	if got := differences(from, to); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestIsReadyIsAboutThisGeneration(t *testing.T) {
	o := objectOf(t, manager+"status: {observedGeneration: 1, conditions: [{type: Ready, status: 'True'}]}\n")
	if !isReady(o) {
		t.Error("not ready")
	}
	o.SetGeneration(2)
	if isReady(o) {
		t.Error("ready of an older generation")
	}
	if isReady(&unstructured.Unstructured{Object: map[string]any{}}) {
		t.Error("ready without a condition")
	}
}

func TestPrinter(t *testing.T) {
	for name, colour := range map[string]bool{"plain": false, "colour": true} {
		t.Run(name, func(t *testing.T) {
			out, err := os.Create(filepath.Join(t.TempDir(), "out"))
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			p := newPrinter(out, false)
			if p.colour {
				t.Error("a file is no terminal")
			}
			p.colour = colour
			p.title("thole demo")
			p.begin("control plane")
			p.end("ready in 1.6 s", "etcd")
			p.step("applied", "podmanager default/web")
			p.begin("host")
			p.line(20*time.Millisecond, line{"podmanager/web", "Ready=True", good})
			p.line(-time.Millisecond, line{"reconcile", "failed", bad})
			p.line(90*time.Minute, line{"pod/with-a-long-name", "gone", plain})
			p.say("Try:")
			p.commands([]string{"a", "b"})
			text, err := os.ReadFile(out.Name())
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", "printer-"+name+".golden")
			if *update {
				if err := os.WriteFile(golden, text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(golden); err != nil || string(want) != string(text) {
				t.Errorf("%v\ngot\n%s\nwant\n%s", err, text, want)
			}
		})
	}
}

func TestCurlInsteadOfKubectl(t *testing.T) {
	d := &demo{dir: t.TempDir(), cluster: &rest.Config{
		Host:            "https://127.0.0.1:6443",
		TLSClientConfig: rest.TLSClientConfig{CAData: []byte("ca"), CertData: []byte("cert"), KeyData: []byte("key")},
	}}
	d.resource = schema.GroupVersionResource{Group: "example.thole.dev", Version: "v1", Resource: "podmanagers"}
	d.sample = objectOf(t, "{kind: PodManager, metadata: {namespace: default, name: web}}")
	lines, err := d.curlLines()
	if err != nil {
		t.Fatal(err)
	}
	const primary, pod = "$api/apis/example.thole.dev/v1/namespaces/default/podmanagers/web", "$api/api/v1/namespaces/default/pods/web"
	want := []string{
		"api=https://127.0.0.1:6443",
		"k() { curl -sS -K " + d.path("curl") + ` "$@"; }`,
		"k " + primary + " " + pod,
		"k " + primary + ` -X PATCH -H 'Content-Type: application/merge-patch+json' -d '{"spec":{"image":"nginx:1.30"}}'`,
		"k " + pod + " -X DELETE",
		"k " + primary + " -X DELETE",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	config, err := os.ReadFile(d.path("curl"))
	if err != nil || !strings.Contains(string(config), `key = "`+d.path("curl-key.pem")+`"`) {
		t.Errorf("got %s, %v", config, err)
	}
	for name, want := range map[string]string{"cacert": "ca", "cert": "cert", "key": "key"} {
		info, err := os.Stat(d.path("curl-" + name + ".pem"))
		if err != nil || info.Mode().Perm() != 0o600 || info.Size() != int64(len(want)) {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

func TestShellWord(t *testing.T) {
	for in, want := range map[string]string{"/tmp/a-1/b": "/tmp/a-1/b", "/my tmp/a": "'/my tmp/a'", "it's": `'it'\''s'`} {
		if got := word(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

var toneNames = map[tone]string{good: "good: ", wait: "wait: ", bad: "bad: ", quiet: "quiet: "}

func expectTold(t *testing.T, got []line, want ...string) {
	t.Helper()
	var texts []string
	for _, l := range got {
		texts = append(texts, l.subject+": "+toneNames[l.tone]+l.text)
	}
	if !slices.Equal(texts, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(texts, "\n  "), strings.Join(want, "\n  "))
	}
}
