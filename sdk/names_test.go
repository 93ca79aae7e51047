package sdk_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
)

// primaryOf calls do in a run of a Widget of that name.
func primaryOf(t *testing.T, name string, do func(*widget)) {
	t.Helper()
	w := world(t, doing(do))
	w.Create(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"namespace":"default","name":"` + name + `"}}`)
	w.Reconcile("default/" + name).ExpectReady()
}

// TestChildNamesAreThese has names that must never change: a plugin that is compiled with
// a newer SDK would not find the children of an older one.
func TestChildNamesAreThese(t *testing.T) {
	long := strings.Repeat("abcdefghi-", 6) // 60 characters
	for _, c := range []struct {
		primary string
		parts   []string
		want    string
	}{
		{"shop", nil, "shop"},
		{"shop", []string{"web"}, "shop-web"},
		{"my-shop", []string{"web", "0"}, "my-shop-web-0"},
		{"shop", []string{"a-b"}, "shop-a-b-s95sbxdmdj"},
		{"shop", []string{"a-b", "c"}, "shop-a-b-c-9wwhm8q6rc"},
		{"shop", []string{"a", "b-c"}, "shop-a-b-c-k47rk9nsfv"},
		{"shop", []string{""}, "shop-fxxqftbnxd"},
		{"shop", []string{"Web"}, "shop-web-bw7k4cgjg4"},
		{"shop", []string{"größe"}, "shop-gr--e-gmsnrjcgsd"},
		{"shop", []string{"a/b", "日本"}, "shop-a-b-p6jbgpgbm9"},
		{"shop", []string{"bcdfghjklm"}, "shop-bcdfghjklm-4l899djz8s"}, // looks like a hash
		{"shop", []string{"bcdfghjklm", "a"}, "shop-bcdfghjklm-a"},
		{"shop.example.com", []string{"web"}, "shop-example-com-web-wvvgfps2p7"},
		{long + "abc", nil, long + "abc"},
		{long + "abcd", nil, long[:50] + "ab-r6zpssd9gx"},
		{long + "a", []string{"b"}, long + "a-b"},
		{long + "a", []string{"bc"}, long[:50] + "ab-2h7vj6g6t4"},
		{strings.Repeat("abcdefghi.", 25) + "abc", []string{"web"}, long[:50] + "ab-qcf4fj54ds"},
	} {
		primaryOf(t, c.primary, func(r *widget) {
			if got := r.ChildName(c.parts...); got != c.want || !abi.ValidName(got) {
				t.Errorf("%q, %q: the name is %q, expected %q", c.primary, c.parts, got, c.want)
			}
		})
	}
}

// part is text of few characters, so that parts are often similar, or any text.
var part = rapid.OneOf(rapid.StringOfN(rapid.SampledFrom([]rune("abk-2.A")), 0, 12, -1), rapid.String(), rapid.Just(strings.Repeat("a", 60)))

func TestDifferentPartsHaveDifferentChildNames(t *testing.T) {
	primaryOf(t, "shop", func(r *widget) {
		rapid.Check(t, func(t *rapid.T) {
			lists := rapid.SliceOfN(rapid.SliceOfN(part, 0, 4), 2, 20).Draw(t, "lists")
			listOf := map[string]string{}
			for _, parts := range lists {
				name, key := r.ChildName(parts...), strings.Join(parts, "\x00")+strings.Repeat("\x01", len(parts))
				if !abi.ValidName(name) {
					t.Fatalf("%q: %q is not a DNS label", parts, name)
				}
				if other, has := listOf[name]; has && other != key {
					t.Fatalf("%q and %q have the name %q", other, key, name)
				}
				listOf[name] = key
			}
		})
	})
}

func TestUniqueNamesAreDNSLabelsThatDiffer(t *testing.T) {
	primaryOf(t, "shop", func(r *widget) {
		rapid.Check(t, func(t *rapid.T) {
			seen := map[string]bool{}
			for _, prefix := range rapid.SliceOf(part).Draw(t, "prefixes") {
				name := r.UniqueName(prefix)
				if !abi.ValidName(name) || seen[name] {
					t.Fatalf("%q: %q is not a DNS label, or occurs twice", prefix, name)
				}
				seen[name] = true
			}
		})
	})
}

func TestUniqueNamesOfARunLookUnrelated(t *testing.T) {
	primaryOf(t, "shop", func(r *widget) {
		last, seen := "-----", map[string]bool{}
		for range 10_000 {
			name := r.UniqueName("")
			for i := range name {
				if name[i] == last[i] {
					t.Fatalf("%q follows %q", name, last)
				}
			}
			if seen[name] {
				t.Fatalf("%q occurs twice", name)
			}
			last, seen[name] = name, true
		}
	})
}

func TestUniqueNameKeepsWhatItCanOfThePrefix(t *testing.T) {
	long := strings.Repeat("a", 58)
	primaryOf(t, "shop", func(r *widget) {
		for prefix, want := range map[string]string{
			"": "", "web-": "web-", "2a--b": "2a--b", "Web.": "web-", "-.a": "a", "größe": "gr--e", long: long, long + "-": long,
		} {
			name := r.UniqueName(prefix)
			suffix, found := strings.CutPrefix(name, want)
			if !found || len(suffix) != 5 || strings.Trim(suffix, "bcdfghjklmnpqrstvwxz2456789") != "" {
				t.Errorf("%q: the name is %q, expected %q and 5 letters", prefix, name, want)
			}
		}
	})
}

// TestUniqueNamesDependOnSeedAlone: a world has the same seeds in each execution.
func TestUniqueNamesDependOnSeedAlone(t *testing.T) {
	names := func() (first, second []string) {
		w := world(t, doing(func(r *widget) { first = append(first, r.UniqueName("w-"), r.UniqueName("w-")) }))
		w.Reconcile(one)
		onReconcile = doing(func(r *widget) { second = append(second, r.UniqueName("w-"), r.UniqueName("w-")) })
		w.Reconcile(one)
		return first, second
	}
	first, second := names()
	again, _ := names()
	if strings.Join(first, " ") != strings.Join(again, " ") {
		t.Errorf("with one seed the names are %q and %q", first, again)
	}
	if first[0] == second[0] || first[1] == second[1] || first[0] == second[1] {
		t.Errorf("with two seeds the names are %q and %q", first, second)
	}
}
