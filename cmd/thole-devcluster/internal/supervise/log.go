package supervise

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

const (
	tailLines = 10
	tailBytes = 16 << 10
)

// createLog makes an empty log and keeps the one before it.
func createLog(path string) (*os.File, error) {
	if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
}

// tail is a part of a sentence that shows the last lines of a log.
func tail(path string) string {
	lines, err := lastLines(path)
	if err != nil {
		return fmt.Sprintf("its log cannot be read: %v", err)
	}
	if len(lines) == 0 {
		return fmt.Sprintf("its log %s is empty", path)
	}
	return fmt.Sprintf("the end of its log %s:\n    %s", path, strings.Join(lines, "\n    "))
}

func lastLines(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer closeAll(f)
	if _, err := f.Seek(-tailBytes, io.SeekEnd); err != nil {
		_, err = f.Seek(0, io.SeekStart) // shorter than that
		if err != nil {
			return nil, err
		}
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		return nil, nil
	}
	lines := strings.Split(text, "\n")
	return lines[max(0, len(lines)-tailLines):], nil
}
