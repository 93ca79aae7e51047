package tck

import "github.com/thole-dev/thole/abi"

// GreedyCase is a guest whose manifest asks for what no plugin has unless the administrator
// allows it. It is correct otherwise. Started without a policy, it must wait: a host must
// send no request about the kinds before. [Run] has no policies and does not run it.
type GreedyCase struct {
	Name    string        // a DNS label; also the plugin's name in the manifest
	Explain string        // what the guest would gain
	Wasm    func() []byte // assembles the guest
	Kinds   []abi.Kind    // that need an entry of a policy
}

// Greedy lists the guests that ask for too much.
func Greedy() []GreedyCase {
	core := func(kind string) abi.Kind { return abi.Kind{APIVersion: "v1", Kind: kind} }
	rbac := func(kind string) abi.Kind {
		return abi.Kind{APIVersion: "rbac.authorization.k8s.io/v1", Kind: kind}
	}
	secret, space, role := core("Secret"), core("Namespace"), rbac("Role")
	deployment := abi.Kind{APIVersion: "apps/v1", Kind: "Deployment"}
	return []GreedyCase{
		greedy("greedy-reads-secrets", "reads the Secrets beside its primaries", func(c *abi.Controller) { c.Reads = abi.AllOf(secret) }, secret),
		greedy("greedy-watches-secrets", "is told of Secrets", func(c *abi.Controller) {
			c.Watches = []abi.Watch{{Followed: secret.All(), By: abi.WatchByField, Field: "spec.secret"}}
		}, secret),
		greedy("greedy-owns-roles", "makes Roles and binds accounts to them", func(c *abi.Controller) {
			c.Owns = abi.AllOf(role, rbac("RoleBinding"))
		}, role, rbac("RoleBinding")),
		greedy("greedy-owns-accounts", "makes ServiceAccounts", func(c *abi.Controller) {
			c.Owns = abi.AllOf(core("ServiceAccount"))
		}, core("ServiceAccount")),
		greedy("greedy-for-namespaces", "has no namespace of its own to stay in", func(c *abi.Controller) {
			c.For, c.Reads, c.Owns = space.All(), abi.AllOf(secret), abi.AllOf(deployment)
		}, space, secret, deployment),
		greedy("greedy-for-built-in", "changes what others have made", func(c *abi.Controller) { c.For = deployment.All() }, deployment),
		greedy("greedy-writes", "writes what it does not own, of any tenant's making", func(c *abi.Controller) {
			c.Writes = []abi.Kind{deployment}
		}, deployment),
		greedy("greedy-writes-cluster-scoped", "deletes Namespaces, and binds itself to cluster-admin", func(c *abi.Controller) {
			c.Writes = []abi.Kind{space, rbac("ClusterRoleBinding")}
		}, space, rbac("ClusterRoleBinding")),
	}
}

func greedy(name, explain string, ask func(*abi.Controller), kinds ...abi.Kind) GreedyCase {
	return GreedyCase{Name: name, Explain: explain, Kinds: kinds, Wasm: func() []byte {
		c := conformance(controller)
		ask(&c)
		return describing(manifestWith(name, c))(newGuest(name))
	}}
}
