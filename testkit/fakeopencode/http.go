package fakeopencode

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// bare is an answer sent as it is; others are wrapped in {data}.
type bare struct{ any }

type route struct {
	operation string // its id in the API description, without "v2." and "experimental."
	pattern   string // method and path
	handle    any    // a method of what the request is about: Server, session or location
}

const (
	ofSession = "/api/session/{sessionID}"
	trial     = "/api/experimental/session/{sessionID}"
)

var routes = []route{
	{"server.info", "GET /api/info", (*Server).info},
	{"config.get", "GET /api/config", (*location).getConfig},

	{"agent.list", "GET /api/agent", (*location).listAgents},
	{"model.list", "GET /api/model", (*location).listModels},
	{"plugin.list", "GET /api/plugin", (*location).listPlugins},

	{"session.list", "GET /api/session", (*Server).listSessions},
	{"session.create", "POST /api/session", (*Server).createSession},
	{"session.active", "GET /api/session/active", (*Server).active},
	{"session.get", "GET " + ofSession, (*session).getSession},
	{"session.remove", "DELETE " + ofSession, (*session).removeSession},
	{"session.update", "PATCH " + ofSession, (*session).updateSession},
	{"session.switchAgent", "POST " + ofSession + "/agent", (*session).switchAgent},
	{"session.switchModel", "POST " + ofSession + "/model", (*session).switchModel},
	{"session.prompt", "POST " + ofSession + "/prompt", (*session).prompt},
	{"session.interrupt", "POST " + ofSession + "/interrupt", (*session).interrupt},
	{"session.wait", "POST " + trial + "/wait", (*session).wait},
	{"session.message.list", "GET " + ofSession + "/message", (*session).listMessages},
	{"session.message.get", "GET " + ofSession + "/message/{messageID}", (*session).getMessage},
	{"session.instructions.entry.put", "PUT " + trial + "/instructions/entries/{key}", (*session).putEntry},

	{"permission.request.list", "GET /api/permission/request", (*location).listPermissions},
	{"session.permission.reply", "POST " + ofSession + "/permission/{requestID}/reply", (*session).replyPermission},
	{"form.list", "GET /api/form", (*location).listForms},
	{"session.form.reply", "POST " + ofSession + "/form/{requestID}/reply", (*session).replyForm},
	{"session.form.cancel", "DELETE " + ofSession + "/form/{requestID}", (*session).cancelForm},

	{"shell.list", "GET /api/shell", (*location).listShells},
	{"shell.remove", "DELETE /api/shell/{id}", (*Server).removeShell},

	{"mcp.list", "GET /api/mcp", (*location).listMCP},
	{"mcp.add", "PUT /api/experimental/mcp/{server}", (*location).addMCP},
	{"mcp.remove", "DELETE /api/experimental/mcp/{server}", (*location).removeMCP},
}

// Handler serves the API of the server's version. Every route below /api needs the password; the web page does not.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	if s.behaviour.Older { // all that is here of the API before 2.0.4
		mux.HandleFunc("GET /api/health", func(w http.ResponseWriter, _ *http.Request) {
			send(w, http.StatusOK, fields{"healthy": true, "version": s.behaviour.Version, "pid": os.Getpid()})
		})
	} else {
		mux.HandleFunc("GET /api/event", s.eventStream)
		for _, one := range routes {
			mux.HandleFunc(one.pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(one, w, r) })
		}
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!doctype html><title>OpenCode</title>")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if strings.HasPrefix(r.URL.Path, "/api/") && (user != "opencode" || password != s.cfg.Password) {
			send(w, http.StatusUnauthorized, fields{"_tag": "UnauthorizedError", "message": "Unauthorized"})
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// serve writes what a handler returns: an error, nothing, a bare answer, or data.
func (s *Server) serve(one route, w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out, err := s.answer(one, r)
	refusal, refused := errors.AsType[*apiError](err)
	whole, isBare := out.(bare)
	switch {
	case refused:
		send(w, refusal.status, refusal.body)
	case err != nil:
		w.WriteHeader(http.StatusInternalServerError)
	case out == nil:
		w.WriteHeader(http.StatusNoContent)
	case isBare:
		send(w, http.StatusOK, whole.any)
	default:
		send(w, http.StatusOK, fields{"data": out})
	}
}

func (s *Server) answer(one route, r *http.Request) (any, error) {
	switch handle := one.handle.(type) {
	case func(*session, *http.Request) (any, error):
		id := r.PathValue("sessionID")
		if x := s.sessions[id]; x != nil {
			return handle(x, r)
		}
		return nil, notFound("Session", "sessionID", id)
	case func(*location, *http.Request) (any, error):
		return handle(s.at(cmp.Or(r.URL.Query().Get("location[directory]"), s.cfg.Dir)), r)
	}
	return one.handle.(func(*Server, *http.Request) (any, error))(s, r)
}

func send(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

type apiError struct {
	status int
	body   fields
}

func (e *apiError) Error() string { return fmt.Sprint(e.body["message"]) }

func badRequest(message string) error {
	return &apiError{http.StatusBadRequest, fields{"_tag": "InvalidRequestError", "message": message}}
}

// notFound returns the answer for an unknown id of a kind. field is the answer's key for the id.
func notFound(kind, field, id string) *apiError {
	return &apiError{http.StatusNotFound, fields{"_tag": kind + "NotFoundError", field: id, "message": "Not found: " + id}}
}

// read decodes a request's body. What cannot be decoded stays zero.
func read[T any](r *http.Request) (in T) {
	_ = json.NewDecoder(r.Body).Decode(&in)
	return in
}

func (s *Server) info(*http.Request) (any, error) {
	return bare{fields{
		"version": s.behaviour.Version, "pid": os.Getpid(), "urls": []string{}, "paths": fields{"tmp": os.TempDir()},
	}}, nil
}
