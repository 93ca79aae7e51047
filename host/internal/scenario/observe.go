package scenario

import (
	"cmp"
	"flag"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// ready observes that /readyz reports readiness.
func ready(s *script, flags *flag.FlagSet, args []string) (func() error, error) {
	if _, err := parse(flags, args, 0, 0); err != nil {
		return nil, err
	}
	return func() error {
		status, body, err := s.readyz()
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("/readyz returned %d: %s", status, body)
		}
		return err
	}, nil
}

// notReady observes that /readyz reports that the host is not ready, and why.
func notReady(s *script, flags *flag.FlagSet, args []string) (func() error, error) {
	args, err := parse(flags, args, 0, 1)
	if err != nil {
		return nil, err
	}
	text := strings.Join(args, "")
	return func() error {
		status, body, err := s.readyz()
		if err == nil && (status != http.StatusServiceUnavailable && status != http.StatusInternalServerError || !strings.Contains(body, text)) {
			err = fmt.Errorf("/readyz returned %d, expected that the host is not ready with %q: %s", status, text, body)
		}
		return err
	}, nil
}

// readyz returns the response of /readyz?verbose. Status 0 means that there is none.
func (s *script) readyz() (status int, body string, err error) {
	host, err := s.running()
	if err != nil {
		return 0, "", err
	}
	status, body = host.Get("/readyz?verbose")
	return status, body, nil
}

// plugins observes the state of a plugin at /plugins, and a text in its entry.
func plugins(s *script, flags *flag.FlagSet, args []string) (func() error, error) {
	args, err := parse(flags, args, 2, 3)
	if err != nil {
		return nil, err
	}
	name, state, text := args[0], args[1], strings.Join(args[2:], "")
	return func() error {
		host, err := s.running()
		if err != nil {
			return err
		}
		got := host.Plugin(name)
		if got.State != state || !strings.Contains(fmt.Sprintf("%+v", got), text) {
			return fmt.Errorf("/plugins has %+v, expected state %s %s", got, state, text)
		}
		return nil
	}, nil
}

// logs observes a text in the log of the host, also of earlier ones of the script.
func logs(s *script, flags *flag.FlagSet, args []string) (func() error, error) {
	args, err := parse(flags, args, 1, 1)
	if err != nil {
		return nil, err
	}
	return func() error {
		if !strings.Contains(s.log(), args[0]) {
			return fmt.Errorf("the log does not have %q", args[0])
		}
		return nil
	}, nil
}

// metric observes the sum of the series that have labels.
func metric(s *script, flags *flag.FlagSet, args []string) (func() error, error) {
	args, err := parse(flags, args, 3, 3)
	if err != nil {
		return nil, err
	}
	name, labels, err := parseSeries(args[0])
	if err != nil {
		return nil, err
	}
	compare, err := parseComparison(args[1], args[2])
	if err != nil {
		return nil, err
	}
	return func() error {
		host, err := s.running()
		if err != nil {
			return err
		}
		metrics := host.Metrics()
		if err := compare(args[0], metrics.Sum(name, labels...)); err != nil {
			return fmt.Errorf("%w; the metric has:\n%s", err, seriesOf(string(metrics), name))
		}
		return nil
	}, nil
}

// seriesOf returns the lines of a metric.
func seriesOf(metrics, name string) string {
	var b strings.Builder
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, name+"{") || strings.HasPrefix(line, name+" ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

var (
	series     = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?$`)
	labelValue = regexp.MustCompile(`^\s*([a-zA-Z_][a-zA-Z0-9_]*)="([^"]*)"\s*(?:,|$)`)
)

// parseSeries reads NAME{LABEL="VALUE",...} and returns labels and values in turn.
func parseSeries(text string) (name string, labels []string, err error) {
	parts := series.FindStringSubmatch(text)
	if parts == nil {
		return "", nil, wrongUse("%q is not NAME or NAME{LABEL=\"VALUE\",...}", text)
	}
	for rest := parts[2]; rest != ""; {
		label := labelValue.FindStringSubmatch(rest)
		if label == nil {
			return "", nil, wrongUse("%q has no label in the form LABEL=\"VALUE\" at %q", text, rest)
		}
		labels, rest = append(labels, label[1], label[2]), rest[len(label[0]):]
	}
	return parts[1], labels, nil
}

// parseComparison reads an operator and a number. The result returns nil if a value
// compares so.
func parseComparison(operator, number string) (func(what string, value float64) error, error) {
	wanted, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return nil, wrongUse("%q is not a number", number)
	}
	holds, ok := map[string]func(order int) bool{
		"=":  func(order int) bool { return order == 0 },
		"<=": func(order int) bool { return order <= 0 },
		">=": func(order int) bool { return order >= 0 },
	}[operator]
	if !ok {
		return nil, wrongUse("%q is none of =, <=, >=", operator)
	}
	return func(what string, value float64) error {
		if holds(cmp.Compare(value, wanted)) {
			return nil
		}
		return fmt.Errorf("%s is %v, expected %s %v", what, value, operator, wanted)
	}, nil
}
