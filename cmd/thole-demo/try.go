package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// invite says what to try, and how the demo ends.
func (d *demo) invite() {
	d.out.say("Try, in another terminal:")
	if _, err := exec.LookPath("kubectl"); err == nil {
		d.out.commands(d.kubectlLines())
	} else if lines, err := d.curlLines(); err == nil {
		d.out.write("  (kubectl is not on the PATH; these do the same)\n")
		d.out.commands(lines)
	}
	d.out.commands([]string{"curl -s http://" + d.listen + "/plugins"})
	d.out.say("Ctrl-C ends the demo and removes everything it made.")
	d.out.write("\n")
}

const patchedImage = `{"spec":{"image":"nginx:1.30"}}`

func (d *demo) kubectlLines() []string {
	plural, name := d.resource.Resource, d.sample.GetName()
	return []string{
		"export KUBECONFIG=" + word(d.path("kubeconfig")),
		"kubectl get " + plural + ",pods",
		"kubectl patch " + plugin + " " + name + " --type merge -p '" + patchedImage + "'",
		"kubectl delete pod " + name,
		"kubectl delete " + plugin + " " + name,
	}
}

// curlLines are the kubectl lines for those who have no kubectl.
func (d *demo) curlLines() ([]string, error) {
	if err := d.writeCurlConfig(); err != nil {
		return nil, err
	}
	namespace, name := "/namespaces/"+d.sample.GetNamespace()+"/", d.sample.GetName()
	primary := fmt.Sprintf("$api/apis/%s/%s%s%s/%s", d.resource.Group, d.resource.Version, namespace, d.resource.Resource, name)
	pod := "$api/api/v1" + namespace + "pods/" + name
	return []string{
		"api=" + d.cluster.Host,
		"k() { curl -sS -K " + word(d.path("curl")) + ` "$@"; }`,
		"k " + primary + " " + pod,
		"k " + primary + " -X PATCH -H 'Content-Type: application/merge-patch+json' -d '" + patchedImage + "'",
		"k " + pod + " -X DELETE",
		"k " + primary + " -X DELETE",
	}, nil
}

// writeCurlConfig writes a file for curl's -K: who we are.
func (d *demo) writeCurlConfig() error {
	tls := d.cluster.TLSClientConfig
	var config strings.Builder
	for _, part := range []struct {
		option string
		data   []byte
	}{{"cacert", tls.CAData}, {"cert", tls.CertData}, {"key", tls.KeyData}} {
		path := d.path("curl-" + part.option + ".pem")
		if err := os.WriteFile(path, part.data, 0o600); err != nil {
			return err
		}
		fmt.Fprintf(&config, "%s = %q\n", part.option, path)
	}
	return os.WriteFile(d.path("curl"), []byte(config.String()), 0o600)
}

// word quotes a word for the shell if it needs that.
func word(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(wordRunes, r) }) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

const wordRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-"
