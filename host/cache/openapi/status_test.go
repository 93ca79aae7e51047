package openapi

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// statusDocument is a document with a kind whose status has a schema.
func statusDocument(status string) []byte {
	return documentOf(`"type":"object","properties":{"status":`+status+`}`, "")
}

func TestTheSchemaOfAStatusIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requires := statusDocument(`{"type":"object","required":["phase"]}`)
		s := &server{status: 200, documents: [][]byte{requires, requires, statusDocument(`{"type":"object"}`), []byte("<html></html>"), statusDocument(`{"type":3}`), requires}}
		schemas := s.schemas(t)
		status := func(maxAge time.Duration, requests int, failed bool) *object.Schema {
			t.Helper()
			schema, err := schemas.Status(t.Context(), widget, maxAge)
			if len(s.paths) != requests || (err != nil) != failed || failed && !strings.Contains(err.Error(), widget.String()) {
				t.Fatalf("%d requests, %v", len(s.paths), err)
			}
			return schema
		}
		first := status(time.Minute, 1, false)
		if len(first.Check("status", []byte("{}"))) != 1 {
			t.Fatal("the required member is not required")
		}
		time.Sleep(time.Minute - time.Nanosecond) // fake time
		if status(time.Minute, 1, false) != first || status(time.Second, 2, false) != first {
			t.Error("the same schema is another one")
		}
		second := status(0, 3, false)
		if second == first || len(second.Check("status", []byte("{}"))) != 0 {
			t.Error("the schema has not changed")
		}
		if status(0, 4, true) != second {
			t.Error("the schema is lost that was read before")
		}
		if status(time.Minute, 4, true) != second {
			t.Error("the schema is lost that was read before")
		}
		time.Sleep(settlePause) // fake time
		if status(time.Minute, 5, true) != second {
			t.Error("the schema is lost that was read before")
		}
		time.Sleep(settlePause) // fake time
		if third := status(time.Minute, 6, false); len(third.Check("status", []byte("{}"))) != 1 {
			t.Error("the schema has not changed again")
		}
	})
}

func TestAStatusThatTheSchemaLeavesOpenAcceptsEverything(t *testing.T) {
	for name, c := range map[string]struct {
		document []byte
		member   bool // conditions have a place
	}{
		"no status":          {documentOf(`"type":"object","properties":{"spec":{"type":"object"}}`, ""), false},
		"everything is kept": {documentOf(`"type":"object","x-kubernetes-preserve-unknown-fields":true`, ""), true},
		"a kind of Go":       {documentOf(`"type":"object","properties":{"status":{"allOf":[{"$ref":"#/components/schemas/Other"}],"default":{}}}`, `"Other":{"type":"object","required":["x"]}`), true},
		"a reference":        {statusDocument(`{"$ref":"#/components/schemas/Other"}`), true},
		"a part of another":  {statusDocument(`{"type":"object","properties":{"conditions":{"$ref":"#/components/schemas/Other"}}}`), true},
	} {
		s := &server{status: 200, documents: [][]byte{c.document}}
		schema, err := s.schemas(t).Status(t.Context(), widget, 0)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		member, ok := schema.Member("conditions")
		if ok != c.member || len(member.Check("status.conditions", []byte(`[{"type":"Ready"}]`))) > 0 || len(schema.Check("status", []byte(`{"conditions":[]}`))) > 0 {
			t.Errorf("%s: %t, %+v", name, ok, schema)
		}
	}
}

func TestEachVersionHasTheSchemaOfItsStatus(t *testing.T) {
	s := &server{status: 200, documents: [][]byte{statusDocument(`{"type":"object"}`)}}
	schemas := s.schemas(t)
	if _, err := schemas.Status(t.Context(), abi.Kind{APIVersion: "example.dev/v2", Kind: widget.Kind}, time.Minute); err == nil {
		t.Error("a document without the version has its schema")
	}
	if schema, err := schemas.Status(t.Context(), widget, time.Minute); err != nil || schema == nil || len(s.paths) != 2 {
		t.Errorf("%v, %v after %q", schema, err, s.paths)
	}
}
