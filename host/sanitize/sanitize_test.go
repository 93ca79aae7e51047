package sanitize

import (
	"encoding/json"
	"strconv"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestLineReplacesWhatCannotBePrinted(t *testing.T) {
	for name, test := range map[string]struct{ given, want string }{
		"empty":               {"", ""},
		"letters of any kind": {"gr\u00fc\u00dfe \u4e16", "gr\u00fc\u00dfe \u4e16"},
		"line breaks":         {"one\r\n\ttwo", "one   two"},
		"escape sequence":     {"\x1b[2Jred", " [2Jred"},
		"change of direction": {"a\u202eb\u0085c", "a b c"},
		"not UTF-8":           {"a\xffb", "a\uFFFDb"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Line(test.given); got != test.want {
				t.Errorf("Line(%q) is %q, want %q", test.given, got, test.want)
			}
		})
	}
}

func TestTruncateKeepsToTheLimitBetweenRunes(t *testing.T) {
	for name, test := range map[string]struct {
		given string
		limit int
		want  string
	}{
		"shorter than the limit":  {"short", 10, "short"},
		"as long as the limit":    {"0123456789", 10, "0123456789"},
		"longer than the limit":   {"0123456789a", 10, "0123456..."},
		"a rune across the limit": {"12345\u4e16\u4e16", 10, "12345..."},
		"a rune up to the limit":  {"1234\u4e16\u4e16\u4e16", 10, "1234\u4e16..."},
		"not UTF-8":               {"a\xff\xfeb", 10, "a\uFFFDb"},
		"no room for the text":    {"0123456789", 3, "..."},
		"no room for the dots":    {"0123456789", 2, ""},
		"no room at all":          {"0123456789", 0, ""},
		"a negative limit":        {"0123456789", -1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := Truncate(test.given, test.limit)
			if got != test.want || len(got) > max(0, test.limit) || !utf8.ValidString(got) {
				t.Errorf("Truncate(%q, %d) is %q, want %q", test.given, test.limit, got, test.want)
			}
		})
	}
}

func TestTruncateMiddleKeepsBothEnds(t *testing.T) {
	for limit, want := range map[int]string{
		20: "0123456789abcdefghij", 19: "0123456789ab...ghij", 8: "012...ij", 4: "...j", 3: "...", 2: "", 0: "", -1: "",
	} {
		if got := TruncateMiddle("0123456789abcdefghij", limit); got != want {
			t.Errorf("of %d bytes: %q, want %q", limit, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s, limit := rapid.String().Draw(t, "text"), rapid.IntRange(-1, 40).Draw(t, "limit")
		got := TruncateMiddle(s, limit)
		if len(got) > max(0, limit) || !utf8.ValidString(got) || limit >= len(s) && got != s {
			t.Errorf("%q", got)
		}
	})
}

// TestLogBytesIsWhatALogTakesAtMost as JSON and as quoted text, which are the formats
// of the log.
func TestLogBytesIsWhatALogTakesAtMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text") + "<&>\u2028\x7f"
		most := LogBytes(s)
		asJSON, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, written := range []string{string(asJSON), strconv.Quote(s)} {
			if len(written) > most+len(`""`) {
				t.Errorf("%s has %d bytes, want at most %d", written, len(written), most)
			}
		}
	})
}
