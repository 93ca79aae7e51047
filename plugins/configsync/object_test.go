package main

import (
	"strings"
	"testing"
)

func TestSourceLabelsAreValidAndDistinct(t *testing.T) {
	long := strings.Repeat("n", 253)
	seen := map[string]bool{}
	for _, s := range [][2]string{
		{"team", "shared"},
		{"team", "shared.config"},
		{strings.Repeat("t", 63), "x"},
		{"t", long},
		{"t", long[1:]},
		{"t", long[1:] + "m"},
		{strings.Repeat("t", 31), strings.Repeat("x", 31)},
		{strings.Repeat("t", 31), strings.Repeat("x", 32)},
	} {
		label := sourceLabel(s[0], s[1])
		if len(label) > 63 || seen[label] || strings.ContainsAny(label[len(label)-1:], ".-_") {
			t.Errorf("the label of %v is %q", s, label)
		}
		seen[label] = true
	}
}

func TestDigestsOfDifferentContentsDiffer(t *testing.T) {
	seen := map[string]Object{}
	for _, o := range []Object{
		{},
		{Immutable: true},
		{Type: "x"},
		{Data: map[string]string{"a": "b"}},
		{BinaryData: map[string]string{"a": "b"}},
		{Data: map[string]string{"ab": ""}},
		{Data: map[string]string{"a": "", "b": ""}},
		{Data: map[string]string{"a": "bc"}},
		{Data: map[string]string{"ab": "c"}},
	} {
		if other, ok := seen[o.digest()]; ok {
			t.Errorf("%+v and %+v have the same digest", o, other)
		}
		seen[o.digest()] = o
	}
}
