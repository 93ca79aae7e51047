package egress

import (
	"net/netip"
	"testing"
)

// An address is allowed if the IPv4 addresses in it are as well.
func TestAddressIsJudgedInEachForm(t *testing.T) {
	for _, test := range []struct {
		addr    string
		allowed string // by the entry
		denied  class  // "": the address is allowed
	}{
		{"93.184.216.34", "", ""},
		{"2606:2800:220:1::1", "", ""},
		{"64:ff9b::5db8:d822", "", ""},
		{"::ffff:93.184.216.34", "", ""},
		{"::ffff:10.0.0.1", "", classPrivate},
		{"::ffff:10.0.0.1", "10.0.0.0/8", ""},
		{"::ffff:10.0.0.1", "::/0", classPrivate},
		{"fe80::1%eth0", "", classLinkLocal},
		{"fe80::1%eth0", "link-local", ""},
		{"fd00:ec2::254%eth0", "private", classMetadata},
		{"::10.0.0.1", "::/96", classPrivate},
		{"::10.0.0.1", "private", classReserved},
		{"::ffff:0:10.0.0.1", "::/64", classPrivate},
		{"::ffff:0:93.184.216.34", "::/64", ""},
		{"64:ff9b::a00:1", "64:ff9b::/96", classPrivate},
		{"64:ff9b::a00:1", "private", ""},
		{"64:ff9b:1::a00:1", "64:ff9b:1::/48", classPrivate},
		{"64:ff9b:1::5db8:d822", "", classReserved},
		{"64:ff9b:1::5db8:d822", "64:ff9b:1::/48", ""},
		{"64:ff9b:1:a9fe:a9:fe00:5db8:d822", "64:ff9b:1::/48", classMetadata}, // with a prefix of 48 bits
		{"64:ff9b:1:a:0:1:5db8:d822", "64:ff9b:1::/48", classPrivate},         // 56
		{"64:ff9b:1::7f:0:105d:b8d8", "64:ff9b:1::/48", classLoopback},        // 64
		{"fd00:c1::a9fe:a9fe", "private", classMetadata},
		{"fd00:a9fe:a9fe::1", "private", classMetadata},
		{"fd00:100::100:200", "private", classMetadata},
		{"2002:7f00:1::", "2002::/16", classLoopback},
		{"2002:5db8:d822::", "2002::/16", ""},
		{"2002:5db8:d822::", "", classTunnel},
		{"2001:0:5db8:d822::f5ff:fffe", "2001::/32", classPrivate}, // the client is 10.0.0.1
		{"2001:0:a00:1::a247:27dd", "2001::/32", classPrivate},     // the server is
		{"2001:0:5db8:d822::a247:27dd", "2001::/32", ""},           // neither
		{"2606:2800::5efe:a00:1", "", classPrivate},
		{"2606:2800::200:5efe:a00:1", "", classPrivate},
		{"2606:2800::5efe:5db8:d822", "", ""},
		{"192.88.99.1", "", classTunnel},
		{"192.0.0.171", "", classProtocol},
		{"2001:2::1", "", classBenchmark},
		{"2001:20::1", "", classProtocol},
		{"3fff::1", "", classDocumentation},
	} {
		var entry Entry
		if test.allowed != "" {
			entry.Addresses = []string{test.allowed}
		}
		if denied, ok := entry.addresses().allow(netip.MustParseAddr(test.addr)); denied != test.denied || ok != (test.denied == "") {
			t.Errorf("%s with %q: denied as %q, want %q", test.addr, test.allowed, denied, test.denied)
		}
	}
}
