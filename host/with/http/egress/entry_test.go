package egress

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/http"
)

func TestEntryThatIsNotValidIsRefused(t *testing.T) {
	secret := &SecretRef{Namespace: "n", Name: "s"}
	for _, test := range []struct {
		entry Entry
		want  string // "": nothing is wrong
	}{
		{Entry{Host: "api.example.com"}, ""},
		{Entry{Host: "*"}, ""},
		{Entry{Host: "*:8443"}, ""},
		{Entry{Host: "*.example.com:8443", Methods: []string{"GET", "POST"}, Addresses: []string{"loopback", "private", "link-local", "10.0.0.0/8", "169.254.169.254/32", "fd00::/8"}}, ""},
		{Entry{Host: "[2001:db8::1]:8443", SecretRef: secret, Header: "X-Api-Key", Proxy: "https://proxy.example.com:3128"}, ""},
		{Entry{Host: "localhost:8080", Scheme: "http", SecretRef: secret, Addresses: []string{"127.0.0.0/8", "::1/128"}}, ""},
		{Entry{}, "http[0].host: Required value: name a host"},
		{Entry{Host: "API.example.com"}, `http[0].host: Invalid value: "API.example.com": must be a host in lower case`},
		{Entry{Host: "https://api.example.com"}, "http[0].host: Invalid value"},
		{Entry{Host: "api.example.com/v1"}, "http[0].host: Invalid value"},
		{Entry{Host: "api.example.com."}, "http[0].host: Invalid value"},
		{Entry{Host: "bücher.example"}, "http[0].host: Invalid value"},
		{Entry{Host: "127.1"}, "http[0].host: Invalid value"},
		{Entry{Host: "*.127.0.0.1"}, "http[0].host: Invalid value"},
		{Entry{Host: "a.*.example.com"}, "http[0].host: Invalid value"},
		{Entry{Host: "*example.com"}, "http[0].host: Invalid value"},
		{Entry{Host: "*."}, "http[0].host: Invalid value"},
		{Entry{Host: "user@example.com"}, "http[0].host: Invalid value"},
		{Entry{Host: "[fe80::1%eth0]"}, "http[0].host: Invalid value"},
		{Entry{Host: "[127.0.0.1]"}, "the host in brackets is not an IPv6 address"},
		{Entry{Host: "[::1"}, "the host in brackets is not an IPv6 address"},
		{Entry{Host: "2001:db8::1"}, "http[0].host: Invalid value"},
		{Entry{Host: "example.com:0"}, "the port must be a number between 1 and 65535"},
		{Entry{Host: "example.com:"}, "the port must be a number between 1 and 65535"},
		{Entry{Host: "example.com:99999"}, "the port must be a number between 1 and 65535"},
		{Entry{Host: "example.com:*"}, "the port must be a number between 1 and 65535"},
		{Entry{Host: "a", Scheme: "HTTPS"}, `http[0].scheme: Unsupported value: "HTTPS": supported values: "https", "http"`},
		{Entry{Host: "a", Methods: []string{}}, "http[0].methods: Required value"},
		{Entry{Host: "a", Methods: []string{"GET", "get"}}, `http[0].methods[1]: Invalid value: "get": "get" is not a method in upper case, such as PUT`},
		{Entry{Host: "a", Methods: []string{"CONNECT"}}, `http[0].methods[0]: Invalid value: "CONNECT": CONNECT is not supported: use GET`},
		{Entry{Host: "a", Methods: make([]string, 65)}, "http[0].methods: Too many: 65: must have at most 64 items"},
		{Entry{Host: "a", Addresses: make([]string, 65)}, "http[0].addresses: Too many"},
		{Entry{Host: "a", Addresses: []string{"public"}}, `http[0].addresses[0]: Invalid value: "public": must be loopback, private, link-local or a CIDR`},
		{Entry{Host: "a", Addresses: []string{"10.0.0.1"}}, "must be loopback, private"},
		{Entry{Host: "a", Addresses: []string{"10.0.0.1/8"}}, "must be a CIDR without bits behind its prefix, such as 10.0.0.0/8"},
		{Entry{Host: "a", Addresses: []string{"::ffff:10.0.0.0/104"}}, "must be a CIDR of IPv4"},
		{Entry{Host: "a", Header: "X"}, "http[0].header: Forbidden: is that of the credential of a secretRef"},
		{Entry{Host: "a", SecretRef: secret, Header: "X Y"}, `http[0].header: Invalid value: "X Y"`},
		{Entry{Host: "a", SecretRef: secret, Header: "host"}, `http[0].header: Invalid value: "host"`},
		{Entry{Host: "a", SecretRef: secret, Header: "Proxy-Authorization"}, "http[0].header: Invalid value"},
		{Entry{Host: "a", SecretRef: &SecretRef{Namespace: "N", Name: "s"}}, `http[0].secretRef.namespace: Invalid value: "N"`},
		{Entry{Host: "a", SecretRef: &SecretRef{Namespace: "n", Name: ""}}, `http[0].secretRef.name: Invalid value: ""`},
		{Entry{Host: "a", SecretRef: &SecretRef{Namespace: "n", Name: "../s"}}, "http[0].secretRef.name: Invalid value"},
		{Entry{Host: "*", SecretRef: secret}, "http[0].secretRef: Forbidden: a credential is for one host"},
		{Entry{Host: "*.a", SecretRef: secret}, "http[0].secretRef: Forbidden: a credential is for one host"},
		{Entry{Host: "a", Scheme: "http", SecretRef: secret}, "http[0].secretRef: Forbidden: a credential is sent by https only"},
		{Entry{Host: "a", Scheme: "http", SecretRef: secret, Addresses: []string{"loopback", "private"}}, "sent by https only"},
		{Entry{Host: "a", Scheme: "http", SecretRef: secret, Addresses: []string{"126.0.0.0/7"}}, "sent by https only"},
		{Entry{Host: "a", Scheme: "http", SecretRef: secret, Addresses: []string{"loopback"}, Proxy: "http://p"}, "sent by https only"},
		{Entry{Host: "a", CA: "x"}, "http[0].ca: Invalid value: must be certificates as PEM"},
		{Entry{Host: "a", CA: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}, "must be certificates as PEM"},
		{Entry{Host: "a", CA: "\n"}, "must be certificates as PEM"},
		{Entry{Host: "a", Proxy: "proxy:3128"}, "http[0].proxy: Invalid value: must be the URL of a proxy"},
		{Entry{Host: "a", Proxy: "socks5://proxy"}, "must be the URL of a proxy"},
		{Entry{Host: "a", Proxy: "http://proxy/path"}, "must be the URL of a proxy without a path"},
		{Entry{Host: "a", Proxy: "http://proxy?x"}, "must be the URL of a proxy without a path"},
		{Entry{Host: "a", Proxy: "http://somebody:verysecret@proxy"}, "must have no user or password"},
	} {
		problems := Entries{test.entry}.Problems(field.NewPath("http"))
		text := fmt.Sprint(problems)
		if test.want == "" && len(problems) > 0 || !strings.Contains(text, test.want) || strings.Contains(text, "verysecret") {
			t.Errorf("%+v: %s, want %s", test.entry, text, test.want)
		}
	}
	if problems := make(Entries, 129).Problems(field.NewPath("http")); len(problems) != 1 || !strings.Contains(problems[0].Error(), "http: Too many: 129") {
		t.Error(problems)
	}
	key := "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
	if problems := (Entries{{Host: "a", CA: newAuthority(t).pem + key}}).Problems(field.NewPath("http")); len(problems) != 1 || strings.Contains(problems[0].Error(), "AAAA") {
		t.Error(problems)
	}
}

func TestEntryCovers(t *testing.T) {
	secret, other := &SecretRef{Namespace: "n", Name: "s"}, &SecretRef{Namespace: "n", Name: "t"}
	get := []string{"GET"}
	for _, test := range []struct {
		name         string
		ceiling      Entries
		entry        Entry
		want         bool
		reverseFails bool
	}{
		{"the same", Entries{{Host: "a.b", Methods: get}}, Entry{Host: "a.b"}, true, false},
		{"no entries", nil, Entry{Host: "a.b"}, false, false},
		{"another host", Entries{{Host: "a.c"}}, Entry{Host: "a.b"}, false, false},
		{"another port", Entries{{Host: "a.b"}}, Entry{Host: "a.b:444"}, false, false},
		{"port of the scheme", Entries{{Host: "a.b"}}, Entry{Host: "a.b:443"}, true, false},
		{"another scheme", Entries{{Host: "a.b"}}, Entry{Host: "a.b", Scheme: "http"}, false, false},
		{"another scheme at the same port", Entries{{Host: "a.b:8443"}}, Entry{Host: "a.b:8443", Scheme: "http"}, false, false},
		{"every host", Entries{{Host: "*"}}, Entry{Host: "a.b"}, true, true},
		{"every host is not at every port", Entries{{Host: "*"}}, Entry{Host: "a.b:444"}, false, false},
		{"wildcard", Entries{{Host: "*.b"}}, Entry{Host: "a.b"}, true, true},
		{"wildcard is not the name", Entries{{Host: "*.b"}}, Entry{Host: "b"}, false, false},
		{"wildcard of another name", Entries{{Host: "*.b"}}, Entry{Host: "ab"}, false, false},
		{"wildcard of a wildcard", Entries{{Host: "*.b"}}, Entry{Host: "*.a.b"}, true, true},
		{"address in a wildcard", Entries{{Host: "*.b"}}, Entry{Host: "192.0.2.1"}, false, false},
		{"address", Entries{{Host: "*"}}, Entry{Host: "192.0.2.1"}, true, true},
		{"more methods", Entries{{Host: "a.b", Methods: []string{"GET", "POST"}}}, Entry{Host: "a.b", Methods: []string{"POST"}}, true, true},
		{"methods of several", Entries{{Host: "*"}, {Host: "a.b", Methods: []string{"POST"}}}, Entry{Host: "a.b", Methods: []string{"GET", "POST"}}, true, true},
		{"Secret", Entries{{Host: "a.b", SecretRef: secret}}, Entry{Host: "a.b"}, true, true},
		{"Secret by http, which is for loopback alone", Entries{{Host: "a.b", Scheme: "http", SecretRef: secret, Addresses: []string{"loopback"}}}, Entry{Host: "a.b", Scheme: "http"}, false, true},
		{"Secret by http", Entries{{Host: "a.b", Scheme: "http", SecretRef: secret, Addresses: []string{"loopback"}}}, Entry{Host: "a.b", Scheme: "http", SecretRef: secret, Addresses: []string{"127.0.0.0/8"}}, true, true},
		{"address of a Secret by http", Entries{{Host: "127.0.0.1:80", Scheme: "http", SecretRef: secret, Addresses: []string{"loopback"}}}, Entry{Host: "127.0.0.1:80", Scheme: "http", Addresses: []string{"127.0.0.0/8"}}, true, true},
		{"public address of a Secret by http", Entries{{Host: "8.8.8.8", Scheme: "http", SecretRef: secret, Addresses: []string{"loopback"}}}, Entry{Host: "8.8.8.8", Scheme: "http"}, false, true},
		{"another Secret", Entries{{Host: "a.b", SecretRef: other}}, Entry{Host: "a.b", SecretRef: secret}, false, false},
		{"Secret for a method of another entry", Entries{{Host: "a.b", SecretRef: secret}, {Host: "a.b", Methods: []string{"POST"}}}, Entry{Host: "a.b", Methods: []string{"POST"}, SecretRef: secret}, false, false},
		{"another header", Entries{{Host: "a.b", SecretRef: secret}}, Entry{Host: "a.b", SecretRef: secret, Header: "X"}, false, false},
		{"another authority for a Secret", Entries{{Host: "a.b", SecretRef: secret}}, Entry{Host: "a.b", SecretRef: secret, CA: "x"}, false, false},
		{"another authority", Entries{{Host: "a.b"}}, Entry{Host: "a.b", CA: "x"}, true, true},
		{"proxy", Entries{{Host: "a.b"}}, Entry{Host: "a.b", Proxy: "http://p"}, false, false},
		{"another proxy", Entries{{Host: "a.b", Proxy: "http://q"}}, Entry{Host: "a.b", Proxy: "http://p"}, false, false},
		{"addresses", Entries{{Host: "a.b", Addresses: []string{"private"}}}, Entry{Host: "a.b"}, true, true},
		{"addresses of a word", Entries{{Host: "a.b", Addresses: []string{"private"}}}, Entry{Host: "a.b", Addresses: []string{"10.1.0.0/16", "fd00::/8"}}, true, true},
		{"another word", Entries{{Host: "a.b", Addresses: []string{"private"}}}, Entry{Host: "a.b", Addresses: []string{"loopback"}}, false, false},
		{"larger", Entries{{Host: "a.b", Addresses: []string{"10.0.0.0/8"}}}, Entry{Host: "a.b", Addresses: []string{"10.0.0.0/7"}}, false, false},
		{"part of a word", Entries{{Host: "a.b", Addresses: []string{"10.0.0.0/8"}}}, Entry{Host: "a.b", Addresses: []string{"private"}}, false, false},
		{"metadata", Entries{{Host: "a.b", Addresses: []string{"link-local", "0.0.0.0/0"}}}, Entry{Host: "a.b", Addresses: []string{"169.254.169.254/32"}}, false, false},
		{"public metadata", Entries{{Host: "a.b", Addresses: []string{"168.63.129.0/24"}}}, Entry{Host: "a.b", Addresses: []string{"168.63.129.16/32"}}, false, false},
		{"metadata by itself", Entries{{Host: "a.b", Addresses: []string{"169.254.169.254/32"}}}, Entry{Host: "a.b", Addresses: []string{"169.254.169.254/32"}}, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.ceiling.Cover(test.entry); got != test.want {
				t.Errorf("covered %v", got)
			}
			if test.reverseFails && (Entries{test.entry}).Cover(test.ceiling[0]) {
				t.Error("covered the other way round as well")
			}
		})
	}
}

func TestMissingEntries(t *testing.T) {
	for _, test := range []struct {
		name     string
		entries  Entries
		declared []contract.Host
		want     string
	}{
		{"nothing declared", nil, nil, "[]"},
		{"host", nil, []contract.Host{{Host: "a.b"}, {Host: "c.d:8443", Methods: []string{"POST", "GET"}}}, "[{host: a.b, methods: [GET]}, {host: 'c.d:8443', methods: [POST, GET]}]"},
		{"host twice", nil, []contract.Host{{Host: "a.b"}, {Host: "a.b:443"}}, "[{host: a.b, methods: [GET]}]"},
		{"allowed", Entries{{Host: "a.b"}}, []contract.Host{{Host: "a.b"}}, "[]"},
		{"allowed by http", Entries{{Host: "a.b", Scheme: "http"}}, []contract.Host{{Host: "a.b"}}, "[]"},
		{"allowed by a wildcard", Entries{{Host: "*.b"}}, []contract.Host{{Host: "a.b"}}, "[]"},
		{"other port", Entries{{Host: "a.b"}}, []contract.Host{{Host: "a.b:80"}}, "[{host: 'a.b:80', methods: [GET]}]"},
		{"method", Entries{{Host: "a.b"}}, []contract.Host{{Host: "a.b", Methods: []string{"GET", "PUT"}}}, "[{host: a.b, methods: [PUT]}]"},
		{"methods of several", Entries{{Host: "a.b"}, {Host: "a.b", Scheme: "http", Methods: []string{"PUT"}}}, []contract.Host{{Host: "a.b", Methods: []string{"GET", "PUT"}}}, "[]"},
		{"every host", nil, []contract.Host{{Host: "*", Methods: []string{"PUT"}}}, "[{host: '*', methods: [PUT]}]"},
		{"some of every host", Entries{{Host: "a.b:8443"}}, []contract.Host{{Host: "*", Methods: []string{"PUT", "GET"}}}, "[]"},
		{"no method of every host", Entries{{Host: "a.b"}}, []contract.Host{{Host: "*", Methods: []string{"PUT"}}}, "[{host: '*', methods: [PUT]}]"},
		{"some of a wildcard", Entries{{Host: "x.a.b"}}, []contract.Host{{Host: "*.b"}}, "[]"},
		{"wildcard of a wildcard", Entries{{Host: "*.a.b"}}, []contract.Host{{Host: "*.b"}}, "[]"},
		{"wildcard above", Entries{{Host: "*"}}, []contract.Host{{Host: "*.b"}}, "[]"},
		{"none of a wildcard", Entries{{Host: "a.c"}}, []contract.Host{{Host: "*.b"}}, "[{host: '*.b', methods: [GET]}]"},
		{"address", Entries{{Host: "*.1"}}, []contract.Host{{Host: "192.0.2.1"}}, "[{host: '192.0.2.1', methods: [GET]}]"},
		{"host that is none", Entries{{Host: "*"}}, []contract.Host{{Host: "127.1"}}, "[{host: '127.1', methods: [GET]}]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := &abi.Manifest{Controllers: []abi.Controller{{Sections: []abi.Section{{Name: contract.Name, Value: contract.Encode(test.declared)}}}}}
			missing := test.entries.Missing(m)
			if missing.String() != test.want {
				t.Errorf("%s, want %s", missing, test.want)
			}
			if test.want == "[{host: '127.1', methods: [GET]}]" {
				return
			}
			if again := append(test.entries, missing...).Missing(m); again != nil {
				t.Errorf("%s is missing still", again)
			}
			some, complete := missing.WithoutWildcards()
			if wildcard := strings.Contains(test.want, "*"); complete == wildcard || wildcard != (len(some) < len(missing)) {
				t.Errorf("%s, %v", some, complete)
			}
		})
	}
}

func TestEntryAsTextIsRead(t *testing.T) {
	all := Entries{
		{Host: "*", Methods: []string{"GET"}},
		{Host: "[::1]:8080", Scheme: "http", Methods: []string{"GET", "POST"}, SecretRef: &SecretRef{Namespace: "1", Name: "yes"}, Header: "X-Key", CA: "a: 'b'\n\"c\"", Addresses: []string{"loopback", "::1/128"}, Proxy: "http://p:1"},
	}
	var read struct{ HTTP Entries }
	if err := yaml.UnmarshalStrict([]byte("http: "+all.String()), &read); err != nil || !reflect.DeepEqual(read.HTTP, all) {
		t.Errorf("%s is read as %+v, %v", all, read.HTTP, err)
	}
	if refs := append(all, all...).Secrets(); len(refs) != 1 || refs[0].Name != "yes" {
		t.Error(refs)
	}
}
