package inspect

import (
	"strings"

	"github.com/thole-dev/thole/abi"
)

// followed describes what a controller follows of a kind, such as
// "v1 Pod (labelSelector app=x; metadata only)".
func followed(w abi.Followed, more ...string) string {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+" "+value)
		}
	}
	add("namespaces", list(w.Namespaces))
	add("labelSelector", w.LabelSelector)
	add("fieldSelector", w.FieldSelector)
	if w.MetadataOnly {
		parts = append(parts, "metadata only")
	}
	if parts = append(parts, more...); parts == nil {
		return w.Kind.String()
	}
	return w.Kind.String() + " (" + strings.Join(parts, "; ") + ")"
}

func followedList(all []abi.Followed, more ...string) string {
	texts := make([]string, len(all))
	for i, w := range all {
		texts[i] = followed(w, more...)
	}
	return list(texts)
}

func watchList(all []abi.Watch) string {
	texts := make([]string, len(all))
	for i, w := range all {
		// One of key and field is empty, or both are.
		texts[i] = strings.TrimSpace(followed(w.Followed) + " by " + string(w.By) + " " + w.Key + w.Field)
	}
	return list(texts)
}
