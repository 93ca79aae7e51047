package tholetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestALogIsReadAsItGrows(t *testing.T) {
	l := &Log{path: filepath.Join(t.TempDir(), "log")}
	file, err := os.Create(l.path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	say := func(text string) {
		t.Helper()
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	say(`{"@message":"a","x":"1"}` + "\npanic: no JSON\n" + `{"@message":"a","x":"2","y":"3"}` + "\n" + `{"@mess`)
	if n := l.Mark(); n != 2 {
		t.Errorf("%d lines, want 2", n)
	}
	mark := l.Mark()
	say(`age":"b"}` + "\n")
	if since := l.Since(mark); len(since) != 1 || since[0].String("@message") != "b" {
		t.Errorf("since the mark: %v", since)
	}
	for want, fields := range map[string][]string{"a a": nil, "a": {"x", "2", "y", "3"}, "": {"x", "2", "y", "4"}} {
		var got []string
		for _, line := range l.With("a", fields...) {
			got = append(got, line.String("@message"))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("with %v: %v", fields, got)
		}
	}
	say(`{"@level":"error","@message":"c","@module":"thole.client-go"}` + "\n" + `{"@level":"error","@message":"d","@module":"thole.cache"}` + "\n")
	if errs := l.Errors(); len(errs) != 1 || errs[0].String("@message") != "d" {
		t.Errorf("errors %v", errs)
	}
	if tail := l.Tail(1); tail != `{"@level":"error","@message":"d","@module":"thole.cache"}` {
		t.Errorf("tail %s", tail)
	}
}
