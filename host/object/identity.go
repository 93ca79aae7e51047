package object

import "bytes"

// This file tells objects and their states apart, also those of APIs without uids or resourceVersions.

// IsStateOf reports whether two objects are the same one in the same state: of one uid and
// resourceVersion and, if its API has no resourceVersions, with the same text.
func (o *Object) IsStateOf(other *Object) bool {
	return o.UID == other.UID && o.ResourceVersion == other.ResourceVersion &&
		(o.ResourceVersion != "" || bytes.Equal(o.Raw, other.Raw))
}

// Identity stands for the object as long as it exists: one that is created again has another. Objects of
// some APIs have no uid, and have the same when they are created again under their name.
func (o *Object) Identity() Hash {
	if o.UID == "" {
		return HashOf("", o.Namespace, o.Name)
	}
	return HashOf(string(o.UID))
}
