package scenario

import (
	"os"
	"strconv"
	"strings"
)

// fault adds a rule to the proxy, or removes all.
func fault(s *script, args []string) error {
	if len(args) == 1 && args[0] == "clear" {
		return s.proxy.SetRules("")
	}
	if len(args) < 3 {
		return wrongUse("%d arguments", len(args))
	}
	return s.proxy.AddRules(rule(args))
}

// rule joins the words of a rule. A script has removed the quotes of words with
// spaces, which the proxy needs.
func rule(words []string) string {
	var quoted []string
	for _, w := range words {
		if key, value, ok := strings.Cut(w, "="); ok && strings.ContainsAny(value, " \t") && !strings.HasPrefix(value, `"`) {
			w = key + "=" + strconv.Quote(value)
		}
		quoted = append(quoted, w)
	}
	return strings.Join(quoted, " ")
}

// faults replaces all rules by those of a file.
func faults(s *script, args []string) error {
	if len(args) != 1 {
		return wrongUse("%d arguments", len(args))
	}
	text, err := os.ReadFile(s.path(args[0]))
	if err != nil {
		return err
	}
	return s.proxy.SetRules(strings.ReplaceAll(string(text), "$NS", s.namespace))
}
