package inspect

import (
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache/scope"
)

func followedList(all []abi.Followed, more ...string) string {
	texts := make([]string, len(all))
	for i, w := range all {
		texts[i] = scope.Describe(w, more...)
	}
	return list(texts)
}

func watchList(all []abi.Watch) string {
	texts := make([]string, len(all))
	for i, w := range all {
		// One of key and field is empty, or both are.
		texts[i] = strings.TrimSpace(scope.Describe(w.Followed) + " by " + string(w.By) + " " + w.Key + w.Field)
	}
	return list(texts)
}
