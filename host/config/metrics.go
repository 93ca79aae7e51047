package config

import (
	"net"
	"net/netip"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Metrics is how metrics, the states of the plugins and profiles are served.
type Metrics struct {
	// Secure serves them over TLS, to callers with a token who may get the path: a TokenReview and a
	// SubjectAccessReview decide. Probes need no token. The default is true, unless listen is a
	// loopback address. The flag --metrics-secure wins over it.
	Secure *bool `json:"secure,omitempty"`
	// Service is the Service by which they are collected: the certificate is for it. Default thole.
	Service string `json:"service,omitempty"`
	// Secret is where the certificate is kept, which the host makes and renews, and which all
	// replicas share; its authority is ca.crt there. Default thole-metrics.
	Secret string `json:"secret,omitempty"`
}

func (m *Metrics) setDefaults(listen string) {
	if m.Secure == nil {
		host, _, _ := net.SplitHostPort(listen) // a wrong address is an error elsewhere
		secure := !IsLoopback(host)
		m.Secure = &secure
	}
	if m.Service == "" {
		m.Service = "thole"
	}
	if m.Secret == "" {
		m.Secret = "thole-metrics"
	}
}

// IsLoopback reports whether nothing but this machine reaches a host, an address or a name.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// problems returns what is wrong with the fields, whose defaults are filled in.
func (m *Metrics) problems() (problems []error) {
	at := field.NewPath("metrics")
	if wrong := validation.IsDNS1035Label(m.Service); len(wrong) > 0 {
		problems = append(problems, field.Invalid(at.Child("service"), m.Service, wrong[0]))
	}
	if wrong := validation.IsDNS1123Subdomain(m.Secret); len(wrong) > 0 {
		problems = append(problems, field.Invalid(at.Child("secret"), m.Secret, wrong[0]))
	}
	return problems
}
