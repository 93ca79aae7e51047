package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/supervise"
)

// The roles. Each runs in a process of its own whose working directory is the
// cluster's, and returns when it was asked to stop or has failed.
const (
	roleEtcd              = "etcd"
	roleAPIServer         = "kube-apiserver"
	roleControllerManager = "kube-controller-manager"
)

var roles = map[string]func(*supervise.Role) error{
	roleEtcd:              runEtcd,
	roleAPIServer:         runAPIServer,
	roleControllerManager: runControllerManager,
}

// The files that a role is handed. Every one holds the directory's lock.
const (
	fileLock = iota
	fileListener
)

func roleCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "role NAME",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			runRole, ok := roles[args[0]]
			if !ok {
				return fmt.Errorf("%w: no role %q", errUsage, args[0])
			}
			self, err := supervise.Attach()
			if err != nil {
				return fmt.Errorf("%w: %w", errUsage, err)
			}
			return runRole(self)
		},
	}
}
