package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	mostDifferences = 4
	longestValue    = 60 // runes
)

// differences says on one line what of a JSON value has changed, "" if nothing
// has. Elements of lists go by their name, if they have one.
func differences(from, to any) string {
	before, after := map[string]string{}, map[string]string{}
	leaves("", from, before)
	leaves("", to, after)
	both := maps.Clone(before)
	maps.Copy(both, after)
	var all []string
	for _, path := range slices.Sorted(maps.Keys(both)) {
		if what := difference(path, before, after); what != "" {
			all = append(all, what)
		}
	}
	if more := len(all) - mostDifferences; more > 0 {
		all = append(all[:mostDifferences], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, ", ")
}

func difference(path string, before, after map[string]string) string {
	from, had := before[path]
	to, has := after[path]
	switch {
	case from == to && had == has:
		return ""
	case !has:
		return path + " removed"
	case !had:
		return path + " " + to
	}
	return path + " " + from + " -> " + to
}

// leaves puts the scalars in v into out, by path.
func leaves(path string, v any, out map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for name, child := range v {
			leaves(joinPath(path, name), child, out)
		}
	case []any:
		for i, child := range v {
			leaves(path+"["+element(i, child)+"]", child, out)
		}
	case nil:
	default:
		out[path] = scalar(v)
	}
}

func joinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func element(i int, v any) string {
	m, _ := v.(map[string]any)
	if name, ok := m["name"].(string); ok {
		return name
	}
	return strconv.Itoa(i)
}

// scalar is a value as people write it: quoted only where that is needed.
func scalar(v any) string {
	s, ok := v.(string)
	if !ok {
		text, _ := json.Marshal(v)
		s = string(text)
	} else if s == "" || strings.ContainsAny(s, " \t\r\n,") {
		s = strconv.Quote(s)
	}
	if runes := []rune(s); len(runes) > longestValue {
		s = string(runes[:longestValue]) + "..."
	}
	return s
}
