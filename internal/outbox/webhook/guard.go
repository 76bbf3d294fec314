package webhook

import (
	"fmt"
	"net/netip"
	"syscall"
)

// inside are the addresses that are not those of hosts on the Internet, besides the ones that
// netip knows.
var inside = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"), // shared by the customers of a provider (RFC 6598)
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), // benchmarks (RFC 2544)
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("fec0::/10"),      // site-local (obsolete)
	netip.MustParsePrefix("64:ff9b::/96"),   // NAT64: an IPv4 address is in it
	netip.MustParsePrefix("64:ff9b:1::/48"), // NAT64, local
	netip.MustParsePrefix("2002::/16"),      // 6to4: also contains an IPv4 address
	netip.MustParsePrefix("2001::/32"),      // Teredo: also contains an IPv4 address
}

// isInside reports whether an address is not that of a host on the Internet.
func isInside(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() { // loopback and link-local are no global unicast
		return true
	}
	for _, prefix := range inside {
		if prefix.Contains(a) {
			return true
		}
	}
	return false
}

// guard says which addresses may be connected to.
type guard struct {
	allowInside bool
	insideOnly  bool // for http
}

func (g guard) check(a netip.Addr) error {
	switch in := isInside(a); {
	case in && !g.allowInside:
		return fmt.Errorf("the address %s is inside the network (loopback, link-local or private); "+
			"if that is right, set allow_internal: true", a)
	case !in && g.insideOnly:
		return fmt.Errorf("the address %s is on the Internet: use https", a)
	}
	return nil
}

// control checks the address that is really dialled: the name may have had another one before.
func (g guard) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("the address %q is not an IP address: %w", address, err)
	}
	return g.check(to.Addr())
}
