package certificates

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

var hosts = wanted{names: []string{"thole.ns.svc", "127.0.0.1"}, validity: 30 * 24 * time.Hour}

// trusts reports whether the API server, which has a bundle, accepts a certificate.
func trusts(bundle []byte, served *tls.Certificate, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	for _, name := range hosts.names {
		if _, err := served.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now}); err != nil {
			return err
		}
	}
	return nil
}

// The API server and each replica have some state of the last hour: whatever that is, the one
// accepts what the other serves. It does also if the Secret is replaced by one of before now and then.
func TestEveryStateOfARotationIsTrusted(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	t.Run("rotated", func(t *testing.T) {
		if n := rotate(t, 200, 0); n < 9 || n > 11 {
			t.Errorf("%d certificates in 200 days", n)
		}
	})
	t.Run("restored", func(t *testing.T) { rotate(t, 60, 1.0/30) })
}

// rotate runs through days, in each hour of which the Secret may be replaced by one of before. It
// returns how many certificates were served.
func rotate(t *testing.T, days int, restored float64) int {
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var c *certificates
	var arrived []byte // the bundle that the API server has
	var all []*certificates
	recent := map[time.Time]*certificates{}
	served := map[string]bool{}
	for range 24 * days {
		now = now.Add(time.Hour)
		stored := c
		if len(all) > 0 && random.Float64() < restored {
			stored = all[random.IntN(len(all))]
			t.Log(now.Format(time.DateTime), "the Secret was replaced by one that was made", stored.now.made().Format(time.DateTime))
		}
		next, done, err := stored.keep(c, hosts, now).advance(hosts, now, func(bundle []byte) bool { return Contains(arrived, bundle) })
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, next)
		if done != "" {
			t.Log(now.Format(time.DateTime), done)
		}
		if arrived == nil || random.IntN(5) == 0 {
			arrived = next.bundle
		}
		c = next
		recent[now] = c
		for at, state := range recent {
			if now.Sub(at) > time.Hour {
				delete(recent, at)
			} else if err := trusts(arrived, &state.now.tls, now); err != nil {
				t.Fatalf("%s: %v", now, err)
			}
		}
		served[c.now.leaf.SerialNumber.String()] = true
	}
	return len(served)
}

func TestNextCertificateIsServedInTimeWhateverHasArrived(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	never := func([]byte) bool { return false }
	c, _, _ := (*certificates)(nil).advance(hosts, now, never)
	first := c.now
	for c.now == first {
		now = now.Add(time.Hour)
		c, _, _ = c.advance(hosts, now, never)
	}
	if left := first.leaf.NotAfter.Sub(now); left < 60*time.Hour || left > 72*time.Hour {
		t.Errorf("the next one is served %s before the end", left)
	}
}

func TestCertificateThatIsOfNoUseIsReplacedAtOnce(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	c, _, _ := (*certificates)(nil).advance(hosts, now, nil)
	for name, test := range map[string]struct {
		hosts wanted
		after time.Duration
	}{
		"expired":     {hosts, 31 * 24 * time.Hour},
		"other names": {wanted{[]string{"other.ns.svc"}, hosts.validity}, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			next, done, err := c.advance(test.hosts, now.Add(test.after), nil)
			if err != nil || next.now == c.now || !next.now.covers(test.hosts.names) || !strings.HasPrefix(done, "replaced") {
				t.Errorf("%q, %v", done, err)
			}
		})
	}
}

func TestBundleIsBounded(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var bundle []byte
	for range 20 {
		_, authority, err := newPair(hosts, now)
		if err != nil {
			t.Fatal(err)
		}
		bundle = append(bundle, authority...)
	}
	if got := bytes.Count(valid(bundle, now), []byte("BEGIN")); got != maxBundle {
		t.Errorf("%d authorities", got)
	}
}

// newSecrets returns Secrets that refuse an update of another resourceVersion, as the API server does.
func newSecrets(objects ...runtime.Object) *fake.Clientset {
	secrets := fake.NewClientset(objects...)
	version := 0
	secrets.PrependReactor("*", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		write, ok := action.(clienttesting.CreateAction) // an update is one, too
		if !ok {
			return false, nil, nil
		}
		written := write.GetObject().(*corev1.Secret)
		if action.GetVerb() == "update" {
			stored, err := secrets.Tracker().Get(action.GetResource(), written.Namespace, written.Name)
			if err == nil && stored.(*corev1.Secret).ResourceVersion != written.ResourceVersion {
				return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), written.Name, errors.New("it has changed"))
			}
		}
		version++
		written.ResourceVersion = strconv.Itoa(version)
		return false, nil, nil
	})
	return secrets
}

// replica is a replica of the host with the certificates of a Secret.
func replica(secrets *fake.Clientset, log *bytes.Buffer) *Keeper {
	return NewKeeper(KeeperConfig{
		Secrets: secrets.CoreV1().Secrets("ns"), Namespace: "ns", Name: "s", Hosts: hosts.names, Validity: hosts.validity,
		Arrived: func(context.Context, []byte) bool { return true }, Changed: func() {},
		Logger: hclog.New(&hclog.LoggerOptions{Output: log, Level: hclog.Trace}),
	})
}

func TestReplicasShareTheCertificates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secrets := newSecrets()
		var log, otherLog bytes.Buffer
		a, b := replica(secrets, &log), replica(secrets, &otherLog)
		a.Validity, b.Validity = 6*time.Hour, 6*time.Hour
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { a.Run(ctx) })
		running.Go(func() { b.Run(ctx) })
		served := map[string]bool{}
		for range 12 * 60 {
			time.Sleep(time.Minute) // fake time
			synctest.Wait()
			of, err := a.Certificate()
			other, otherErr := b.Certificate()
			if err != nil || otherErr != nil {
				t.Fatal(err, otherErr)
			}
			for _, bundle := range [][]byte{a.Bundle(), b.Bundle()} {
				for _, certificate := range []*tls.Certificate{of, other} {
					if err := trusts(bundle, certificate, time.Now()); err != nil {
						t.Fatal(err)
					}
				}
			}
			served[of.Leaf.SerialNumber.String()] = true
		}
		if len(served) != 3 {
			t.Errorf("%d certificates in 12 hours", len(served))
		}
		cancel()
		running.Wait()
		log.Write(otherLog.Bytes())
		stored, err := secrets.CoreV1().Secrets("ns").Get(t.Context(), "s", metav1.GetOptions{})
		if err != nil || stored.Type != corev1.SecretTypeTLS {
			t.Fatal(stored, err)
		}
		for name, value := range stored.Data {
			if key := keyLines(value); key != "" && strings.Contains(log.String(), key) {
				t.Errorf("%s is in the log", name)
			}
		}
		if strings.Contains(log.String(), "PRIVATE") {
			t.Errorf("a private key is in the log:\n%s", &log)
		}
	})
}

// keyLines returns some of a private key, "" if the text has none.
func keyLines(pem []byte) string {
	if !bytes.Contains(pem, []byte("PRIVATE KEY")) {
		return ""
	}
	return string(bytes.Split(pem, []byte("\n"))[1][:32])
}

func TestSecretThatWasDamagedIsWrittenAgain(t *testing.T) {
	for name, damage := range map[string]func(*corev1.Secret){
		"emptied":             func(s *corev1.Secret) { s.Data = nil },
		"no key":              func(s *corev1.Secret) { delete(s.Data, keyPrivate) },
		"not PEM":             func(s *corev1.Secret) { s.Data[keyCertificate] = []byte("x") },
		"without authorities": func(s *corev1.Secret) { s.Data[keyBundle] = nil },
		"broken authority":    func(s *corev1.Secret) { s.Data[keyBundle] = join(s.Data[keyBundle], encodeCertificate([]byte("x"))) },
	} {
		t.Run(name, func(t *testing.T) {
			secrets := newSecrets()
			k := replica(secrets, &bytes.Buffer{})
			if err := k.step(t.Context()); err != nil {
				t.Fatal(err)
			}
			before, _ := k.Certificate()
			stored, _ := secrets.CoreV1().Secrets("ns").Get(t.Context(), "s", metav1.GetOptions{})
			damage(stored)
			if _, err := secrets.CoreV1().Secrets("ns").Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := k.step(t.Context()); err != nil {
				t.Fatal(err)
			}
			if now, err := k.Certificate(); err != nil || !now.Leaf.Equal(before.Leaf) {
				t.Errorf("another certificate is served, or none: %v", err)
			}
			if !Contains(k.Bundle(), k.Bundle()) {
				t.Errorf("the bundle is not valid:\n%s", k.Bundle())
			}
			other := replica(secrets, &bytes.Buffer{})
			if err := other.step(t.Context()); err != nil {
				t.Fatal(err)
			}
			if now, err := other.Certificate(); err != nil || !now.Leaf.Equal(before.Leaf) {
				t.Errorf("another replica serves another certificate, or none: %v", err)
			}
		})
	}
}

// A replica that starts before another one has seen the restored Secret serves its certificate.
func TestRestoredSecretEndsNothingThatIsServed(t *testing.T) {
	never := func(context.Context, []byte) bool { return false }
	for name, test := range map[string]struct {
		age   time.Duration
		names []string
	}{
		"older":       {time.Hour, hosts.names},
		"expired":     {2 * hosts.validity, hosts.names},
		"other names": {time.Hour, []string{"other.ns.svc"}},
	} {
		t.Run(name, func(t *testing.T) {
			secrets := newSecrets()
			a, b, started := replica(secrets, &bytes.Buffer{}), replica(secrets, &bytes.Buffer{}), replica(secrets, &bytes.Buffer{})
			a.Arrived, b.Arrived = never, never
			step := func(replicas ...*Keeper) {
				t.Helper()
				for _, k := range replicas {
					if err := k.step(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			step(a, b)
			known := a.Bundle() // to the API server
			older, authority, err := newPair(wanted{test.names, hosts.validity}, time.Now().Add(-test.age))
			if err != nil {
				t.Fatal(err)
			}
			stored, _ := secrets.CoreV1().Secrets("ns").Get(t.Context(), "s", metav1.GetOptions{})
			stored.Data = (&certificates{now: older, bundle: authority}).data()
			if _, err := secrets.CoreV1().Secrets("ns").Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			if name == "older" {
				step(started)
			}
			step(a)
			for _, k := range []*Keeper{a, b, started} {
				served, err := k.Certificate()
				if err != nil {
					continue // it has not started
				}
				if err := trusts(a.Bundle(), served, time.Now()); err != nil {
					t.Error(err)
				}
				if err := trusts(known, served, time.Now()); err != nil && k != started {
					t.Error("the API server does not trust it yet: ", err)
				}
			}
			step(b, started, a)
			if of, _ := started.Certificate(); !of.Leaf.Equal(a.current.now.leaf) || !bytes.Equal(b.Bundle(), a.Bundle()) || !bytes.Equal(started.Bundle(), a.Bundle()) {
				t.Error("the replicas do not agree")
			}
		})
	}
}

func TestSecretOfSomebodyElseIsLeftAlone(t *testing.T) {
	secrets := newSecrets(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Data: map[string][]byte{"tls.crt": []byte("x")}})
	k := replica(secrets, &bytes.Buffer{})
	if err := k.step(t.Context()); err == nil || !strings.Contains(err.Error(), "name another one") {
		t.Errorf("got %v", err)
	}
	if _, err := k.Certificate(); err == nil {
		t.Error("a certificate is served")
	}
	stored, _ := secrets.CoreV1().Secrets("ns").Get(t.Context(), "s", metav1.GetOptions{})
	if string(stored.Data["tls.crt"]) != "x" {
		t.Error("the Secret was changed")
	}
}

// What a dry run needs stays in memory.
func TestDryRunStoresNoSecret(t *testing.T) {
	secrets := newSecrets()
	k := replica(secrets, &bytes.Buffer{})
	k.DryRun = true
	for range 2 {
		if err := errors.Join(k.step(t.Context()), k.Err()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := k.Certificate(); err != nil {
		t.Error(err)
	}
	if all, _ := secrets.CoreV1().Secrets("ns").List(t.Context(), metav1.ListOptions{}); len(all.Items) != 0 {
		t.Error("there is a Secret")
	}
}

func TestKeysAreNotInErrors(t *testing.T) {
	p, _, err := newPair(hosts, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range [][]byte{p.key[:len(p.key)/2], append(bytes.Clone(p.key[10:]), p.key...), p.key} {
		if _, err := parsePair(p.certificate[:100], key); err == nil || strings.Contains(fmt.Sprintf("%+v", err), keyLines(p.key)) {
			t.Errorf("got %v", err)
		}
	}
}
