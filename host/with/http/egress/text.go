package egress

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/thole-dev/thole/host/rights"
)

// String returns the entries as YAML, on one line.
func (all Entries) String() string {
	texts := make([]string, len(all))
	for i, e := range all {
		texts[i] = e.String()
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// String returns the entry as YAML, on one line.
func (e Entry) String() string { return "{" + strings.Join(e.Fields(), ", ") + "}" }

// Fields returns the fields of the entry as YAML.
func (e Entry) Fields() (fields []string) {
	add := func(name, value string) {
		if value != "" {
			fields = append(fields, name+": "+value)
		}
	}
	text := func(name, value string) {
		if value != "" {
			add(name, rights.Quote(value))
		}
	}
	text("host", e.Host)
	text("scheme", e.Scheme)
	add("methods", list(e.methods()))
	if e.SecretRef != nil {
		add("secretRef", fmt.Sprintf("{namespace: %s, name: %s}", rights.Quote(e.SecretRef.Namespace), rights.Quote(e.SecretRef.Name)))
	}
	text("header", e.Header)
	if e.CA != "" {
		add("ca", strconv.Quote(e.CA))
	}
	if len(e.Addresses) > 0 {
		add("addresses", list(e.Addresses))
	}
	text("proxy", e.Proxy)
	return fields
}

func list(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = rights.Quote(v)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
