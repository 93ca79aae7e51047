package explain

import (
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/host/sanitize"
)

// maxValue is how many bytes of a value are in a message.
const maxValue = 64

// ShortenValues returns the message of a refusal with its values shortened: the API server
// writes each in full, a whole Pod template with its environment, before it says why the value
// is refused. Of an object or a list that is too long nothing is left, of a text its beginning.
func ShortenValues(message string, refused metav1.Status) string {
	if refused.Details == nil {
		return message
	}
	for _, cause := range refused.Details.Causes {
		if short := shortenValue(cause.Message); short != cause.Message {
			message = strings.ReplaceAll(message, cause.Message, short)
		}
	}
	return message
}

// shortenValue shortens the value in the text of a cause, such as
//
//	Invalid value: {"metadata":{}}: field is immutable
//
// which is that of field.Error in k8s.io/apimachinery.
func shortenValue(text string) string {
	what, rest, _ := strings.Cut(text, ": ")
	n := valueLength(rest)
	if n <= maxValue {
		return text
	}
	short := "..."
	if rest[0] == '"' {
		short = sanitize.Truncate(rest[:n], maxValue) + `"`
	}
	return what + ": " + short + rest[n:]
}

// goType is the type of a value in the syntax of Go, up to its brace.
var goType = regexp.MustCompile(`^([\w.*&]|\[\w*\])+\{`)

// valueLength returns the length of the value that a text begins with: a quoted string, an object
// or a list, in JSON or as Go has it. It is 0 for other texts, such as a reason without a value.
func valueLength(text string) int {
	first := max(len(goType.FindString(text))-1, 0)
	if text == "" || strings.IndexByte(`"{[`, text[first]) < 0 {
		return 0
	}
	depth, quoted := 0, false
	for i := first; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case strings.IndexByte("{[(", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			depth--
		}
		if depth == 0 && !quoted {
			return i + 1
		}
	}
	return 0
}
