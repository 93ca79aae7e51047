package egress

import "k8s.io/apimachinery/pkg/util/validation/field"

// This file is for requests of the host itself, whose URLs are in a policy.

// EntryFor returns the entry that allows requests to a URL with a method. The error states what is
// wrong with the URL, without its text, which may have a password.
func EntryFor(url, method string) (Entry, error) {
	_, to, err := parseURL(url)
	if err != nil {
		return Entry{}, err
	}
	e := Entry{Host: to.authority(), Methods: []string{method}}
	if to.scheme == http1 {
		e.Scheme = http1
	}
	return e, nil
}

// Problems returns what is wrong with the entry, by the paths of its fields.
func (e Entry) Problems(at *field.Path) []error { return e.problems(at) }

// SendsCredentialInTheClear reports whether a credential would leave this machine without TLS.
func (e Entry) SendsCredentialInTheClear() bool {
	return e.Scheme == http1 && (!e.addresses().allLoopback() || e.Proxy != "")
}
