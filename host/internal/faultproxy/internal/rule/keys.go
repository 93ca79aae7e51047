package rule

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// setter reads the value of a key.
type setter func(r *Rule, value string) error

// keys are those of every fault.
var keys = map[string]setter{
	"after":      func(r *Rule, v string) error { return setCount(&r.After, v, 0) },
	"times":      func(r *Rule, v string) error { return setCount(&r.Times, v, 1) },
	"for":        func(r *Rule, v string) error { return setDuration(&r.For, v) },
	"namespace":  func(r *Rule, v string) error { return setText(&r.Namespace, v) },
	"name":       func(r *Rule, v string) error { return setText(&r.Name, v) },
	"user-agent": func(r *Rule, v string) error { return setText(&r.UserAgent, v) },
}

// statusKeys are those of the fault "status".
var statusKeys = map[string]setter{
	"reason":      func(r *Rule, v string) error { return setText(&r.Status.Reason, v) },
	"message":     func(r *Rule, v string) error { return setText(&r.Status.Message, v) },
	"body":        func(r *Rule, v string) error { r.Status.Body = &v; return nil },
	"retry-after": func(r *Rule, v string) error { return r.setRetryAfter(v) },
}

func (r *Rule) setCode(value string) error {
	code, err := strconv.Atoi(value)
	if err != nil || code != 200 && (code < 400 || code > 599) {
		return fmt.Errorf("%q is not a code of a reply: want 200 or 400 to 599", value)
	}
	r.Status.Code = code
	return nil
}

func (r *Rule) setRetryAfter(value string) error {
	if err := setDuration(&r.Status.RetryAfter, value); err != nil {
		return err
	}
	if r.Status.RetryAfter%time.Second != 0 {
		return fmt.Errorf("the header Retry-After has whole seconds, not %s: want for example 1s", value)
	}
	return nil
}

func setCount(to *int, value string, least int) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < least {
		return fmt.Errorf("%q is not a number of requests: want %d or more", value, least)
	}
	*to = n
	return nil
}

func setDuration(to *time.Duration, value string) error {
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return fmt.Errorf("%q is not a duration: want for example 100ms or 30s", value)
	}
	*to = d
	return nil
}

func setText(to *string, value string) error {
	if value == "" {
		return errors.New("is empty: leave it out to match all, or for the default")
	}
	*to = value
	return nil
}
