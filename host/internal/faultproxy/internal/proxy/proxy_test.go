package proxy

import (
	"bufio"
	"context"
	"errors"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/thole-dev/thole/host/internal/faultproxy/internal/rule"
)

func TestRequestsPassUnchangedAndAreRecorded(t *testing.T) {
	inEachProtocol(t, func(w *world) {
		if got, err := w.get(); err != nil || got.Name != "x" {
			t.Errorf("%v, %v", got, err)
		}
		if r := w.last(); r.Verb != "get" || r.Resource != "pods" || r.Namespace != "a" || r.Name != "x" ||
			r.Code != 200 || r.ServerCode != 200 || r.Created || r.Rule != "" || !strings.Contains(r.UserAgent, "proxy.test") {
			t.Errorf("%+v", r)
		}
		w.must(w.create())
		if r := w.last(); r.Verb != "create" || r.Name != "new" || r.Code != 201 || !r.Created {
			t.Errorf("%+v", r)
		}
		w.expectArrived("GET /api/v1/namespaces/a/pods/x", "POST /api/v1/namespaces/a/pods")
		w.proxy.Requests.Clear()
		if left := w.proxy.Requests.Records(); len(left) > 0 {
			t.Errorf("%+v", left)
		}
	})
}

func TestCredentialsAreAddedToRequestsWithoutAToken(t *testing.T) {
	w := newWorld(t, "h2")
	for token, want := range map[string]string{"": "Bearer own", "theirs": "Bearer theirs"} {
		r := w.client.CoreV1().RESTClient().Get().AbsPath("/version")
		if token != "" {
			r.SetHeader("Authorization", "Bearer "+token)
		}
		w.must(r.Do(t.Context()).Error())
		if got := w.headers[len(w.headers)-1].Get("Authorization"); got != want {
			t.Errorf("token %q: the server saw %q, want %q", token, got, want)
		}
	}
}

func TestStatusIsThatOfTheAPIServer(t *testing.T) {
	w := newWorld(t, "h2")
	for fault, is := range map[string]func(error) bool{
		"status=400": apierrors.IsBadRequest, "status=401": apierrors.IsUnauthorized, "status=403": apierrors.IsForbidden,
		"status=404": apierrors.IsNotFound, "status=409": apierrors.IsConflict, "status=410": apierrors.IsResourceExpired,
		"status=422": apierrors.IsInvalid, "status=429": apierrors.IsTooManyRequests, "status=500": apierrors.IsInternalError,
		"status=503": apierrors.IsServiceUnavailable, "status=504": apierrors.IsTimeout,
		"status=500 reason=Expired":         apierrors.IsResourceExpired,
		`status=500 message="etcd is away"`: func(err error) bool { return strings.Contains(err.Error(), "etcd is away") },
	} {
		w.rules("get pods " + fault)
		if _, err := w.get(); !is(err) {
			t.Errorf("%s: %v", fault, err)
		}
		if r := w.last(); r.ServerCode != 0 || r.Code < 400 || r.Rule != "get pods "+fault {
			t.Errorf("%s: recorded as %+v", fault, r)
		}
	}
	w.rules("get pods status=418 body=teapot")
	body, err := w.client.CoreV1().RESTClient().Get().AbsPath("/api/v1/pods/x").DoRaw(t.Context())
	if string(body) != "teapot" || err == nil {
		t.Errorf("%q, %v", body, err)
	}
	w.rules("create pods status=409")
	if err := w.create(); !apierrors.IsAlreadyExists(err) {
		t.Errorf("create: %v", err)
	}
	w.expectArrived()
}

func TestRetryAfterIsInHeaderAndStatus(t *testing.T) {
	w := newWorld(t, "h2")
	w.rules("get pods status=429 retry-after=7s")
	result := w.client.CoreV1().RESTClient().Get().AbsPath("/api/v1/pods/x").MaxRetries(0).Do(t.Context())
	if seconds, ok := apierrors.SuggestsClientDelay(result.Error()); !ok || seconds != 7 {
		t.Errorf("%d, %v: %v", seconds, ok, result.Error())
	}
	w.rules("get pods status=429 retry-after=1s times=1 body='Too many requests'")
	if _, err := w.get(); err != nil {
		t.Errorf("client-go repeats a request with Retry-After: %v", err)
	}
}

func TestLostWriteHasTakenPlace(t *testing.T) {
	inEachProtocol(t, func(w *world) {
		w.rules("create pods lost times=1")
		if err := w.create(); err == nil || errors.As(err, new(*apierrors.StatusError)) {
			t.Errorf("the client got a reply: %v", err)
		}
		w.expectArrived("POST /api/v1/namespaces/a/pods")
		if r := w.last(); r.Code != 0 || r.ServerCode != 201 || !r.Created || r.Rule != "create pods lost times=1" {
			t.Errorf("%+v", r)
		}
		w.must(w.create())
	})
}

func TestCutRequestDoesNotArriveAndTakesItsConnectionAlong(t *testing.T) {
	inEachProtocol(t, func(w *world) {
		_, err := w.get()
		w.must(err)
		w.rules("create pods cut")
		if err := w.create(); err == nil || errors.As(err, new(*apierrors.StatusError)) {
			t.Errorf("the client got a reply: %v", err)
		}
		w.expectArrived("GET /api/v1/namespaces/a/pods/x")
		dials := w.dials.Load()
		if _, err := w.get(); err != nil || w.dials.Load() != dials+1 {
			t.Errorf("%v; %d new connections, want 1", err, w.dials.Load()-dials)
		}
		if r := w.proxy.Requests.Records()[1]; r.Code != 0 || r.ServerCode != 0 {
			t.Errorf("%+v", r)
		}
	})
}

func TestHalfOfTheBodyArrives(t *testing.T) {
	inEachProtocol(t, func(w *world) {
		w.rules("get pods half")
		body, err := w.client.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/a/pods/x").MaxRetries(0).DoRaw(t.Context())
		if err == nil || string(body) != pod[:len(pod)/2] {
			t.Errorf("%q, %v", body, err)
		}
		if r := w.last(); r.Code != 200 || r.ServerCode != 200 {
			t.Errorf("%+v", r)
		}
	})
}

func TestHangingRequestIsPassedOnWhenTheRuleIsRemoved(t *testing.T) {
	inEachProtocol(t, func(w *world) {
		w.rules("create pods hang")
		done := make(chan error)
		go func() { done <- w.create() }()
		w.awaitApplied(1)
		w.expectArrived()
		if r := w.last(); r.Code != 0 || r.Name != "new" {
			t.Errorf("%+v", r)
		}
		w.rules("")
		if err := <-done; err != nil {
			t.Error(err)
		}
		w.expectArrived("POST /api/v1/namespaces/a/pods")
	})
}

// A client that gives up must not have its request performed afterwards.
func TestHangingRequestEndsWithItsClient(t *testing.T) {
	inEachProtocol(t, func(w *world) {
		w.rules("create pods hang")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- w.client.CoreV1().RESTClient().Post().AbsPath("/api/v1/namespaces/a/pods").Body([]byte(pod)).Do(ctx).Error()
		}()
		w.awaitApplied(1)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		w.await("the request has ended", func() bool { return w.current.Load() == 0 })
		w.rules("")
		w.expectArrived()
	})
}

func TestDelayedRequestArrivesLaterOrWhenTheRuleIsRemoved(t *testing.T) {
	inEachProtocol(t, func(w *world) {
		w.rules("get pods delay=30ms\n* pods delay=20ms")
		start := time.Now()
		if _, err := w.get(); err != nil || time.Since(start) < 50*time.Millisecond {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		w.rules("create pods delay=1h")
		done := make(chan error)
		go func() { done <- w.create() }()
		w.awaitApplied(1)
		w.expectArrived("GET /api/v1/namespaces/a/pods/x")
		w.rules("")
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestStaleListIsThatOfTheVersionAtWhichTheRuleWasAdded(t *testing.T) {
	w := newWorld(t, "h2")
	w.rules("list pods stale")
	pods := w.client.CoreV1().Pods("a")
	for _, o := range []metav1.ListOptions{
		{ResourceVersion: "0", Limit: 3}, {LabelSelector: "a=b"}, {Continue: "token", Limit: 3},
	} {
		_, err := pods.List(t.Context(), o)
		w.must(err)
	}
	const path = "/api/v1/namespaces/a/pods?"
	w.expectArrived(
		"GET /api/v1/namespaces?limit=1",
		"GET "+path+"limit=3&resourceVersion=42&resourceVersionMatch=Exact",
		"GET "+path+"labelSelector=a%3Db&resourceVersion=42&resourceVersionMatch=Exact",
		"GET "+path+"continue=token&limit=3",
	)
	yes := true
	_, err := pods.Watch(t.Context(), metav1.ListOptions{SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	if !apierrors.IsInvalid(err) {
		t.Errorf("watch-list: %v", err)
	}
	stream, err := pods.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "42"})
	w.must(err)
	stream.Stop()
}

func TestRuleThatCannotBeMadeChangesNothing(t *testing.T) {
	w := newWorld(t, "h2")
	w.rules("get pods lost")
	stale, err := rule.ParseAll("list pods stale")
	w.must(err)
	w.proxy.target.Host = "127.0.0.1:1"
	if err := w.proxy.Replace(t.Context(), stale); err == nil || !strings.Contains(err.Error(), "resourceVersion for the fault stale") {
		t.Error(err)
	}
	if uses := w.proxy.Rules.Uses(); uses[0].Rule != "get pods lost" {
		t.Errorf("%+v", uses)
	}
}

func TestUnreachableServerIsAConnectionThatEnds(t *testing.T) {
	w := newWorld(t, "http/1.1")
	w.proxy.target.Host = "127.0.0.1:1"
	if err := w.create(); err == nil || errors.As(err, new(*apierrors.StatusError)) {
		t.Errorf("the client got a reply: %v", err)
	}
	if r := w.last(); r.Code != 0 || r.ServerCode != 0 {
		t.Errorf("%+v", r)
	}
}

// child starts a process that the proxy may signal.
func (w *world) child() *exec.Cmd {
	w.Helper()
	child := exec.CommandContext(w.Context(), "cat")
	_, err := child.StdinPipe()
	w.must(err)
	w.must(child.Start())
	w.Cleanup(func() { _ = child.Process.Kill() })
	w.must(w.proxy.Process.Set(child.Process.Pid))
	return child
}

func TestKillEndsTheProcessAfterTheWriteAndBeforeTheReply(t *testing.T) {
	inEachProtocol(t, func(w *world) {
		child := w.child()
		w.rules("write * kill after=1 times=1")
		w.must(w.create())
		if err := w.create(); err == nil || errors.As(err, new(*apierrors.StatusError)) {
			t.Errorf("the client got a reply: %v", err)
		}
		if err := child.Wait(); err == nil || child.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Errorf("the process ended by %v", err)
		}
		if got := len(w.requests()); got != 2 {
			t.Errorf("%d writes were performed, want 2", got)
		}
		w.must(w.create()) // of the next process
	})
}

func TestStopStopsTheProcessBeforeTheReply(t *testing.T) {
	w := newWorld(t, "h2")
	child := w.child()
	w.rules("create pods stop times=1")
	w.must(w.create())
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(child.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || status.StopSignal() != syscall.SIGSTOP {
		t.Errorf("%v, %v", status, err)
	}
	w.must(child.Process.Kill())
	_ = child.Wait()
	w.must(w.create())
	w.rules("create pods stop") // of a process that has ended
	w.must(w.create())
}

func TestKillWithoutAProcessPerformsNothing(t *testing.T) {
	w := newWorld(t, "h2")
	w.rules("create pods kill")
	if err := w.create(); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "no process is set to signal: PUT its id to /process") {
		t.Error(err)
	}
	w.expectArrived()
}

func TestEveryRequestIsCountedOnce(t *testing.T) {
	inEachProtocol(t, func(w *world) {
		w.rules("patch pods status=409 times=30")
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() {
				for range 10 {
					_, _ = w.client.CoreV1().Pods("a").Patch(t.Context(), "x", types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
				}
			})
		}
		group.Wait()
		codes := map[int]int{}
		for _, r := range w.proxy.Requests.Records() {
			codes[r.Code]++
		}
		if len(w.requests()) != 70 || codes[200] != 70 || codes[409] != 30 || len(codes) != 2 {
			t.Errorf("codes %v, %d at the server", codes, len(w.requests()))
		}
	})
}

// next returns the next event of a watch, or its end.
func (w *world) next(stream watch.Interface) string {
	w.Helper()
	select {
	case e, ok := <-stream.ResultChan():
		if !ok {
			return "end"
		}
		if status, ok := e.Object.(*metav1.Status); ok {
			return string(e.Type) + " " + string(status.Reason)
		}
		return string(e.Type)
	case <-time.After(time.Minute):
		w.Fatal("nothing arrived within a minute")
		return ""
	}
}

func (w *world) expectNext(stream watch.Interface, want ...string) {
	w.Helper()
	for _, what := range want {
		if got := w.next(stream); got != what {
			w.Errorf("the watch had %q, want %q", got, what)
		}
	}
}

func (w *world) watch() watch.Interface {
	w.Helper()
	stream, err := w.client.CoreV1().Pods("a").Watch(w.Context(), metav1.ListOptions{ResourceVersion: "42"})
	w.must(err)
	w.Cleanup(stream.Stop)
	return stream
}

const modified = `{"type":"MODIFIED","object":` + pod + `}`

func TestOpenWatchIsCutWithItsConnection(t *testing.T) {
	inEachProtocol(t, func(w *world) {
		stream := w.watch()
		w.events <- modified
		w.expectNext(stream, "MODIFIED")
		if r := w.last(); r.Verb != "watch" || r.Code != 200 {
			t.Errorf("%+v", r)
		}
		w.rules("watch pods cut times=1")
		for what := w.next(stream); what != "end"; what = w.next(stream) {
			if !strings.HasPrefix(what, "ERROR") { // client-go reports a connection that breaks so
				t.Errorf("the watch had %q", what)
			}
		}
		dials := w.dials.Load()
		again := w.watch()
		if w.dials.Load() != dials+1 {
			t.Error("the connection was not closed")
		}
		w.await("the first watch has ended at the server", func() bool { return w.watches.Load() == 1 })
		w.events <- modified
		w.expectNext(again, "MODIFIED")
	})
}

func TestFrozenWatchGoesOn(t *testing.T) {
	inEachProtocol(t, func(w *world) {
		stream := w.watch()
		w.rules("watch pods freeze")
		w.events <- modified
		w.must(w.create()) // the connection works
		select {
		case e := <-stream.ResultChan():
			t.Errorf("%v arrived", e)
		default:
		}
		w.rules("")
		w.expectNext(stream, "MODIFIED")
	})
}

func TestGoneEndsOpenAndNewWatches(t *testing.T) {
	inEachProtocol(t, func(w *world) {
		stream := w.watch()
		w.rules("watch pods gone times=2")
		w.expectNext(stream, "ERROR Expired", "end")
		w.expectNext(w.watch(), "ERROR Expired", "end")
		if got := len(w.requests()); got != 1 {
			t.Errorf("%d watches at the server, want 1", got)
		}
		third := w.watch()
		w.await("the first watch has ended at the server", func() bool { return w.watches.Load() == 1 })
		w.events <- modified
		w.expectNext(third, "MODIFIED")
	})
}

func TestHalfOfAnEventArrives(t *testing.T) {
	inEachProtocol(t, func(w *world) {
		w.rules("watch pods half times=1")
		stream, err := w.client.CoreV1().RESTClient().Get().AbsPath("/api/v1/pods").Param("watch", "1").Stream(t.Context())
		w.must(err)
		defer stream.Close()
		w.events <- modified
		text, err := bufio.NewReader(stream).ReadString('\n')
		if text != (modified + "\n")[:(len(modified)+1)/2] || err == nil {
			t.Errorf("%q, %v", text, err)
		}
	})
}

func TestWatchOfAClientThatLeavesEndsAtTheServer(t *testing.T) {
	inEachProtocol(t, func(w *world) {
		stream := w.watch()
		w.rules("watch pods freeze")
		stream.Stop()
		w.await("the watch has ended at the server", func() bool { return w.current.Load() == 0 && w.watches.Load() == 0 })
		w.rules("watch pods gone") // meets no open watch
		if uses := w.proxy.Rules.Uses()[0]; uses.Matched != 0 {
			t.Errorf("%+v", uses)
		}
	})
}
