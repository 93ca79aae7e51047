package effect

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/internal/explain"
	"github.com/thole-dev/thole/host/object"
)

// client sends requests as one plugin. Its errors are the API server's
// (apierrors.APIStatus) or the network's.
type client struct {
	rest   rest.Interface
	dryRun bool                    // nothing is stored
	reads  flowcontrol.RateLimiter // reads do not wait behind writes
}

// readsPerWrite is how many reads the limits allow for each write: at most
// two precede one.
const readsPerWrite = 5

// maxRetries bounds how often one request is repeated because the server
// asked for it (429, or 5xx with Retry-After). It waits inside a worker; the
// queue is the better place.
const maxRetries = 2

func newClient(c *Config) (client, error) {
	config := rest.CopyConfig(c.REST)
	config.UserAgent = "thole/" + c.Version + " plugin/" + c.Plugin
	config.RateLimiter = watched{flowcontrol.NewTokenBucketRateLimiter(c.QPS, c.Burst), c.Waited}
	config.Timeout = c.Timeout
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.NegotiatedSerializer = statusCodec()
	config.WarningHandlerWithContext = &warnings{logger: c.Logger}
	if c.Impersonate.UserName != "" {
		config.Impersonate = c.Impersonate
	}
	h, err := rest.HTTPClientFor(config)
	if err != nil {
		return client{}, err
	}
	r, err := rest.UnversionedRESTClientForConfigAndClient(config, h)
	if err != nil {
		return client{}, err
	}
	return client{rest: r, dryRun: c.DryRun, reads: flowcontrol.NewTokenBucketRateLimiter(c.QPS*readsPerWrite, c.Burst*readsPerWrite)}, nil
}

// watched is a limiter that tells how long it has kept each write waiting.
type watched struct {
	flowcontrol.RateLimiter
	waited func(time.Duration)
}

func (w watched) Wait(ctx context.Context) error {
	began := time.Now()
	err := w.RateLimiter.Wait(ctx)
	if w.waited != nil {
		w.waited(time.Since(began))
	}
	return err
}

// statusCodec decodes the one type that is not handled as bytes: the Status
// of an error.
func statusCodec() runtime.NegotiatedSerializer {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return serializer.NewCodecFactory(scheme).WithoutConversion()
}

// Media types of patches.
const (
	jsonPatch  = "application/json-patch+json"
	mergePatch = "application/merge-patch+json"
	applyPatch = "application/apply-patch+yaml" // JSON is YAML
)

// patch is one PATCH request.
type patch struct {
	mediaType string
	manager   string
	force     bool // of an apply
	status    bool // the subresource
	body      []byte
}

// patch sends p and returns the object that it led to.
func (c client) patch(ctx context.Context, r object.Resource, key object.Key, p patch) (*object.Object, error) {
	path := r.Path(key)
	if p.status {
		path = append(path, "status")
	}
	request := c.rest.Verb(http.MethodPatch).AbsPath(path...).
		SetHeader("Content-Type", p.mediaType).
		Param("fieldManager", p.manager).
		Body(p.body)
	if p.force {
		request.Param("force", "true")
	}
	if c.dryRun {
		request.Param("dryRun", metav1.DryRunAll)
	}
	raw, err := send(ctx, request)
	if err != nil {
		return nil, err
	}
	return object.Parse(raw, r.Kind)
}

// get reads an object past every cache.
func (c client) get(ctx context.Context, r object.Resource, key object.Key) (*object.Object, error) {
	raw, err := send(ctx, c.read(r, key))
	if err != nil {
		return nil, err
	}
	return object.Parse(raw, r.Kind)
}

// metadata reads an object's metadata with its managedFields.
func (c client) metadata(ctx context.Context, r object.Resource, key object.Key) ([]byte, error) {
	return send(ctx, c.read(r, key).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"))
}

func (c client) read(r object.Resource, key object.Key) *rest.Request {
	return c.rest.Verb(http.MethodGet).AbsPath(r.Path(key)...).Throttle(c.reads)
}

// delete sends DELETE with options and returns the reply: the object, if it
// is still there, or a Status.
func (c client) delete(ctx context.Context, r object.Resource, key object.Key, options []byte) ([]byte, error) {
	return send(ctx, c.rest.Verb(http.MethodDelete).AbsPath(r.Path(key)...).Body(options).
		SetHeader("Content-Type", runtime.ContentTypeJSON))
}

func send(ctx context.Context, request *rest.Request) ([]byte, error) {
	result := request.MaxRetries(maxRetries).Do(ctx)
	if err := result.Error(); err != nil { // decodes the server's Status, Raw does not
		return nil, err
	}
	return result.Raw()
}

// maxWarnings bounds how many warnings are told apart.
const maxWarnings = 256

// warnings logs what the server warns of, each text once.
type warnings struct {
	logger hclog.Logger
	mu     sync.Mutex
	seen   map[string]bool
}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, code int, _, text string) {
	const miscellaneous = 299 // what Kubernetes uses
	if code == miscellaneous && w.first(text) {
		w.logger.Warn("the API server warns of a request of the plugin", "warning", text)
	}
}

func (w *warnings) first(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[text] {
		return false
	}
	if w.seen == nil || len(w.seen) >= maxWarnings {
		w.seen = map[string]bool{}
	}
	w.seen[text] = true
	return true
}

// notServed tells a kind that is not there from an API server that could not
// be asked for it.
func notServed(err error) error {
	var answer apierrors.APIStatus
	_, unreachable := explain.Unreachable(err)
	if unreachable || errors.As(err, &answer) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &refusal{class: abi.ClassRetry, reason: "KindNotServed", cause: err, message: err.Error()}
}
