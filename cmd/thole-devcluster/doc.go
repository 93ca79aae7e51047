// Thole-devcluster is a Kubernetes control plane for demos, for tests and for
// writing plugins: a real kube-apiserver, etcd and the controllers of
// kube-controller-manager that need no node, all on loopback. There is no
// scheduler and no kubelet, so pods are created but never run; one that is
// deleted is gone at once, for no node has to confirm it.
//
//	thole-devcluster --dir D [--port P] [--kubeconfig-out F]
//
// It prints one line, "ready", when a client finds a settled cluster: the API
// server answers, the default namespace has its service account and root
// certificate, the garbage collector watches every kind. SIGTERM and SIGINT
// stop it. Exit codes are 0 done, 1 failed, 2 wrong use.
//
// # The way it runs
//
// One binary, four processes: the parent holds the directory, makes
// certificates and kubeconfig, and starts itself again once per role. No role
// outlives its parent, and when a role ends the parent stops the others and
// fails with the end of that role's log.
//
//	parent                     cluster.go, ready.go, kubeconfig.go
//	├─ etcd                    etcd.go
//	├─ kube-apiserver          apiserver.go
//	└─ kube-controller-manager controllermanager.go, garbagecollector.go
//
//	internal/datadir           the directory: its layout and its lock
//	internal/pki               certificates and keys, made once, renewed in time
//	internal/supervise         starting, watching and stopping a role
//
// # The directory
//
// Everything is kept in D, which only its owner may read: the same D is the
// same cluster after a restart, on a new port when none was asked for.
//
//	kubeconfig   the administrator's, unless --kubeconfig-out says otherwise
//	pki/         authority, certificates, the key that signs service account tokens
//	etcd/        the data
//	logs/        one file per role, the previous run's beside it as *.log.1
//	lock         held by the parent and its roles until the last one is gone
//	etcd.sock    how the API server reaches etcd; no other port than its own is open
//
// etcd does not wait for the disk. Killing any process loses nothing, but the
// machine going down may lose the data: do not keep in it what you need.
package main
