package wasmtest_test

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/daemon"
	"github.com/thole-dev/thole/abi/scans"
	"github.com/thole-dev/thole/internal/repository"
	"github.com/thole-dev/thole/internal/wasmbuild"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/sdktest"
	"github.com/thole-dev/thole/sdk/sdktest/wasmtest"
	_ "github.com/thole-dev/thole/sdk/sdktest/wasmtest/testdata/documents/author"
	_ "github.com/thole-dev/thole/sdk/sdktest/wasmtest/testdata/documents/readme"
	_ "github.com/thole-dev/thole/sdk/sdktest/wasmtest/testdata/documents/selector"
	"github.com/thole-dev/thole/sdk/sdktest/wasmtest/testdata/documents/versions"
	_ "github.com/thole-dev/thole/sdk/sdktest/wasmtest/testdata/documents/website"
)

const documentsDir = "sdk/sdktest/wasmtest/testdata/documents"

// TestCodeOfTheDocumentsIsInTheirPlugin: each paragraph of a Go block, which a blank line ends, stands in
// one of the sources, apart from indentation. Its last line may go on there, as "}" does with "})".
func TestCodeOfTheDocumentsIsInTheirPlugin(t *testing.T) {
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	sources := unindented(t, filepath.Join(root, "sdk/sdktest/wasmtest/documents_test.go"))
	err = filepath.WalkDir(filepath.Join(root, documentsDir), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".go") && !strings.HasPrefix(filepath.Base(path), "zz_") {
			sources += unindented(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range []string{"README.md", "docs/how-to/author.md"} {
		paragraphs := goParagraphs(unindented(t, filepath.Join(root, document)))
		if len(paragraphs) == 0 {
			t.Errorf("%s: no Go code was found", document)
		}
		for line, text := range paragraphs {
			if !strings.Contains(sources, "\n"+text) {
				t.Errorf("%s:%d: this code is not in %s: add it as it stands, and a script here that runs it:\n%s", document, line, documentsDir, text)
			}
		}
	}
}

// unindented returns the lines of a file without the space around them, each after a newline.
func unindented(t *testing.T, path string) (text string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		text += "\n" + strings.TrimSpace(line)
	}
	return text
}

// goParagraphs returns the paragraphs of the Go blocks of a document by the number of their first line.
func goParagraphs(document string) map[int]string {
	all := map[int]string{}
	inside, first := false, 0
	for i, line := range strings.Split(document, "\n") { // the first one is empty
		switch {
		case strings.HasPrefix(line, "```"):
			inside, first = line == "```go", 0
		case !inside || line == "":
			first = 0
		case first == 0:
			first = i
			all[first] = line
		default:
			all[first] += "\n" + line
		}
	}
	return all
}

// TestCodeOfTheDocumentsWritesTheSameHoweverCompiled compares what each controller writes when it is compiled
// by each toolchain with what it writes natively.
func TestCodeOfTheDocumentsWritesTheSameHoweverCompiled(t *testing.T) {
	native := map[string]string{}
	for controller, play := range scripts {
		s := &script{World: sdktest.New(t, controller), t: t}
		play(s)
		native[controller] = s.text
	}
	compiled(t, documentsDir, func(t *testing.T, _ wasmbuild.Toolchain, wasm []byte) {
		for _, c := range wasmtest.Load(t, "web", wasm).Manifest().Controllers {
			if scripts[c.Name] == nil {
				t.Errorf("controller %s: no script runs it", c.Name)
			}
		}
		for controller, play := range scripts {
			s := &script{World: wasmtest.New(t, "web", wasm, controller), t: t}
			if play(s); s.text != native[controller] {
				t.Errorf("%s writes\n%s\nnatively\n%s", controller, s.text, native[controller])
			}
		}
	})
}

// script is what happens in one world. Its text is what the controller returned.
type script struct {
	*sdktest.World
	t    *testing.T
	text string
}

// note adds a line to the text.
func (s *script) note(format string, args ...any) { s.text += fmt.Sprintf(format, args...) + "\n" }

// create creates the object default/name. Members are those beside the kind and the metadata that name it.
func (s *script) create(apiVersion, kind, name, metadata, members string) sdk.Ref {
	return s.Create(fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"namespace":"default","name":%q%s}%s}`, apiVersion, kind, name, metadata, members))
}

// site creates the Site default/it.
func (s *script) site(spec string) sdk.Ref {
	return s.create("example.com/v1", "Site", "it", `,"labels":{"tier":"web","example.com/shard":"a"}`, `,"spec":`+spec)
}

// pods creates a running Pod of the site "it" for each name, on node-1.
func (s *script) pods(names ...string) {
	for i, name := range names {
		s.create("v1", "Pod", name, `,"labels":{"app":"web","site":"it"}`,
			fmt.Sprintf(`,"spec":{"nodeName":"node-1"},"status":{"phase":"Running","podIP":"10.0.0.%d"}`, i))
	}
}

// run runs default/it.
func (s *script) run() {
	s.t.Helper()
	s.ran(s.Reconcile("default/it"))
}

// ran notes what a run returned, and what became of it.
func (s *script) ran(r *sdktest.Run) {
	s.t.Helper()
	if r.Result == nil {
		s.t.Fatalf("%s: %s", r.Class, r.Message)
	}
	if r.Class == abi.ClassDenied {
		s.t.Errorf("the code of the document may not do what it does: %s: %s", r.Reason, r.Message)
	}
	s.note("%d %s %q %s %s %s %v", r.Code, abi.EncodeResult(r.Result), r.Writes, r.Class, r.Reason, r.Message, r.Logs)
}

// step makes a step of the daemon of default/it.
func (s *script) step() {
	step := s.Step("default/it").ExpectSuccess()
	s.note("%q %s %v", step.Events, daemon.EncodeResult(step.Result), step.Logs)
}

func (s *script) scan(name string) {
	scan := s.Scan(name).ExpectSuccess()
	s.note("%s %v", scans.EncodeResult(scan.Result), scan.Logs)
}

func (s *script) reviewed(r *sdktest.Review) {
	s.note("%v %s %s %q %s", r.Allowed, r.Reason, r.Message, r.Warnings, r.Object)
}

// scripts has one for each controller. It runs the code of the documents.
var scripts = map[string]func(*script){
	"greeting": func(s *script) {
		s.create("example.thole.dev/v1", "Greeting", "it", "", `,"spec":{"name":"world"}`)
		s.run()
	},
	"website": func(s *script) {
		s.create("example.thole.dev/v1", "Website", "it", "", `,"spec":{"text":"hi","replicas":2,"ports":[{"name":"web","number":80}]}`)
		s.run()
	},
	"selector": func(s *script) {
		s.pods("a", "b")
		set := s.create("example.thole.dev/v1", "PodSet", "it", "", `,"spec":{"selector":{"matchLabels":{"app":"web"},"matchExpressions":[{"key":"site","operator":"Exists"}]}}`)
		s.run()
		s.Change(set, `{"spec":{"selector":{"matchExpressions":[{"key":"site","operator":"Is"}]}}}`)
		s.run()
	},
	"fleet": func(s *script) {
		fleet := `{"apiVersion":"example.thole.dev/%s","kind":"Fleet","metadata":{"namespace":"default","name":"it"},"spec":{%q:7}}`
		s.note("%s", s.Convert(fmt.Sprintf(fleet, "v1", "replicas"), "v1beta1").Object)
		s.note("%s", s.Convert(fmt.Sprintf(fleet, "v1beta1", "size"), "v1").Object)
		s.Create(fmt.Sprintf(fleet, "v1", "replicas"))
		s.run()
	},

	"apply": func(s *script) {
		s.site(`{}`)
		s.run()
		s.run()
	},
	"options": func(s *script) {
		site := s.site(`{}`)
		s.create("v1", "Pod", "surplus", fmt.Sprintf(`,"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"controller":true}]`,
			site.APIVersion, site.Kind, site.Name, site.UID), "")
		s.run()
	},
	"groups": func(s *script) {
		s.site(`{}`)
		s.FailWrite("apply v1 Pod default/it-a", "Forbidden")
		s.run()
		s.FailWrite("apply v1 Pod default/it-a", "")
		s.run()
	},
	"prune": func(s *script) {
		site := s.site(`{"sites":["a","b"]}`)
		s.run()
		s.Change(site, `{"spec":{"sites":["b"]}}`)
		s.run()
	},
	"adopt": func(s *script) {
		site := s.site(`{"selector":{"matchLabels":{"app":"web"}}}`)
		s.pods("a", "b")
		s.run()
		s.Change(site, `{"spec":{"selector":{"matchLabels":{"app":"db"}}}}`)
		s.run()
	},
	"typed": func(s *script) {
		s.site(`{"image":"nginx"}`)
		s.run()
	},

	"reads": func(s *script) {
		s.pods("a", "b")
		s.create("v1", "ConfigMap", "settings", "", `,"data":{"theme":"dark"}`)
		s.site(`{}`)
		s.run()
	},
	"read-less": func(s *script) {
		s.pods("a", "web")
		s.site(`{}`)
		s.run()
	},
	"field":   findsPods,
	"key":     findsPods,
	"watches": findsPods,
	"select": func(s *script) {
		s.CrossNamespace()
		s.Create(`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"certificates","name":"tls"}}`)
		findsPods(s)
	},

	"end": func(s *script) {
		site := s.site(`{"do":"wait"}`)
		s.run()
		s.Change(site, `{"spec":{"do":null,"interval":"90s"}}`)
		s.run()
	},
	"timers": func(s *script) {
		s.site(`{}`)
		s.run()
		s.Advance(time.Hour)
		s.run()
	},
	"retry": func(s *script) {
		site := s.site(`{}`)
		for range 4 {
			s.run()
		}
		s.Change(site, `{"spec":{"do":"quota"}}`)
		s.run()
	},
	"gone": func(s *script) {
		site := s.site(`{}`)
		s.create("v1", "ConfigMap", "it-notes", "", ``)
		s.run()
		s.Delete(site)
		s.ran(s.ReconcileGone("default/it"))
	},
	"changes": func(s *script) {
		site := s.site(`{"zone":"a"}`)
		s.create("example.com/v1", "Record", "zone-a", "", ``)
		s.run()
		s.Change(site, `{"spec":{"zone":"b"}}`)
		s.run()
	},
	"condition": func(s *script) {
		s.site(`{}`)
		s.run()
	},
	"summaries": func(s *script) {
		s.site(`{}`)
		s.run()
	},

	"daemon": func(s *script) {
		s.site(`{}`)
		s.run()
		s.step()
		s.run()
		s.pods("a")
		s.step()
		s.run()
	},
	"scans": func(s *script) {
		lab := s.create("example.com/v1", "Lab", "it", "", `,"spec":{"start":"2026-01-01T00:00:00Z"},"status":{"phase":"Pending"}`)
		s.scan("due")
		s.run()
		s.Change(lab, `{"status":{"phase":"Done"}}`)
		s.scan("cleanup")
		s.run()
	},
	"http": func(s *script) {
		s.ServeHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if len(body) == 0 {
				w.WriteHeader(http.StatusTeapot)
			}
			_, _ = fmt.Fprintf(w, "%s %s %s %s", r.Method, r.URL, r.Header.Get("Content-Type"), body)
		}))
		site := s.site(`{"title":"A"}`)
		s.run()
		s.Change(site, `{"spec":{"title":null}}`)
		s.run()
		s.FailHTTP("Timeout")
		s.run()
	},
	"events": func(s *script) {
		s.create("example.com/v1", "Lab", "it", "", ``)
		for _, data := range []string{`{"exitCode":137}`, `"no object"`} {
			s.note("%q", s.Receive(`{"specversion":"1.0","id":"1","source":"test","type":"lab.requested","subject":"default/it","data":`+data+`}`))
			s.run()
		}
	},
	"reviews": func(s *script) {
		const site = `{"apiVersion":"example.com/v1","kind":"Site","metadata":{"namespace":"default","name":"new"},"spec":{"zone":"a"%s}}`
		s.reviewed(s.ReviewCreate(fmt.Sprintf(site, "")))
		s.reviewed(s.ReviewCreate(fmt.Sprintf(site, `,"replicas":6`)))
		s.reviewed(s.ReviewUpdate(s.site(`{"zone":"a"}`), `{"spec":{"zone":"b"}}`))
		s.run()
	},

	"site":         changesAndDeletes,
	"site-watcher": changesAndDeletes,
	"replicas": func(s *script) {
		s.pods("a")
		s.site(`{"replicas":1}`)
		s.run()
		s.pods("b")
		s.Advance(10 * time.Second)
		s.run()
	},
	"managed": func(s *script) {
		s.site(`{}`)
		s.run()
	},
}

// findsPods runs an object whose controller looks for pods.
func findsPods(s *script) {
	s.pods("a", "b")
	s.create("v1", "Pod", "other", "", `,"spec":{"nodeName":"node-2"},"status":{"phase":"Pending"}`)
	s.site(`{}`)
	s.run()
}

// changesAndDeletes goes through the life of an object.
func changesAndDeletes(s *script) {
	site := s.site(`{"title":"A","replicas":1}`)
	s.run()
	s.Change(site, `{"spec":{"title":"B","replicas":2}}`)
	s.run()
	s.Delete(site)
	s.run()
}

func TestConversionOfTheDocumentsLosesNothing(t *testing.T) {
	type (
		Spec       = versions.Spec
		Status     = versions.Status
		BetaSpec   = versions.BetaSpec
		BetaStatus = versions.BetaStatus
	)
	w := sdktest.New(t, "fleet") // the name of the controller, if the plugin has several
	sdktest.RoundTrip[BetaSpec, BetaStatus](w, "v1beta1", "v1")
	sdktest.RoundTrip[Spec, Status](w, "v1", "v1beta1")
}
