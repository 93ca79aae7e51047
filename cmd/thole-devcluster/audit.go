package main

import (
	"fmt"
	"path/filepath"

	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/atomicfile"
	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/datadir"
)

// auditPolicy is which requests are logged: writes, when they have ended, with what was sent and
// what is stored then. Leases and Events would be most of them, and what the control plane
// writes itself is of no interest.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: None
  users: ["system:apiserver", "system:kube-controller-manager"]
- level: None
  userGroups: ["system:serviceaccounts:kube-system"]
- level: None
  resources:
  - {group: coordination.k8s.io, resources: [leases]}
  - {group: "", resources: [events]}
  - {group: events.k8s.io, resources: [events]}
  - {group: authentication.k8s.io}
  - {group: authorization.k8s.io}
- level: RequestResponse
  verbs: [create, update, patch, delete, deletecollection]
`

// auditFlags returns the flags of the API server for an audit log, none without one. A reply
// is not sent before its line is in the file.
func (c *cluster) auditFlags(log string) ([]string, error) {
	if log == "" {
		return nil, nil
	}
	log, err := filepath.Abs(log)
	if err != nil {
		return nil, fmt.Errorf("find audit log: %w", err)
	}
	if err := atomicfile.Write(c.dir.Path(datadir.AuditPolicy), []byte(auditPolicy), 0o600); err != nil {
		return nil, err
	}
	return []string{
		"--audit-policy-file=" + datadir.AuditPolicy,
		"--audit-log-path=" + log,
		"--audit-log-mode=blocking",
		"--audit-log-maxsize=100000", // MB; it is not to be rotated
	}, nil
}
