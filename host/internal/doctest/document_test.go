package doctest

import (
	"fmt"
	"regexp"
	"strings"
)

// step is a fenced block of a document, or a comment for this package that stands
// alone.
type step struct {
	line      int    // of the document, from 1
	directive string // of the comment; "" if there is none
	language  string // of the block; "" if there is no block
	intro     string // the last line of text before the block
	text      string // of the block, with a newline after each line
}

var (
	directivePattern = regexp.MustCompile(`^<!-- doctest: (.+) -->$`)
	fencePattern     = regexp.MustCompile("^ *(```+)(.*)$")
	// namedFile matches the end of a line that names a file, such as
	// "Write `main.go`:".
	namedFile = regexp.MustCompile("`([^`]+)`:$")
)

// parse returns the steps of a document.
func parse(document string) (steps []step, err error) {
	var intro, directive string
	var directiveLine int
	alone := func() {
		if directive != "" {
			steps = append(steps, step{line: directiveLine, directive: directive})
		}
		directive = ""
	}
	lines := strings.Split(document, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		if m := directivePattern.FindStringSubmatch(line); m != nil {
			alone()
			directive, directiveLine = m[1], i+1
			continue
		}
		m := fencePattern.FindStringSubmatch(lines[i])
		if m == nil {
			if line != "" {
				alone()
				intro = line
			}
			continue
		}
		s := step{line: i + 1, directive: directive, language: m[2], intro: intro}
		for i++; strings.TrimSpace(lines[i]) != m[1]; i++ {
			if i+1 == len(lines) {
				return nil, fmt.Errorf("line %d: the block has no end", s.line)
			}
			s.text += lines[i] + "\n"
		}
		steps = append(steps, s)
		directive, intro = "", ""
	}
	alone()
	return steps, nil
}

// file returns the file that the text before a block names.
func (s step) file() (string, bool) {
	m := namedFile.FindStringSubmatch(s.intro)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// applyDiff changes a text by a diff without positions: hunks are separated by
// lines that begin with @@.
func applyDiff(text, diff string) (string, error) {
	for _, hunk := range regexp.MustCompile(`(?m)^@@.*\n`).Split(diff, -1) {
		var before, after strings.Builder
		for line := range strings.Lines(hunk) {
			kept := strings.TrimPrefix(line, " ")
			switch line[0] {
			case '-':
				before.WriteString(line[1:])
			case '+':
				after.WriteString(line[1:])
			default:
				before.WriteString(kept)
				after.WriteString(kept)
			}
		}
		if n := strings.Count(text, before.String()); n != 1 {
			return "", fmt.Errorf("these lines are in the file %d times instead of once:\n%s", n, before.String())
		}
		text = strings.Replace(text, before.String(), after.String(), 1)
	}
	return text, nil
}

// masks hide what differs each time.
var masks = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)`), "TIME"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "TIME"},
	{regexp.MustCompile(`\b([0-9a-f]{64}|[0-9a-f]{12})\b`), "DIGEST"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`(/[\w.~-]+)*/thole-dev-\w+`), "DIRECTORY"},
	{regexp.MustCompile(`\b\d+(\.\d+)? (KiB|MiB)\b`), "SIZE"},
	{regexp.MustCompile(`\b(\d+(\.\d+)? m?s|\d+(\.\d+)?m?s|(\d+h)?(\d+m)?\d+s)\b`), "DURATION"},
	{regexp.MustCompile(`[ \t]+`), " "},
}

func mask(line string) string {
	for _, m := range masks {
		line = m.pattern.ReplaceAllString(line, m.with)
	}
	return strings.TrimSpace(line)
}

const ellipsis = "…"

// missing returns the lines of expected that are not in the output.
func missing(expected, output string) (lines []string) {
	have := map[string]bool{}
	for line := range strings.Lines(output) {
		have[mask(line)] = true
	}
	for line := range strings.Lines(expected) {
		want := mask(line)
		if want != "" && want != ellipsis && !have[want] && !matchesAny(want, have) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func matchesAny(want string, have map[string]bool) bool {
	if !strings.Contains(want, ellipsis) {
		return false
	}
	parts := strings.Split(want, ellipsis)
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	pattern := regexp.MustCompile("^" + strings.Join(parts, ".*") + "$")
	for line := range have {
		if pattern.MatchString(line) {
			return true
		}
	}
	return false
}
