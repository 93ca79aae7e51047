package serve

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
)

// requestFor returns the status of a request whose header names a host.
func requestFor(t *testing.T, url, host string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}

// A page in the browser of somebody who reaches the port could read everything, if its name
// resolves to the address of the host.
func TestARequestForAForeignHostIsRefused(t *testing.T) {
	url := start(t, Config{Metrics: prometheus.NewRegistry(), Checks: func() []Check { return nil }, Plugins: func() any { return nil }})
	for _, path := range []string{"/plugins", "/metrics", "/readyz", "/healthz", "/"} {
		for _, host := range []string{"evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "thole"} {
			if got := requestFor(t, url+path, host); got != http.StatusMisdirectedRequest {
				t.Errorf("%s of %s: %d", path, host, got)
			}
		}
	}
	for _, host := range []string{"127.0.0.1:8080", "localhost", "localhost:1", "[::1]:8080", "10.0.0.7"} {
		if got := requestFor(t, url+"/plugins", host); got != http.StatusOK {
			t.Errorf("%s: %d", host, got)
		}
	}
}

func TestWhichHostsAreServed(t *testing.T) {
	loopback, others := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, &net.TCPAddr{IP: net.IPv6zero}
	for _, test := range []struct {
		listen string
		at     net.Addr
		host   string
		want   bool
	}{
		{"127.0.0.1:8080", loopback, "127.0.0.1:8080", true},
		{"127.0.0.1:8080", loopback, "LOCALHOST.", true},
		{"127.0.0.1:8080", loopback, "::1", true},
		{"127.0.0.1:8080", loopback, "[fe80::1%25eth0]:80", true},
		{"127.0.0.1:8080", loopback, "", true},
		{"127.0.0.1:8080", loopback, "thole.thole-system.svc", false},
		{"127.0.0.1:8080", loopback, "evil.localhost", false},
		{"localhost:8080", loopback, "localhost:8080", true},
		{":8080", others, "10.1.2.3:8080", true}, // probes, and Prometheus
		{":8080", others, "[fd00::7]:8080", true},
		{":8080", others, "thole:8080", true},
		{":8080", others, "thole.thole-system.svc:8080", true},
		{":8080", others, "thole.thole-system.svc.cluster.local:8080", true},
		{":8080", others, "thole.thole-system.svc.cluster.local.:8080", true},
		{":8080", others, "10-1-2-3.thole-system.pod.cluster.local", true},
		{":8080", others, "evil.example", false},
		{":8080", others, "evil.example:8080", false},
		{":8080", others, "thole.thole-system.svc.evil.example", false},
		{":8080", others, "svc.evil.example:8080", false},
		{":8080", others, "xcluster.local", false},
		{":8080", others, "10.1.2.3.evil.example", false},
		{"thole.example:8080", others, "Thole.Example:8080", true},
		{"thole.example:8080", others, "evil.example", false},
	} {
		if got := hostsOf(test.listen, test.at).serves(test.host); got != test.want {
			t.Errorf("%s at %s: %q is served: %v", test.listen, test.at, test.host, got)
		}
	}
}

// Probes of the kubelet name the address of the pod, on whatever the host listens.
func TestProbesByAddressAreServedOnAllInterfaces(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s, err := Listen(ctx, Config{Address: ":0", Logger: hclog.NewNullLogger(), Metrics: prometheus.NewRegistry(), Checks: func() []Check { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	_, port, _ := net.SplitHostPort(s.Address())
	for host, want := range map[string]int{"": http.StatusOK, "192.168.7.8:" + port: http.StatusOK, "thole.thole-system.svc": http.StatusOK, "evil.example": http.StatusMisdirectedRequest} {
		if got := requestFor(t, "http://127.0.0.1:"+port+"/healthz", host); got != want {
			t.Errorf("%q: %d", host, got)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
