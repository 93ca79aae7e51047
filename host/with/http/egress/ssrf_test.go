package egress

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	contract "github.com/thole-dev/thole/abi/http"
)

// public is an address that every entry allows.
const public = "93.184.216.34"

// ssrf are requests by which a plugin, or a server that it trusts, tries to reach what is inside of the
// network. reaches has the address that is dialled if the entry allows all addresses; ""
// if the text is no URL of the plugin's in the first place.
var ssrf = []struct {
	name    string
	url     string
	reaches string
}{
	// Addresses as they are.
	{"loopback", "http://127.0.0.1/", "127.0.0.1:80"},
	{"loopback, another one", "http://127.1.2.3/", "127.1.2.3:80"},
	{"loopback, IPv6", "http://[::1]/", "[::1]:80"},
	{"loopback, IPv6 in full", "http://[0000:0000:0000:0000:0000:0000:0000:0001]/", "[::1]:80"},
	{"unspecified", "http://0.0.0.0/", "0.0.0.0:80"},
	{"unspecified, IPv6", "http://[::]/", "[::]:80"},
	{"this network", "http://0.1.2.3/", "0.1.2.3:80"},
	{"private, 10/8", "https://10.1.2.3/", "10.1.2.3:443"},
	{"private, 172.16/12", "https://172.31.255.254/", "172.31.255.254:443"},
	{"private, 192.168/16", "https://192.168.0.1/", "192.168.0.1:443"},
	{"unique local", "https://[fd12:3456::1]/", "[fd12:3456::1]:443"},
	{"site local", "https://[fec0::1]/", "[fec0::1]:443"},
	{"link-local", "http://169.254.1.1/", "169.254.1.1:80"},
	{"link-local, IPv6", "http://[fe80::1]/", "[fe80::1]:80"},
	{"carrier NAT", "https://100.64.0.1/", "100.64.0.1:443"},
	{"multicast", "http://224.0.0.1/", "224.0.0.1:80"},
	{"multicast, IPv6", "http://[ff02::1]/", "[ff02::1]:80"},
	{"broadcast", "http://255.255.255.255/", "255.255.255.255:80"},
	{"reserved", "http://240.0.0.1/", "240.0.0.1:80"},
	{"benchmark", "http://198.18.0.1/", "198.18.0.1:80"},
	{"documentation", "http://203.0.113.7/", "203.0.113.7:80"},
	{"documentation, IPv6", "http://[2001:db8::1]/", "[2001:db8::1]:80"},
	{"protocol assignments", "http://192.0.0.8/", "192.0.0.8:80"},
	{"discard", "http://[100::1]/", "[100::1]:80"},
	{"segment routing", "http://[5f00::1]/", "[5f00::1]:80"},
	{"not assigned", "http://[4000::1]/", "[4000::1]:80"},

	// Metadata services.
	{"metadata", "http://169.254.169.254/latest/meta-data/", "169.254.169.254:80"},
	{"metadata of ECS", "http://169.254.170.2/v2/credentials", "169.254.170.2:80"},
	{"metadata of EKS", "http://169.254.170.23/v1/credentials", "169.254.170.23:80"},
	{"metadata of Alibaba", "http://100.100.100.200/", "100.100.100.200:80"},
	{"metadata of Azure, a public address", "http://168.63.129.16/", "168.63.129.16:80"},
	{"metadata of Oracle", "http://192.0.0.192/", "192.0.0.192:80"},
	{"metadata by IPv6", "http://[fd00:ec2::254]/", "[fd00:ec2::254]:80"},
	{"metadata of Google by IPv6", "http://[fd20:ce::254]/", "[fd20:ce::254]:80"},
	{"metadata of OpenStack by IPv6", "http://[fe80::a9fe:a9fe]/", "[fe80::a9fe:a9fe]:80"},
	{"metadata mapped", "http://[::ffff:169.254.169.254]/", "169.254.169.254:80"},

	// IPv4 addresses in IPv6 form.
	{"mapped", "http://[::ffff:127.0.0.1]/", "127.0.0.1:80"},
	{"mapped in hex", "http://[::ffff:7f00:1]/", "127.0.0.1:80"},
	{"compatible", "http://[::127.0.0.1]/", "[::7f00:1]:80"},
	{"translated", "http://[::ffff:0:10.0.0.1]/", "[::ffff:0:a00:1]:80"},
	{"NAT64", "http://[64:ff9b::10.0.0.1]/", "[64:ff9b::a00:1]:80"},
	{"NAT64 to metadata", "http://[64:ff9b::a9fe:a9fe]/", "[64:ff9b::a9fe:a9fe]:80"},
	{"NAT64 of a network", "http://[64:ff9b:1::a00:1]/", "[64:ff9b:1::a00:1]:80"},
	{"6to4", "http://[2002:7f00:1::]/", "[2002:7f00:1::]:80"},
	{"Teredo", "http://[2001:0:5db8:d822::f5ff:fffe]/", "[2001:0:5db8:d822:0:0:f5ff:fffe]:80"},
	{"ISATAP", "http://[2a00::5efe:10.0.0.1]/", "[2a00::5efe:a00:1]:80"},

	// Other forms of IPv4 addresses, which some resolvers read.
	{"decimal", "http://2130706433/", ""},
	{"octal", "http://0177.0.0.1/", ""},
	{"octal in the last part", "http://127.0.0.01/", ""},
	{"octal, one number", "http://017700000001/", ""},
	{"hexadecimal", "http://0x7f.0.0.1/", ""},
	{"hexadecimal in the last part", "http://127.0.0.0x1/", ""},
	{"hexadecimal, one number", "http://0x7f000001/", ""},
	{"hexadecimal in upper case", "http://0X7F000001/", ""},
	{"hexadecimal, empty", "http://127.0.0.0x/", ""},
	{"two parts", "http://127.1/", ""},
	{"three parts", "http://127.0.1/", ""},
	{"five parts", "http://127.0.0.1.1/", ""},
	{"overflow", "http://256.0.0.1/", ""},
	{"overflow of the last part", "http://127.0.256/", ""},
	{"zero", "http://0/", ""},
	{"dot after an address", "http://127.0.0.1./", "127.0.0.1:80"},
	{"dot after a number", "http://2130706433./", ""},

	// Other characters.
	{"full-width digits", "http://１２７.０.０.１/", "127.0.0.1:80"},
	{"circled digits", "http://①②⑦.⓪.⓪.①/", "127.0.0.1:80"},
	{"circled digits, decimal", "http://②①③⓪⑦⓪⑥④③③/", ""},
	{"ideographic dots", "http://127。0。0。1/", "127.0.0.1:80"},
	{"half-width dots", "http://127｡0｡0｡1/", "127.0.0.1:80"},
	{"full-width dots", "http://127．0．0．1/", "127.0.0.1:80"},
	{"escaped ideographic dots", "http://127%E3%80%820%E3%80%820%E3%80%821/", "127.0.0.1:80"},
	{"full-width name", "http://ｌｏｃａｌｈｏｓｔ/", "127.0.0.1:80"},
	{"circled name", "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/", "127.0.0.1:80"},
	{"soft hyphen", "http://local\u00adhost/", "127.0.0.1:80"},
	{"zero width space", "http://127.0.0.1\u200b/", "127.0.0.1:80"},
	{"escaped digits", "http://%31%32%37.0.0.1/", ""},
	{"byte that is not UTF-8", "http://127.0.0.1\xff/", ""},
	{"right to left", "http://\u202e1.0.0.721/", ""},
	{"punycode of ASCII", "http://xn--localhost-/", ""},
	{"punycode that is none", "http://xn--a\u00e9/", ""},

	// Names.
	{"localhost", "http://localhost/", "127.0.0.1:80"},
	{"localhost in upper case", "http://LOCALHOST/", "127.0.0.1:80"},
	{"localhost with a dot", "http://localhost./", "127.0.0.1:80"},
	{"localhost with two dots", "http://localhost../", ""},
	{"name with a private address", "http://private.test/", "10.0.0.1:80"},
	{"name with a private address and a dot", "http://private.test./", "10.0.0.1:80"},
	{"name in upper case with a private address", "http://PRIVATE.TEST/", "10.0.0.1:80"},
	{"name with a loopback address, IPv6", "http://loopback6.test/", "[::1]:80"},
	{"name with a mapped address", "http://mapped.test/", "10.0.0.1:80"},
	{"name with the metadata address", "http://metadata.test/", "169.254.169.254:80"},
	{"name with 0.0.0.0", "http://zero.test/", "0.0.0.0:80"},
	{"alias of a name with a private address", "http://alias.test/", "10.0.0.1:80"},
	{"alias of an alias", "http://aliases.test/", "10.0.0.1:80"},
	{"two addresses, the private one first", "http://two.test/", "10.0.0.1:80"},
	{"two addresses, the private one last", "http://owt.test/", "10.0.0.1:80"},
	{"IPv4 public, IPv6 private", "http://dual.test/", "[fd00::1]:80"},
	{"rebinding", "http://rebind.test/", "10.0.0.1:80"},
	{"dot alone", "http://./", ""},
	{"dot before", "http://.localhost/", ""},
	{"dots within", "http://127.0..1/", ""},

	// Users, paths and queries that look like hosts.
	{"user", "http://public.test@127.0.0.1/", ""},
	{"user and password", "http://public.test:80@127.0.0.1/", ""},
	{"empty user", "http://@127.0.0.1/", ""},
	{"two @", "http://a@public.test@127.0.0.1/", ""},
	{"escaped @", "http://public.test%40127.0.0.1/", ""},
	{"fragment before @", "http://127.0.0.1#@public.test/", "127.0.0.1:80"},
	{"query before @", "http://127.0.0.1?@public.test/", "127.0.0.1:80"},
	{"backslash before @", `http://127.0.0.1\@public.test/`, ""},
	{"backslash after @", `http://public.test@\127.0.0.1/`, ""},
	{"backslashes", `http:\\127.0.0.1\`, ""},
	{"backslash in the path", `http://public.test\.127.0.0.1/`, ""},
	{"slash before @", "http://127.0.0.1/@public.test/", "127.0.0.1:80"},
	{"semicolon", "http://127.0.0.1;public.test/", ""},
	{"no slashes", "http:127.0.0.1/", ""},
	{"one slash", "http:/127.0.0.1/", ""},
	{"three slashes", "http:///127.0.0.1/", ""},

	// Ports.
	{"port", "http://127.0.0.1:8080/", "127.0.0.1:8080"},
	{"port of the other scheme", "http://127.0.0.1:443/", "127.0.0.1:443"},
	{"empty port", "http://127.0.0.1:/", "127.0.0.1:80"},
	{"port 0", "http://127.0.0.1:0/", ""},
	{"port too large", "http://127.0.0.1:65616/", ""},
	{"port with zeros", "http://127.0.0.1:00080/", ""},
	{"port with a sign", "http://127.0.0.1:+80/", ""},
	{"two ports", "http://127.0.0.1:80:80/", ""},
	{"address without brackets", "http://::1/", ""},
	{"port in brackets", "http://[::1:80]/", "[::1:80]:80"},
	{"full-width colon", "http://127.0.0.1：80/", ""},

	// Zones.
	{"zone", "http://[fe80::1%25lo]/", ""},
	{"zone of loopback", "http://[::1%25lo]/", ""},
	{"empty zone", "http://[::1%25]/", ""},
	{"IPv4 in brackets", "http://[127.0.0.1]/", ""},
	{"text after brackets", "http://[::1]a/", ""},

	// Characters that split requests or texts, and other schemes.
	{"line break in the path", "http://127.0.0.1/\r\nHost: x", ""},
	{"line break in the host", "http://127.0.0.1\r\n.public.test/", ""},
	{"tab in the host", "http://127.0.\t0.1/", ""},
	{"zero byte", "http://127.0.0.1\x00.public.test/", ""},
	{"space before", " http://127.0.0.1/", ""},
	{"file", "file:///etc/passwd", ""},
	{"gopher", "gopher://127.0.0.1/_x", ""},
	{"ftp", "ftp://127.0.0.1/", ""},
	{"no scheme", "//127.0.0.1/", ""},
	{"data", "data:text/plain,x", ""},
	{"scheme in upper case", "HTTP://127.0.0.1/", "127.0.0.1:80"},
}

func testNames() *dns {
	return &dns{names: map[string][][]string{
		"public.test": {{public}}, "localhost": {{"127.0.0.1"}},
		"private.test": {{"10.0.0.1"}}, "loopback6.test": {{"::1"}}, "mapped.test": {{"::ffff:10.0.0.1"}},
		"metadata.test": {{"169.254.169.254"}}, "zero.test": {{"0.0.0.0"}},
		"alias.test": {{"private.test"}}, "aliases.test": {{"alias.test"}},
		"two.test": {{"10.0.0.1", public}}, "owt.test": {{public, "10.0.0.1"}}, "dual.test": {{public, "fd00::1"}},
		"rebind.test": {{public}, {"10.0.0.1"}},
	}}
}

// everywhere are entries for all hosts.
func everywhere(addresses ...string) (all Entries) {
	for _, host := range []string{"*", "*:8080", "*:443"} {
		all = append(all, Entry{Host: host, Scheme: "http", Addresses: addresses})
	}
	return append(all, Entry{Host: "*", Addresses: addresses})
}

var allAddresses = append([]string{"0.0.0.0/0", "::/0"}, singles(metadata)...)

func singles(all []netip.Addr) (texts []string) {
	for _, addr := range all {
		texts = append(texts, single(addr).String())
	}
	return texts
}

var errStop = errors.New("stopped by the test")

// dials sends requests and returns the addresses that were dialled, which is stopped right
// before the connection is made unless it is one to the server first.
func dials(t *testing.T, c *client, first string, urls ...string) (dialled []string, replies []*contract.Reply, errs []error) {
	t.Helper()
	var mu sync.Mutex // addresses of a name may be dialled at once
	c.dialling = func(to netip.AddrPort) error {
		if to.String() == first {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		dialled = append(dialled, to.String())
		return errStop
	}
	for _, url := range urls {
		reply, err := c.get(t, url)
		replies, errs = append(replies, reply), append(errs, err)
	}
	return dialled, replies, errs
}

func TestNoAddressOfTheNetworkIsReached(t *testing.T) {
	if len(ssrf) < 50 {
		t.Fatal("the table has lost rows")
	}
	for _, test := range ssrf {
		t.Run(test.name, func(t *testing.T) {
			c := newClient(t, Config{Entries: everywhere(), Resolver: testNames().resolver()})
			first, _, _ := dials(t, c, "", test.url)
			dialled, replies, errs := dials(t, c, "", test.url) // again, for names that have changed
			for _, to := range slices.Concat(first, dialled) {
				if !strings.HasPrefix(to, public) {
					t.Errorf("%s was dialled", to)
				}
			}
			if replies[0] != nil && replies[0].Status != 0 {
				t.Errorf("there is an answer: %+v", replies[0])
			}
			_, isInvalid := errors.AsType[*InvalidError](errs[0])
			_, isDenied := errors.AsType[*DeniedError](errs[0])
			if test.reaches == "" && !isInvalid || test.reaches != "" && !isDenied && len(dialled) == 0 {
				t.Errorf("%+v, %v", replies[0], errs[0])
			}
			if errs[0] != nil && test.reaches != "" && strings.Contains(errs[0].Error(), "10.0.0.1") {
				t.Errorf("the plugin learns an address: %v", errs[0])
			}
		})
	}
}

// The same requests get through, or are no requests, when the entries allow all addresses:
// it is the check of addresses that stops them above.
func TestAllowedAddressOfTheNetworkIsReached(t *testing.T) {
	for _, test := range ssrf {
		t.Run(test.name, func(t *testing.T) {
			c := newClient(t, Config{Entries: everywhere(allAddresses...), Resolver: testNames().resolver()})
			dialled, _, errs := dials(t, c, "", test.url, test.url)
			if _, isInvalid := errors.AsType[*InvalidError](errs[0]); isInvalid != (test.reaches == "") {
				t.Fatal(errs[0])
			}
			if test.reaches != "" && !slices.Contains(dialled, netip.MustParseAddrPort(test.reaches).String()) {
				t.Errorf("%q were dialled, want %s", dialled, test.reaches)
			}
		})
	}
}

// A server that the plugin trusts redirects it to each of the addresses.
func TestNoAddressOfTheNetworkIsReachedByRedirect(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		for _, test := range ssrf {
			name := "denied/"
			if allowed {
				name = "allowed/"
			}
			t.Run(name+test.name, func(t *testing.T) {
				server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header()["Location"] = []string{test.url}
					w.WriteHeader(http.StatusTemporaryRedirect)
				})
				entries := everywhere()
				if allowed {
					entries = everywhere(allAddresses...)
				}
				c := newClient(t, Config{Entries: append(entries, local(server)), Resolver: testNames().resolver()})
				dialled, replies, errs := dials(t, c, hostOf(server), server.URL, server.URL)
				if replies[0] != nil && replies[0].Status != 0 {
					t.Fatalf("there is an answer: %+v", replies[0])
				}
				if allowed && test.reaches != "" {
					if !slices.Contains(dialled, netip.MustParseAddrPort(test.reaches).String()) {
						t.Errorf("%q were dialled, want %s; %+v, %v", dialled, test.reaches, replies[0], errs[0])
					}
					return
				}
				asLocation := slices.Contains([]string{"no scheme", "space before"}, test.name) // of which a URL is made
				for _, to := range dialled {
					if !strings.HasPrefix(to, public) && !(allowed && asLocation) {
						t.Errorf("%s was dialled", to)
					}
				}
			})
		}
	}
}
