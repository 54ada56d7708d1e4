package opencode

import (
	"context"
	"net/http"
	"slices"
)

// ServerConnected is the status of a language server that works.
const ServerConnected = "connected"

// LanguageServer is a language server that OpenCode has started.
type LanguageServer struct {
	ID     string `json:"id"`     // gopls, typescript …
	Root   string `json:"root"`   // what it looks at, relative to the directory; empty: all of it
	Status string `json:"status"` // connected | error
}

// LanguageServers lists those of the directory. OpenCode starts one with the first file of its kind that an agent edits,
// if it is installed; which kinds one is for is not told. Without any, editing tools report empty diagnostics, the same
// as for files without a fault.
func (d *Directory) LanguageServers(ctx context.Context) ([]LanguageServer, error) {
	var out []LanguageServer
	err := d.call(ctx, request{op: "list language servers", method: http.MethodGet, path: "/lsp", out: &out})
	return out, err
}

// HasLanguageServer reports whether one of them works.
func (d *Directory) HasLanguageServer(ctx context.Context) (bool, error) {
	servers, err := d.LanguageServers(ctx)
	return slices.ContainsFunc(servers, func(s LanguageServer) bool { return s.Status == ServerConnected }), err
}
