package main

import (
	"context"
	"fmt"
	"net/url"
	"os/signal"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/datadir"
	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/supervise"
)

// slowRequest is how long a request must take to be logged. Embedded etcd has no
// default for it and would log every request.
const slowRequest = time.Second

func runEtcd(self *supervise.Component, _ []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	server, err := embed.StartEtcd(etcdConfig())
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	defer server.Close()
	ready := server.Server.ReadyNotify()
	for {
		select {
		case <-ready:
			self.Ready()
			ready = nil
		case err := <-server.Err():
			return fmt.Errorf("serve etcd: %w", err)
		case <-ctx.Done():
			return nil
		}
	}
}

// etcdConfig returns the configuration of a cluster of one member. It listens
// only on a socket in a directory that only its owner may enter.
func etcdConfig() *embed.Config {
	c := embed.NewConfig() // the addresses for other members do not matter
	c.Dir = datadir.EtcdData
	c.ListenClientUrls = []url.URL{{Scheme: "unix", Host: datadir.EtcdSocket}}
	c.ListenPeerUrls = nil
	c.EnableGRPCGateway = false
	c.LogLevel = "warn"
	c.WarningUnaryRequestDuration = slowRequest
	// The page cache outlives a killed process; only a crash of the machine
	// loses what was not synced.
	c.UnsafeNoFsync = true
	// A lone member elects itself after one election timeout.
	c.TickMs, c.ElectionMs = 50, 250
	return c
}
