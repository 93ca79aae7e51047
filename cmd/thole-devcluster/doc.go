// Thole-devcluster is a Kubernetes control plane for demos, for tests and for
// writing plugins: a real kube-apiserver, etcd and the controllers of
// kube-controller-manager that need no node, all on loopback. There is no
// scheduler and no kubelet: pods are created but never run, and a deleted pod is
// gone at once, because no node has to confirm the deletion.
//
//	thole-devcluster --dir D [--port P] [--kubeconfig-out F] [--audit-log F]
//
// It prints one line, "ready", when the cluster can be used: the API server is
// ready, the default namespace has its service account and root certificate, and
// the garbage collector watches every kind. SIGTERM and SIGINT stop it. Exit
// codes are 0 done, 1 failed, 2 wrong use.
//
// # How it runs
//
// One binary, four processes. The parent locks the directory, makes the
// certificates and the kubeconfig, and starts its own executable again once per
// component. No component outlives the parent. When a component ends, the parent
// stops the others and fails with the last lines of that component's log.
//
//	parent                     main.go, cluster.go
//	├─ etcd                    etcd.go
//	├─ kube-apiserver          apiserver.go, audit.go
//	└─ kube-controller-manager controllermanager.go, controllers.go
//
//	internal/datadir           the directory: its layout and its lock
//	internal/pki               certificates and keys, made once, renewed in time
//	internal/supervise         starts, watches and stops a component
//
// # The directory
//
// Everything is kept in D, which only its owner may read. After a restart the
// same D is the same cluster, on a new port unless --port names one.
//
//	kubeconfig   the administrator's, unless --kubeconfig-out names another file
//	pki/         authority, certificates, the key that signs service account tokens
//	etcd/        the data
//	logs/        one file per component, and that of the previous run as *.log.1
//	lock         locked by the parent and its components until the last one has ended
//	audit-policy.yaml  what --audit-log logs
//	etcd.sock    the socket of etcd; the only open port is that of the API server
//
// etcd does not wait for the disk. Killing any process loses nothing, but a crash
// of the machine may lose the data: do not keep anything in it that you need.
package main
