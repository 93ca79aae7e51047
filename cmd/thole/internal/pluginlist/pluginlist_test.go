package pluginlist

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const reply = `[
  {"name": "configsync", "state": "failed", "revision": 0, "controllers": [], "loads": 0, "rollbacks": 0,
   "lastError": "export reconcile is missing: build it with the SDK of this host's version, and look again", "rejectedFor": "verify",
   "rejectedDigest": "ffff", "tomorrow": {"x": 1}},
  {"name": "podmanager", "state": "running", "revision": 3, "digest": "0123456789abcdef0123456789abcdef",
   "version": "0.1.0", "controllers": ["one", "two"], "loads": 3, "rollbacks": 1, "since": "2026-01-01T00:00:00Z"}
]`

// serve replies to every request to /plugins with a status and a body.
func serve(t *testing.T, status int, body string) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /plugins", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func get(t *testing.T, body string) *List {
	t.Helper()
	list, err := Server{Address: serve(t, http.StatusOK, body)}.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func printed(t *testing.T, l *List, format string) string {
	t.Helper()
	var out strings.Builder
	if err := l.Print(&out, format); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestTables(t *testing.T) {
	list := get(t, reply)
	for format, want := range map[string]string{
		"table": `
NAME         REVISION   STATE     CONTROLLERS   LOADS   ROLLBACKS   DIGEST         VERSION   LAST ERROR
configsync   0          failed    0             0       0           -              -         verify: export reconcile is missing: build it with the SD...
podmanager   3          running   2             3       1           0123456789ab   0.1.0     -
`,
		"wide": `
NAME         REVISION   STATE     CONTROLLERS   LOADS   ROLLBACKS   DIGEST                             VERSION   LAST ERROR
configsync   0          failed    -             0       0           -                                  -         verify: export reconcile is missing: build it with the SDK of this host's version, and look again
podmanager   3          running   one,two       3       1           0123456789abcdef0123456789abcdef   0.1.0     -
`,
	} {
		if got := printed(t, list, format); got != strings.TrimPrefix(want, "\n") {
			t.Errorf("%s is\n%s", format, got)
		}
	}
}

func TestReplicasHaveAColumnForTheLeader(t *testing.T) {
	list := get(t, `[
  {"name": "a", "state": "standby", "revision": 1, "leader": "thole-7d9c-x2x_0f1e", "problems": {"share": "the leader runs another module, fedcba987654"}},
  {"name": "b", "state": "running", "revision": 2, "leader": "thole-7d9c-zzz_ffff"},
  {"name": "c", "state": "standby", "revision": 1}
]`)
	for format, want := range map[string]string{
		"table": `
NAME   REVISION   STATE     LEADER           CONTROLLERS   LOADS   ROLLBACKS   DIGEST   VERSION   LAST ERROR
a      1          standby   thole-7d9c-x2x   0             0       0           -        -         the leader runs another module, fedcba987654
b      2          running   thole-7d9c-zzz   0             0       0           -        -         -
c      1          standby   -                0             0       0           -        -         -
`,
		"wide": `
NAME   REVISION   STATE     LEADER                CONTROLLERS   LOADS   ROLLBACKS   DIGEST   VERSION   LAST ERROR
a      1          standby   thole-7d9c-x2x_0f1e   -             0       0           -        -         the leader runs another module, fedcba987654
b      2          running   thole-7d9c-zzz_ffff   -             0       0           -        -         -
c      1          standby   -                     -             0       0           -        -         -
`,
	} {
		if got := printed(t, list, format); got != strings.TrimPrefix(want, "\n") {
			t.Errorf("%s is\n%s", format, got)
		}
	}
}

func TestJSONIsWhatTheHostWrote(t *testing.T) {
	got := printed(t, get(t, reply), "json")
	if !json.Valid([]byte(got)) || !strings.Contains(got, `"tomorrow"`) || !strings.Contains(got, `"since": "2026-01-01T00:00:00Z"`) {
		t.Errorf("it is %s", got)
	}
	if got := printed(t, get(t, "[]"), "json"); got != "[]\n" {
		t.Errorf("no plugins are %q", got)
	}
}

func TestFieldsOfOtherVersionsAreTolerated(t *testing.T) {
	// A field is missing, one is new, and one has another type.
	got := printed(t, get(t, `[{"name": "a", "state": "dreaming", "loads": "many", "rollbacks": 2}]`), "table")
	if want := "a      0          dreaming   0             0       2           -        -         -\n"; !strings.HasSuffix(got, want) {
		t.Errorf("it is\n%s", got)
	}
}

func TestTextOfAPluginIsMadePrintable(t *testing.T) {
	got := printed(t, get(t, `[{"name": "a", "version": "\u001b[31m1\t2\n3", "lastError": "two\nlines"}]`), "wide")
	if strings.Contains(got, "\x1b") || strings.Count(got, "\n") != 2 || !strings.Contains(got, "[31m1 2 3   two lines") {
		t.Errorf("it is %q", got)
	}
}

func TestSelect(t *testing.T) {
	list := get(t, reply)
	all, err := list.Select(nil)
	if err != nil || all != list {
		t.Errorf("no names: %v", err)
	}
	one, err := list.Select([]string{"podmanager", "podmanager"})
	if got := printed(t, one, "table"); err != nil || strings.Contains(got, "configsync") || strings.Count(got, "podmanager") != 1 {
		t.Errorf("one name: %v\n%s", err, got)
	}
	if got := printed(t, one, "json"); strings.Contains(got, "configsync") {
		t.Errorf("one name: %s", got)
	}
	_, err = list.Select([]string{"x", "podmanager", "y", "x"})
	if err == nil || err.Error() != "the host has no plugin \"x\"\nthe host has no plugin \"y\"" {
		t.Errorf("missing names: %v", err)
	}
}

func TestRepliesThatAreNotThoseOfAHost(t *testing.T) {
	for name, c := range map[string]struct{ address, want string }{
		"nobody":       {"http://127.0.0.1:1", "connection refused"},
		"another path": {serve(t, 200, "[]") + "/x", "/x/plugins: not the reply of a host: 404 Not Found"},
		"an error":     {serve(t, 500, "[]"), "500 Internal Server Error"},
		"a page":       {serve(t, 200, "<html>"), "it is not a list of plugins"},
		"null":         {serve(t, 200, "null"), "it is not a list of plugins"},
		"other things": {serve(t, 200, "[1]"), "an entry is not a plugin"},
		"no names":     {serve(t, 200, "[{}]"), "an entry is not a plugin"},
		"no address":   {"ftp://x", `address: "ftp://x" is not an address such as`},
		"nonsense":     {"http://[", "is not an address such as"},
	} {
		if _, err := (Server{Address: c.address}).Get(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestAddressWithoutScheme(t *testing.T) {
	address := strings.TrimPrefix(serve(t, 200, reply), "http://")
	if list, err := (Server{Address: address}).Get(t.Context()); err != nil || len(list.plugins) != 2 {
		t.Errorf("%s: %v", address, err)
	}
}
