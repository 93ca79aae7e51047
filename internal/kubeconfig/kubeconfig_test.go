package kubeconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const cluster = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
`

const contexts = "contexts: [{name: b, context: {cluster: c, user: u}}, {name: a, context: {cluster: c, user: u}}]\n"

func TestLoad(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1") // client-go would take the pod's cluster
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	for text, want := range map[string]string{
		cluster + contexts + "current-context: a": "",
		cluster + contexts:                        "has no current context: choose one of a, b by `kubectl config use-context NAME --kubeconfig ",
		cluster + contexts + "current-context: z": `its current context "z" is not one of a, b`,
		cluster: "it has no context: name a file as",
		strings.Replace(cluster, "https://127.0.0.1:1", "not a url", 1) + contexts + "current-context: a": `server: "not a url" is not an address such as https://host:6443`,
		"":                          "it has no context",
		"this is: [none":            "yaml: ",
		"apiVersion: v1\nkind: Pod": `no kind "Pod" is registered`,
		"current-context: a\ncontexts: [{name: a, context: {cluster: none, user: u}}]\nclusters: [{name: c, cluster: {server: x}}]": `its current context "a" has the cluster "none", which has no server`,
	} {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		config, err := Load(path)
		switch {
		case want == "" && (err != nil || config.Host != "https://127.0.0.1:1"):
			t.Errorf("%+v, %v", config, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "read kubeconfig "+path+": ")):
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestUnreadableKubeconfigIsNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	for path, want := range map[string]string{
		"none": "read kubeconfig none: no such file or directory",
		".":    "read kubeconfig .: is a directory",
	} {
		if _, err := Load(path); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
