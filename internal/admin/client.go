package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 8 << 20

// StatusError is an answer of the admin API that isn't success.
type StatusError struct {
	// Code is the HTTP status.
	Code int
	// Text is what the node said, or the status in words.
	Text string
}

// Error is what the node said.
func (e *StatusError) Error() string { return e.Text }

// dialer reaches admin listeners: not by a proxy of the environment, as a password may be on
// its way, and without keeping a connection of a process that is about to be killed.
var dialer = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Call makes one request to the admin API at addr (host:port), with body as JSON where it
// isn't nil, and decodes the answer into answer where that isn't nil. Only ctx bounds its
// time. Answers other than success are a *StatusError.
func Call(ctx context.Context, addr, method, path string, body, answer any) error {
	var send io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		send = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, send)
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := dialer.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return err
	}
	if len(text) > maxAnswer {
		return fmt.Errorf("admin API at %s: an answer of more than %d bytes", addr, maxAnswer)
	}
	if resp.StatusCode >= 300 {
		return statusError(resp, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// statusError is an answer that isn't success, with what its body says.
func statusError(resp *http.Response, text []byte) error {
	var said struct{ Error string }
	if json.Unmarshal(text, &said) != nil || said.Error == "" {
		said.Error = resp.Status
	}
	return &StatusError{Code: resp.StatusCode, Text: said.Error}
}
