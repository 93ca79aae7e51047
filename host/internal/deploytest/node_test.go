package deploytest

import (
	"context"
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
// A pod's container is one of the image, by podman, with the arguments, environment, mounts and
// security context of the pod. Unlike that of a cluster, it shares the network of the machine,
// so that it listens on a free port, and has no limits of its resources.
type node struct {
	*testing.T
	name   string
	dir    string // has the volumes
	engine *engine
	stop   context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	pods map[types.UID]*container
}

// container is a running container.
type container struct {
	*tholetest.Process
	pod     *corev1.Pod
	engine  *engine
	volumes string            // the directory in which they are, by the paths where they are mounted
	mounted map[string]string // which ConfigMaps, in which resourceVersions, are in a directory
	ready   bool
}

func newNode(t *testing.T) *node {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{T: t, name: "node", dir: t.TempDir(), engine: podman(t), stop: cancel, done: make(chan struct{}), pods: map[types.UID]*container{}}
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
			if err := c.remove(); err != nil {
				t.Error(err)
			}
			if t.Failed() {
				t.Logf("log of thole in the pod %s:\n%s", c.pod.Name, c.Log.Tail(30))
			}
		}
	})
	return n
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
	dir, err := os.MkdirTemp(n.dir, "pod-")
	if err != nil {
		return err
	}
	c := &container{pod: pod, engine: n.engine, volumes: dir, mounted: map[string]string{}}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		if err := c.mount(ctx, m); err != nil {
			return fmt.Errorf("mount %s: %w", m.Name, err)
		}
	}
	if c.Process, err = tholetest.Run(n.T, c.command(n.T)); err != nil {
		return err
	}
	c.TokenFile = filepath.Join(c.volumes, "var/run/secrets/kubernetes.io/serviceaccount/token")
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods[pod.UID] = c
	return nil
}

// expectConfined fails the test if the process of the container has more privileges than it should.
func (c *container) expectConfined(t *testing.T) {
	t.Helper()
	pid := strings.TrimSpace(c.engine.output(t, "inspect", "--format", "{{.State.Pid}}", c.name()))
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Uid:\t65532\t65532\t65532\t65532\n", "CapEff:\t0000000000000000\n", "CapBnd:\t0000000000000000\n", "NoNewPrivs:\t1\n", "Seccomp:\t2\n"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("the status of the process does not have %q:\n%s", want, status)
		}
	}
	mounts, err := os.ReadFile("/proc/" + pid + "/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		writable := strings.HasPrefix(fields[3], "rw")
		if on := fields[1]; writable && (on == "/" || on == "/plugins" || on == "/etc/thole" || on == "/tmp") {
			t.Errorf("it can write %s", on)
		}
	}
}

// expectLists fails the test if `thole plugins` in the container does not list a plugin.
func (c *container) expectLists(t *testing.T, plugin string) {
	t.Helper()
	if out := c.plugins(t); !strings.Contains(out, plugin) {
		t.Errorf("thole plugins prints\n%s", out)
	}
}

// remove removes a container whose command was killed.
func (c *container) remove() error {
	return c.engine.command("rm", "--force", "--ignore", c.name()).Run()
}

func (c *container) name() string { return "thole-" + string(c.pod.UID) }

// command returns the command that runs the container.
func (c *container) command(t *testing.T) *exec.Cmd {
	spec, options := c.pod.Spec.Containers[0], []string{"run", "--rm", "--name", c.name(), "--pull", "never", "--network", "host", "--log-driver", "none"}
	options = append(options, "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")
	options = append(options, securityOptions(t, &c.pod.Spec)...)
	for _, m := range spec.VolumeMounts {
		volume := filepath.Join(c.volumes, m.MountPath) + ":" + m.MountPath
		if m.ReadOnly {
			volume += ":ro"
		}
		options = append(options, "--volume", volume)
	}
	server, err := url.Parse(cluster.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"KUBERNETES_SERVICE_HOST=" + server.Hostname(), "KUBERNETES_SERVICE_PORT=" + server.Port()}
	for _, e := range spec.Env {
		env = append(env, e.Name+"="+c.value(t, e))
	}
	for _, e := range env {
		options = append(options, "--env", e)
	}
	options = append(options, imageName)
	for _, a := range spec.Args {
		if strings.HasPrefix(a, "--listen=") {
			a = "--listen=:0"
		}
		options = append(options, a)
	}
	cmd := c.engine.command(options...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	return cmd
}

// securityOptions returns the options for the security context of a pod with one container. The kubelet
// refuses a pod with runAsNonRoot whose image has no other user.
func securityOptions(t *testing.T, pod *corev1.PodSpec) (options []string) {
	t.Helper()
	s := pod.Containers[0].SecurityContext
	switch {
	case s == nil || pod.SecurityContext == nil:
		t.Fatal("the pod has no security context")
	case s.ReadOnlyRootFilesystem != nil && *s.ReadOnlyRootFilesystem:
		options = append(options, "--read-only", "--read-only-tmpfs=false")
	}
	if s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation {
		options = append(options, "--security-opt", "no-new-privileges")
	}
	if s.Capabilities != nil {
		for _, name := range s.Capabilities.Drop {
			options = append(options, "--cap-drop", string(name))
		}
	}
	if user := pod.SecurityContext.RunAsUser; user != nil {
		options = append(options, "--user", strconv.FormatInt(*user, 10))
	}
	return options
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
