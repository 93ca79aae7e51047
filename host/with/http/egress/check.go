package egress

import (
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/http"
)

const (
	// MaxEntries bounds the entries of a policy. Each has connections of its own.
	MaxEntries = 128
	// maxList bounds the methods and the addresses of an entry.
	maxList = 64
)

// Problems returns what is wrong with entries, by their paths.
func (all Entries) Problems(at *field.Path) (problems []error) {
	if len(all) > MaxEntries {
		return []error{field.TooMany(at, len(all), MaxEntries)}
	}
	for i, e := range all {
		problems = append(problems, e.problems(at.Index(i))...)
	}
	return problems
}

func (e Entry) problems(at *field.Path) (problems []error) {
	invalid := func(name string, value any, text string) {
		problems = append(problems, field.Invalid(at.Child(name), value, text))
	}
	if e.Host == "" {
		problems = append(problems, field.Required(at.Child("host"), "name a host, such as api.example.com or api.example.com:8443"))
	} else if _, err := parsePattern(e.Host); err != nil {
		invalid("host", e.Host, oneLine(err))
	}
	if e.Scheme != "" && e.Scheme != https && e.Scheme != http1 {
		problems = append(problems, field.NotSupported(at.Child("scheme"), e.Scheme, []string{https, http1}))
	}
	if e.CA != "" {
		if _, err := parseCA([]byte(e.CA)); err != nil {
			problems = append(problems, field.Invalid(at.Child("ca"), field.OmitValueType{}, err.Error()))
		}
	}
	if e.Proxy != "" {
		if err := checkProxy(e.Proxy); err != "" {
			problems = append(problems, field.Invalid(at.Child("proxy"), field.OmitValueType{}, err)) // it may have a password
		}
	}
	return slices.Concat(problems, e.listProblems(at), e.credentialProblems(at))
}

// oneLine returns the text of an error that may have several.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", ": ") }

func (e Entry) listProblems(at *field.Path) (problems []error) {
	if e.Methods != nil && len(e.Methods) == 0 {
		problems = append(problems, field.Required(at.Child("methods"), "name a method, such as GET, or remove the line for GET"))
	}
	for name, n := range map[string]int{"methods": len(e.Methods), "addresses": len(e.Addresses)} {
		if n > maxList {
			return []error{field.TooMany(at.Child(name), n, maxList)}
		}
	}
	for i, method := range e.Methods {
		if err := contract.CheckMethod(method); err != nil {
			problems = append(problems, field.Invalid(at.Child("methods").Index(i), method, err.Error()))
		}
	}
	for i, text := range e.Addresses {
		if _, err := parseAddresses(text); err != nil {
			problems = append(problems, field.Invalid(at.Child("addresses").Index(i), text, err.Error()))
		}
	}
	return problems
}

func (e Entry) credentialProblems(at *field.Path) (problems []error) {
	if e.SecretRef == nil {
		if e.Header != "" {
			problems = append(problems, field.Forbidden(at.Child("header"), "is that of the credential of a secretRef: remove it, or name a Secret"))
		}
		return problems
	}
	ref := at.Child("secretRef")
	if !abi.ValidName(e.SecretRef.Namespace) {
		problems = append(problems, field.Invalid(ref.Child("namespace"), e.SecretRef.Namespace, "must be the namespace of a Secret"))
	}
	if len(validation.IsDNS1123Subdomain(e.SecretRef.Name)) > 0 {
		problems = append(problems, field.Invalid(ref.Child("name"), e.SecretRef.Name, "must be the name of a Secret"))
	}
	if e.pattern().hasWildcard() {
		problems = append(problems, field.Forbidden(ref, "a credential is for one host: name the host without a wildcard"))
	}
	if e.SendsCredentialInTheClear() {
		problems = append(problems, field.Forbidden(ref, "a credential is sent by https only, except without a proxy to this machine: remove the scheme, or write addresses: [loopback]"))
	}
	if e.Header != "" && (!httpguts.ValidHeaderFieldName(e.Header) || isReserved(e.Header)) {
		problems = append(problems, field.Invalid(at.Child("header"), e.Header, "must be the name of a header that a request may have, such as X-Api-Key"))
	}
	return problems
}

// checkProxy states what is wrong with the URL of a proxy, "" if nothing is.
func checkProxy(text string) string {
	switch u, _, err := parseURL(text); {
	case err != nil:
		return "must be the URL of a proxy, such as http://proxy.example.com:3128: " + err.Error()
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || strings.Contains(text, "#"):
		return "must be the URL of a proxy without a path, such as http://proxy.example.com:3128"
	}
	return ""
}

// proxyURL returns the URL of the proxy of an entry, nil if it has none.
func (e Entry) proxyURL() (*url.URL, target) {
	if e.Proxy == "" {
		return nil, target{}
	}
	u, t, _ := parseURL(e.Proxy) // the entry was checked
	return u, t
}

// parseCA parses certificates, and nothing else.
func parseCA(text []byte) (*x509.CertPool, error) {
	pool, n := x509.NewCertPool(), 0
	for rest := text; len(strings.TrimSpace(string(rest))) > 0; n++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || block.Type != "CERTIFICATE" {
			return nil, errCA
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errCA
		}
		pool.AddCert(certificate)
	}
	if n == 0 {
		return nil, errCA
	}
	return pool, nil
}
