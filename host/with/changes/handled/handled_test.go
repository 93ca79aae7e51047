package handled_test

import (
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi/changes"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/with/changes/handled"
)

const site = `{"apiVersion":"example.com/v1","kind":"Site","metadata":{"name":"shop","namespace":"default","uid":"5f0c",
	"resourceVersion":"8","generation":3,"finalizers":["a/b"],"labels":{"tier":"web"},"annotations":{"note":"x"}},
	"spec":{"title":"Shop","replicas":3},"status":{"url":"a"}}`

func patched(t *testing.T, patch string) []byte {
	t.Helper()
	out, err := rawjson.MergePatch([]byte(site), []byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Each difference that an object can have, by where the handled state is kept.
func TestChangeOfAnObject(t *testing.T) {
	whole := handled.State{Known: true, Object: []byte(site), Whole: true}
	content, _, err := handled.Of([]byte(site))
	if err != nil {
		t.Fatal(err)
	}
	states := []handled.State{whole, content, content.WithoutObject()}
	for name, c := range map[string]struct {
		patch string
		want  [3]changes.Type // whole, content, digest
	}{
		"nothing":         {`{}`, all(changes.Resynced)},
		"spec":            {`{"spec":{"replicas":4}}`, all(changes.Updated)},
		"a label":         {`{"metadata":{"labels":{"tier":"db"}}}`, all(changes.Updated)},
		"no label":        {`{"metadata":{"labels":null}}`, all(changes.Updated)},
		"an annotation":   {`{"metadata":{"annotations":{"note":null}}}`, all(changes.Updated)},
		"another part":    {`{"data":{"a":"b"}}`, all(changes.Updated)},
		"spec and status": {`{"spec":null,"status":null}`, all(changes.Updated)},
		"status":          {`{"status":{"url":"b"}}`, [3]changes.Type{changes.StatusUpdated, changes.Resynced, changes.Resynced}},
		"no status":       {`{"status":null}`, [3]changes.Type{changes.StatusUpdated, changes.Resynced, changes.Resynced}},
		"bookkeeping":     {`{"metadata":{"resourceVersion":"9","generation":4,"finalizers":null,"ownerReferences":[{"name":"o"}]}}`, all(changes.Resynced)},
		"a request":       {`{"metadata":{"annotations":{"reconcile.thole.dev/requestedAt":"now"}}}`, all(changes.Resynced)},
		"of the host":     {`{"metadata":{"annotations":{"thole.dev/applied":"1","b.a.thole.dev/handled":"2"},"labels":{"thole.dev/managed-by":"a"}}}`, all(changes.Resynced)},
	} {
		for i, s := range states {
			if got := s.Change(patched(t, c.patch), false, false); got != c.want[i] {
				t.Errorf("%s, state %d: %s, want %s", name, i, got, c.want[i])
			}
		}
	}
}

func all(c changes.Type) [3]changes.Type { return [3]changes.Type{c, c, c} }

func TestFirstThatAppliesIsTheChange(t *testing.T) {
	known := handled.State{Known: true}
	for name, c := range map[string]struct {
		state             handled.State
		deleting, resumed bool
		want              changes.Type
	}{
		"deleted before its first run":   {handled.State{}, true, true, changes.Deleted},
		"deleted":                        {known, true, false, changes.Deleted},
		"created":                        {handled.State{}, false, true, changes.Created},
		"resumed":                        {known, false, true, changes.Resumed},
		"what was handled is not known":  {known, false, false, changes.Updated},
		"only progress since a creation": {handled.State{Progress: []byte("1")}, false, false, changes.Created},
	} {
		if got := c.state.Change([]byte(site), c.deleting, c.resumed); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestADigestHasOldOfAnObjectThatHasNotChanged(t *testing.T) {
	of, _, err := handled.Of([]byte(site))
	if err != nil {
		t.Fatal(err)
	}
	want, err := of.Old([]byte(site))
	if err != nil {
		t.Fatal(err)
	}
	digest := of.WithoutObject()
	if got, err := digest.Old(patched(t, `{"status":{"url":"b"}}`)); err != nil || !rawjson.Equal(got, want) {
		t.Errorf("unchanged: %s, %v, want %s", got, err, want)
	}
	for name, s := range map[string]handled.State{"changed": digest, "nothing is known": {Known: true}, "never handled": {}} {
		if got, err := s.Old(patched(t, `{"spec":{"replicas":4}}`)); got != nil || err != nil {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

func TestANullIsAsGoodAsNothing(t *testing.T) {
	s := handled.State{Known: true, Whole: true, Object: []byte(`{"spec":{"a":null},"status":null,"metadata":{"labels":null}}`)}
	if got := s.Change([]byte(`{"data":null,"spec":{}}`), false, false); got != changes.Resynced {
		t.Errorf("%s", got)
	}
}

func TestAnnotationIsReadAsItWasWritten(t *testing.T) {
	of, _, err := handled.Of([]byte(site))
	if err != nil {
		t.Fatal(err)
	}
	withProgress := of
	withProgress.Progress = []byte(`["dns"]`)
	for name, s := range map[string]handled.State{
		"nothing": {}, "content": of, "digest": of.WithoutObject(), "progress alone": {Progress: []byte(`{"a":1}`)}, "both": withProgress,
	} {
		got, valid := handled.Parse(s.Value("5f0c"), "5f0c")
		if !valid || got.Value("5f0c") != s.Value("5f0c") || got.Known != s.Known || string(got.Progress) != string(s.Progress) {
			t.Errorf("%s: %q is read as %+v, %t", name, s.Value("5f0c"), got, valid)
		}
	}
	if (handled.State{}).Value("5f0c") != "" {
		t.Error("a state without anything is written")
	}
}

func TestAnEditedAnnotationIsNotBelieved(t *testing.T) {
	of, _, _ := handled.Of([]byte(site))
	value := of.Value("5f0c")
	for name, edited := range map[string]string{
		"another value": strings.Replace(value, `"replicas":3`, `"replicas":4`, 1), "cut": value[:len(value)-2], "not JSON": "x", "empty object": "{}",
		"another sum": strings.Replace(value, `{"sum":"`, `{"sum":"0`, 1), "short": `{"sum":"`, "with a space": value + " ",
	} {
		if s, valid := handled.Parse(edited, "5f0c"); valid || !s.Known || s.Object != nil || s.Progress != nil {
			t.Errorf("%s: %+v, %t", name, s, valid)
		}
	}
}

func TestACopyOfAnObjectIsNotHandled(t *testing.T) {
	of, _, _ := handled.Of([]byte(site))
	if s, valid := handled.Parse(of.Value("5f0c"), "77aa"); !valid || s.Known || s.Object != nil {
		t.Errorf("%+v, %t", s, valid)
	}
}

func TestAContentThatIsTooLargeHasADigest(t *testing.T) {
	large := patched(t, `{"spec":{"title":"`+strings.Repeat("x", handled.MaxContent)+`"}}`)
	s, tooLarge, err := handled.Of(large)
	if err != nil || !tooLarge || s.Object != nil || len(s.Value("5f0c")) > 200 {
		t.Fatalf("%d bytes, %t, %v", len(s.Value("5f0c")), tooLarge, err)
	}
	if got := s.Change(large, false, false); got != changes.Resynced {
		t.Errorf("the same object: %s", got)
	}
	if got := s.Change([]byte(site), false, false); got != changes.Updated {
		t.Errorf("another one: %s", got)
	}
}

func TestOldHasTheIdentityOfTheObject(t *testing.T) {
	s, _, _ := handled.Of([]byte(site))
	old, err := s.Old(patched(t, `{"spec":{"replicas":9},"metadata":{"labels":{"new":"1"}}}`))
	want := `{"apiVersion":"example.com/v1","kind":"Site","metadata":{"name":"shop","namespace":"default","uid":"5f0c",
		"labels":{"tier":"web"},"annotations":{"note":"x"}},"spec":{"title":"Shop","replicas":3}}`
	if err != nil || !rawjson.Equal(old, []byte(want)) {
		t.Errorf("%s, %v", old, err)
	}
	if old, err := (handled.State{Known: true, Digest: "x"}).Old([]byte(site)); old != nil || err != nil {
		t.Errorf("a digest: %s, %v", old, err)
	}
}

// A plugin that reads the object in another version now must not take the one for the other.
func TestOldHasTheVersionInWhichItWasGiven(t *testing.T) {
	s, _, _ := handled.Of([]byte(site))
	s, _ = handled.Parse(s.Value("5f0c"), "5f0c")
	now := patched(t, `{"apiVersion":"example.com/v2"}`)
	old, err := s.Old(now)
	if version, _ := rawjson.Lookup(old, "apiVersion"); err != nil || string(version) != `"example.com/v1"` {
		t.Errorf("%s, %v", old, err)
	}
	if next, _, _ := handled.Of(now); next.Equal(s) {
		t.Error("the annotation of the other version is not replaced")
	}
}

func FuzzParse(f *testing.F) {
	s, _, _ := handled.Of([]byte(site))
	f.Add(s.Value("5f0c"))
	f.Add(`{"sum":"","progress":1}`)
	f.Add(`{"sum":"","uid":"5f0c"}`)
	f.Fuzz(func(t *testing.T, value string) {
		if s, valid := handled.Parse(value, "5f0c"); valid && value != "" && (s.Known || s.Progress != nil) && s.Value("5f0c") != value {
			t.Errorf("%q is read as %q", value, s.Value("5f0c"))
		}
	})
}
