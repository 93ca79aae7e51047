package abi

import (
	"cmp"
	"strings"

	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// The checks of what controllers follow, against spec/reads.md, "Followed kind" and "Watch".

// checkAllFollowed checks kinds with selectors. The kinds must be distinct.
func checkAllFollowed(field string, all []Followed) error {
	return cmp.Or(message.CheckEach(field, all, Followed.check), message.CheckDistinct(field, "", all, func(w Followed) string { return w.Kind.String() }))
}

// check does not check whether the label selector can be parsed, and whether the
// API server supports the fields: the host does.
func (w Followed) check() error {
	return cmp.Or(
		w.Kind.check(),
		message.CheckEach("namespaces", w.Namespaces, func(name string) error { return CheckName("", name) }),
		message.CheckDistinct("namespaces", "", w.Namespaces, func(name string) string { return name }),
		message.CheckLength("labelSelector", len(w.LabelSelector), MaxSelector),
		message.CheckLength("fieldSelector", len(w.FieldSelector), MaxSelector),
		rawjson.Within("fieldSelector", checkFieldSelector(w.FieldSelector)),
	)
}

// checkWatches refuses two entries of a kind that name the same primaries: which of
// their selectors counts?
func (c Controller) checkWatches() error {
	return cmp.Or(
		message.CheckEach("watches", c.Watches, c.checkWatch),
		message.CheckDistinct("watches", "", c.Watches, func(w Watch) string {
			return strings.TrimSpace(w.Kind.String() + " by " + string(w.By) + " " + w.Key + w.Field)
		}),
	)
}

func (c Controller) checkWatch(w Watch) error {
	if err := w.Followed.check(); err != nil {
		return err
	}
	switch w.By {
	case WatchByOwner:
		return cmp.Or(checkUnused("key", w.Key, w.By), checkUnused("field", w.Field, w.By))
	case WatchByLabel, WatchByAnnotation:
		return cmp.Or(checkUnused("field", w.Field, w.By), checkLabelKey("key", w.Key))
	case WatchByField:
		return cmp.Or(checkUnused("key", w.Key, w.By), CheckPath("field", w.Field, "spec.secretRef.name"), c.checkPrimaryField(w.Field))
	}
	return rawjson.NewError("by", rawjson.Quote(string(w.By))+" is not one of owner, label, annotation, field")
}

// checkLabelKey checks the name of a label or annotation: a name with, optionally, a
// domain and a slash before it.
func checkLabelKey(field, key string) error {
	domain, name, prefixed := strings.Cut(key, "/")
	if !prefixed {
		domain, name = "", key
	}
	switch {
	case key == "":
		return rawjson.NewError(field, "is required, such as app.kubernetes.io/instance")
	case len(name) > maxLabelName || len(domain) > maxLabelDomain || !LabelName(name) || prefixed && !dnsSubdomain(domain):
		return rawjson.NewError(field, rawjson.Quote(key)+" is not the name of a label or annotation, such as app.kubernetes.io/instance")
	}
	return nil
}

// Lengths of the two parts of the name of a label.
const (
	maxLabelDomain = 253
	maxLabelName   = 63
)

func checkUnused(field, value string, by WatchBy) error {
	if value == "" {
		return nil
	}
	return rawjson.NewError(field, "has no effect by "+string(by))
}

// checkPrimaryField refuses a field that is not kept of the primaries.
func (c Controller) checkPrimaryField(path string) error {
	if !c.For.MetadataOnly || isMetadata(path) {
		return nil
	}
	return rawjson.NewError("field", rawjson.Quote(path)+" is not in the metadata of the primary, of which for.metadataOnly keeps nothing else")
}

func isMetadata(path string) bool { return strings.HasPrefix(path, "metadata.") }

// readsMetadataOnly reports whether nothing but metadata can be read of a kind.
func (c Controller) readsMetadataOnly(kind Kind) bool {
	for w := range c.Follows() {
		if w.Kind == kind && !w.MetadataOnly {
			return false
		}
	}
	return true
}

// checkMetadataOnly refuses conditions of a primary whose status is not kept.
func (c Controller) checkMetadataOnly() error {
	if !c.For.MetadataOnly || c.Conditions.IsZero() {
		return nil
	}
	return rawjson.NewError("conditions", "cannot be set beside for.metadataOnly: the host does not keep the status that they are part of")
}

// checkOwned refuses a selection of what is owned: what a controller applies is what
// it has to follow.
func checkOwned(w Followed) error {
	for _, selected := range []struct {
		field string
		used  bool
	}{{"namespaces", len(w.Namespaces) > 0}, {"labelSelector", w.LabelSelector != ""}, {"fieldSelector", w.FieldSelector != ""}} {
		if selected.used {
			return rawjson.NewError(selected.field, "cannot be used in owns: everything that the plugin owns is followed, and nothing else with managed of the manifest")
		}
	}
	return nil
}
