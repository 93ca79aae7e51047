package printable

import "testing"

func TestLine(t *testing.T) {
	for given, want := range map[string]string{
		"":                       "",
		"gr\u00fc\u00dfe \u4e16": "gr\u00fc\u00dfe \u4e16",
		"one\r\n\ttwo":           "one   two",
		"\x1b[2Jred":             " [2Jred",
		"a\u202eb\u0085c":        "a b c",
	} {
		if got := Line(given); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}
