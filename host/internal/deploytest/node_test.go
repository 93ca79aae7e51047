package deploytest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
)

// node is scheduler and kubelet of the host's namespace, as far as its pod needs them.
// A pod's container is a process with the image's user, in a root directory that has
// only what the image and the pod's volumes have. Unlike a real container, it shares
// the network of the machine and listens on a free port of loopback.
type node struct {
	*testing.T
	name    string
	dir     string // has the root directories
	program string // thole
	stop    context.CancelFunc
	done    chan struct{}

	mu   sync.Mutex
	pods map[types.UID]*container
}

// container is a running container.
type container struct {
	*tholetest.Process
	pod     *corev1.Pod
	rootDir string
	mounted map[string]string // the resourceVersion of each mounted ConfigMap
	ready   bool
}

func newNode(t *testing.T) *node {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{T: t, name: "node", dir: t.TempDir(), program: program(t), stop: cancel, done: make(chan struct{}), pods: map[types.UID]*container{}}
	n.skipUnlessContained()
	_, err := admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	go n.run(ctx)
	t.Cleanup(func() {
		n.stop()
		<-n.done
		for _, c := range n.pods {
			if err := c.Stop(); err != nil {
				t.Error(err)
			}
			if t.Failed() {
				t.Logf("log of thole in the pod %s:\n%s", c.pod.Name, c.Log.Tail(30))
			}
		}
	})
	return n
}

// skipUnlessContained skips the test on a machine where a process cannot have another
// user and another root directory: without root's rights and user namespaces.
func (n *node) skipUnlessContained() {
	n.Helper()
	dir, err := n.rootDirectory()
	if err != nil {
		n.Fatal(err)
	}
	cmd := contained(n.T, dir, "--version")
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		n.Skipf("needs root, or user namespaces: %v", err)
	}
	if err != nil {
		n.Fatalf("run thole in a root directory of its own: %v\n%s", err, out)
	}
}

// rootDirectory creates a directory with the content of the image.
func (n *node) rootDirectory() (string, error) {
	dir, err := os.MkdirTemp(n.dir, "root-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	return dir, os.Link(n.program, filepath.Join(dir, image(n.T).entrypoint(n.T)))
}

// contained returns a command that runs the image's program as the image's user in a
// root directory. If this process is not root, it uses a user namespace.
func contained(t *testing.T, rootDir string, args ...string) *exec.Cmd {
	t.Helper()
	uid, gid := image(t).user(t)
	attributes := &syscall.SysProcAttr{Chroot: rootDir, Credential: &syscall.Credential{Uid: uid, Gid: gid}, Pdeathsig: syscall.SIGKILL}
	if own := os.Geteuid(); own != 0 {
		attributes.Cloneflags = syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: int(uid), HostID: own, Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: int(gid), HostID: os.Getegid(), Size: 1}}
		attributes.Credential.NoSetGroups = true
	}
	path := image(t).entrypoint(t)
	return &exec.Cmd{Path: path, Args: append([]string{path}, args...), Env: []string{}, Dir: "/", SysProcAttr: attributes}
}

// hosts returns the containers of the pods that have not ended.
func (n *node) hosts() []*container {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Collect(maps.Values(n.pods))
}

// awaitLeader waits until of two replicas one runs the plugin in that revision, and the other
// one keeps it ready. It returns the first.
func (n *node) awaitLeader(t *testing.T, number int) (leader *container) {
	t.Helper()
	await.Until(t, fmt.Sprintf("of two replicas one runs revision %d", number), func() bool {
		states := map[string]int{}
		for _, c := range n.hosts() {
			p := only(c.Process)
			if states[p.State]++; p.State == "running" && p.Revision == number {
				leader = c
			} else if p.Revision != number {
				return false
			}
		}
		return states["running"] == 1 && states["standby"] == 1 && len(states) == 2
	})
	return leader
}

func (n *node) run(ctx context.Context) {
	defer close(n.done)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := n.sync(ctx); err != nil && ctx.Err() == nil {
			n.Errorf("node: %v", err)
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// sync advances every pod of the namespace by one step. A step that fails because the
// pod has changed is tried again, as a kubelet does.
func (n *node) sync(ctx context.Context) error {
	list, err := admin.CoreV1().Pods(system).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		err := n.step(ctx, &list.Items[i])
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("pod %s: %w", list.Items[i].Name, err)
		}
	}
	return nil
}

func (n *node) step(ctx context.Context, pod *corev1.Pod) error {
	c := n.pods[pod.UID]
	switch {
	case pod.Spec.NodeName == "":
		return admin.CoreV1().Pods(system).Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: n.name},
		}, metav1.CreateOptions{})
	case pod.DeletionTimestamp != nil:
		return n.end(ctx, pod, c)
	case c == nil:
		return n.start(ctx, pod)
	}
	if err := c.remount(ctx); err != nil {
		return err
	}
	return c.probe(ctx)
}

// end stops a pod and confirms its deletion. It waits for longer than the pod's grace
// period, which the host may exceed on a busy machine.
func (n *node) end(ctx context.Context, pod *corev1.Pod, c *container) error {
	if c != nil {
		if err := c.Stop(); err != nil {
			return err
		}
		n.mu.Lock()
		delete(n.pods, pod.UID)
		n.mu.Unlock()
	}
	return admin.CoreV1().Pods(system).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
}

func (n *node) start(ctx context.Context, pod *corev1.Pod) error {
	dir, err := n.rootDirectory()
	if err != nil {
		return err
	}
	c := &container{pod: pod, rootDir: dir, mounted: map[string]string{}}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		if err := c.mount(ctx, m); err != nil {
			return fmt.Errorf("mount %s: %w", m.Name, err)
		}
	}
	if c.Process, err = tholetest.Run(n.T, c.command(n.T)); err != nil {
		return err
	}
	c.TokenFile = filepath.Join(c.rootDir, "var/run/secrets/kubernetes.io/serviceaccount/token")
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods[pod.UID] = c
	return nil
}

// command returns the command of the container.
func (c *container) command(t *testing.T) *exec.Cmd {
	spec := c.pod.Spec.Containers[0]
	var args []string
	for _, a := range spec.Args {
		if strings.HasPrefix(a, "--listen=") {
			args = append(args, "--metrics-secure") // as on every address
			a = "--listen=127.0.0.1:0"
		}
		args = append(args, a)
	}
	cmd := contained(t, c.rootDir, args...)
	server, err := url.Parse(cluster.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = []string{"KUBERNETES_SERVICE_HOST=" + server.Hostname(), "KUBERNETES_SERVICE_PORT=" + server.Port()}
	for _, e := range spec.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+c.value(t, e))
	}
	return cmd
}

// value returns the value of an environment variable, from the downward API as far as
// the Deployment uses it.
func (c *container) value(t *testing.T, e corev1.EnvVar) string {
	from := e.ValueFrom
	switch {
	case from == nil:
		return e.Value
	case from.ResourceFieldRef != nil && from.ResourceFieldRef.Resource == "requests.memory":
		return strconv.FormatInt(c.pod.Spec.Containers[0].Resources.Requests.Memory().Value(), 10)
	case from.FieldRef != nil:
		field, ok := map[string]string{
			"metadata.name": c.pod.Name, "metadata.namespace": c.pod.Namespace, "metadata.uid": string(c.pod.UID),
		}[from.FieldRef.FieldPath]
		if ok {
			return field
		}
	}
	t.Errorf("the source of the variable %s is not supported", e.Name)
	return ""
}

// probe sends the probes of the pod, and updates its status if it has changed.
func (c *container) probe(ctx context.Context) error {
	if err := c.Exited(); err != nil {
		return err
	}
	spec := c.pod.Spec.Containers[0]
	ready := true
	for _, p := range []*corev1.Probe{spec.StartupProbe, spec.LivenessProbe, spec.ReadinessProbe} {
		status, _ := c.Get(p.HTTPGet.Path)
		ready = ready && status >= 200 && status < 400
	}
	if ready == c.ready {
		return nil
	}
	err := c.report(ctx, ready)
	if err == nil {
		c.ready = ready
	}
	return err
}

func (c *container) report(ctx context.Context, ready bool) error {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	pod, err := admin.CoreV1().Pods(system).Get(ctx, c.pod.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	now := metav1.Now()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = nil
	for _, of := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: of, Status: status, LastTransitionTime: now})
	}
	_, err = admin.CoreV1().Pods(system).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// token returns a token that is bound to the pod, as the kubelet requests it.
func (c *container) token(ctx context.Context, want *corev1.ServiceAccountTokenProjection) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: want.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: c.pod.Name, UID: c.pod.UID},
	}}
	reply, err := admin.CoreV1().ServiceAccounts(system).CreateToken(ctx, c.pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return reply.Status.Token, nil
}
