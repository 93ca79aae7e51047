package config

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// A policy may be a link to any file.
func TestErrorsShowLittleOfAFile(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	for name, text := range map[string]string{
		"fields":        strings.Repeat("a: 1\n", 1) + lines(5000, "field%d: value"),
		"namespaces":    many("namespaces", 1) + "\nallow: [" + strings.Repeat(long+",", 10) + "]",
		"verbs":         "allow: [{groups: [a], kinds: [B], verbs: [" + strings.Repeat("A,", 10_000) + "]}]",
		"one key":       long + ": 1",
		"the same key":  long + ": 1\n" + long + ": 2",
		"control codes": "\"\\e[2J\": 1\n\"\\e[2J\": 2",
		"a tag":         "config: !!int " + long,
		"no YAML":       "a: b\n" + long + "\n\t" + long,
		"empty values":  "namespaces: [" + strings.Repeat("~,", 10_000) + "]",
	} {
		_, err := Config{}.WithDefaults().ReadPolicy("p", versioned(text))
		if err == nil {
			if name != "a tag" {
				t.Errorf("%s: no error", name)
			}
			continue
		}
		if text := err.Error(); len(text) > 13_000 || strings.Count(text, "\n") > maxProblems || strings.Contains(text, "\x1b") {
			t.Errorf("%s: %d bytes in %d lines: %.300q", name, len(text), strings.Count(text, "\n"), text)
		}
	}
}

func lines(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format+"\n", i)
	}
	return b.String()
}

// A host with 256 MiB must survive any file.
func TestPoliciesTakeABoundedAmountOfMemory(t *testing.T) {
	const size = maxBytes - 100
	for name, text := range map[string]string{
		"namespaces": "namespaces: [" + strings.Repeat("A,", size/2-20) + "]",
		"nulls":      "namespaces: [" + strings.Repeat("~,", size/2-20) + "]",
		"entries":    "allow: [" + strings.Repeat("A,", size/2-20) + "]",
		"verbs":      "allow: [{verbs: [" + strings.Repeat("A,", size/2-20) + "]}]",
		"maps":       "config: [" + strings.Repeat("{},", size/3-20) + "]",
		"tags":       "config: [" + strings.Repeat("!!str a,", size/8-20) + "]",
		"merges":     "config: [" + strings.Repeat("{<<: {}},", size/9-20) + "]",
		"fields":     lines(size/11, "f%d: 1"),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = Config{}.WithDefaults().ReadPolicy("p", versioned(text))
		runtime.ReadMemStats(&after)
		if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 192 {
			t.Errorf("%s: %d MiB were allocated", name, n)
		}
	}
}
