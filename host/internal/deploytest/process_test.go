package deploytest

import (
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// kubeconfig writes a kubeconfig with a token of a service account.
func kubeconfig(t *testing.T, server clientcmdapi.Cluster, namespace, name string) string {
	t.Helper()
	token, err := admin.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return tholetest.Kubeconfig(t, server, clientcmdapi.AuthInfo{Token: token.Status.Token})
}

// newProxy returns a proxy of the API server for a host that has a token.
func newProxy(t *testing.T) *tholetest.Proxy {
	t.Helper()
	return tholetest.NewProxy(t, cluster.Config)
}

// thole runs the host with the plugin podmanager until the test ends.
func thole(t *testing.T, kubeconfig string, args, env []string) *tholetest.Process {
	t.Helper()
	plugins := t.TempDir()
	writePlugin(t, plugins, wasmbuild.Build(t, wasmbuild.TinyGo, "plugins/podmanager"))
	return tholetest.Host{
		Program: program(t), Plugins: plugins, Kubeconfig: kubeconfig,
		CacheDir: filepath.Join(scratch, "cache"), Args: args, Env: env,
	}.Start(t)
}

// only returns the only plugin, or the zero value if the host does not respond.
func only(p *tholetest.Process) tholetest.Plugin {
	if plugins, _ := p.Plugins(); len(plugins) == 1 {
		return plugins[0]
	}
	return tholetest.Plugin{}
}

// revision returns the revision of the running plugin, 0 if it does not run.
func revision(p *tholetest.Process) int {
	if only := only(p); only.State == "running" {
		return only.Revision
	}
	return 0
}

// withField returns the lines that have a text of the API server in a field, such
// as an error or a reason. Messages are not searched, because they are not meant for
// programs.
func withField(lines tholetest.Lines, text string) tholetest.Lines {
	return lines.Where(func(line tholetest.Line) bool {
		for field := range line {
			if field != "@message" && strings.Contains(line.String(field), text) {
				return true
			}
		}
		return false
	})
}
