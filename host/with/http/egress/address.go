package egress

import (
	"net/netip"
	"slices"
)

// class is what an address is for. Classes that are words of [Entry].Addresses are
// written the same.
type class string

const (
	classPublic        class = "public"
	classLoopback      class = "loopback"
	classPrivate       class = "private"
	classLinkLocal     class = "link-local"
	classMetadata      class = "metadata" // credentials of the machine are read there
	classUnspecified   class = "unspecified"
	classShared        class = "shared" // behind the NAT of a carrier
	classMulticast     class = "multicast"
	classReserved      class = "reserved"
	classBenchmark     class = "benchmark"
	classDocumentation class = "documentation"
	classProtocol      class = "protocol" // assignments of the IETF
	classTunnel        class = "tunnel"   // it holds an IPv4 address
)

// metadata are the addresses of the metadata and credential services of clouds. They are in ranges
// that are allowed for other reasons, and one is public.
var metadata = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"),    // AWS, Google, Azure, Oracle, DigitalOcean, OpenStack, Hetzner
	netip.MustParseAddr("169.254.169.252"),    // Google, the metadata server of a GKE node
	netip.MustParseAddr("169.254.170.2"),      // AWS, tasks of ECS
	netip.MustParseAddr("169.254.170.23"),     // AWS, pods of EKS
	netip.MustParseAddr("169.254.0.23"),       // Tencent
	netip.MustParseAddr("169.254.10.10"),      // Tencent
	netip.MustParseAddr("169.254.42.42"),      // Scaleway
	netip.MustParseAddr("100.100.100.200"),    // Alibaba
	netip.MustParseAddr("168.63.129.16"),      // Azure
	netip.MustParseAddr("192.0.0.192"),        // Oracle
	netip.MustParseAddr("fd00:ec2::254"),      // AWS
	netip.MustParseAddr("fd00:ec2::23"),       // AWS, pods of EKS
	netip.MustParseAddr("fd20:ce::254"),       // Google
	netip.MustParseAddr("fd00:42::42"),        // Scaleway
	netip.MustParseAddr("fd00:c1::a9fe:a9fe"), // Oracle
	netip.MustParseAddr("fd00:a9fe:a9fe::1"),  // Akamai
	netip.MustParseAddr("fd00:100::100:200"),  // Alibaba
	netip.MustParseAddr("fe80::a9fe:a9fe"),    // OpenStack
}

// prefixClass is a row of the registries of special addresses (RFC 6890) that IANA keeps.
type prefixClass struct {
	prefix netip.Prefix
	class  class
}

// special has the addresses that are not public. The first row that contains an address
// counts.
var special = []prefixClass{
	{netip.MustParsePrefix("0.0.0.0/8"), classUnspecified}, // Linux connects 0.0.0.0 to itself
	{netip.MustParsePrefix("10.0.0.0/8"), classPrivate},
	{netip.MustParsePrefix("100.64.0.0/10"), classShared},
	{netip.MustParsePrefix("127.0.0.0/8"), classLoopback},
	{netip.MustParsePrefix("169.254.0.0/16"), classLinkLocal},
	{netip.MustParsePrefix("172.16.0.0/12"), classPrivate},
	{netip.MustParsePrefix("192.0.0.0/24"), classProtocol},
	{netip.MustParsePrefix("192.0.2.0/24"), classDocumentation},
	{netip.MustParsePrefix("192.88.99.0/24"), classTunnel}, // relays of 6to4
	{netip.MustParsePrefix("192.168.0.0/16"), classPrivate},
	{netip.MustParsePrefix("198.18.0.0/15"), classBenchmark},
	{netip.MustParsePrefix("198.51.100.0/24"), classDocumentation},
	{netip.MustParsePrefix("203.0.113.0/24"), classDocumentation},
	{netip.MustParsePrefix("224.0.0.0/4"), classMulticast},
	{netip.MustParsePrefix("240.0.0.0/4"), classReserved}, // with 255.255.255.255, broadcast
	{netip.MustParsePrefix("0.0.0.0/0"), classPublic},

	{netip.MustParsePrefix("::/128"), classUnspecified},
	{netip.MustParsePrefix("::1/128"), classLoopback},
	{netip.MustParsePrefix("64:ff9b::/96"), classPublic}, // NAT64: judged by the IPv4 address in it
	{netip.MustParsePrefix("2001:2::/48"), classBenchmark},
	{netip.MustParsePrefix("2001::/32"), classTunnel}, // Teredo
	{netip.MustParsePrefix("2001::/23"), classProtocol},
	{netip.MustParsePrefix("2001:db8::/32"), classDocumentation},
	{netip.MustParsePrefix("2002::/16"), classTunnel}, // 6to4
	{netip.MustParsePrefix("3fff::/20"), classDocumentation},
	{netip.MustParsePrefix("2000::/3"), classPublic}, // the only part of IPv6 with global unicast addresses
	{netip.MustParsePrefix("fc00::/7"), classPrivate},
	{netip.MustParsePrefix("fe80::/10"), classLinkLocal},
	{netip.MustParsePrefix("fec0::/10"), classPrivate}, // site-local (RFC 3879)
	{netip.MustParsePrefix("ff00::/8"), classMulticast},
	{netip.MustParsePrefix("::/0"), classReserved},
}

// classify returns the class of an address that has no zone and is not an IPv4 address in
// IPv6 form, without regard to IPv4 addresses that it holds otherwise.
func classify(addr netip.Addr) class {
	if slices.Contains(metadata, addr) {
		return classMetadata
	}
	for _, s := range special {
		if s.prefix.Contains(addr) {
			return s.class
		}
	}
	return classReserved
}

// forms returns the address in the one form in which it is judged, and the IPv4 addresses
// that it may be translated or tunnelled to.
func forms(addr netip.Addr) []netip.Addr {
	addr = addr.WithZone("").Unmap()
	all := []netip.Addr{addr}
	if !addr.Is6() {
		return all
	}
	bytes := addr.As16()
	ipv4 := func(at int) netip.Addr { return netip.AddrFrom4([4]byte(bytes[at : at+4])) }
	for _, e := range embedding {
		if e.prefix.Contains(addr) {
			all = append(all, ipv4(e.at))
		}
	}
	if localNAT64.Contains(addr) {
		for _, at := range shorterNAT64 {
			if held := netip.AddrFrom4([4]byte{bytes[at[0]], bytes[at[1]], bytes[at[2]], bytes[at[3]]}); held.As4()[0] != 0 {
				all = append(all, held) // else the prefix is longer
			}
		}
	}
	if teredo.Contains(addr) {
		inverted := ipv4(12).As4()
		for i := range inverted {
			inverted[i] = ^inverted[i]
		}
		all = append(all, netip.AddrFrom4(inverted))
	}
	if bytes[8]&^2 == 0 && bytes[9] == 0 && bytes[10] == 0x5e && bytes[11] == 0xfe { // ISATAP (RFC 5214)
		all = append(all, ipv4(12))
	}
	return all
}

// localNAT64 is for the NAT64 of a network (RFC 8215), which chooses a prefix in it.
var localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48")

// shorterNAT64 are the bytes of the IPv4 address with a prefix of 48, 56 and 64 bits: byte 8 is left out
// (RFC 6052, section 2.2).
var shorterNAT64 = [][4]int{{6, 7, 9, 10}, {7, 9, 10, 11}, {9, 10, 11, 12}}

var teredo = netip.MustParsePrefix("2001::/32") // RFC 4380: the client's address is inverted

// embedding are the prefixes of IPv6 addresses that hold an IPv4 address, at a byte.
var embedding = []struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("::/96"), 12},           // IPv4-compatible (RFC 4291)
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12}, // IPv4-translated (RFC 2765)
	{netip.MustParsePrefix("64:ff9b::/96"), 12},    // NAT64 (RFC 6052)
	{localNAT64, 12},                        // NAT64 of a network, with a prefix of 96 bits
	{netip.MustParsePrefix("2002::/16"), 2}, // 6to4 (RFC 3056)
	{teredo, 4},                             // the server
}
