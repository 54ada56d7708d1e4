package fakeopencode

import (
	"cmp"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

// bare is an answer that is sent as it is; others are wrapped in {data}.
type bare struct{ any }

// route is one operation of the server.
type route struct {
	operation string // its id in the API description, without "v2." and "experimental."
	pattern   string // method and path
	handle    any    // a handler; one that takes a ResponseWriter takes the lock itself, too
}

const (
	ofSession = "/api/session/{sessionID}"
	trial     = "/api/experimental/session/{sessionID}"
)

var routes = []route{
	{"server.info", "GET /api/info", (*Server).info},
	{"config.get", "GET /api/config", (*location).getConfig},
	{"event.subscribe", "GET /api/event", (*Server).eventStream},

	{"agent.list", "GET /api/agent", (*location).listAgents},
	{"model.list", "GET /api/model", (*location).listModels},

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
	{"session.wait", "POST " + trial + "/wait", (*Server).wait},
	{"session.message.list", "GET " + ofSession + "/message", (*session).listMessages},
	{"session.message.get", "GET " + ofSession + "/message/{messageID}", (*session).getMessage},
	{"session.inbox.list", "GET " + ofSession + "/inbox", (*session).listInbox},
	{"session.instructions.entry.put", "PUT " + trial + "/instructions/entries/{key}", (*session).putEntry},

	{"permission.request.list", "GET /api/permission/request", (*location).listPermissions},
	{"session.permission.reply", "POST " + ofSession + "/permission/{requestID}/reply", (*session).replyPermission},
	{"form.list", "GET /api/form", (*location).listForms},
	{"session.form.reply", "POST " + ofSession + "/form/{formID}/reply", (*session).replyForm},
	{"session.form.cancel", "DELETE " + ofSession + "/form/{formID}", (*session).cancelForm},

	{"mcp.list", "GET /api/mcp", (*location).listMCP},
	{"mcp.add", "PUT /api/experimental/mcp/{server}", (*Server).addMCP},
	{"mcp.remove", "DELETE /api/experimental/mcp/{server}", (*location).removeMCP},
}

// older is all that is here of the API of before 2.0.4.
var older = []route{{"health.get", "GET /api/health", (*Server).health}}

// Handler answers the routes of the server's version.
func (s *Server) Handler() http.Handler {
	mux, known := http.NewServeMux(), routes
	if s.behaviour.Older {
		known = older
	}
	for _, one := range known {
		mux.HandleFunc(one.pattern, func(w http.ResponseWriter, r *http.Request) { s.handle(one, w, r) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if s.behaviour.NoWebPage {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!doctype html><title>OpenCode</title>")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.authorized(r) {
			writeError(w, &apiError{http.StatusUnauthorized, fields{"_tag": "UnauthorizedError", "message": "Unauthorized"}})
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (s *Server) handle(one route, w http.ResponseWriter, r *http.Request) {
	if handle, ok := one.handle.(func(*Server, http.ResponseWriter, *http.Request)); ok {
		handle(s, w, r)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out, err := s.answer(one, r)
	if err != nil {
		writeError(w, err)
		return
	}
	writeAnswer(w, out)
}

// answer calls a handler with what its request is about: the server, a session or a directory.
func (s *Server) answer(one route, r *http.Request) (any, error) {
	switch handle := one.handle.(type) {
	case func(*session, *http.Request) (any, error):
		x, err := s.session(r)
		if err != nil {
			return nil, err
		}
		return handle(x, r)
	case func(*location, *http.Request) (any, error):
		l, err := s.locate(r)
		if err != nil {
			return nil, err
		}
		return handle(l, r)
	}
	return one.handle.(func(*Server, *http.Request) (any, error))(s, r)
}

func (s *Server) authorized(r *http.Request) bool {
	user, password, _ := r.BasicAuth()
	return user == "opencode" && subtle.ConstantTimeCompare([]byte(password), []byte(s.cfg.Password)) == 1
}

// writeAnswer sends what a handler answered: nothing, something bare, or data.
func writeAnswer(w http.ResponseWriter, out any) {
	switch answer := out.(type) {
	case nil:
		w.WriteHeader(http.StatusNoContent)
		return
	case bare:
		out = answer.any
	default:
		out = fields{"data": out}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}

// apiError is an answer other than success.
type apiError struct {
	status int
	body   fields
}

func (e *apiError) Error() string { return fmt.Sprint(e.body["message"]) }

func badRequest(format string, args ...any) error {
	return &apiError{http.StatusBadRequest, fields{"_tag": "InvalidRequestError", "message": fmt.Sprintf(format, args...)}}
}

// notFound is about a thing whose id the field of the answer has.
func notFound(kind, field, id string) *apiError {
	return &apiError{http.StatusNotFound, fields{"_tag": kind + "NotFoundError", field: id, "message": "Not found: " + id}}
}

func conflict(message string) error {
	return &apiError{http.StatusConflict, fields{"_tag": "ConflictError", "message": message}}
}

// writeError answers with an [apiError], or with a bare 500.
func writeError(w http.ResponseWriter, err error) {
	answer, ok := errors.AsType[*apiError](err)
	if !ok {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.status)
	_ = json.NewEncoder(w).Encode(answer.body)
}

// read decodes the body of a request. Fields that are not known are ignored.
func read[T any](r *http.Request) (in T, err error) {
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil && !errors.Is(err, io.EOF) {
		return in, badRequest("the body: %v", err)
	}
	return in, nil
}

// locate is the directory that a request names in its query, or the server's.
func (s *Server) locate(r *http.Request) (*location, error) {
	dir := cmp.Or(r.URL.Query().Get("location[directory]"), s.cfg.Dir)
	if !filepath.IsAbs(dir) {
		return nil, errors.New("a relative directory") // a bare 500
	}
	return s.at(dir)
}

func (s *Server) info(*http.Request) (any, error) {
	return bare{fields{
		"version": s.behaviour.Version, "pid": os.Getpid(), "urls": []string{}, "paths": fields{"tmp": os.TempDir()},
	}}, nil
}

func (s *Server) health(*http.Request) (any, error) {
	return bare{fields{"healthy": true, "version": s.behaviour.Version, "pid": os.Getpid()}}, nil
}

func (l *location) getConfig(*http.Request) (any, error) {
	info := fields{"permissions": append([]rule{}, l.config.Rules...)}
	if l.config.Model != "" {
		info["model"] = l.config.Model
	}
	return bare{[]any{fields{"type": "document", "info": info}}}, nil
}
